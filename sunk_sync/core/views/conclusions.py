"""What several rules conclude from one Work; pure."""

from collections.abc import Sequence

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.views.parts import Berth
from sunk_sync.core.views.workload import Work

NODES_NAMED = 5
"""So many Nodes are named in a condition."""
TRIED_AGAIN_S = 300.0
"""A host where a job was given up is not tried again sooner, unless it changed (P32)."""
REFUSED_AGAIN_S = 300.0
"""Slurm's no stands so long, unless the Pods change (P10)."""


def named(work: Work) -> str:
    """`Pod ns/name`, or the gang's first Pod and how many more."""
    if not work.pods:
        return f"Work {work.key}"
    first = work.pods[0]
    more = f" and {len(work.pods) - 1} more" if len(work.pods) > 1 else ""
    return f"Pod {first.namespace}/{first.name}{more}"


def was_cancelled(job: Job | None) -> bool:
    """Somebody else cancelled it: we say so ourselves where it was us (P17)."""
    return job is not None and "CANCELLED" in job.state and not job.identity.replaced


def mark_of(job_id: str, pod: Pod) -> str:
    """Value of annotation cancelled: while the Pod's resubmit stays as it is, no new job."""
    return f"{job_id}/{pod.resubmit}"


def cancelled_job(work: Work) -> str:
    """Id of the job that a human cancelled and that no other may follow; empty: none (P17)."""
    for pod in work.pods:
        job_id, _, resubmit = pod.cancelled.partition("/")
        if pod.cancelled and resubmit == pod.resubmit:
            return job_id
    last = work.last
    if last is not None and was_cancelled(last):
        marked = all(pod.cancelled.partition("/")[0] == last.job_id for pod in work.pods)
        return "" if marked else last.job_id
    return ""


def exclusions(work: Work, *, now: float) -> tuple[str, ...]:
    """Hosts that cannot take it, and those where jobs of it were given up lately (P12, P32).

    Where Slurm had no other for it, what made it unfit there may have passed.
    """
    if work.refused is not None and work.refused.kind == "script":
        return work.excluded
    given_up = [name for name, since_s in work.given_up_on if now < since_s + TRIED_AGAIN_S]
    last = work.last
    if work.job is not None and last is not None and last.identity.replaced:
        given_up = list(last.slurm_nodes)
    return tuple(sorted({*work.excluded, *given_up})) if given_up else work.excluded


def waited_for(work: Work) -> str:
    """Which Nodes it waits for (P32), in a sentence of bounded length."""
    named_nodes = ", ".join(work.not_ready[:NODES_NAMED])
    more = len(work.not_ready) - NODES_NAMED
    return f"no host is ready; waiting for Node {named_nodes}" + (
        f" and {more} more" if more > 0 else ""
    )


def is_open(work: Work, configuration: Configuration) -> bool:
    """A submission without an answer may become a job yet (F2)."""
    attempt = work.attempt
    return attempt is not None and work.jobs_listed_s < attempt.sent_s + configuration.settle_s


def refusal_ends_s(work: Work) -> float | None:
    """Until when Slurm's no stands; None: there is none, or the Pods changed since."""
    refused = work.refused
    if refused is None or refused.kind != "script" or refused.digest != work.digest:
        return None
    return work.refused_s + REFUSED_AGAIN_S


def is_known_gone(work: Work, named_pod: str) -> bool:
    """Whether this Pod of the job's identity is gone for certain (P21)."""
    namespace, _, rest = named_pod.partition("/")
    name, _, uid = rest.partition("/")
    if uid in work.gone:
        return True
    if not name:
        return work.pods_listed_s >= work.job_since_s
    for one in work.sightings:
        if (one.namespace, one.name) == (namespace, name):
            return one.found == "no" or (one.found == "yes" and one.uid != uid)
    return False


def is_over(work: Work) -> bool:
    """No Pod of it has a container left, and none ever will: its job may end (P14, P15, P21)."""
    if work.absent and not all(is_known_gone(work, pod) for pod in work.absent):
        return False
    stranded = [one.pod.uid for one in work.stuck if one.stranded]
    return not [pod for pod in work.pods if may_live(pod) and pod.uid not in stranded]


def may_live(pod: Pod) -> bool:
    """It has a container left, or may get one."""
    return not (pod.ended or (pod.terminating and not pod.node_name))


def free_berths(work: Work) -> Sequence[Berth]:
    """Hosts of its job on which no Pod of it stands: those that are bound keep theirs."""
    if not work.bound:
        return work.berths
    taken = {pod.node_name for pod in work.bound}
    return [one for one in work.berths if one.node is None or one.node.name not in taken]


def why_unfit(work: Work) -> str:
    """Why its unbound Pods cannot go where its job runs (P12); empty: they can, or who knows."""
    if not (work.unbound and work.berths):
        return ""  # its state was read, where it runs was not
    if len(work.berths) < len(work.pods):
        return f"it holds {len(work.berths)} hosts for {len(work.pods)} Pods"
    for berth in free_berths(work):
        if (berth.node is None or berth.unfit) and not berth.unknown:
            return f"{berth.slurm_node} cannot take it: {berth.unfit}"
    return ""


def is_broken(work: Work) -> bool:
    """A member of a gang was deleted: the others end too (G3)."""
    if len(work.pods) + len(work.absent) < 2:
        return False
    lost = [pod for pod in work.absent if is_known_gone(work, pod)]
    leaving = [pod for pod in work.pods if pod.terminating]
    return bool(work.pods) and bool(lost or leaving)
