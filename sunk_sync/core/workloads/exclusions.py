"""Exclusions of waiting jobs, checked in turn, a few jobs a second (P7).

A change of a host computes nothing by itself. So ten thousand waiting jobs make no change of a Node
more expensive, and Slurm gets few updates at a time.
"""

from collections.abc import Iterable

from sunk_sync.core.model.facts import Job
from sunk_sync.core.views.parts import Reach

ROUND_S = 30.0
"""Minimum time between the starts of two rounds, to collect changes."""
ROUNDS = 2
"""Rounds after a change: during the first a job may be on its way to Slurm."""
JOBS_PER_S = 5.0
AT_ONCE_MAX = 10
"""Jobs checked after one listing: each may need a comparison with all hosts."""
WANTED_MAX = 1000
"""Jobs with an exclusion that Slurm does not have yet; each keeps a list of hosts."""


class ExclusionUpdates:
    def __init__(self) -> None:
        self.wanted: dict[str, Reach] = {}
        """Job id → feasible hosts of its Pods at its last check."""
        self._rounds = ROUNDS
        self._changed = self._counts = False
        """A host changed since the last listing; the due round counts."""
        self._begun_s: float | None = None
        self._taken_s = 0.0
        self._due: list[str] = []

    def hosts_changed(self) -> None:
        self._rounds = ROUNDS
        self._changed = True

    def is_round_due(self, now_s: float) -> bool:
        """Whether a round is due; then call `start_round`.

        The request of the first listing after a change may be older: its round does not count.
        """
        self._counts, self._changed = not self._changed, False
        if self._begun_s is None:
            self._begun_s = now_s
        return bool(self._rounds) and not self._due and now_s >= self._begun_s + ROUND_S

    def start_round(self, job_ids: Iterable[str], *, now_s: float) -> None:
        self._rounds -= self._counts
        self._begun_s = self._taken_s = now_s
        self._due = list(job_ids)[::-1]

    def take_due(self, now_s: float) -> list[str]:
        """Return the jobs to check now; some may not wait any more."""
        count = min(max(1, int((now_s - self._taken_s) * JOBS_PER_S)), AT_ONCE_MAX)
        self._taken_s = now_s
        return [self._due.pop() for _ in range(min(count, len(self._due)))]

    def compare(self, job: Job, reach: Reach) -> bool:
        """Whether the job's wanted exclusions changed.

        If no host is left the job keeps its exclusions: Slurm would lower its priority for a while.
        """
        before = self.wanted.pop(job.job_id, None)
        same = reach.unfit or reach.hosts == job.identity.hosts
        if not same and len(self.wanted) < WANTED_MAX:
            self.wanted[job.job_id] = reach
        return before != self.wanted.get(job.job_id)
