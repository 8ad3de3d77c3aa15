"""What a Pod that waits says of itself: condition, annotation, Event (P1, P2, P8, P10, P17, P26).

The only rule that writes PodScheduled, job-id and cancelled on workload Pods.
"""

from typing import NamedTuple

from sunk_sync.core.model.actions import Action, RecordEvent, SetMetadata, SetScheduled
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Pod, reference_of
from sunk_sync.core.model.names import (
    CANCELLED,
    EVENT_CANCELLED,
    EVENT_INVALID,
    EVENT_REFUSED,
    EVENT_STATIC_CPU,
    EVENT_TOO_LATE,
    EVENT_UNSCHEDULABLE,
    EVENT_UNSUPPORTED,
    JOB_ID,
    MANAGER_SUBMIT,
    SCHEDULED_CONDITION,
)
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_spec import static_cpu_warning, unsupported
from sunk_sync.core.translate.job_states import is_running, is_waiting
from sunk_sync.core.translate.pending import error_in_words, waiting_message
from sunk_sync.core.views.conclusions import (
    cancelled_job,
    mark_of,
    refusal_ends_s,
    waited_for,
    was_cancelled,
)
from sunk_sync.core.views.workload import Workload

SHOWN_AFTER_S = 1.0
"""A Pod that is bound sooner costs the binding alone (P1)."""
REASON_S = 3.0
"""So long Slurm may take to say why a job waits: the next word comes a minute later."""
UNSAID = ("", "None")
UNSCHEDULABLE = "Unschedulable"


class Word(NamedTuple):
    """Why a Pod waits, for its condition and its Event."""

    message: str
    event: str
    reason: str = UNSCHEDULABLE


