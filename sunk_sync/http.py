"""The doors of this process: metrics and status page, health. It knows nothing of the core.

Two doors may share one address. Requests are bounded: their size, how long a connection may take
to say what it wants, and how many there are.
"""

import asyncio
import contextlib
import html
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

FIRST_REQUEST_S = 10.0
"""A connection that has not sent one whole request by then is closed."""
KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0
CONNECTIONS_MAX = 200
HEADER_BYTES_MAX = 8190


_log = logging.getLogger(__name__)


def _is_ours(record: logging.LogRecord) -> bool:
    """Garbage that some client sent is answered with 400, not told in our log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log.addFilter(_is_ours)


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: Literal["ok", "degraded", "failed"]
    text: str
    """A sentence for the operator."""


class Address(Protocol):
    """Where a door listens; `settings.Address` is one."""

    @property
    def host(self) -> str:
        """Empty: every address of the machine."""
        ...

    @property
    def port(self) -> int:
        """0: any free port."""
        ...


Live = Callable[[], Sequence[Check]]
Ready = Callable[[], tuple[bool, Sequence[Check]]]


class Sources(Struct, frozen=True, kw_only=True):
    """Where the answers come from."""

    live: Live
    """Checks of the loop alone; any that failed means 503 on /livez."""
    ready: Ready
    """Whether traffic may come, and every check."""
    registry: CollectorRegistry
    title: str = "sunk-sync"


class CannotListenError(Exception):
    """An address cannot be had; the text names the flag."""


class Doors:
    """What listens, and where."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        """Door (metrics, health) → host:port as bound."""


_Answer = Callable[[web.BaseRequest], web.Response]
_Room = Mapping[str, _Answer]
_FLAGS = {"metrics": "--metrics-bind-address", "health": "--health-probe-bind-address"}


@contextlib.asynccontextmanager
async def serve(
    sources: Sources, *, metrics: Address | None, health: Address | None
) -> AsyncIterator[Doors]:
    """Open the doors, shut them at the end. None keeps a door shut.

    Raises CannotListenError where an address is taken or not ours.
    """
    doors = Doors()
    async with contextlib.AsyncExitStack() as stack:
        for names, address in _by_address({"metrics": metrics, "health": health}):
            room: dict[str, _Answer] = {}
            for name in names:
                room |= _ROOMS[name](sources)
            bound = await _open(stack, room, address, names)
            doors.addresses |= dict.fromkeys(names, bound)
        yield doors


def heartbeat(name: str, age_s: float, limit_s: float) -> Check:
    """Failed where the last sign of life is older than the limit."""
    if age_s <= limit_s:
        return Check(name, "ok", f"last step {age_s:.1f} s ago")
    return Check(name, "failed", f"no step for {age_s:.1f} s, allowed are {limit_s:g} s")


def _by_address(
    wanted: Mapping[str, Address | None],
) -> list[tuple[tuple[str, ...], Address]]:
    """Doors of one address together; port 0 is never shared."""
    shared: dict[object, tuple[tuple[str, ...], Address]] = {}
    for name, address in wanted.items():
        if address is None:
            continue
        key = (address.host, address.port) if address.port else name
        names = shared[key][0] if key in shared else ()
        shared[key] = ((*names, name), address)
    return list(shared.values())


async def _open(
    stack: contextlib.AsyncExitStack, room: _Room, address: Address, names: Sequence[str]
) -> str:
    runner = web.ServerRunner(
        _Server(_answering(room)),
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.SockSite(runner, _socket(address)).start()
    except (OSError, UnicodeError) as error:
        flags = " and ".join(_FLAGS[name] for name in names)
        where = f"{address.host}:{address.port}"
        raise CannotListenError(f"{flags}: cannot listen on {where}: {_why(error)}") from error
    return _spelled(runner.addresses[0])


def _socket(address: Address) -> socket.socket:
    """Without a host: IPv6 and IPv4 on one port, or IPv4 where this machine has no IPv6."""
    place = (address.host, address.port)
    if not address.host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(place, family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server(place, family=family)


def _why(error: Exception) -> str:
    why = getattr(error, "strerror", None) or str(error)
    return f"{why}; is another sunk-sync running here?" if "in use" in why else why


def _spelled(bound: Sequence[object]) -> str:
    host, port = bound[0], bound[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class _Server(web.Server):
    """aiohttp's server with a bound on connections and on silence before the first request."""

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(
            answer,
            request_factory=self._heard,
            logger=_log,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=1.0,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        self._silent: set[RequestHandler] = set()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        if len(self.connections) > CONNECTIONS_MAX:
            loop.call_soon(handler.force_close)
            return
        self._silent.add(handler)
        loop.call_later(FIRST_REQUEST_S, self._shut_if_silent, handler)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._silent.discard(handler)
        super().connection_lost(handler, exc)

    def _heard(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        handler: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        self._silent.discard(handler)
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, handler, writer, task, loop)

    def _shut_if_silent(self, handler: RequestHandler) -> None:
        if handler in self._silent:
            handler.force_close()


def _answering(room: _Room) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = room.get(request.path)
        if request.method not in ("GET", "HEAD"):
            response = _plain(405, "only GET\n")
        elif found is None:
            response = _plain(404, "there is: " + " ".join(sorted(room)) + "\n")
        else:
            response = found(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return answer


def _plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


def _health(sources: Sources) -> _Room:
    def live(request: web.BaseRequest) -> web.Response:
        checks = sources.live()
        return _verdict(request, all(check.ok != "failed" for check in checks), checks)

    def ready(request: web.BaseRequest) -> web.Response:
        return _verdict(request, *sources.ready())

    return {"/livez": live, "/healthz": live, "/readyz": ready}


def _verdict(request: web.BaseRequest, fine: bool, checks: Sequence[Check]) -> web.Response:
    """`ok` or `not ok`, then each check that is not; with ?verbose every one."""
    told = [c for c in checks if c.ok != "ok" or "verbose" in request.query]
    lines = ["ok" if fine else "not ok", *(f"{c.name}: {c.ok}: {c.text}" for c in told)]
    return _plain(200 if fine else 503, "\n".join(lines) + "\n")


def _metrics(sources: Sources) -> _Room:
    def metrics(request: web.BaseRequest) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(sources.registry), headers={"Content-Type": content_type})

    def page(_request: web.BaseRequest) -> web.Response:
        return web.Response(text=_page(sources), content_type="text/html")

    return {"/metrics": metrics, "/": page}


def _page(sources: Sources) -> str:
    """Checks and figures as they stand now, without scripts or anything fetched."""
    fine, checks = sources.ready()
    checks = (*sources.live(), *checks)
    rows = "".join(_row(c.name, c.ok, c.text) for c in checks)
    figures = "".join(
        _row(_labelled(sample.name, sample.labels), f"{sample.value:g}")
        for metric in sources.registry.collect()
        if _worth_showing(metric)
        for sample in metric.samples
    )
    title = html.escape(sources.title)
    return (
        f"<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=5>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<p>{'ready' if fine else 'not ready'} · <a href=metrics>metrics</a></p>"
        f"<table>{rows}</table><h2>Figures</h2><table>{figures}</table>"
    )


def _worth_showing(metric: Metric) -> bool:
    ours = metric.name.startswith(("sunk_sync_", "slurm_", "workqueue_"))
    return ours and metric.type != "histogram"


def _labelled(name: str, labels: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{key}={value}" for key, value in labels.items())
    return f"{name} {{{pairs}}}" if pairs else name


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in cells)}\n"


_STYLE = "body{font:14px sans-serif;margin:2em}td{padding:.1em 1em .1em 0}"
_ROOMS: Mapping[str, Callable[[Sources], _Room]] = {"metrics": _metrics, "health": _health}
