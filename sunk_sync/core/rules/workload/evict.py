"""The only rule that ends Pods: with their job (P16, P19, P30) and with their gang (G3)."""

from sunk_sync.core.model.actions import EndPod, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_END_HELD, EVENT_LOST_JOB
from sunk_sync.core.model.facts import Pod, reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import disruption_of, end_of, is_waiting
from sunk_sync.core.views.conclusions import (
    is_broken,
    is_open,
    named,
    why_others_end,
    why_unfit,
)
from sunk_sync.core.views.workload import Workload

WEAK = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""Ends that Slurm reports of nodes that it cannot reach. Many at once may be a fault of Slurm
itself (P31)."""


def evict(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """End each Pod with its own grace period; leave terminating Pods to the kubelet."""
    bound = [pod for pod in workload.members.bound if not pod.ended]
    if not bound:
        return QUIET
    live, locations = workload.live, workload.locations
    if live is None:
        return _without_job(workload, bound, configuration)
    job = live.job
    if is_broken(workload.members, workload.absent):
        why = why_others_end(workload.members, job.job_id)
        return _end(bound, "SlurmJobEnded", why)
    if locations.elsewhere and locations.here:
        message = f"a member of the gang of job {job.job_id} was bound by somebody else"
        return _end(list(locations.here), "SlurmJobEnded", message)
    if "SUSPENDED" in job.state and not locations.elsewhere:
        return _end(bound, disruption_of(job), f"Slurm job {job.job_id} was suspended")
    if (is_waiting(job) or locations.moved) and not locations.elsewhere:
        return _end(bound, "SlurmJobEnded", f"Slurm job {job.job_id} was requeued")
    refused = workload.binding.refused
    why = refused[0].why if refused else why_unfit(live, workload.members)
    return _end(bound, "SlurmJobEnded", f"a member cannot be bound: {why}") if why else QUIET


def _without_job(workload: Workload, bound: list[Pod], configuration: Configuration) -> Ruling:
    last = workload.ended.last
    ours = [pod for pod in bound if last is not None and pod.job_id == last.job_id]
    if last is not None and ours and not last.identity.replaced:
        message = f"Slurm job {last.job_id} ended: {end_of(last)}"
        if last.reason not in ("", "None"):
            message = f"{message} ({last.reason})"
        return _end(ours, disruption_of(last), message, weak=not WEAK.isdisjoint(last.state))
    if last is not None and ours and not is_open(workload.submission, configuration):
        return _after_replacement(workload, ours)
    return _lost(workload, bound, configuration)


def _after_replacement(workload: Workload, ours: list[Pod]) -> Ruling:
    """End the Pods that sunk-sync bound for a job that it gave up later (P19, G4)."""
    last = workload.ended.last
    assert last is not None
    held = {*last.slurm_nodes, *workload.ended.left}
    where = zip(workload.members.bound, workload.locations.slurm_nodes, strict=False)
    here = [
        pod for pod, host in where if pod in ours and (host in held or pod.bound_for == last.job_id)
    ]
    return _end(here, "SlurmJobEnded", f"Slurm job {last.job_id} was given up") if here else QUIET


def _lost(workload: Workload, bound: list[Pod], configuration: Configuration) -> Ruling:
    """Slurm does not know the job any more, though it reported no end (P30)."""
    ours = [pod for pod in bound if pod.job_id]
    if not workload.lost or not ours:
        return QUIET
    if workload.members.missing or is_broken(workload.members, workload.absent):
        lost = f"a member of the gang of {named(workload)} is gone"
        return _end(ours, "SlurmJobEnded", lost, weak=True)
    message = f"Slurm knows no job of {named(workload)} any more"
    if configuration.lost_job == "end":
        return _end(ours, "SlurmJobEnded", message, weak=True)
    events = tuple(RecordEvent(reference_of(pod), EVENT_LOST_JOB, message) for pod in ours)
    return Ruling(events, message)


def _end(pods: list[Pod], reason: str, message: str, *, weak: bool = False) -> Ruling:
    ending = [reference_of(pod) for pod in pods if not pod.terminating]
    wants = [EndPod(reference, reason, message, weak) for reference in ending]
    if not weak:
        return Ruling(tuple(wants), message)
    held = f"{message}; too many such ends at once: held by --max-pod-ends-per-minute"
    events = [RecordEvent(reference, EVENT_END_HELD, held) for reference in ending]
    return Ruling((*wants, *events), message)  # policy leaves one or the other (P31)
