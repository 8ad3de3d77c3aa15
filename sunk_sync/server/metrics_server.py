"""HTTP servers for metrics, the status page and health, independent of the core.

Both servers may share one address. Requests are bounded in size, number, and time to send a head.
"""

import asyncio
import contextlib
import html
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sunk_sync.server.bounded import Bounds, HostPort, listen

FIRST_REQUEST_S = 10.0
"""Time to send a complete request, before the server closes the connection."""
CONNECTIONS_MAX = 200


class Check(Struct, frozen=True):
    name: str
    ok: Literal["ok", "degraded", "failed"]
    text: str


Live = Callable[[], Sequence[Check]]
Ready = Callable[[], tuple[bool, Sequence[Check]]]


def _none() -> None:
    """No more series."""


class Monitored(Struct, frozen=True, kw_only=True):
    live: Live
    """Checks of the loop only; a failed one makes /livez answer 503."""
    ready: Ready
    """Whether the process is ready, and every check."""
    registry: CollectorRegistry
    labelled: Callable[[], Collector | None] = _none
    """Return more series, which may be very many: a thread encodes them. None: there are none."""
    title: str = "sunk-sync"


class Doors:
    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        """Server (metrics, health) → host:port as bound."""


_Answer = Callable[[web.BaseRequest], web.Response | Awaitable[web.Response]]
_Room = Mapping[str, _Answer]
_FLAGS = {"metrics": "--metrics-bind-address", "health": "--health-probe-bind-address"}


@contextlib.asynccontextmanager
async def serve(
    sources: Monitored, *, metrics: HostPort | None, health: HostPort | None
) -> AsyncIterator[Doors]:
    """Serve until exit. None turns a server off.

    Raises CannotListenError if an address is in use or not of this machine.
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
    """Return a failed check if the last heartbeat is older than the limit."""
    if age_s <= limit_s:
        return Check(name, "ok", f"last step {age_s:.1f} s ago")
    return Check(name, "failed", f"no step for {age_s:.1f} s, allowed are {limit_s:g} s")


def _by_address(
    wanted: Mapping[str, HostPort | None],
) -> list[tuple[tuple[str, ...], HostPort]]:
    """Group the servers by address; port 0 is never shared."""
    shared: dict[object, tuple[tuple[str, ...], HostPort]] = {}
    for name, address in wanted.items():
        if address is None:
            continue
        key = (address.host, address.port) if address.port else name
        names = shared[key][0] if key in shared else ()
        shared[key] = ((*names, name), address)
    return list(shared.values())


async def _open(
    stack: contextlib.AsyncExitStack, room: _Room, address: HostPort, names: Sequence[str]
) -> str:
    bounds = Bounds(connections=CONNECTIONS_MAX, first_request_s=FIRST_REQUEST_S)
    flags = " and ".join(_FLAGS[name] for name in names)
    door = listen(_answering(room), address, flags=flags, bounds=bounds)
    return await stack.enter_async_context(door)


def _answering(room: _Room) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = room.get(request.path)
        if request.method not in ("GET", "HEAD"):
            response = _plain(405, "only GET\n")
        elif found is None:
            response = _plain(404, "there is: " + " ".join(sorted(room)) + "\n")
        else:
            answered = found(request)
            response = answered if isinstance(answered, web.Response) else await answered
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return answer


def _plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


def _health(sources: Monitored) -> _Room:
    def live(request: web.BaseRequest) -> web.Response:
        checks = sources.live()
        return _verdict(request, all(check.ok != "failed" for check in checks), checks)

    def ready(request: web.BaseRequest) -> web.Response:
        return _verdict(request, *sources.ready())

    return {"/livez": live, "/healthz": live, "/readyz": ready}


def _verdict(request: web.BaseRequest, fine: bool, checks: Sequence[Check]) -> web.Response:
    """Return `ok` or `not ok`, then each failed check; with ?verbose every check."""
    told = [c for c in checks if c.ok != "ok" or "verbose" in request.query]
    lines = ["ok" if fine else "not ok", *(f"{c.name}: {c.ok}: {c.text}" for c in told)]
    return _plain(200 if fine else 503, "\n".join(lines) + "\n")


def _metrics(sources: Monitored) -> _Room:
    async def metrics(request: web.BaseRequest) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        more = sources.labelled()
        if more is None:
            body = encode(sources.registry)
        else:
            body = await asyncio.to_thread(encode, _Scrape(sources.registry, more))
        return web.Response(body=body, headers={"Content-Type": content_type})

    def page(_request: web.BaseRequest) -> web.Response:
        return web.Response(text=_page(sources), content_type="text/html")

    return {"/metrics": metrics, "/": page}


class _Scrape:
    """The series of one scrape. Only those of `more` are made by the thread that encodes them."""

    def __init__(self, registry: CollectorRegistry, more: Collector) -> None:
        self._metrics = [*registry.collect()]
        self._more = more

    def collect(self) -> Iterable[Metric]:
        return chain(self._metrics, self._more.collect())


def _page(sources: Monitored) -> str:
    """Return the current checks and metrics as a page without scripts or external resources."""
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
_ROOMS: Mapping[str, Callable[[Monitored], _Room]] = {"metrics": _metrics, "health": _health}
