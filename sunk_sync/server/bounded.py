"""An HTTP server on one address with bounds on body size, silence and connections."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

import anyio
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct

KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0
HEADER_BYTES_MAX = 8190

_log = logging.getLogger(__name__)


def _is_ours(record: logging.LogRecord) -> bool:
    """Drop aiohttp's log lines about malformed requests; the client gets a 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log.addFilter(_is_ours)


class HostPort(Protocol):
    """An address to listen on; `settings.types.Address` is one."""

    @property
    def host(self) -> str:
        """Empty: every address of the machine."""
        ...

    @property
    def port(self) -> int:
        """0: any free port."""
        ...


class Bounds(Struct, frozen=True, kw_only=True):
    connections: int
    first_request_s: float
    """Time to send a complete request head, before the server closes the connection."""
    body_bytes: int = 1 << 20
    backlog: int = 128
    cancels: bool = False
    """Cancel the request of a caller that disconnects."""


class CannotListenError(Exception):
    """The server cannot listen on an address; the text names the flag."""


Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def listen(
    answer: Answer, address: HostPort, *, flags: str, bounds: Bounds
) -> AsyncIterator[str]:
    """Serve until exit; yield host:port as bound. Raises CannotListenError naming `flags`."""
    runner = web.ServerRunner(
        _Server(answer, bounds), handle_signals=False, shutdown_timeout=SHUTDOWN_S
    )
    await runner.setup()
    try:
        await _start(runner, address, flags, backlog=bounds.backlog)
        yield _spelled(runner.addresses[0])
    finally:
        with anyio.CancelScope(shield=True):  # aiohttp limits this to SHUTDOWN_S
            await runner.cleanup()


async def _start(runner: web.ServerRunner, address: HostPort, flags: str, *, backlog: int) -> None:
    try:
        await web.SockSite(runner, _socket(address), backlog=backlog).start()
    except (OSError, UnicodeError) as error:
        where = f"{address.host}:{address.port}"
        raise CannotListenError(f"{flags}: cannot listen on {where}: {_why(error)}") from error


def _socket(address: HostPort) -> socket.socket:
    """Open a socket; without a host for IPv6 and IPv4, or for IPv4 only if there is no IPv6."""
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

    def __init__(self, answer: Answer, bounds: Bounds) -> None:
        super().__init__(
            answer,
            request_factory=self._heard,
            handler_cancellation=bounds.cancels,
            logger=_log,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=1.0,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        self._bounds = bounds
        self._silent: set[RequestHandler] = set()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        if len(self.connections) > self._bounds.connections:
            loop.call_soon(handler.force_close)
            return
        self._silent.add(handler)
        loop.call_later(self._bounds.first_request_s, self._shut_if_silent, handler)

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
        return web.BaseRequest(
            message,
            payload,
            handler,
            writer,
            task,
            loop,
            client_max_size=self._bounds.body_bytes,
        )

    def _shut_if_silent(self, handler: RequestHandler) -> None:
        if handler in self._silent:
            handler.force_close()
