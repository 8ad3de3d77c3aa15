"""Pods go where their job runs (P11), all or none of a gang (G1): the only rule that binds."""

from collections.abc import Sequence

from sunk_sync.core.model.actions import Bind, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.names import EVENT_SCHEDULED
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import is_running
from sunk_sync.core.views.conclusions import free_placements, is_broken, named
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import Workload

ENDED_S = 30.0
"""A job that still runs so long after its script was to be killed began once more: a slurmctld that
was killed itself forgot the end (F1)."""
TOLD_S = 5.0
"""So long after it was seen bound a Pod may get its Event."""


def bind(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """As soon as the job holds fit hosts that no other Pod still needs."""
    job, unbound = workload.job, workload.unbound
    if job is None or not workload.pods or workload.absent or workload.stops:
        return QUIET
    if workload.killed_s is not None and now < workload.killed_s + ENDED_S:
        # A script that was told to end holds its host no longer than for its Pods.
        return Ruling(look_again_s=workload.killed_s + ENDED_S)
    if not unbound:
        return _told(workload, now)
    if not is_running(job) or is_broken(workload) or [pod for pod in workload.pods if pod.ended]:
        return QUIET
    if job.identity.replaced:
        return Ruling(because=f"job {job.job_id} is being given up")
    if workload.end_notified:
        return Ruling(because=f"Slurm says that job {job.job_id} has ended: it is read first")
    if workload.others and not _counts(workload):
        return QUIET
    free = free_placements(workload)
    against = _against(workload, job, free)
    if against:
        return Ruling(because=against)
    if len(free) < len(unbound):
        return QUIET
    wants = [_bind(pod, job, free[place]) for place, pod in enumerate(unbound)]
    where = ", ".join([want.node_name for want in wants])
    return Ruling(tuple(wants), f"{named(workload)} bound to {where}: job {job.job_id} runs there")


def _counts(workload: Workload) -> bool:
    """Of several live jobs only one that runs alone may hold a Pod (P29)."""
    return not any(is_running(other) for other in workload.others)


def _against(workload: Workload, job: Job, free: Sequence[Placement]) -> str:
    if not workload.started:
        return f"job {job.job_id} is allocated: its script has not started yet"
    for placement in free:
        if placement.node is None or placement.unfit:
            return f"job {job.job_id} is on {placement.slurm_node}: {placement.unfit}"
        if placement.occupants:
            others = ", ".join(placement.occupants[:3])
            return (
                f"waits on {placement.slurm_node} for {others}, whose job is not confirmed running"
            )
    return ""


def _bind(pod: Pod, job: Job, placement: Placement) -> Bind:
    assert placement.node is not None  # else something was against it
    return Bind(reference_of(pod), placement.node.name, job.job_id, placement.slurm_node)


def _told(workload: Workload, now: float) -> Ruling:
    """One Event on each Pod that this process saw bound."""
    job, placed_s = workload.job, workload.placed_s
    if job is None or placed_s is None or now >= placed_s + TOLD_S:
        return QUIET
    wants = tuple(
        RecordEvent(
            reference_of(pod),
            "Normal",
            EVENT_SCHEDULED,
            f"Bound to Node {pod.node_name}, where Slurm job {job.job_id} runs",
        )
        for pod in workload.pods
        if pod.job_id == job.job_id
    )
    return Ruling(wants, f"{named(workload)} runs with job {job.job_id}", placed_s + TOLD_S)
