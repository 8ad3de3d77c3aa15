"""What the API server said instead of an answer: one small value, never an exception."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

TEXT_LENGTH_MAX = 300
RETRY_AFTER_MAX_S = 120.0

T = TypeVar("T")
Decode = Callable[[bytes], T]

BAD_BYTES = (msgspec.MsgspecError, ValueError, RecursionError)
"""All that decoding foreign bytes can raise."""


class KubeError(Struct, frozen=True, kw_only=True):
    """A call that brought no payload.

    `kind` is one of: answer (an HTTP status of 300 and more), timeout, connection, garbage (an
    answer that is no JSON of the expected shape, or half of one), too-large, credentials.
    """

    kind: str
    why: str
    """A sentence for a human, bounded."""
    status: int = 0
    """HTTP status; 0 where none came."""
    reason: str = ""
    """Kubernetes' word for it: NotFound, Conflict, Expired, AlreadyExists; empty if not given."""
    object_name: str = ""
    """The name of the object that the Status speaks of."""
    retry_after_s: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the same call may well succeed later, or may have taken effect."""
        return self.status < 400 or self.status in (401, 408, 429) or self.status >= 500

    @property
    def away(self) -> bool:
        """Whether nobody answered at all."""
        return self.kind in ("timeout", "connection")


class _Details(Struct, frozen=True):
    name: str = ""


class Status(Struct, frozen=True):
    """The subset of a Kubernetes Status that we read."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


_UNTOLD = {429: "HTTP 429: too many requests"}
"""Where the API server itself answers in plain text."""


def refusal(status: int, body: bytes, *, retry_after: str | None = None) -> KubeError:
    """The KubeError behind an HTTP status of 300 and more; `retry_after` is that header."""
    try:
        answer = _decode_status(body)
    except BAD_BYTES:
        answer = Status()
    if answer.kind != "Status":
        answer = Status(message=_UNTOLD.get(status, f"HTTP {status} without a Status"))
    return KubeError(
        kind="answer",
        status=status,
        why=short(answer.message or f"HTTP {status}"),
        reason=answer.reason,
        object_name=answer.details.name if answer.details else "",
        retry_after_s=_seconds(retry_after),
    )


def stream_refusal(body: bytes) -> KubeError:
    """The KubeError behind an ERROR event of a watch: `body` is its Status."""
    try:
        code = _decode_status(body).code
    except BAD_BYTES:
        return garbage("an ERROR event without a Status")
    return refusal(code or 500, body)


def garbage(why: str) -> KubeError:
    """An answer came, and it cannot be read."""
    return KubeError(kind="garbage", why=short(why))


def short(text: str) -> str:
    """A foreign text on one line, of bounded length."""
    return " ".join(text[: 2 * TEXT_LENGTH_MAX].split())[:TEXT_LENGTH_MAX]


def _seconds(retry_after: str | None) -> float | None:
    """Whole seconds, as the API server sends them; a date (a proxy's) counts as not given."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return min(float(retry_after[:9]), RETRY_AFTER_MAX_S)
