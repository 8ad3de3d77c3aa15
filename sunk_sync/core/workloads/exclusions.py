"""What jobs that wait are to exclude by now: looked at one after the other, a few a second (P7).

In between nothing is worked out, whatever becomes of the hosts: that ten thousand jobs wait makes
no Node's change dearer, and Slurm is asked for so few updates at a time.
"""

from collections.abc import Iterable, Sequence

from sunk_sync.core.model.facts import Job
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.tables.feasible_hosts import FeasibleHosts
from sunk_sync.core.views.parts import Reach

ROUND_S = 30.0
"""Between the beginnings of two rounds at least: changes gather."""
ROUNDS = 2
"""After a change: a job may have been on its way to Slurm in the first."""
JOBS_PER_S = 5.0
AT_ONCE_MAX = 10
"""Jobs that one listing brings up: each may be of a kind of its own, to be held against all hosts.
"""
WANTED_MAX = 1000
"""Jobs that Slurm has not given their new exclusions yet: more would be a list of hosts too many.
"""


class ExclusionUpdates:
    """Whose turn it is, and what those whose turn it was want that they do not have."""

    def __init__(self, feasible_hosts: FeasibleHosts) -> None:
        self.wanted: dict[str, Reach] = {}
        """Job id → which hosts could take its Pods when it was its turn."""
        self._feasible_hosts = feasible_hosts
        self._rounds = ROUNDS
        self._changed = self._counts = False
        """Whether a host changed since the last listing; whether the round due counts."""
        self._begun_s: float | None = None
        self._taken_s = 0.0
        self._due: list[str] = []

    def hosts_changed(self) -> None:
        """Some host came, went or offers something else."""
        self._rounds = ROUNDS
        self._changed = True

    def is_round_due(self, now_s: float) -> bool:
        """Whether a round is due: `begin` is to be told whose.

        The first listing after a change may have been asked for before: its round does not count.
        """
        self._counts, self._changed = not self._changed, False
        if self._begun_s is None:
            self._begun_s = now_s
        return bool(self._rounds) and not self._due and now_s >= self._begun_s + ROUND_S

    def start_round(self, job_ids: Iterable[str], *, now_s: float) -> None:
        """These have their turn in this round, in this order."""
        self._rounds -= self._counts
        self._begun_s = self._taken_s = now_s
        self._due = list(job_ids)[::-1]

    def take_due(self, now_s: float) -> list[str]:
        """Who has it now; some may not wait any more."""
        count = min(max(1, int((now_s - self._taken_s) * JOBS_PER_S)), AT_ONCE_MAX)
        self._taken_s = now_s
        return [self._due.pop() for _ in range(min(count, len(self._due)))]

    def compare(self, job: Job, specs: Sequence[PodSpec]) -> bool:
        """Whether it wants something else than a moment ago.

        Where no host is left it keeps what it has: Slurm would take its priority away for a while.
        """
        before = self.wanted.pop(job.job_id, None)
        reach = self._feasible_hosts.reach_of_all(specs)
        same = reach.unfit or reach.hosts == job.identity.hosts
        if not same and len(self.wanted) < WANTED_MAX:
            self.wanted[job.job_id] = reach
        return before != self.wanted.get(job.job_id)
