"""The read-set and the index checks for what workloads remember beside rows."""

from collections.abc import Callable
from typing import Any

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Taken
from sunk_sync.core.translate.job_states import is_live, is_waiting
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.members import could_have_job
from sunk_sync.core.workloads.neighbours import Neighbours
from sunk_sync.core.workloads.other_kinds import OtherKinds
from tests.core.checks import HistoryError, Read, ReadSet, Recorded

MEMORIES = (
    "bind_refusals", "binds_tried", "sizes", "gone", "get_results",
    "notices", "ahead", "placed_s", "started", "ended_s", "ends", "missing_s", "waits_s",
)  # fmt: skip
UNANSWERED = ("attempts", "refusals")


class WorkloadReads(ReadSet):
    """The read-set of histories with workloads."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        memory = graph.workloads.memory
        for name in MEMORIES:
            setattr(memory, name, Recorded(self._log, f"memory {name}", getattr(memory, name)))
        unanswered = memory.unanswered
        for name in UNANSWERED:
            noted = getattr(unanswered, name)
            setattr(unanswered, name, Recorded(self._log, f"memory {name}", noted))
        exclusion_updates = graph.workloads.exclusion_updates
        exclusion_updates.wanted = Recorded(self._log, "wanted", exclusion_updates.wanted)
        feasible_hosts = graph.workloads.feasible_hosts
        for name in ("reach", "is_free"):
            setattr(feasible_hosts, name, self._unseen(getattr(feasible_hosts, name)))
        neighbours = graph.workloads.neighbours
        for name in ("fences", "is_ruled", "is_its_turn"):
            setattr(neighbours, name, self._unseen(getattr(neighbours, name)))
        memory.tried_at = self._unseen(memory.tried_at)  # type: ignore[method-assign]
        graph.workloads.reach = self._unseen(graph.workloads.reach)  # type: ignore[method-assign]
        workloads, snapshots = graph.workloads, graph.workload_snapshots
        workloads.is_host = self._unseen(workloads.is_host)  # type: ignore[method-assign]
        snapshots._stuck = self._unseen(snapshots._stuck)  # type: ignore[method-assign]
        claims = graph.claims
        claims.host_of_node = self._unseen(claims.host_of_node)  # type: ignore[method-assign]

    def _unseen(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Record no reads in it: it reads whole rows for a small part. The oracle guards it."""

        def asked(*arguments: Any, **named: Any) -> Any:
            reads, self._log.reads = self._log.reads, None
            try:
                return ask(*arguments, **named)
            finally:
                self._log.reads = reads

        return asked

    def rows(self) -> dict[Read, object]:
        rows = super().rows()
        memory = self._graph.workloads.memory
        kept = {name: getattr(memory, name) for name in MEMORIES}
        kept |= {name: getattr(memory.unanswered, name) for name in UNANSWERED}
        for name, known in kept.items():
            rows |= {(f"memory {name}", str(key)): one for key, one in known.items()}
        wanted = self._graph.workloads.exclusion_updates.wanted
        return rows | {("wanted", job_id): one for job_id, one in wanted.items()}


INDEXES = (
    "pods", "key_of_uid", "jobs_of_uid", "orphans", "uids_of_job", "pods_on_node", "arrivals",
    "placements",
)  # fmt: skip


def check_indexes(graph: Graph) -> None:
    """Every index and every set of workloads follows from the rows."""
    fresh = WorkloadIndex()
    for entry in graph.pods.entries.values():
        fresh.add_pod(entry.row)
    for job in graph.jobs.entries.values():
        fresh.put_job(None, job.row)
    kept, memory = graph.workloads.index, graph.workloads.memory
    for name in INDEXES:
        if getattr(kept, name) != getattr(fresh, name):
            values = f"{getattr(kept, name)}, right is {getattr(fresh, name)}"
            raise HistoryError(f"index: {name} is {values}")
    pods = [entry.row for entry in graph.pods.entries.values()]
    if memory.bound_s.keys() != {pod.uid for pod in pods if pod.node_name}:
        raise HistoryError(f"index: bound_s is {memory.bound_s}")
    if not memory.waits_s.keys() >= {pod.uid for pod in pods if not pod.node_name}:
        raise HistoryError(f"index: waits_s is {memory.waits_s}")
    _check_sets(graph)
    _check_neighbours(graph)


def _check_neighbours(graph: Graph) -> None:
    """Where Pods with rules stand follows from the rows (P8)."""
    neighbours = graph.workloads.neighbours
    kept = dict(neighbours._places)
    neighbours.rebuild()
    if neighbours._places != kept:
        wrong = {key: (kept.get(key), neighbours._places.get(key)) for key in kept}
        wrong = {key: both for key, both in wrong.items() if both[0] != both[1]}
        raise HistoryError(f"index: neighbours {wrong}")
    lines = {kind: dict(line.nodes) for kind, line in neighbours._lines.items() if kind.other}
    right = {kind: dict(nodes) for kind, nodes in _others_of(neighbours).nodes.items()}
    if lines != right:
        raise HistoryError(f"index: Pods of others {lines}, right {right}")


def _others_of(neighbours: Neighbours) -> OtherKinds:
    """Count the Pods of other schedulers anew."""
    kept = neighbours._others
    fresh = OtherKinds(watched=kept._watched, namespaces=kept._namespaces)
    fresh.read(neighbours._placed.read if neighbours.active else None)
    for node_name, pods in kept._on.items():
        fresh.take(Taken(node_name, (), pods))
    return fresh


def _check_sets(graph: Graph) -> None:
    index, lists = graph.workloads.index, graph.workloads.lists
    unplaced, unsettled = set(), set()
    for key, pods in index.pods.items():
        live = any(is_live(graph.jobs.entries[one].row) for one in index.job_ids(key))
        if live:
            continue
        if any(map(could_have_job, pods.values())):
            unplaced.add(key)
        if any(pod.node_name and not pod.ended for pod in pods.values()):
            unsettled.add(key)
    if set(lists.unplaced) != unplaced:
        raise HistoryError(f"index: unplaced {lists.unplaced}, right {unplaced}")
    if not unsettled <= set(lists.unsettled):
        raise HistoryError(f"index: unsettled {lists.unsettled}, right {unsettled}")
    waiting = {job.job_id for job in graph.jobs.rows() if is_waiting(job)}
    again = {job.job_id for job in graph.jobs.rows() if is_waiting(job) and job.requeued}
    if again != lists.requeued:
        raise HistoryError(f"index: requeued {lists.requeued}, right {again}")
    if waiting != set(lists.waiting):
        raise HistoryError(f"index: waiting {lists.waiting}, right {waiting}")
