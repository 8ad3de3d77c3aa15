"""What a complete listing of jobs tells about a workload: a job is missing, or must be updated."""

from sunk_sync.core.model.facts import Job
from sunk_sync.core.translate.job_states import is_waiting
from sunk_sync.core.workloads.residents import LOST_AFTER_S, READOPT_S
from sunk_sync.core.workloads.snapshot import NO_PODS
from sunk_sync.core.workloads.workloads import Workloads


class ListedJobs:
    def __init__(self, workloads: Workloads) -> None:
        self._all = workloads
        self._index = workloads.index
        self._memory = workloads.memory
        self._lists = workloads.lists
        self._jobs = workloads.jobs

    def outdated(self, listed_s: float) -> list[str]:
        """Return workloads whose waiting job must exclude other hosts than it does (P7)."""
        updates, rows = self._all.exclusion_updates, self._jobs
        if updates.is_round_due(listed_s):
            known = [one for one in self._lists.waiting if rows.entries[one].row.identity.hosts]
            updates.start_round(known, now_s=listed_s)
        keys: list[str] = []
        for row in filter(None, map(rows.get, updates.take_due(listed_s))):
            named = self._index.keys_of_job(row.job_id) if is_waiting(row) else ()
            changed = [self._is_outdated(row, key) for key in named]
            if any(changed):
                keys += named  # each reads what is wanted of the job
        return keys

    def _is_outdated(self, job: Job, key: str) -> bool:
        pods = tuple(self._index.pods.get(key, NO_PODS).values())
        if not pods:
            return False
        reach = self._all.reach_of_waiting(job, key=key, pods=pods)
        return self._all.exclusion_updates.compare(job, reach)

    def settle(self, key: str, listed_s: float) -> list[str]:
        """Note that a listing lacks the workload's job; return the Nodes of its Pods."""
        bound_s = self._memory.bound_since_s(key)
        if bound_s is not None and listed_s > bound_s:
            self._memory.missing_s.setdefault(key, listed_s)
        self._lists.unsettled[key] = self._due_s(key, listed_s)
        pods = self._index.pods[key].values() if key in self._memory.missing_s else ()
        return [pod.node_name for pod in pods]

    def _due_s(self, key: str, listed_s: float) -> float:
        """Return the start of the first listing that can show more than this one."""
        missing_s = self._memory.missing_s.get(key)
        if missing_s is None and self._memory.bound_since_s(key) is not None:
            return listed_s
        times = [
            one.sent_s + self._all.configuration.settle_s
            for one in self._memory.unanswered.attempts_of(key)
        ]
        if missing_s is not None:
            times += [missing_s + LOST_AFTER_S, missing_s + LOST_AFTER_S + READOPT_S]
        return min([time for time in times if time > listed_s], default=float("inf"))
