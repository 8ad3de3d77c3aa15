"""Bound Pods end when their job has (P16, P19, P30), and with their gang (G3): the only rule that
ends Pods.
"""

from sunk_sync.core.model.actions import EndPod, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Pod, reference_of
from sunk_sync.core.model.names import EVENT_END_HELD, EVENT_LOST_JOB
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import disruption_of, end_of, is_waiting
from sunk_sync.core.views.conclusions import is_broken, is_open, named, why_unfit
from sunk_sync.core.views.workload import Workload

WEAK = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""Ends that rest on Slurm not reaching a node: many at once may be Slurm's own trouble (P31)."""


def evict(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """With the Pod's own grace; what is terminating already is left to its kubelet."""
    bound = [pod for pod in workload.bound if not pod.ended]
    if not bound:
        return QUIET
    job = workload.job
    if job is None:
        return _without_job(workload, bound, configuration)
    if is_broken(workload):
        return _end(bound, "SlurmJobEnded", f"a member of the gang of job {job.job_id} is gone")
    if workload.stands_elsewhere and workload.here:
        message = f"a member of the gang of job {job.job_id} was bound by somebody else"
        return _end(list(workload.here), "SlurmJobEnded", message)
    if "SUSPENDED" in job.state and not workload.stands_elsewhere:
        return _end(bound, disruption_of(job), f"Slurm job {job.job_id} was suspended")
    if (is_waiting(job) or workload.moved) and not workload.stands_elsewhere:
        return _end(bound, "SlurmJobEnded", f"Slurm job {job.job_id} was requeued")
    why = workload.bind_refused[0].why if workload.bind_refused else why_unfit(workload)
    return _end(bound, "SlurmJobEnded", f"a member cannot be bound: {why}") if why else QUIET


def _without_job(workload: Workload, bound: list[Pod], configuration: Configuration) -> Ruling:
    last = workload.last
    ours = [pod for pod in bound if last is not None and pod.job_id == last.job_id]
    if last is not None and ours and not last.identity.replaced:
        message = f"Slurm job {last.job_id} ended: {end_of(last)}"
        if last.reason not in ("", "None"):
            message = f"{message} ({last.reason})"
        return _end(ours, disruption_of(last), message, weak=not WEAK.isdisjoint(last.state))
    if last is not None and ours and not is_open(workload, configuration):
        return _after_replacement(workload, ours)
    return _lost(workload, bound, configuration)


def _after_replacement(workload: Workload, ours: list[Pod]) -> Ruling:
    """We gave the job up ourselves: where its Pod was bound by us, it goes too (P19, G4)."""
    assert workload.last is not None
    held = {*workload.last.slurm_nodes, *workload.left}
    here = [
        pod
        for pod, host in zip(workload.bound, workload.standing, strict=False)
        if pod in ours and host in held
    ]
    message = f"Slurm job {workload.last.job_id} was given up"
    return _end(here, "SlurmJobEnded", message) if here else QUIET


def _lost(workload: Workload, bound: list[Pod], configuration: Configuration) -> Ruling:
    """P30: Slurm knows no job of it any more, though nobody saw it end."""
    ours = [pod for pod in bound if pod.job_id]
    if not workload.lost or not ours:
        return QUIET
    if workload.missing or is_broken(workload):
        lost = f"a member of the gang of {named(workload)} is gone"
        return _end(ours, "SlurmJobEnded", lost, weak=True)
    message = f"Slurm knows no job of {named(workload)} any more"
    if configuration.lost_job == "end":
        return _end(ours, "SlurmJobEnded", message, weak=True)
    events = tuple(
        RecordEvent(reference_of(pod), "Warning", EVENT_LOST_JOB, message) for pod in ours
    )
    return Ruling(events, message)


def _end(pods: list[Pod], reason: str, message: str, *, weak: bool = False) -> Ruling:
    ending = [reference_of(pod) for pod in pods if not pod.terminating]
    wants = [EndPod(reference, reason, message, weak) for reference in ending]
    if not weak:
        return Ruling(tuple(wants), message)
    held = f"{message}; too many such ends at once: held by --max-pod-ends-per-minute"
    events = [RecordEvent(reference, "Warning", EVENT_END_HELD, held) for reference in ending]
    return Ruling((*wants, *events), message)  # policy leaves one or the other (P31)
