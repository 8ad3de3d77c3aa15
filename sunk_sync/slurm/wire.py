"""One HTTP request to one address, and everything that may come back, as a value.

slurmrestd 26.05 sends two complete answers after an error, the second as plain text. Both httpx
and httpx2 return the first. Where the first does not say `Connection: close` they would hand the
second to the *next* request of that connection; so after an error answer a connection is never
used again (docs/decisions/0002).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from ssl import SSLError
from typing import Final

import httpx2
from msgspec import Struct

from sunk_sync.slurm.answers import Failure, printable
from sunk_sync.slurm.records import MEBIBYTE, CutError, TooLargeError

CONNECTIONS_MAX: Final = 8
CONNECT_S: Final = 2.0
_IDLE_S: Final = 60.0
_BODY_MAX: Final = 4 * MEBIBYTE
_PIECE_MAX: Final = 64 * 1024
_THEIRS: Final = (
    httpx2.TransportError,
    httpx2.InvalidURL,
    OSError,
    CutError,
    ExceptionGroup,
)
"""All that the way there and back can raise; a port above 65535 comes as a group."""

Clock = Callable[[], float]
Sink = Callable[[bytes, float], Awaitable[Failure | None]]
"""Takes the next piece of a successful body and the second of the question; a failure ends it."""


class Question(Struct, frozen=True, kw_only=True):
    """One request as it goes over the wire."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    timeout_s: float


class Reply(Struct, frozen=True, kw_only=True):
    """What came back: a status with its body, or a failure (then the status may be 0)."""

    status: int = 0
    body: bytes = b""
    """Empty where a sink took it."""
    received_bytes: int = 0
    failure: Failure | None = None
    asked_s: float
    answered_s: float


def open_transport() -> httpx2.AsyncHTTPTransport:
    """The real network: at most CONNECTIONS_MAX connections to all addresses together."""
    limits = httpx2.Limits(
        max_connections=CONNECTIONS_MAX,
        max_keepalive_connections=CONNECTIONS_MAX,
        keepalive_expiry=_IDLE_S,
    )
    return httpx2.AsyncHTTPTransport(limits=limits)


async def exchange(
    transport: httpx2.AsyncBaseTransport, question: Question, *, clock: Clock, sink: Sink | None
) -> Reply:
    """Ask once. A body that ends well goes to `sink` piece by piece, else into the reply."""
    asked_s = clock()
    body = _Body(sink, asked_s)
    failure = None
    try:
        async with asyncio.timeout(max(question.timeout_s, 0)):
            failure = await _converse(transport, question, body)
    except _THEIRS as error:
        failure = _failure_of(error, question)
    return Reply(
        status=body.status,
        body=bytes(body.kept),
        received_bytes=body.received_bytes,
        failure=failure,
        asked_s=asked_s,
        answered_s=clock(),
    )


class _Body:
    """A body on its way in."""

    def __init__(self, sink: Sink | None, asked_s: float) -> None:
        self.status = 0
        self.kept = bytearray()
        self.received_bytes = 0
        self._sink = sink
        self._asked_s = asked_s

    async def take(self, piece: bytes) -> Failure | None:
        self.received_bytes += len(piece)
        if self.status == httpx2.codes.OK and self._sink is not None:
            return await self._sink(piece, self._asked_s)
        self.kept += piece
        if len(self.kept) > _BODY_MAX:
            raise TooLargeError(f"an answer of more than {_BODY_MAX} bytes")
        return None


async def _converse(
    transport: httpx2.AsyncBaseTransport, question: Question, body: _Body
) -> Failure | None:
    request = httpx2.Request(
        question.method,
        question.url,
        headers=question.headers,
        content=question.body or None,
        extensions={"timeout": {"connect": min(CONNECT_S, question.timeout_s)}},
    )
    response = await transport.handle_async_request(request)
    try:
        body.status = response.status_code
        return await _read(response, body)
    finally:
        await response.aclose()


async def _read(response: httpx2.Response, body: _Body) -> Failure | None:
    """Read to the end; of an error answer to its last byte, so that its connection is closed."""
    last_byte = _length(response) if response.status_code >= httpx2.codes.BAD_REQUEST else None
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise TypeError("an asynchronous transport gave a synchronous body")
    async for piece in stream:
        for start in range(0, len(piece), _PIECE_MAX):
            failure = await body.take(piece[start : start + _PIECE_MAX])
            if failure is not None:
                return failure
        if last_byte is not None and body.received_bytes >= last_byte:
            return None
    return None


def _length(response: httpx2.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isdecimal() else None


def _failure_of(error: Exception, question: Question) -> Failure:
    text = printable(str(error)) or type(error).__name__
    match error:
        case TooLargeError():
            return Failure("too_large", text)
        case CutError():
            return Failure("garbage", text)
        case httpx2.ConnectTimeout():
            return Failure("unreachable", f"no connection within {CONNECT_S:g} s")
        case httpx2.ConnectError() | httpx2.UnsupportedProtocol() | SSLError():
            return Failure("unreachable", text)
        case ExceptionGroup():
            return Failure("unreachable", printable(str(error.exceptions[0])))
        case httpx2.LocalProtocolError() | httpx2.InvalidURL():
            return Failure("refused", f"this cannot be sent: {text}")
        case TimeoutError() | httpx2.TimeoutException():
            return Failure("timeout", f"no answer within {question.timeout_s:.3g} s")
        case _:
            return Failure("broken", text)
