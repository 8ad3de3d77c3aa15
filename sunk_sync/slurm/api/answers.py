"""Answers of slurmrestd as values. The number identifies an error, never the HTTP status."""

import errno
from collections.abc import Callable, Sequence, Set
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

TEXT_KEPT: Final = 300
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All exceptions of msgspec for bytes that are not the expected JSON."""

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
    "fenced",
]


_UNTAKEN: Final = frozenset({"unreachable", "unserved", "auth", "unwanted", "fenced"})
_UNTAKEN_NUMBERS: Final = frozenset({1001, 1800, 1804, 1805, 2027, 2131})
"""slurmrestd found no slurmctld that accepts connections; or slurmctld refused the request unread,
because it has too many requests or is a standby."""


class SlurmError(Struct, frozen=True):
    """A failed call to slurmrestd.

    unreachable: nothing was sent. broken, timeout: it may have taken effect. auth: the token is
    refused, or has no permission to see the object. unserved: slurmrestd has no such path or
    version. controller_down: slurmrestd cannot reach slurmctld. no_such, refused: slurmctld refused
    it. garbage, too_large: the answer is unreadable. unwanted: nothing was sent, as it was
    obsolete. fenced: nothing was sent, as this replica does not lead.
    """

    kind: Kind
    text: str
    error_number: int | None = None
    job_id: int = 0
    """Id of the job that Slurm made despite the error."""
    sent: bool = True
    """The request may have been sent. False: a step before it failed."""

    @property
    def final(self) -> bool:
        """Whether the same request would fail the same way. Other errors may be temporary."""
        return self.kind in ("no_such", "refused")

    @property
    def nothing_done(self) -> bool:
        """Whether slurmctld certainly did not act on the request and never will (decision 26)."""
        if self.job_id:
            return False
        untaken = self.kind in _UNTAKEN or self.error_number in _UNTAKEN_NUMBERS
        return untaken or not self.sent

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.text}"


class SlurmResponse(Struct, frozen=True, kw_only=True):
    body: bytes
    """JSON; for a listing only the envelope."""
    version: str
    asked_s: float
    """Monotonic second just before the request was sent."""
    answered_s: float
    unchanged: bool = False
    """304: nothing has changed since `update_time`. There is no body."""


class NumberObject(Struct, frozen=True):
    set: bool = True
    infinite: bool = False
    number: float | None = None


Number = int | float | NumberObject | None


def number_of(number: Number) -> float | None:
    """Return the number; None if not set, infinite or absent."""
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
    errors: list[_Error] | None = None
    meta: _WireMeta | None = None
    last_update: Number = None
    job_id: Any = None
    """Present after a submission, even with errors."""

    @property
    def made(self) -> int:
        """Return the id of the new job; 0: none."""
        return self.job_id if isinstance(self.job_id, int) else 0

    @property
    def release(self) -> str:
        """Return Slurm's version, such as 26.05.5, or empty."""
        return (self.meta and self.meta.slurm and self.meta.slurm.release) or ""


# Numbers of slurm_errno.h.
UNSPECIFIED: Final = -1
"""job_submit.lua returned slurm.ERROR, among others. slurmrestd loses its words to the user."""
_NO_SUCH: Final = frozenset({0, 2018})
"""slurmrestd answers an unknown node with 200 and an error 0 (GET), or with 2018 (POST)."""
_AUTH: Final = frozenset({1007, *range(6000, 6012), 9008})
_PASSING: Final = frozenset(
    {
        UNSPECIFIED,
        errno.EAGAIN,
        2027,
        2131,
        *range(1000, 1027),
        *range(1800, 1806),
        *range(5003, 5006),
    }
)
"""Unspecified, standby, slurmctld unreachable, and EAGAIN (a job's partition cannot change in its
first 0.1 s). None of them is a refusal, unless the request makes it one: `as_refusal`."""

_envelope = msgspec.json.Decoder(Envelope).decode
_Shape = TypeVar("_Shape")


def decoded(decode: Callable[[bytes], _Shape], body: bytes) -> _Shape:
    """Decode the body. Raise UNREADABLE.

    slurmrestd passes on the bytes that administrators typed. A reason in Latin-1 must not make the
    whole listing unreadable: bytes that are not UTF-8 become U+FFFD.
    """
    try:
        return decode(body)
    except UnicodeDecodeError:
        return decode(body.decode(errors="replace").encode())


def read_envelope(body: bytes) -> Envelope | SlurmError:
    """Read the envelope; return the error if the body reports one."""
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
        return SlurmError("garbage", "this JSON is not an answer of slurmrestd")
    return envelope


def as_refusal(answer: SlurmResponse | SlurmError, numbers: Set[int]) -> SlurmResponse | SlurmError:
    """Return an error with one of these numbers as the refusal that it is for this request.

    As an answer to a listing the same number may be a temporary failure.
    """
    if isinstance(answer, SlurmError) and answer.error_number in numbers:
        return msgspec.structs.replace(answer, kind="refused")
    return answer


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
    """Make one line of bounded length, for logs and error texts."""
    line = "".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_KEPT])
    return " ".join(line.split())[:TEXT_KEPT]
