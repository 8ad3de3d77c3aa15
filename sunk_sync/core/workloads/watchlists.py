"""Workloads and jobs that read more than their own rows, by the change that concerns them."""

from collections.abc import Iterable

from sunk_sync.core.model.facts import Job
from sunk_sync.core.translate.job_states import is_waiting, number_of

FEW = 4
"""Workloads without a job up to which immediate allocations are tried (P11a)."""


class Watchlists:
    """Sets that follow from the rows and from the memory. The edges update them."""

    def __init__(self) -> None:
        self.unplaced: dict[str, None] = {}
        """Workloads without a live job whose Pods could have one: they read the feasible hosts."""
        self.unsettled: dict[str, float] = {}
        """Workloads that a listing of jobs may decide (F2, P30) → start of the first such listing.
        """
        self.orphaned: dict[str, None] = {}
        """Workloads with an unknown Pod and a live job, or a script that waits for it (P21)."""
        self.following: dict[str, None] = {}
        """Workloads that follow the feasible hosts at once, by their last decision."""
        self.waiting: dict[str, tuple[int, int, str]] = {}
        """Jobs that hold no nodes yet → their numbers, for their order."""
        self.requeued: set[str] = set()
        """Waiting jobs that ran before."""

    def is_crowded(self) -> bool:
        """Whether so many workloads wait that sunk-sync tries no immediate allocation (P11a)."""
        return len(self.unplaced) > FEW or bool(self.waiting)

    def that_want_host(self, keys: Iterable[str]) -> list[str]:
        """Return those that have no job, or a waiting one that avoids hosts."""
        return [key for key in keys if key in self.unplaced or key in self.following]

    def note_job(self, before: Job | None, after: Job | None) -> None:
        """A job began or ceased to wait."""
        if before is not None:
            self.waiting.pop(before.job_id, None)
            self.requeued.discard(before.job_id)
        if after is not None and is_waiting(after):
            self.waiting[after.job_id] = (*number_of(after), after.job_id)
            if after.requeued:
                self.requeued.add(after.job_id)


def keep(keys: dict[str, None], key: str, *, wanted: bool) -> None:
    if wanted:
        keys[key] = None
    else:
        keys.pop(key, None)
