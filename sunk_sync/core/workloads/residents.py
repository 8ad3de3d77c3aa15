"""Residents of a Node: its workload Pods, and the state of their jobs.

The result is cached until a Pod there, or its job, changes. `WorkloadEdges` invalidates it.
"""

from collections.abc import Iterable

from sunk_sync.core.model.facts import GetResult, Job, Pod
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.open_calls import OpenCalls
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.job_states import is_busy_refusal, is_live, is_running
from sunk_sync.core.translate.node_fit import ONE_POD, Amounts, summed
from sunk_sync.core.views.parts import NOBODY, Resident, Residents
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.memory import WorkloadMemory
from sunk_sync.core.workloads.pod_locations import is_stranded

LOST_AFTER_S = 60.0
"""Seconds between the first listing without a job and one that proves it lost (P30): two listings,
and more than slurmctld's first minute."""
READOPT_S = 10.0
"""For this time the host of a lost job is not drained: a drain would refuse the new job."""


def residents_of(residents: Iterable[Resident]) -> Residents:
    found = sorted(residents, key=_pod_of)
    if not found:
        return NOBODY
    taken = summed([one.takes for one in found if one.confirmed])
    unconfirmed = tuple([one.pod for one in found if not one.confirmed])
    return Residents(tuple(found), tuple(filter(_may_outlive, found)), taken, unconfirmed)


class ResidentIndex:
    def __init__(
        self,
        *,
        index: WorkloadIndex,
        memory: WorkloadMemory,
        jobs: Table[Job],
        calls: OpenCalls,
        readopts: bool,
    ) -> None:
        self._index = index
        self._memory = memory
        self._jobs = jobs
        self._calls = calls
        self.nodes_asked: dict[str, GetResult] = {}
        """Unknown Node with bound Pods → result of a read by its name (P25b)."""
        self._readopts = readopts
        self._cached: dict[str, dict[str, Residents]] = {}
        """Node name → Slurm node → residents."""

    def forget(self, node_name: str) -> None:
        self._cached.pop(node_name, None)

    def forget_asked(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            if name in self.nodes_asked and name not in self._index.pods_on_node:
                del self.nodes_asked[name]

    def forget_all(self) -> None:
        """Drop the cache for an audit."""
        self._cached.clear()

    def on(self, node_name: str, *, slurm_node: str, but: str = "") -> Residents:
        """Return the residents of this Node and Slurm node; `but`: without this workload."""
        there = self._index.pods_on_node.get(node_name)
        if not there:
            return NOBODY
        if self._calls.waits_at(slurm_node):  # a call counts only reads that began after it (L7)
            residents = self._compute(there, slurm_node)
        else:
            residents = self._cached_of(node_name, slurm_node)
        if not but:
            return residents
        others = [one for one in residents.all if one.workload != but]
        return residents if len(others) == len(residents.all) else residents_of(others)

    def coming(self, node_name: str, slurm_node: str, *, own: tuple[str, str]) -> Amounts:
        """Return what Pods take that come here with a job that arrived before this one (P28).

        Their bindings may be on their way. `own`: the workload that asks, and its job.
        """
        key, job_id = own
        jobs = self._index.ahead_of(job_id, slurm_node)
        if not jobs:
            return ()
        there = self._index.pods_on_node.get(node_name, {})
        return summed(
            _largest(self._index.unbound_of(one))
            for one in jobs
            if key not in self._index.keys_of_job(one)
            and there.keys().isdisjoint(self._index.uids_of_job[one])
        )

    def _cached_of(self, node_name: str, slurm_node: str) -> Residents:
        kept = self._cached.setdefault(node_name, {})
        residents = kept.get(slurm_node)
        if residents is None:
            there = self._index.pods_on_node[node_name]
            residents = kept[slurm_node] = self._compute(there, slurm_node)
        return residents

    def is_lost(self, workload: str, *, patience_s: float = 0.0) -> bool:
        """Whether complete listings, a minute apart, contained no job of this workload (P30)."""
        missing_s = self._memory.missing_s.get(workload)
        after_s = LOST_AFTER_S + patience_s
        return missing_s is not None and self._jobs.agreed_s >= missing_s + after_s

    def _compute(self, there: dict[str, Pod], slurm_node: str) -> Residents:
        asked = self.nodes_asked
        living = [one for one in there.values() if not (one.ended or is_stranded(one, asked))]
        return residents_of([self._resident(pod, slurm_node) for pod in living])

    def _resident(self, pod: Pod, slurm_node: str) -> Resident:
        key = self._index.key_of_uid[pod.uid]
        entries = [self._jobs.entries[one] for one in self._index.jobs_of_uid.get(pod.uid, ())]
        live = [entry for entry in entries if is_live(entry.row)]
        counted = [entry for entry in entries if not is_busy_refusal(entry.row)]
        was_read = bool(counted) or self._memory.end_of(pod) is not None
        patience_s = READOPT_S if self._readopts and counted == entries else 0.0
        here = [entry for entry in live if slurm_node in entry.row.slurm_nodes]
        held = next((entry for entry in here if is_running(entry.row)), None)
        shown = held or next(iter(here or live), None)
        return Resident(
            pod=f"{pod.namespace}/{pod.name}",
            uid=pod.uid,
            workload=key,
            takes=(*pod.spec.requests, *ONE_POD),
            job_id=shown.row.job_id if shown else "",
            confirmed=held is not None,
            read_s=shown.order if shown else 0.0,
            held=any(_holds(entry.row, slurm_node) for entry in entries),
            ended=was_read and not live,
            away=bool(live) and not here and all(map(_is_known_where, live)),
            lost=not was_read and self.is_lost(key, patience_s=patience_s),
            stop_until_s=self._calls.stop_until_s([entry.row.job_id for entry in entries]),
        )


def _largest(pods: Iterable[Pod]) -> Amounts:
    """Return what one of these Pods takes at most: a job brings one to each of its hosts."""
    most: dict[str, int] = {}
    for pod in pods:
        for resource, amount in (*pod.spec.requests, *ONE_POD):
            most[resource] = max(most.get(resource, 0), amount)
    return tuple(most.items())


def _pod_of(resident: Resident) -> str:
    return resident.pod


def _may_outlive(resident: Resident) -> bool:
    return resident.ended or resident.away or resident.lost or resident.stop_until_s is not None


def _is_known_where(entry: Entry[Job]) -> bool:
    """A running job may have been read without its hosts."""
    return bool(entry.row.slurm_nodes) or not is_running(entry.row)


def _holds(job: Job, slurm_node: str) -> bool:
    """Whether a batch script that has not ended keeps other jobs from the host."""
    alive = is_running(job) or "COMPLETING" in job.state
    return job.script and alive and slurm_node in job.slurm_nodes
