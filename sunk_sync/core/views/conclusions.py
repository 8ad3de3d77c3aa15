"""What several rules conclude from one workload; pure."""

from collections.abc import Sequence

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.placeholder import QUEUED
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import Workload

NODES_NAMED = 5
"""So many Nodes are named in a condition."""
TRIED_AGAIN_S = 300.0
"""A host where a job was given up is not tried again sooner, unless it changed (P32)."""
REFUSED_AGAIN_S = 300.0
"""Slurm's no stands so long, unless the Pods change (P10)."""


def named(workload: Workload) -> str:
    """`Pod ns/name`, or the gang's first Pod and how many more."""
    if not workload.pods:
        return f"workload {workload.key}"
    first = workload.pods[0]
    more = f" and {len(workload.pods) - 1} more" if len(workload.pods) > 1 else ""
    return f"Pod {first.namespace}/{first.name}{more}"


def was_cancelled(job: Job | None) -> bool:
    """Somebody else cancelled it: we say so ourselves where it was us (P17)."""
    return job is not None and "CANCELLED" in job.state and not job.identity.replaced


def mark_of(job_id: str, pod: Pod) -> str:
    """Value of annotation cancelled: while the Pod's resubmit stays as it is, no new job."""
    return f"{job_id}/{pod.resubmit}"


def cancelled_job(workload: Workload) -> str:
    """Id of the job that a human cancelled and that no other may follow; empty: none (P17)."""
    for pod in workload.pods:
        job_id, _, resubmit = pod.cancelled.partition("/")
        if pod.cancelled and resubmit == pod.resubmit:
            return job_id
    last = workload.last
    if last is not None and was_cancelled(last):
        marked = all(pod.cancelled.partition("/")[0] == last.job_id for pod in workload.pods)
        return "" if marked else last.job_id
    return ""


def exclusions(workload: Workload, *, now: float) -> tuple[str, ...]:
    """Hosts that cannot take it, and those where jobs of it were given up lately (P12, P32).

    Where Slurm had no other for it, what made it unfit there may have passed.
    """
    if workload.refused is not None and workload.refused.kind in QUEUED:
        return workload.excluded
    given_up = [name for name, since_s in workload.given_up_on if now < since_s + TRIED_AGAIN_S]
    last = workload.last
    if workload.job is not None and last is not None and last.identity.replaced:
        given_up = list(last.slurm_nodes)
    return tuple(sorted({*workload.excluded, *given_up})) if given_up else workload.excluded


def waited_for(workload: Workload) -> str:
    """Which Nodes it waits for (P32), in a sentence of bounded length."""
    named_nodes = ", ".join(workload.not_ready[:NODES_NAMED])
    more = len(workload.not_ready) - NODES_NAMED
    return f"no host is ready; waiting for Node {named_nodes}" + (
        f" and {more} more" if more > 0 else ""
    )


def is_open(workload: Workload, configuration: Configuration) -> bool:
    """A submission without an answer may become a job yet (F2)."""
    attempt = workload.attempt
    return attempt is not None and workload.jobs_listed_s < attempt.sent_s + configuration.settle_s


def refusal_ends_s(workload: Workload) -> float | None:
    """Until when Slurm's no stands; None: there is none, or the Pods changed since."""
    refused = workload.refused
    if refused is None or refused.kind not in QUEUED or refused.digest != workload.digest:
        return None
    return workload.refused_s + REFUSED_AGAIN_S


def is_known_gone(workload: Workload, named_pod: str) -> bool:
    """Whether this Pod of the job's identity is gone for certain (P21)."""
    namespace, _, rest = named_pod.partition("/")
    name, _, uid = rest.partition("/")
    if uid in workload.gone:
        return True
    if not name:
        return workload.pods_listed_s >= workload.job_since_s
    for one in workload.get_results:
        if (one.namespace, one.name) == (namespace, name):
            return one.found == "no" or (one.found == "yes" and one.uid != uid)
    return False


def is_over(workload: Workload) -> bool:
    """No Pod of it has a container left, and none ever will: its job may end (P14, P15, P21)."""
    if workload.absent and not all(is_known_gone(workload, pod) for pod in workload.absent):
        return False
    stranded = [one.pod.uid for one in workload.stuck if one.stranded]
    return not [pod for pod in workload.pods if may_live(pod) and pod.uid not in stranded]


def may_live(pod: Pod) -> bool:
    """It has a container left, or may get one."""
    return not (pod.ended or (pod.terminating and not pod.node_name))


def free_placements(workload: Workload) -> Sequence[Placement]:
    """Hosts of its job on which no Pod of it stands: those that are bound keep theirs."""
    if not workload.bound:
        return workload.placements
    taken = {pod.node_name for pod in workload.bound}
    return [one for one in workload.placements if one.node is None or one.node.name not in taken]


def why_unfit(workload: Workload) -> str:
    """Why its unbound Pods cannot go where its job runs (P12); empty: they can, or who knows."""
    if not (workload.unbound and workload.placements):
        return ""  # its state was read, where it runs was not
    if len(workload.placements) < len(workload.pods):
        return f"it holds {len(workload.placements)} hosts for {len(workload.pods)} Pods"
    for placement in free_placements(workload):
        if (placement.node is None or placement.unfit) and not placement.unknown:
            return f"{placement.slurm_node} cannot take it: {placement.unfit}"
    return ""


def is_broken(workload: Workload) -> bool:
    """A member of a gang was deleted: the others end too (G3)."""
    if len(workload.pods) + len(workload.absent) < 2:
        return False
    lost = [pod for pod in workload.absent if is_known_gone(workload, pod)]
    leaving = [pod for pod in workload.pods if pod.terminating]
    return bool(workload.pods) and bool(lost or leaving)
