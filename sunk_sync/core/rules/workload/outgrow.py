"""A Pod that was resized beyond its Slurm job says so: Slurm cannot enlarge a running job (P20)."""

from sunk_sync.core.model.actions import Action, RecordEvent, SetConditions
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_OUTGREW
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.names import TOO_SMALL_CONDITION
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.job_spec import size_of
from sunk_sync.core.translate.job_states import is_running
from sunk_sync.core.views.workload import Workload

REASON = "PodResized"
ADVICE = "Slurm cannot enlarge a running job: make the Pod smaller again, or create it anew"


def outgrow(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Show a condition while a bound Pod requests more than its job holds on a node."""
    live = workload.live
    if live is None or not is_running(live.job) or not live.job.cpus:
        return QUIET
    wants: list[Action] = []
    for pod in workload.members.bound:
        if not (pod.ended or pod.terminating):
            wants += _tell(pod, excess(pod, live.job))
    return Ruling(tuple(wants)) if wants else QUIET


def _tell(pod: Pod, message: str) -> list[Action]:
    """Set the condition; once the Pod has it, record the Event."""
    shown = [one for one in pod.conditions if one.type == TOO_SMALL_CONDITION]
    if not message:
        return [SetConditions(reference_of(pod), ())] if shown else []
    told = Condition(TOO_SMALL_CONDITION, "True", REASON, message)
    if any((one.status, one.message) == (told.status, message) for one in shown):
        return [RecordEvent(reference_of(pod), EVENT_OUTGREW, message)]
    return [SetConditions(reference_of(pod), (told,))]


def excess(pod: Pod, job: Job) -> str:
    """Return what the Pod requests and its job does not hold, or empty.

    A job with a memory of 0 has all memory of its node.
    """
    cpus, memory_mb = size_of(pod)
    more = []
    if cpus > job.cpus:
        more.append(f"{counted(cpus, 'CPU')}, and Slurm job {job.job_id} holds {job.cpus}")
    if memory_mb > job.memory_mb > 0:
        more.append(f"{memory_mb} MiB, and Slurm job {job.job_id} holds {job.memory_mb} MiB")
    return f"the Pod requests {'; '.join(more)}. {ADVICE}" if more else ""
