"""HTTP with the API server: bounded reads, streams of lines, errors as values."""

import socket
import struct
import time
from collections.abc import Awaitable

import aiohttp

from sunk_sync.kube.api.answers import BAD_BYTES, Decode, KubeError, T, garbage, refusal, short
from sunk_sync.telemetry.exchange import Exchange, OnExchange

ERROR_BYTES_MAX = 64 << 10
LINE_BYTES_MAX = 16 << 20
"""etcd limits an object to 1.5 MB; its JSON is a few times larger at most."""
NO_LINGERING = struct.pack("ii", 1, 0)
"""Closing drops unsent bytes. Otherwise a write that was given up may arrive much later (F6)."""
DEAD_PEER_S = 30
"""A peer that acknowledges nothing for this long is dead."""


class Meter:
    """Measures one exchange and reports it once."""

    def __init__(self, on_exchange: OnExchange, method: str, path: str) -> None:
        self._on_exchange = on_exchange
        self._method = method
        self._path = path
        self._begun_s = time.perf_counter()
        self.status = 0
        self.received_bytes = 0

    def report(self, error: object = None) -> None:
        kind = error.kind if isinstance(error, KubeError) else "answer"
        exchange = Exchange(
            authority="kubernetes",
            method=self._method,
            path=route(self._path),
            status=str(self.status) if kind == "answer" else kind,
            seconds=time.perf_counter() - self._begun_s,
            received_bytes=self.received_bytes,
        )
        self._on_exchange(exchange)


class Stream:
    """The body of an open watch as whole lines. The caller closes it."""

    def __init__(self, response: aiohttp.ClientResponse, meter: Meter) -> None:
        self._response = response
        self._meter = meter
        self._rest = b""

    async def lines(self) -> list[bytes] | KubeError:
        """Wait for at least one line; return a KubeError of kind `ended` after the last.

        Keep bytes after the last line break until the rest of their line arrives.
        """
        while True:
            chunk = await caught(self._response.content.readany())
            if isinstance(chunk, KubeError):
                return chunk
            if not chunk:
                return KubeError(kind="ended", why="the server ended the stream")
            self._meter.received_bytes += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LINE_BYTES_MAX:
                return KubeError(
                    kind="too-large", why=f"a line is longer than {LINE_BYTES_MAX} bytes"
                )
            if lines:
                return lines

    def close(self) -> None:
        self._response.close()
        self._meter.report()


async def caught(doing: Awaitable[T]) -> T | KubeError:
    """Await; return network errors as values."""
    try:
        return await doing
    except TimeoutError as error:
        return KubeError(kind="timeout", why=short(str(error) or "no answer in time"))
    except aiohttp.ClientPayloadError as error:
        return KubeError(kind="garbage", why=short(f"the answer is incomplete: {error}"))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return KubeError(kind="connection", why=short(f"{type(error).__name__}: {error}"))


async def read(response: aiohttp.ClientResponse, bytes_max: int) -> bytes | KubeError:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            response.close()
            return KubeError(kind="too-large", why=f"the answer is larger than {bytes_max} bytes")
    return b"".join(chunks)


async def read_refusal(response: aiohttp.ClientResponse) -> KubeError:
    body = await read(response, ERROR_BYTES_MAX)
    retry_after = response.headers.get("Retry-After")
    text = b"" if isinstance(body, KubeError) else body
    return refusal(response.status, text, retry_after=retry_after)


def decoded(body: bytes, decode: Decode[T]) -> T | KubeError:
    """Decode the body; an error shows how the body begins."""
    try:
        return decode(body)
    except BAD_BYTES as error:
        begin = body[:60].decode(errors="replace")
        return garbage(f"{error}; the answer begins {begin!r}")


def route(path: str) -> str:
    """Replace the names in a path: /api/v1/namespaces/{namespace}/pods/{name}/status."""
    parts = path.strip("/").split("/")
    first = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    if parts[first : first + 1] == ["namespaces"] and len(parts) > first + 2:
        parts[first + 1] = "{namespace}"
        first += 2
    if len(parts) > first + 1:
        parts[first + 1] = "{name}"
    return "/" + "/".join(parts)


def watched_socket(address: tuple[object, ...]) -> socket.socket:
    """Make a TCP socket that finds a dead peer, from which no packet comes back.

    `address` is from getaddrinfo.
    """
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
    for option, value in (
        ("TCP_KEEPIDLE", DEAD_PEER_S // 2),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", DEAD_PEER_S * 1000),
    ):
        if hasattr(socket, option):  # Linux has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
