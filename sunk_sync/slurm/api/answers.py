"""What slurmrestd answered, as values: errors before payload, and by number, never by status."""

import errno
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

TEXT_KEPT: Final = 300
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the JSON that was asked for."""

Kind = Literal[
    "unreachable",
    "broken",
    "timeout",
    "auth",
    "unserved",
    "controller_down",
    "no_such",
    "refused",
    "garbage",
    "too_large",
    "unwanted",
]


_UNTAKEN: Final = frozenset({"unreachable", "unserved", "auth", "unwanted"})
_UNTAKEN_NUMBERS: Final = frozenset({1001, 1800, 1804, 1805, 2027, 2131})
"""slurmrestd found no slurmctld that accepts connections; slurmctld refused the request unread
because it has too many, or because it is a standby."""


class SlurmError(Struct, frozen=True):
    """What came instead of an answer.

    unreachable: nothing was sent; broken, timeout: it may have happened; auth: the token is not
    taken, or may not see what is there; unserved: no such path or version there; controller_down:
    slurmrestd cannot reach slurmctld; no_such, refused: slurmctld said no; garbage, too_large: no
    answer of slurmrestd; unwanted: nothing was sent, for meanwhile it was wanted no more.
    """

    kind: Kind
    text: str
    error_number: int | None = None
    job_id: int = 0
    """Of a submission: the job was made all the same, under this id."""
    sent: bool = True
    """The request may have left; False: what must come before it failed."""

    @property
    def final(self) -> bool:
        """The same request would be answered the same way; all else may pass by itself."""
        return self.kind in ("no_such", "refused")

    @property
    def nothing_done(self) -> bool:
        """It is certain that slurmctld did not act on the request and never will (decision 26)."""
        if self.job_id:
            return False
        untaken = self.kind in _UNTAKEN or self.error_number in _UNTAKEN_NUMBERS
        return untaken or not self.sent

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.text}"


class SlurmAnswer(Struct, frozen=True, kw_only=True):
    """A success: its errors were read and there are none."""

    body: bytes
    """JSON; of a listing only the envelope."""
    version: str
    """API version that it is written in."""
    asked_s: float
    """Monotonic second just before the question was sent."""
    answered_s: float
    unchanged: bool = False
    """304: nothing changed since `update_time`; no body."""


class NumberObject(Struct, frozen=True):
    """A number as the newer versions spell it."""

    set: bool = True
    infinite: bool = False
    number: float | None = None


Number = int | float | NumberObject | None


def number_of(number: Number) -> float | None:
    """The number, or None: not set, infinite or absent."""
    if isinstance(number, NumberObject):
        return number.number if number.set and not number.infinite else None
    return number


class _Error(Struct, frozen=True):
    description: str | None = None
    error_number: int | None = None
    error: str | None = None


class _Slurm(Struct, frozen=True):
    release: str | None = None


class _WireMeta(Struct, frozen=True):
    slurm: _Slurm | None = None


class Envelope(Struct, frozen=True):
    """What every answer of slurmrestd has around its payload."""

    errors: list[_Error] | None = None
    meta: _WireMeta | None = None
    last_update: Number = None
    job_id: Any = None
    """Of a submission, also where there are errors beside it."""

    @property
    def made(self) -> int:
        """Id of the job that was made; 0: none."""
        return self.job_id if isinstance(self.job_id, int) else 0

    @property
    def release(self) -> str:
        """Slurm's version, such as 26.05.5; empty where the server does not say."""
        return (self.meta and self.meta.slurm and self.meta.slurm.release) or ""


# Numbers of slurm_errno.h.
_NO_SUCH: Final = frozenset({0, 2018})
"""An unknown node is answered by 200 and an error 0 (GET), or by 2018 (POST)."""
_AUTH: Final = frozenset({1007, *range(6000, 6012), 9008})
_PASSING: Final = frozenset(
    {-1, errno.EAGAIN, 2027, 2131, *range(1000, 1027), *range(1800, 1806), *range(5003, 5006)}
)
"""Unspecified, standby, slurmctld not reached, and EAGAIN (a job's partition cannot be changed in
the first tens of milliseconds): none of them says no."""

_envelope = msgspec.json.Decoder(Envelope).decode
_Shape = TypeVar("_Shape")


def decoded(decode: Callable[[bytes], _Shape], body: bytes) -> _Shape:
    """The body as `decode` reads it. Raises UNREADABLE.

    slurmrestd hands on what administrators typed, byte by byte: a reason in Latin-1 is no UTF-8,
    and must not cost us the whole listing. Bytes that are none become U+FFFD.
    """
    try:
        return decode(body)
    except UnicodeDecodeError:
        return decode(body.decode(errors="replace").encode())


def read_envelope(body: bytes) -> Envelope | SlurmError:
    """The envelope, or why this is no success."""
    try:
        envelope = decoded(_envelope, body)
    except UNREADABLE as error:
        return SlurmError(
            "garbage", f"{error}, at {printable(body[:60].decode(errors='replace'))!r}"
        )
    if envelope.errors:
        failure = _failure_of(envelope.errors)
        return msgspec.structs.replace(failure, job_id=envelope.made)
    if envelope.errors is None and envelope.meta is None:
        return SlurmError("garbage", "JSON, but no answer of slurmrestd")
    return envelope


def _failure_of(errors: Sequence[_Error]) -> SlurmError:
    text = printable("; ".join(map(_text_of, errors[:3])))
    numbers = [error.error_number for error in errors]
    for number in numbers:
        if number in _AUTH:
            return SlurmError("auth", text, number)
        if number in _PASSING:
            return SlurmError("controller_down", text, number)
    return SlurmError("no_such" if _NO_SUCH.issuperset(numbers) else "refused", text, numbers[0])


def _text_of(error: _Error) -> str:
    parts = [part for part in (error.description, error.error) if part]
    return f"{': '.join(parts) or 'unnamed error'} ({error.error_number})"


def printable(text: str) -> str:
    """One bounded line, for logs and reasons of failure."""
    line = "".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_KEPT])
    return " ".join(line.split())[:TEXT_KEPT]