def wait(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Say why, once it takes longer than a moment; what is wrong with a Pod, at once."""
    pods = [pod for pod in workload.unbound if not (pod.ended or pod.terminating)]
    if not pods:
        told = (*_corrected(workload), *_late_edit(workload), *_surplus(workload).wants)
        return Ruling(told) if told else QUIET
    word = _word(workload, configuration)
    if word is None:
        return _surplus(workload)
    ripe_s = _ripe_s(workload)
    if now < ripe_s:
        return Ruling(look_again_s=ripe_s)
    wants: list[Action] = []
    for pod in pods:
        wants += _said(pod, word)
        wants += _annotated(workload, pod, told=_stands(pod, word))
    wants += _warnings(workload, pods, configuration)
    return Ruling((*wants, *_surplus(workload).wants), _because(workload))


def _because(workload: Workload) -> str:
    """Of a job in the queue; for what else a Pod waits other rules say."""
    job = workload.job
    if job is None or not is_waiting(job):
        return ""
    return f"job {job.job_id} waits in Slurm ({job.reason or 'None'})"


def _ripe_s(workload: Workload) -> float:
    if workload.invalid or workload.unfit:
        return 0.0
    ripe_s = workload.waits_since_s + SHOWN_AFTER_S
    job = workload.job
    if job is not None and is_waiting(job) and job.reason in UNSAID:
        return max(ripe_s, workload.job_since_s + REASON_S)
    return ripe_s


def _word(workload: Workload, configuration: Configuration) -> Word | None:
    if [pod for pod in workload.pods if pod.gated]:
        return None
    if workload.job is not None:
        return _of_job(workload)
    if workload.invalid:
        return Word(workload.invalid, EVENT_INVALID)
    if workload.missing:
        return Word(workload.missing, EVENT_UNSCHEDULABLE)
    if workload.unfit:
        return Word(workload.unfit, EVENT_UNSCHEDULABLE)
    if workload.not_ready:
        return Word(waited_for(workload), EVENT_UNSCHEDULABLE)
    return _of_slurm(workload, configuration)


def _of_slurm(workload: Workload, configuration: Configuration) -> Word | None:
    cancelled = cancelled_job(workload)
    if cancelled and not configuration.resubmit_cancelled:
        text = (
            f"Slurm job {cancelled} was cancelled in Slurm; set annotation resubmit for a new one"
        )
        return Word(text, EVENT_CANCELLED, EVENT_CANCELLED)
    if refusal_ends_s(workload) is not None and workload.refused is not None:
        return Word(
            str(error_in_words(workload.refused.number or 0, workload.refused.text)), EVENT_REFUSED
        )
    if workload.attempt is not None:
        return Word("Slurm has not answered to the job yet", EVENT_UNSCHEDULABLE)
    if workload.given_up > 1:
        text = "Slurm jobs were given up, on hosts that cannot take it; another one follows"
        return Word(text, EVENT_UNSCHEDULABLE)
    return None


def _of_job(workload: Workload) -> Word | None:
    job = workload.job
    assert job is not None
    if is_waiting(job):
        message = waiting_message(job.reason, job.job_id, ahead=workload.ahead, age_s=0.0)
        return Word(message, EVENT_UNSCHEDULABLE)
    occupants = [pod for placement in workload.placements for pod in placement.occupants]
    if occupants:
        text = f"waits for Pod {occupants[0]} to end"
    elif workload.killed_s is not None or workload.stops:
        text = "its script was told to end"
    elif not workload.started:
        text = "its script has not started yet"
    else:
        return None
    return Word(f"Slurm job {job.job_id} is allocated: {text}", EVENT_UNSCHEDULABLE)


def _said(pod: Pod, word: Word) -> list[Action]:
    """The condition, and once it stands the Event: the pace of the one is that of the other."""
    reference = reference_of(pod)
    if _stands(pod, word):
        return [RecordEvent(reference, "Warning", word.event, word.message)]
    return [SetScheduled(reference, word.reason, word.message)]


def _stands(pod: Pod, word: Word) -> bool:
    """The Pod says so already."""
    said = (SCHEDULED_CONDITION, "False", word.reason, word.message)
    told = [(one.type, one.status, one.reason, one.message) for one in pod.conditions]
    return said in told


def _annotated(workload: Workload, pod: Pod, *, told: bool) -> list[Action]:
    """The hint, and what a human's cancel leaves on the Pod (P17).

    The hint alone comes after the condition: of two writes at once the API server refuses one.
    """
    wanted = {}
    job_id = workload.job.job_id if workload.job is not None else pod.job_id
    if job_id:
        wanted[JOB_ID] = job_id
    cancelled = pod.cancelled
    if workload.job is None and workload.last is not None and was_cancelled(workload.last):
        same = pod.cancelled.partition("/")[0] == workload.last.job_id
        cancelled = cancelled if same else mark_of(workload.last.job_id, pod)
    if cancelled:
        wanted[CANCELLED] = cancelled
    if (job_id, cancelled) == (pod.job_id, pod.cancelled):
        return []
    if cancelled == pod.cancelled and not told:
        return []
    annotations = tuple(sorted(wanted.items()))
    return [SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), annotations)]


def _corrected(workload: Workload) -> list[Action]:
    """A Pod of ours that carries the id of an earlier job: another was found for it (P30), or an
    older word arrived after the binding. Its end follows the job that it names (P16).
    """
    job = workload.job
    if job is None or not is_running(job) or job.identity.replaced or workload.stands_elsewhere:
        return []
    wrong = [pod for pod in workload.bound if pod.job_id not in ("", job.job_id)]
    return [
        SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), ((JOB_ID, job.job_id),))
        for pod in wrong
        if not (pod.ended or pod.terminating)
    ]


def _warnings(workload: Workload, pods: list[Pod], configuration: Configuration) -> list[Action]:
    """What the Pod asks for and will not get (P8, P27)."""
    found: list[tuple[str, str]] = []
    hard = unsupported(pods)
    if hard and configuration.unsupported == "ignore":
        found.append((EVENT_UNSUPPORTED, f"Slurm cannot keep these rules: {', '.join(hard)}"))
    pinned = static_cpu_warning(pods)
    if pinned and not workload.invalid:
        found.append((EVENT_STATIC_CPU, pinned))
    return [
        RecordEvent(reference_of(pod), "Warning", reason, message)
        for pod in pods
        for reason, message in found
    ]


def _surplus(workload: Workload) -> Ruling:
    """G7."""
    if not workload.surplus:
        return QUIET
    word = Word("its gang has as many Pods as its size says already", EVENT_UNSCHEDULABLE)
    waiting = [
        pod for pod in workload.surplus if not (pod.node_name or pod.ended or pod.terminating)
    ]
    return Ruling(tuple(action for pod in waiting for action in _said(pod, word)))


def _late_edit(workload: Workload) -> tuple[Action, ...]:
    """P20: an edit after the binding has no effect."""
    job = workload.job
    if (
        job is None
        or workload.absent
        or not workload.digest
        or job.identity.digest in ("", workload.digest)
    ):
        return ()
    message = "annotations changed after the binding: the Slurm job stays as it is"
    return tuple(
        RecordEvent(reference_of(pod), "Warning", EVENT_TOO_LATE, message)
        for pod in workload.pods
        if not (pod.ended or pod.terminating)
    )
