"""Where bound Pods are and where their job runs (P18, P19); Pods that cannot end (P25b)."""

from collections.abc import Collection, Iterable, Mapping

from sunk_sync.core.model.facts import GetResult, Job, Node, Pod
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.job_states import is_running, is_waiting
from sunk_sync.core.views.parts import Stuck
from sunk_sync.core.views.workload import PodLocations


def locate_pods(
    job: Job, placed: Collection[tuple[Pod, str]], *, left: Collection[str]
) -> PodLocations:
    """Compare bound Pods, each with its host, with the hosts of the job; `left`: its former hosts.

    A Pod that sunk-sync bound for this job is where the job ran before (P19), even if slurmctld was
    killed and lost that run. A waiting Pod has the job's id before anybody binds it, so its id
    proves this only for a job that ran before.
    """
    if is_running(job) and not job.slurm_nodes:
        return PodLocations()  # its state was read, but not its hosts
    away = [(pod, host) for pod, host in placed if host not in job.slurm_nodes]
    again = job.requeued and is_waiting(job)
    ours = [
        pod
        for pod, host in away
        if pod.bound_for == job.job_id or (pod.job_id == job.job_id and (again or host in left))
    ]
    here = tuple([pod for pod, host in placed if host in job.slurm_nodes and not pod.ended])
    return PodLocations(elsewhere=len(ours) < len(away), moved=bool(ours), here=here)


Asked = Mapping[str, GetResult]
"""Name of an unknown Node → result of a read by that name."""


def stuck_pods(ending: Iterable[Pod], *, nodes: Table[Node], asked: Asked) -> tuple[Stuck, ...]:
    """Return terminating Pods whose kubelet is not known to be alive."""
    if not nodes.listed:
        return ()
    return tuple(
        Stuck(pod, entry.row.ready, entry.since_s) if entry else _without_node(pod, asked)
        for pod in ending
        if not (entry := nodes.entries.get(pod.node_name)) or entry.row.ready != "True"
    )


def _without_node(pod: Pod, asked: Asked) -> Stuck:
    get_result = asked.get(pod.node_name)
    return Stuck(pod, "", get_result.asked_s if get_result else None, is_stranded(pod, asked))


def is_stranded(pod: Pod, asked: Asked) -> bool:
    """Whether the Pod is terminating and a read by name shows no Node: then it counts as gone."""
    if not (asked and pod.terminating):
        return False
    get_result = asked.get(pod.node_name)
    return get_result is not None and get_result.found == "no"
