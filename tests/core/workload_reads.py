"""What workloads remember beside rows, as the read-set and the oracle see it."""

from collections.abc import Callable
from typing import Any

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.translate.job_states import is_live, is_waiting
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.members import could_have_job
from tests.core.checks import HistoryError, Read, ReadSet, Recorded

MEMORIES = (
    "attempts", "refusals", "bind_refusals", "binds_tried", "sizes", "gone", "get_results",
    "notices",
    "ahead", "placed_s", "started", "ended_s", "ends", "missing_s",
    "waits_s",
)  # fmt: skip


class WorkloadReads(ReadSet):
    """The read-set of histories with workloads."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        workloads = graph.workloads.workloads
        for name in MEMORIES:
            setattr(workloads, name, Recorded(self._log, f"work {name}", getattr(workloads, name)))

        exclusion_updates = graph.workloads.exclusion_updates
        exclusion_updates.wanted = Recorded(self._log, "wanted", exclusion_updates.wanted)
        feasible_hosts = graph.workloads.feasible_hosts
        for name in ("reach", "is_free"):
            setattr(feasible_hosts, name, self._unseen(getattr(feasible_hosts, name)))
        workloads_graph = graph.workloads
        workloads_graph._is_host = self._unseen(workloads_graph._is_host)  # type: ignore[method-assign]
        workloads_graph._stuck = self._unseen(workloads_graph._stuck)  # type: ignore[method-assign]
        claims = graph.claims
        claims.host_of_node = self._unseen(claims.host_of_node)  # type: ignore[method-assign]

    def _unseen(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """It looks at whole rows for little of each: the oracle alone guards it."""

        def asked(*arguments: Any) -> Any:
            reads, self._log.reads = self._log.reads, None
            try:
                return ask(*arguments)
            finally:
                self._log.reads = reads

        return asked

    def rows(self) -> dict[Read, object]:
        rows = super().rows()
        workloads = self._graph.workloads.workloads
        for name in MEMORIES:
            rows |= {
                (f"work {name}", str(key)): one for key, one in getattr(workloads, name).items()
            }
        wanted = self._graph.workloads.exclusion_updates.wanted
        return rows | {("wanted", job_id): one for job_id, one in wanted.items()}


INDEXES = (
    "pods", "key_of_uid", "jobs_of_uid", "orphans", "uids_of_job", "pods_on_node", "arrivals",
    "placements",
)  # fmt: skip


def check_indexes(graph: Graph) -> None:
    """Every index and every set of workloads is what the rows make of it."""
    fresh = WorkloadIndex()
    for entry in graph.pods.entries.values():
        fresh.add_pod(entry.row, now=0.0)
    for job in graph.jobs.entries.values():
        fresh.add_job(job.row, now=0.0)
    kept = graph.workloads.workloads
    for name in INDEXES:
        if getattr(kept, name) != getattr(fresh, name):
            told = f"{getattr(kept, name)}, right is {getattr(fresh, name)}"
            raise HistoryError(f"index: {name} is {told}")
    for name in ("waits_s", "bound_s"):
        if getattr(kept, name).keys() != getattr(fresh, name).keys():
            raise HistoryError(f"index: {name} is {getattr(kept, name)}")
    _check_sets(graph)


def _check_sets(graph: Graph) -> None:
    workloads = graph.workloads
    right: dict[str, set[str]] = {"_unplaced": set(), "_unsettled": set()}
    for key, pods in workloads.workloads.pods.items():
        live = any(is_live(graph.jobs.entries[one].row) for one in workloads.workloads.job_ids(key))
        if live:
            continue
        if any(map(could_have_job, pods.values())):
            right["_unplaced"].add(key)
        if any(pod.node_name and not pod.ended for pod in pods.values()):
            right["_unsettled"].add(key)
    if set(workloads._unplaced) != right["_unplaced"]:
        raise HistoryError(f"index: _unplaced {workloads._unplaced}, right {right['_unplaced']}")
    if not right["_unsettled"] <= set(workloads._unsettled):
        raise HistoryError(f"index: _unsettled {workloads._unsettled}, right {right['_unsettled']}")
    waiting = {job.job_id for job in graph.jobs.rows() if is_waiting(job)}
    again = {job.job_id for job in graph.jobs.rows() if is_waiting(job) and job.requeued}
    if again != workloads._again:
        raise HistoryError(f"index: _again {workloads._again}, right {again}")
    if waiting != set(workloads._waiting):
        raise HistoryError(f"index: _waiting {workloads._waiting}, right {waiting}")
