"""The only rule that binds: Pods go where their job runs (P11), all of a gang or none (G1)."""

from collections.abc import Sequence

from sunk_sync.core.model.actions import Bind, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_SCHEDULED
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.node_lock import tolerates_lock
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import is_running
from sunk_sync.core.views.conclusions import free_placements, is_broken, named
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import LiveJob, Workload

ENDED_S = 30.0
"""If a job still runs so long after Slurm should have killed its script, slurmctld crashed and lost
the end (F1)."""
EVENT_S = 5.0
"""sunk-sync records the Event at most so long after it saw the binding."""


def bind(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Bind the Pods as soon as the job holds fit hosts that no other Pod still uses."""
    live, members, calls = workload.live, workload.members, workload.calls
    if live is None or not members.pods or workload.absent.pods or calls.stops:
        return QUIET
    if calls.killed_s is not None and now < calls.killed_s + ENDED_S:
        # Slurm is about to kill the script: the host is free as soon as the Pods have ended.
        return Ruling(look_again_s=calls.killed_s + ENDED_S)
    job, unbound = live.job, members.unbound
    if not unbound:
        return _record_bound(workload, job, now)
    ended = [pod for pod in members.pods if pod.ended]
    if ended or not is_running(job) or is_broken(members, workload.absent):
        return QUIET
    if job.identity.replaced:
        return Ruling(because=f"job {job.job_id} is being given up")
    if live.end_notified:
        return Ruling(because=f"Slurm says that job {job.job_id} has ended: it is read first")
    if live.others and not _counts(live):
        return QUIET
    free = free_placements(live, members)
    against = _why_not(live, free)
    if against:
        return Ruling(because=against)
    if len(free) < len(unbound):
        return QUIET
    locks = configuration.lock
    wants = [_bind(pod, job, free[place], locks=locks) for place, pod in enumerate(unbound)]
    where = ", ".join([want.node_name for want in wants])
    return Ruling(tuple(wants), f"{named(workload)} bound to {where}: job {job.job_id} runs there")


def _counts(live: LiveJob) -> bool:
    return not any(is_running(other) for other in live.others)


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


def _bind(pod: Pod, job: Job, placement: Placement, *, locks: bool) -> Bind:
    assert placement.node is not None  # see _why_not
    shield = locks and not tolerates_lock(pod.spec.tolerations)
    node_name, slurm_node = placement.node.name, placement.slurm_node
    return Bind(reference_of(pod), node_name, job.job_id, slurm_node, shield=shield)


def _record_bound(workload: Workload, job: Job, now: float) -> Ruling:
    """Record one Event on each Pod that this process saw become bound."""
    placed_s = workload.binding.placed_s
    if placed_s is None or now >= placed_s + EVENT_S:
        return QUIET
    wants = tuple(
        RecordEvent(
            reference_of(pod),
            EVENT_SCHEDULED,
            f"Bound to Node {pod.node_name}, where Slurm job {job.job_id} runs",
        )
        for pod in workload.members.pods
        if pod.job_id == job.job_id
    )
    return Ruling(wants, f"{named(workload)} runs with job {job.job_id}", placed_s + EVENT_S)
