"""Connections to slurmrestd: opened by address, reused while idle."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.connection import Connection

CONNECTIONS_MAX: Final = 8
CONNECT_S: Final = 2.0
IDLE_S: Final = 60.0
"""An idle connection is not reused after this time."""

_SENDABLE = re.compile(r"[!-~]+").fullmatch
_VALUE = re.compile(r"[ -~]*").fullmatch
_PORTS: Final = {"http": 80, "https": 443}


def _always() -> bool:
    return True


class HttpRequest(Struct, frozen=True, kw_only=True):
    method: str
    address: str
    """Base address, `http://host:port`."""
    target: str
    """Path below the address, with its query."""
    headers: Mapping[str, str]
    body: bytes = b""
    timeout_s: float
    may_go: Callable[[], bool] = _always
    """Asked once a connection is open, right before the request is sent."""


Begin = Callable[[int], None]
Take = Callable[[bytes], Awaitable[bool]]
"""Takes the next piece of a body; False stops reading."""


class UnreachableError(Exception):
    """No connection could be opened, so nothing was sent. The text names the reason."""


class FencedError(Exception):
    """Nothing was sent, because this replica does not lead."""


class UnsendableError(Exception):
    """The request has invalid characters, so nothing was sent."""


class Transport(Protocol):
    async def ask(self, question: HttpRequest, *, begin: Begin, take: Take) -> None:
        """Pass the status to `begin`, then the pieces of the body to `take`.

        Raise UnreachableError, UnsendableError, FencedError or BrokenError.
        """
        ...

    async def aclose(self) -> None: ...


class ServerAddress(Struct, frozen=True):
    tls: bool
    host: str
    port: int
    authority: str
    path: str


class Network:
    """The real network. The caller limits the concurrent requests to CONNECTIONS_MAX."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle: list[tuple[float, ServerAddress, Connection]] = []
        """With the time since which each is idle, oldest first."""
        self._tls: ssl.SSLContext | None = None

    async def ask(self, question: HttpRequest, *, begin: Begin, take: Take) -> None:
        """Send over an idle connection, else over a new one."""
        origin = server_address_of(question.address)
        request = _request(question, origin)
        connection = self._taken(origin) or await self._connected(origin)
        if not question.may_go():
            connection.close()
            raise FencedError
        try:
            incoming = connection.send(request)
            begin(await incoming.head())
            while piece := await incoming.piece():
                if not await take(piece):
                    break
        except BaseException:
            connection.close()
            raise
        if connection.rest():
            self._idle.append((self._clock(), origin, connection))
        else:
            connection.close()

    async def aclose(self) -> None:
        """Close idle connections. A running request closes its own connection."""
        for _, _, connection in self._idle:
            connection.close()
        self._idle.clear()

    def _taken(self, origin: ServerAddress) -> Connection | None:
        """Take the connection used last; close those that are closed or were idle too long."""
        young_s = self._clock() - IDLE_S
        for entry in [one for one in self._idle if not one[2].open or one[0] < young_s]:
            self._idle.remove(entry)
            entry[2].close()
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][1] == origin:
                return self._idle.pop(place)[2]
        return None

    async def _connected(self, origin: ServerAddress) -> Connection:
        if len(self._idle) >= CONNECTIONS_MAX:
            self._idle.pop(0)[2].close()
        try:
            with anyio.fail_after(CONNECT_S):
                return await self._connect(origin)
        except TimeoutError:
            raise UnreachableError(f"no connection within {CONNECT_S:g} s") from None
        except (OSError, ValueError, OverflowError) as error:
            raise UnreachableError(str(error) or type(error).__name__) from error

    async def _connect(self, origin: ServerAddress) -> Connection:
        loop = asyncio.get_running_loop()
        tls = None
        if origin.tls:
            self._tls = tls = self._tls or ssl.create_default_context()
        _, connection = await loop.create_connection(
            Connection, origin.host, origin.port, ssl=tls, happy_eyeballs_delay=0.25
        )
        connection.drop_unsent_at_close()
        return connection


@lru_cache(maxsize=64)
def server_address_of(address: str) -> ServerAddress:
    """Parse an address. Raise UnreachableError if it is invalid."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError) as error:
        raise UnreachableError(f"{address!r} is not a valid address: {error}") from error
    authority = parts.netloc.rpartition("@")[2]
    return ServerAddress(parts.scheme == "https", parts.hostname or "", port, authority, parts.path)


def _request(question: HttpRequest, origin: ServerAddress) -> bytes:
    target = origin.path + question.target
    values = (origin.authority, *question.headers.values())
    if not _SENDABLE(target) or not all(_VALUE(value) for value in values):
        raise UnsendableError("a path or a header has invalid characters")
    lines = [f"{question.method} {target} HTTP/1.1", f"Host: {origin.authority}"]
    lines += [f"{name}: {value}" for name, value in question.headers.items()]
    if question.body or question.method != "GET":
        lines.append(f"Content-Length: {len(question.body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("ascii") + question.body
