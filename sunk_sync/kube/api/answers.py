"""Failed calls to the API server as values, never as exceptions."""

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

TEXT_LENGTH_MAX = 300
RETRY_AFTER_MAX_S = 120.0

T = TypeVar("T")
Decode = Callable[[bytes], T]

BAD_BYTES = (msgspec.MsgspecError, ValueError, RecursionError)
"""All exceptions that decoding untrusted bytes can raise."""


Kind = Literal[
    "answer", "timeout", "connection", "garbage", "too-large", "credentials", "ended", "fenced"
]  # fmt: skip
"""answer: an HTTP status of 300 or more. garbage: the body is incomplete, or not the expected JSON.
ended: of a stream. fenced: a write that was not sent, because this replica does not lead."""


class KubeError(Struct, frozen=True, kw_only=True):
    """A call that failed."""

    kind: Kind
    why: str
    status: int = 0
    """HTTP status; 0: no answer."""
    reason: str = ""
    """From the Status: NotFound, Conflict, Expired, AlreadyExists; may be empty."""
    object_name: str = ""
    retry_after_s: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the call may succeed later, or may have taken effect already."""
        return self.status < 400 or self.status in (401, 408, 429) or self.status >= 500

    @property
    def away(self) -> bool:
        """Whether the API server did not answer at all."""
        return self.kind in ("timeout", "connection")


class _Details(Struct, frozen=True):
    name: str = ""


class Status(Struct, frozen=True):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


_PLAIN_TEXT = {429: "HTTP 429: too many requests"}
"""Statuses that the API server answers in plain text, without a Status."""


def refusal(status: int, body: bytes, *, retry_after: str | None = None) -> KubeError:
    """Read an answer with a status of 300 or more; `retry_after` is the header Retry-After."""
    try:
        answer = _decode_status(body)
    except BAD_BYTES:
        answer = Status()
    if answer.kind != "Status":
        answer = Status(message=_PLAIN_TEXT.get(status, f"HTTP {status} without a Status"))
    return KubeError(
        kind="answer",
        status=status,
        why=short(answer.message or f"HTTP {status}"),
        reason=answer.reason,
        object_name=answer.details.name if answer.details else "",
        retry_after_s=_seconds(retry_after),
    )


def stream_refusal(body: bytes) -> KubeError:
    """Read the Status of an ERROR event of a watch."""
    try:
        code = _decode_status(body).code
    except BAD_BYTES:
        return garbage("the watch sent an ERROR event without a Status")
    return refusal(code or 500, body)


def garbage(why: str) -> KubeError:
    return KubeError(kind="garbage", why=short(why))


def short(text: str) -> str:
    """Cut an untrusted text to one line of bounded length."""
    return " ".join(text[: 2 * TEXT_LENGTH_MAX].split())[:TEXT_LENGTH_MAX]


def _seconds(retry_after: str | None) -> float | None:
    """Read whole seconds, as the API server sends them; ignore a date, as proxies send it."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return min(float(retry_after[:9]), RETRY_AFTER_MAX_S)
