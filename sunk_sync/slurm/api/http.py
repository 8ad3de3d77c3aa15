"""Send one HTTP request to one address; return every outcome as a value."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError, printable
from sunk_sync.slurm.api.connection import BrokenError
from sunk_sync.slurm.api.json_stream import MEBIBYTE, CutError, TooLargeError
from sunk_sync.slurm.api.transport import (
    FencedError,
    HttpRequest,
    Transport,
    UnreachableError,
    UnsendableError,
)

_BODY_MAX: Final = 4 * MEBIBYTE
_PIECE_MAX: Final = 64 * 1024
FENCED: Final = SlurmError("fenced", "not sent: this replica does not lead")
_THEIRS: Final = (
    *(UnreachableError, UnsendableError, FencedError, BrokenError),
    *(CutError, OSError),
)

Clock = Callable[[], float]
Sink = Callable[[bytes, float], Awaitable[SlurmError | None]]
"""Takes a piece of a successful body, and the second of the request; an error ends the body."""


class HttpReply(Struct, frozen=True, kw_only=True):
    """A status with its body, or a failure (then the status may be 0)."""

    status: int = 0
    body: bytes = b""
    """Empty if a sink took it."""
    received_bytes: int = 0
    failure: SlurmError | None = None
    asked_s: float
    answered_s: float


async def exchange(
    transport: Transport, question: HttpRequest, *, clock: Clock, sink: Sink | None
) -> HttpReply:
    """Send once. Pieces of a successful body go to `sink`; other bodies into the reply."""
    body = _Body(sink, clock())
    failure = None
    try:
        with anyio.fail_after(max(question.timeout_s, 0)):
            await transport.ask(question, begin=body.begin, take=body.take)
    except _THEIRS as error:
        failure = _failure_of(error, question)
    return HttpReply(
        status=body.status,
        body=bytes(body.kept),
        received_bytes=body.received_bytes,
        failure=failure or body.failure,
        asked_s=body.asked_s,
        answered_s=clock(),
    )


class _Body:
    def __init__(self, sink: Sink | None, asked_s: float) -> None:
        self.status = 0
        self.asked_s = asked_s
        self.kept = bytearray()
        self.received_bytes = 0
        self.failure: SlurmError | None = None
        self._sink = sink

    def begin(self, status: int) -> None:
        self.status = status

    async def take(self, piece: bytes) -> bool:
        self.received_bytes += len(piece)
        if self.status == HTTPStatus.OK and self._sink is not None:
            return await self._sink_takes(self._sink, piece)
        self.kept += piece
        if len(self.kept) > _BODY_MAX:
            raise TooLargeError(f"the answer is larger than {_BODY_MAX} bytes")
        return True

    async def _sink_takes(self, sink: Sink, piece: bytes) -> bool:
        for start in range(0, len(piece), _PIECE_MAX):
            self.failure = await sink(piece[start : start + _PIECE_MAX], self.asked_s)
            if self.failure is not None:
                return False
        return True


def _failure_of(error: Exception, question: HttpRequest) -> SlurmError:
    text = printable(str(error)) or type(error).__name__
    match error:
        case TooLargeError():
            return SlurmError("too_large", text)
        case CutError():
            return SlurmError("garbage", text)
        case FencedError():
            return FENCED
        case UnreachableError():
            return SlurmError("unreachable", text)
        case UnsendableError():
            return SlurmError("refused", f"the request cannot be sent: {text}")
        case TimeoutError():
            return SlurmError("timeout", f"no answer within {question.timeout_s:.3g} s")
        case _:
            return SlurmError("broken", text)
