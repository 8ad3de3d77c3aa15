"""Why writes are held back: by the breakers, or by an operator."""

from msgspec import Struct


class Holding(Struct, frozen=True, gc=False):
    """The number of drains that the breaker holds, for an absence or NotReady (S19)."""

    count: int
    since_s: float
    ends: int = 0
    """The number of workloads whose end it holds, for a failed node or a missing job (P31)."""
    ends_since_s: float = 0.0
    pods: tuple[str, ...] = ()
    """Of those in `count`: Pods of NodeSets whose records vanished, as `namespace/name` (N5)."""


class Paused(Struct, frozen=True, gc=False):
    """An operator stopped all writes, or lets them go on. Source: annotation of the Lease."""

    why: str
    """`paused until …: …`; empty: not paused."""
