"""What must be true of workloads once the faults have stopped and everything rests."""

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.keys import workload_key, workload_key_of
from sunk_sync.core.model.names import SCHEDULED_CONDITION
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.translate.job_states import is_waiting
from tests.core.checks import HistoryError
from tests.core.workload_checks import is_live, uids
from tests.core.workload_world import WorkloadWorld


def check_workload_rest(reconciler: Reconciler, world: WorkloadWorld) -> None:
    """One live job a Pod at most, none for what is gone; who is not bound says why."""
    pods = {row.uid: row for row in world.workload.values()}
    for job in world.jobs.rows.values():
        named = [pods[uid] for uid in uids(job) if uid in pods]
        if is_live(job) and not any(not pod.ended for pod in named):
            raise HistoryError(f"orphan: at rest {job} lives, its Pods are {named}")
    for pod in pods.values():
        _check_pod(pod, reconciler, world)


def _check_exclusions(pod: Pod, live: list[Job], reconciler: Reconciler) -> None:
    """A job that waits excludes what cannot take its Pod as things are (P7)."""
    reach = reconciler.graph.workloads.feasible_hosts.reach(pod.spec)
    for job in live if pod.gang is None and not reach.unfit else ():
        if is_waiting(job) and job.identity.hosts not in ("", reach.hosts):
            raise HistoryError(f"exclusions: {job} waits, and is to exclude {reach.excluded}")


def _check_pod(pod: Pod, reconciler: Reconciler, world: WorkloadWorld) -> None:
    live = world.jobs.live_for(pod.uid)
    if len(live) > 1:
        raise HistoryError(f"double: at rest {pod} has {live}")
    if pod.terminating:
        raise HistoryError(f"rest: {pod} still ends")
    if pod.ended:
        return
    if pod.node_name:
        host = reconciler.graph.claims.host_of_node(pod.node_name)
        known = host in reconciler.graph.slurm_nodes.entries
        if live and known and host not in live[0].slurm_nodes:
            raise HistoryError(f"wrong: {pod} stands beside its job {live}")
        return
    _check_exclusions(pod, live, reconciler)
    standing = reconciler.standing.get(workload_key(workload_key_of(pod)))
    because = standing.verdict.because if standing is not None else ""
    told = any(one.type == SCHEDULED_CONDITION and one.status == "False" for one in pod.conditions)
    if not told and not pod.gated and because in ("", "in sync"):
        raise HistoryError(f"silent: {pod} waits, and nobody says why: {live}")
