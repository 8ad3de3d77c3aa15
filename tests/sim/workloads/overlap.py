"""A job that runs beside a live Pod of another job on the same resources (P25, L7)."""

from collections.abc import Iterator, Sequence
from typing import Final

from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job, needed_cpus
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.words import Object
from tests.sim.workloads.callers import Callers
from tests.sim.workloads.truth import (
    Run,
    cpus_of,
    holds,
    is_alive,
    is_live,
    is_ours,
    place_of,
    run_of,
    runs,
    slurm_node_of,
    uid_of,
    workloads_of,
)
from tests.sim.worlds import Worlds

LATE_S: Final = 60.0


class Overlap:
    def __init__(self, worlds: Worlds, history: History, callers: Callers, *, gated: bool) -> None:
        self._worlds = worlds
        self._history = history
        self._callers = callers
        self._gated = gated
        self._pods: dict[str, Object] = {}
        """Bound, live workload Pods by UID."""
        self._bound_s: dict[str, float] = {}
        self._jobs: dict[int, Job] = {}
        """Jobs as reported so far. Of several simultaneous changes some can follow."""
        self._began_s: dict[Run, float] = {}
        """Run of a job → when its body started."""
        self._last: dict[str, Job] = {}
        """UID → its job that last held the host."""
        self._suspended: set[Run] = set()
        """Suspended runs whose resources slurmctld gave to other jobs, also after their end."""
        self._back: set[Run] = set()
        """Runs that had ended before slurmctld lost the record of their end."""
        self._down_s: dict[str, float] = {}
        """Slurm node → when it was last seen DOWN."""
        self._since_s: dict[str, float] = {}
        """Host with an overlap → since when."""
        worlds.onlookers.append(self)

    def kube_changed(self, change: Change, author: str) -> None:  # noqa: ARG002
        pod = change.now.an_object
        if change.kind.name != "Pod" or not words.is_workload(pod):
            return
        uid = uid_of(pod)
        if change.type == "DELETED" or not is_alive(pod) or not place_of(pod):
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
            self._bound_s.setdefault(uid, self._worlds.now_s)
        self._look()

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:  # noqa: ARG002
        """Note a node that goes DOWN: slurmctld ends its jobs."""
        if after is not None and after.base == "DOWN":
            self._down_s[after.name] = self._worlds.now_s

    def kube_restored(self) -> None:
        """Ignore restores, which runs of Pods do not have."""

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:  # noqa: ARG002
        if after is not None:
            self._jobs[after.job_id] = after
        elif before is not None:
            self._jobs.pop(before.job_id, None)
        if before is not None and before.nodes and is_ours(before, self._worlds.cluster_uid):
            for uids in workloads_of(before):
                for uid in uids:
                    self._last[uid] = before
        if after is not None and after.state == "SUSPENDED":
            self._suspended.add(run_of(after))
        if after is not None and after.state == "RUNNING" and not after.configuring:
            if self._is_back(before, after):
                self._back.add(run_of(after))
            self._began_s.setdefault(run_of(after), self._worlds.now_s)
        self._look()

    def _is_back(self, before: Job | None, after: Job) -> bool:
        """Whether this run had ended, or was requeued, before slurmctld lost the record of it."""
        known = run_of(after) in self._began_s
        if before is None:
            return known
        return not is_live(before) or (known and not before.nodes)

    def _look(self) -> None:
        if not self._pods and not self._since_s:
            return
        for node in self._worlds.slurm.nodes.values():
            orphans = list(self._orphans(node.name))
            jobs = [job for job in self._jobs.values() if runs(job, node.name)]
            overlaps = _is_too_much(node, orphans, jobs) and jobs
            since_s = self._since_s.get(node.name)
            if overlaps and since_s is None:
                self._since_s[node.name] = self._worlds.now_s
                self._judge(node, orphans, jobs)
            elif not overlaps and since_s is not None:
                del self._since_s[node.name]
                tenths = round((self._worlds.now_s - since_s) * 10)
                self._history.counts["overlap: tenths of a second"] += tenths

    def _orphans(self, slurm_node: str) -> Iterator[Object]:
        """Yield the live Pods there whose own job does not hold the host."""
        jobs = [job for job in self._jobs.values() if holds(job, slurm_node)]
        held = {uid for job in jobs for uids in workloads_of(job) for uid in uids}
        for uid, pod in self._pods.items():
            if slurm_node_of(place_of(pod)) == slurm_node and uid not in held:
                yield pod

    def _judge(self, node: Node, orphans: Sequence[Object], jobs: Sequence[Job]) -> None:
        newest = max(jobs, key=lambda job: self._began_s.get(run_of(job), 0.0))
        others = [job for job in jobs if run_of(job) not in self._back]
        if self._gated and not _is_too_much(node, orphans, others):
            why = "the gate: slurmctld was restarted"
        else:
            why = self._excuse(orphans, newest)
        names = [pod["metadata"]["name"] for pod in orphans]
        if why:
            self._history.count(f"exempt: overlap, {why}")
            self._history.note("exempt", f"job {newest.job_id} beside {names}", why)
            return
        self._history.break_promise(
            "overlap", f"job {newest.job_id} began on {node.name} beside {names}"
        )

    def _excuse(self, orphans: Sequence[Object], newest: Job) -> str:
        began_s = self._began_s.get(run_of(newest), 0.0)
        lasts = [self._last.get(uid_of(pod)) for pod in orphans]
        suspended = all(job is not None and run_of(job) in self._suspended for job in lasts)
        if self._gated and all(self._bound_s[uid_of(pod)] > began_s for pod in orphans):
            return "no job began beside them: one was bound beside a Pod whose job had just ended"
        if self._gated and suspended and began_s < self._worlds.now_s:
            return "the gate released it while their jobs were suspended"
        if self._gated:
            why = self._callers.passed.get(run_of(newest), "slurmctld was restarted")
            return "" if why == "go" else f"the gate: {why}"
        late = [pod for pod in orphans if self._bound_s[uid_of(pod)] >= began_s]
        if late:
            return "a binding that arrived late"
        if all(job is not None and self._held_by_script(job) for job in lasts):
            return ""
        return "measured"

    def _held_by_script(self, job: Job) -> bool:
        """Whether the job's script could have kept other jobs away."""
        known = self._worlds.slurm.jobs.get(job.job_id)
        if known is None or run_of(known) != run_of(job) or not job.request.acted:
            return False
        began_s = self._began_s.get(run_of(job), 0.0)
        if any(self._down_s.get(name, -1.0) >= began_s for name in job.nodes):
            return False
        lost = self._callers.killed | self._suspended
        return run_of(job) not in lost and known.state != "NODE_FAIL"


def _is_too_much(node: Node, orphans: Sequence[Object], jobs: Sequence[Job]) -> bool:
    """Whether these jobs and the Pods of others need more than the host has."""
    used = sum(needed_cpus(job.request, node) for job in jobs)
    return bool(orphans) and used + sum(map(cpus_of, orphans)) > node.spec.cpus
