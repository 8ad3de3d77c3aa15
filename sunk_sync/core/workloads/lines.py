"""Lines: the Pods of one kind (P8)."""

from collections import Counter

from msgspec import Struct

from sunk_sync.core.translate.pod_rules import Kind
from sunk_sync.core.workloads.places import Place


class Line(Struct, gc=False, eq=False):
    """The Pods of one kind."""

    rivals: dict[Kind, None]
    """Kinds with a rule that reads this one, or that a rule of this one reads."""
    nodes: Counter[str]
    """Node → number of Pods bound there."""
    arriving: dict[str, tuple[str, Place]]
    """UID → workload, and a Pod whose job has hosts."""
    pending: dict[str, None]
    """Workloads."""
    aside: dict[str, None]
    waiting: list[tuple[int, int, str]]
    """Creation time, number among all Pods seen, and workload."""

    def is_empty(self) -> bool:
        without_job = self.pending or self.aside or self.waiting
        return not (self.nodes or self.arriving or without_job)

    def clear(self) -> None:
        """Remove the Pods; the rivals stay."""
        for part in (self.nodes, self.arriving, self.pending, self.aside, self.waiting):
            part.clear()
