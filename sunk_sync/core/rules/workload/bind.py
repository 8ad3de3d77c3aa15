"""The only rule that binds: Pods go where their job runs (P11), all of a gang or none (G1)."""

from sunk_sync.core.model.actions import Bind, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_SCHEDULED
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.node_lock import tolerates_lock
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.binding import places_to_bind, why_held
from sunk_sync.core.views.conclusions import named
from sunk_sync.core.views.parts import Placement
from sunk_sync.core.views.workload import Workload

EVENT_S = 5.0
"""sunk-sync records the Event at most so long after it saw the binding."""


def bind(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Bind the Pods as soon as the job holds fit hosts that no other Pod still uses."""
    live, unbound, volumes = workload.live, workload.members.unbound, workload.volumes
    held = why_held(workload, now)
    if held is not None or live is None:
        return held or QUIET
    if not unbound:
        return _record_bound(workload, live.job, now)
    places = places_to_bind(workload)
    if isinstance(places, Ruling):
        return places
    if volumes.waits:
        return Ruling(because=volumes.waits)
    if volumes.failed or volumes.wanted:
        return QUIET
    job, locks = live.job, configuration.lock
    wants = [_bind(pod, job, places[place], locks=locks) for place, pod in enumerate(unbound)]
    where = ", ".join([want.node_name for want in wants])
    return Ruling(tuple(wants), f"{named(workload)} bound to {where}: job {job.job_id} runs there")


def _bind(pod: Pod, job: Job, placement: Placement, *, locks: bool) -> Bind:
    assert placement.node is not None  # see places_to_bind
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
