"""Submissions of each workload: their times, and the hosts of jobs that sunk-sync gave up (P32).

Held in memory only. After a restart the jobs that Slurm still lists count again from the first
listing on.
"""

from collections import defaultdict
from collections.abc import Collection, Set

from msgspec.structs import replace

from sunk_sync.core.model.timing import A_MINUTE_MAX
from sunk_sync.core.views.parts import NO_HISTORY, GivenUp, SubmissionHistory

HOSTS_MAX = 64
FORGOTTEN_S = 600.0
"""Seconds without another one, after which a job that is given up counts as the first."""


class SubmissionLog:
    def __init__(self) -> None:
        self.of: dict[str, SubmissionHistory] = {}
        self.given_up_at: defaultdict[str, set[str]] = defaultdict(set)
        """Slurm node → workloads that gave up a job there."""
        self.full: dict[str, frozenset[str]] = {}
        """Job that sunk-sync gives up → those of its hosts where other Pods left it no room."""

    def note_sent(self, key: str, *, now: float) -> None:
        known = self.of.get(key, NO_HISTORY)
        self.of[key] = replace(known, sent_s=(*known.sent_s, now)[-A_MINUTE_MAX:])

    def note_given_up(
        self, key: str, slurm_nodes: Collection[str], *, full: Set[str], now: float
    ) -> None:
        """sunk-sync ended a job that another one replaces; `full`: where it had no room."""
        known = self.of.get(key, NO_HISTORY)
        lately = now - known.given_up_s < FORGOTTEN_S
        new = [GivenUp(name, now, name in full) for name in sorted(slurm_nodes)]
        old = [one for one in known.hosts if one.slurm_node not in slurm_nodes]
        newest = (*old, *new)[-HOSTS_MAX:]
        self.of[key] = replace(
            known, given_up=known.given_up + 1 if lately else 1, given_up_s=now, hosts=newest
        )
        for one in newest:
            self.given_up_at[one.slurm_node].add(key)

    def forget(self, key: str) -> None:
        for one in self.of.pop(key, NO_HISTORY).hosts:
            there = self.given_up_at[one.slurm_node]
            there.discard(key)
            if not there:
                del self.given_up_at[one.slurm_node]
