"""Whether the hosts of a job are ready for its Pods: volumes and bindings wait for it (P11, G1)."""

from collections.abc import Sequence

from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import is_running
from sunk_sync.core.views.conclusions import free_placements, is_broken
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import LiveJob, Workload

ENDED_S = 30.0
"""If a job still runs so long after Slurm should have killed its script, slurmctld crashed and lost
the end (F1)."""


def why_held(workload: Workload, now: float) -> Ruling | None:
    """Return what ends the job or its Pods just now; None: nothing."""
    calls = workload.calls
    if workload.live is None or not workload.members.pods or workload.absent.pods or calls.stops:
        return QUIET
    if calls.killed_s is not None and now < calls.killed_s + ENDED_S:
        # Slurm is about to kill the script: the host is free as soon as the Pods have ended.
        return Ruling(look_again_s=calls.killed_s + ENDED_S)
    return None


def places_to_bind(workload: Workload) -> Sequence[Placement] | Ruling:
    """Return the hosts of the unbound Pods, in their order, or why they are not ready."""
    live, members = workload.live, workload.members
    if live is None:
        return QUIET
    job = live.job
    ended = [pod for pod in members.unbound if pod.ended]
    if ended or not is_running(job) or is_broken(members, workload.absent):
        return QUIET
    if job.identity.replaced:
        return Ruling(because=f"job {job.job_id} is being given up")
    if live.end_notified:
        return Ruling(because=f"Slurm says that job {job.job_id} has ended: it is read first")
    if live.others and any(is_running(other) for other in live.others):
        return QUIET
    free = free_placements(live, members)
    against = _why_not(live, free)
    if against:
        return Ruling(because=against)
    return free if len(free) >= len(members.unbound) else QUIET


def _why_not(live: LiveJob, free: Sequence[Placement]) -> str:
    job = live.job
    if not live.started:
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
