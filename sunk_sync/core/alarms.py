"""Conditions that an operator acts on: double allocation, kept jobs, silent placeholders.

A double allocation is a host where another job runs while Pods of an ended job still run (P25).
Slurm shows which nodes are busy, but not with which job. The measure is exact to one sample if a
job has its nodes to itself. On a shared node it may count jobs that ran there before. A host with a
live job of sunk-sync does not count.
"""

from msgspec import Struct

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Job
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.translate.job_states import has_passed_prolog, is_live, is_running

BUSY = frozenset({"ALLOCATED", "MIXED"})


class OverlapPeriod(Struct, gc=False):
    """The time in which Pods on one host outlive their job."""

    began_s: float
    """When sunk-sync learned of the end."""
    until_s: float
    """The last sample that showed whether another job ran there."""
    asked: bool = False
    """A job has waited at the gate since then."""


class DoubleAllocation:
    """Seconds in which a job and Pods of another job shared a host, summed over samples."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Sum over all hosts."""
        self.hosts = 0
        """Hosts with a double allocation in the last sample."""
        self._periods: dict[str, OverlapPeriod] = {}

    def sample(self, graph: Graph, *, now: float) -> None:
        """Sample the graph. Seconds between two samples count if both show a double allocation."""
        before, self._periods = self._periods, {}
        self.hosts = 0
        for name, node_name in _suspects(graph):
            busy = _is_busy(graph, name)
            began_s = _ended_s(graph, name, node_name, now=now) if busy else now
            if began_s is None:
                continue
            period = before.get(name) or OverlapPeriod(began_s, began_s)
            self._periods[name] = period
            period.asked = period.asked or graph.calls.waits_at(name)
            together = busy and _is_together(graph, name, node_name, period)
            if together:
                self.hosts += 1
                self.seconds += max(0.0, now - period.until_s)
            if together is not None:
                period.until_s = now


def _suspects(graph: Graph) -> list[tuple[str, str]]:
    """Return the Slurm nodes and Nodes of bound Pods whose job may not hold them any more."""
    index = graph.workloads.index
    nodes = {
        pod.node_name
        for key in graph.workloads.unconfirmed()
        for pod in index.pods.get(key, {}).values()
        if pod.node_name and index.jobs_of_uid.get(pod.uid)
    }
    return [(graph.claims.host_of_node(name), name) for name in sorted(nodes)]


def _is_busy(graph: Graph, name: str) -> bool:
    row = graph.slurm_nodes.get(name)
    return row is not None and not BUSY.isdisjoint(row.state) and "COMPLETING" not in row.state


def _ended_s(graph: Graph, name: str, node_name: str, *, now: float) -> float | None:
    """Return since when Pods there are known to outlive their job; None: there are none."""
    jobs_of_uid, ended_s = graph.workloads.index.jobs_of_uid, graph.workloads.memory.ended_s
    ends = [
        max(ended_s.get(one, now) for one in jobs_of_uid[resident.uid])
        for resident in graph.workloads.residents.on(node_name, slurm_node=name).all
        if not (resident.confirmed or resident.held) and jobs_of_uid.get(resident.uid)
    ]
    return min(ends, default=None)


def _is_together(graph: Graph, name: str, node_name: str, period: OverlapPeriod) -> bool | None:
    """Whether another job runs on this busy node; None: not read since the end of the first."""
    read_s = max(graph.slurm_nodes.entries[name].order, graph.slurm_nodes.agreed_s)
    if read_s < period.began_s:
        return None
    return not (_waits(graph, name, period) or _is_held_by_ours(graph, name, node_name))


def _waits(graph: Graph, name: str, period: OverlapPeriod) -> bool:
    """With the gate, only a job that called the gate and got permission has started."""
    return graph.workloads.gate() and (graph.calls.waits_at(name) or not period.asked)


def _is_held_by_ours(graph: Graph, name: str, node_name: str) -> bool:
    """Pods of a running job of sunk-sync are bound only after the earlier Pods are gone (P11)."""
    jobs = (graph.jobs.get(one) for one in graph.workloads.index.arrivals.get(name, ()))
    residents = graph.workloads.residents.on(node_name, slurm_node=name).all
    return any(job is not None and is_running(job) for job in jobs) or any(
        resident.confirmed for resident in residents
    )


def kept_jobs(graph: Graph) -> list[Job]:
    """Live jobs that sunk-sync keeps because it cannot read whether their Pods are gone."""
    ids = {one for key in graph.workloads.orphaned() for one in graph.workloads.index.job_ids(key)}
    rows = [graph.jobs.entries[one].row for one in sorted(ids)]
    return [row for row in rows if _is_kept(graph, row)]


def overwritten_jobs(graph: Graph) -> list[Job]:
    """Live jobs whose admin_comment somebody overwrote (P23)."""
    return [row for row in graph.jobs.rows() if row.overwritten and is_live(row)]


def _is_kept(graph: Graph, job: Job) -> bool:
    if not is_live(job):
        return False
    known, memory = graph.workloads.index.key_of_uid, graph.workloads.memory
    named = uids_of(job.identity)
    absent = [uid for uid in named if uid not in known and uid not in memory.gone]
    if not job.identity.pods:
        return bool(absent) and not graph.workloads.watches(job)
    answers = [memory.get_results[uid] for uid in absent if uid in memory.get_results]
    return any(answer.found == "unknown" for answer in answers)


PATIENCE_S = 30.0
"""A script calls at once. Without an answer it gives up after 10 s and calls again 16 s later."""


class SilentPlaceholders:
    """Placeholders that run but never called, of jobs submitted after this process started."""

    def __init__(self) -> None:
        self._before: int | None = None
        """submit_time of the newest job at the start; None: jobs are not listed yet."""
        self._since_s: dict[str, float] = {}

    def sample(self, graph: Graph, *, now: float) -> list[Job]:
        """Return jobs that were silent for PATIENCE_S."""
        if self._before is None:
            self._begin(graph)
            return []
        rows = {row.job_id: row for row in _silent(graph) if row.submitted_at > self._before}
        self._since_s = {job_id: self._since_s.get(job_id, now) for job_id in rows}
        return [rows[one] for one, since_s in self._since_s.items() if now - since_s >= PATIENCE_S]

    def _begin(self, graph: Graph) -> None:
        if graph.jobs.listed:
            self._before = max((row.submitted_at for row in graph.jobs.rows()), default=0)


def _silent(graph: Graph) -> list[Job]:
    memory, entries = graph.workloads.memory, graph.jobs.entries
    rows = [entries[one].row for one in memory.ran_s if one not in memory.started]
    return [row for row in rows if row.script and row.started and has_passed_prolog(row)]
