"""One span of a Pod's trace, and the ids of traces: they follow from the Pod's UID alone.

So every replica, and a new process after a restart, adds to the same trace, and the UID of a Pod
finds its trace.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping

from msgspec import Struct

Value = str | int | bool


class SpanEvent(Struct, frozen=True):
    name: str
    at_ns: int
    attributes: Mapping[str, Value]


class Span(Struct, frozen=True, kw_only=True):
    """One finished span; times are Unix nanoseconds."""

    uid: str
    """Of the Pod."""
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    failure: str = ""
    """Why it failed; empty: it did not."""
    events: tuple[SpanEvent, ...] = ()
    root: bool = False
    call: bool = False
    """A request to Kubernetes or Slurm."""

    @property
    def span_id(self) -> int:
        return (
            root_id(self.uid) if self.root else _hashed(f"{self.uid}/{self.name}/{self.start_ns}")
        )


Send = Callable[[Span], None]


def trace_id(uid: str) -> int:
    """Return the UID itself as a number; of a UID that is no UUID, as of a mirror Pod, a hash."""
    try:
        number = uuid.UUID(uid).int
    except ValueError:
        number = 0
    return number or int.from_bytes(hashlib.sha256(uid.encode(errors="replace")).digest()[:16])


def root_id(uid: str) -> int:
    return _hashed(f"{uid}/")


def is_sampled(uid: str, share: float) -> bool:
    """Whether a Pod belongs to this share of all Pods, in every replica alike."""
    return _hashed(uid) < share * 2**64


def _hashed(text: str) -> int:
    """Return 64 bits that are not all zero."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8]) or 1
