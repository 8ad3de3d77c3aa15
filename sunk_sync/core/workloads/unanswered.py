"""Submissions that Slurm has not answered or has refused, by the id of their workload (F2, P10).

Held in memory only: after a restart the next submission finds out again.
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from sunk_sync.core.model.facts import Attempt, SubmitRefused
from sunk_sync.core.model.placeholder import QUEUED
from sunk_sync.core.views.workload import NO_SUBMISSION, Submission

KEPT_S = 600.0
"""Seconds to keep attempts and refusals; another job follows a refusal within 300 s (P10)."""


class NotedAttempt(Struct, frozen=True, gc=False):
    said: Attempt
    noted_s: float
    """When sunk-sync learned of it."""


class NotedRefusal(Struct, frozen=True, gc=False):
    said: SubmitRefused
    noted_s: float
    times: int
    """The how many-th in a row it is, of one description."""
    hosts: int
    """Version of the hosts when Slurm refused."""


class Unanswered:
    def __init__(self) -> None:
        self.attempts: dict[str, NotedAttempt] = {}
        """Workload id → the last attempt without an answer."""
        self.refusals: dict[str, NotedRefusal] = {}
        """Workload id → Slurm's last refusal."""
        self.gang_ids: dict[str, tuple[str, ...]] = {}
        """Key of a gang → ids of submissions without an answer."""

    def note_attempt(self, attempt: Attempt, *, now: float) -> list[str]:
        """A submission got no answer; return workloads whose older attempts are forgotten."""
        return _note(self.attempts, NotedAttempt(attempt, now))

    def note_refusal(self, refusal: SubmitRefused, *, hosts: int, now: float) -> list[str]:
        """Slurm refused a submission, so no attempt is open. Return as `note_attempt` does."""
        before = self.refusals.get(refusal.workload)
        times = before.times + 1 if before and _is_repeated(before.said, refusal) else 1
        forgotten = _note(self.refusals, NotedRefusal(refusal, now, times, hosts))
        if refusal.kind != "update":
            self.attempts.pop(refusal.workload, None)
        return forgotten

    def note_gangs(self, keys: Iterable[str], workload: str) -> None:
        """A submission of this id belongs to these workloads; a gang has another key than id."""
        self.gang_ids.update({key: (workload,) for key in keys if key != workload})

    def gangs_of(self, ids: Iterable[str]) -> list[str]:
        """Return the keys of gangs that have submissions of these ids."""
        wanted = {*ids}
        return [key for key, known in self.gang_ids.items() if not wanted.isdisjoint(known)]

    def forget_refusals(self, keys: Iterable[str]) -> None:
        """Slurm may take jobs of these workloads now."""
        for key in keys:
            for one in self._ids_of(key):
                self.refusals.pop(one, None)

    def is_refused(self, key: str) -> bool:
        """Return whether Slurm refused a job of this workload, not only an immediate one."""
        refusals = [self.refusals[one] for one in self._ids_of(key) if one in self.refusals]
        return any(one.said.kind in QUEUED for one in refusals)

    def attempts_of(self, key: str) -> list[Attempt]:
        """Return the submissions of a workload without an answer (F2)."""
        return [self.attempts[one].said for one in self._ids_of(key) if one in self.attempts]

    def submission(self, workload: str, *, jobs_listed_s: float, hosts: int) -> Submission:
        """Return the view of what is known. `hosts`: their version now."""
        attempt, refusal = self.attempts.get(workload), self.refusals.get(workload)
        if attempt is None and refusal is None:
            return NO_SUBMISSION
        opened = attempt.said if attempt is not None else None
        if refusal is None:
            return Submission(attempt=opened, jobs_listed_s=jobs_listed_s)
        return Submission(
            attempt=opened,
            refused=refusal.said,
            refused_s=refusal.noted_s,
            refusals=refusal.times,
            hosts_changed=refusal.hosts != hosts,
            jobs_listed_s=jobs_listed_s,
        )

    def _ids_of(self, key: str) -> tuple[str, ...]:
        return (key, *self.gang_ids.get(key, ()))


def _is_repeated(before: SubmitRefused, refusal: SubmitRefused) -> bool:
    return (before.kind, before.digest) == (refusal.kind, refusal.digest)


Noted = TypeVar("Noted", NotedAttempt, NotedRefusal)


def _note(memory: dict[str, Noted], one: Noted) -> list[str]:
    """Put the newest last; return the workloads of entries older than KEPT_S, which it removes."""
    memory.pop(one.said.workload, None)
    memory[one.said.workload] = one
    forgotten = []
    while (oldest := next(iter(memory.values()))).noted_s < one.noted_s - KEPT_S:
        forgotten.append(oldest.said.workload)
        del memory[oldest.said.workload]
    return forgotten
