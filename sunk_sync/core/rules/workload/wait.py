"""What a Pod that waits says of itself: condition, annotation, Event (P1, P2, P8, P10, P17, P26).

The only rule that writes PodScheduled, job-id and cancelled on workload Pods.
"""

from typing import NamedTuple

from sunk_sync.core.model.actions import Action, Announce, SetMetadata, SetScheduled
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
from sunk_sync.core.views.workload import Work

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


def wait(work: Work, configuration: Configuration, now: float) -> Ruling:
    """Say why, once it takes longer than a moment; what is wrong with a Pod, at once."""
    pods = [pod for pod in work.unbound if not (pod.ended or pod.terminating)]
    if not pods:
        told = (*_corrected(work), *_late_edit(work), *_surplus(work).wants)
        return Ruling(told) if told else QUIET
    word = _word(work, configuration)
    if word is None:
        return _surplus(work)
    ripe_s = _ripe_s(work)
    if now < ripe_s:
        return Ruling(look_again_s=ripe_s)
    wants: list[Action] = []
    for pod in pods:
        wants += _said(pod, word)
        wants += _annotated(work, pod, told=_stands(pod, word))
    wants += _warnings(work, pods, configuration)
    return Ruling((*wants, *_surplus(work).wants), _because(work))


def _because(work: Work) -> str:
    """Of a job in the queue; for what else a Pod waits other rules say."""
    job = work.job
    if job is None or not is_waiting(job):
        return ""
    return f"job {job.job_id} waits in Slurm ({job.reason or 'None'})"


def _ripe_s(work: Work) -> float:
    if work.invalid or work.unfit:
        return 0.0
    ripe_s = work.waits_since_s + SHOWN_AFTER_S
    job = work.job
    if job is not None and is_waiting(job) and job.reason in UNSAID:
        return max(ripe_s, work.job_since_s + REASON_S)
    return ripe_s


def _word(work: Work, configuration: Configuration) -> Word | None:
    if [pod for pod in work.pods if pod.gated]:
        return None
    if work.job is not None:
        return _of_job(work)
    if work.invalid:
        return Word(work.invalid, EVENT_INVALID)
    if work.missing:
        return Word(work.missing, EVENT_UNSCHEDULABLE)
    if work.unfit:
        return Word(work.unfit, EVENT_UNSCHEDULABLE)
    if work.not_ready:
        return Word(waited_for(work), EVENT_UNSCHEDULABLE)
    return _of_slurm(work, configuration)


def _of_slurm(work: Work, configuration: Configuration) -> Word | None:
    cancelled = cancelled_job(work)
    if cancelled and not configuration.resubmit_cancelled:
        text = (
            f"Slurm job {cancelled} was cancelled in Slurm; set annotation resubmit for a new one"
        )
        return Word(text, EVENT_CANCELLED, EVENT_CANCELLED)
    if refusal_ends_s(work) is not None and work.refused is not None:
        return Word(str(error_in_words(work.refused.number or 0, work.refused.text)), EVENT_REFUSED)
    if work.attempt is not None:
        return Word("Slurm has not answered to the job yet", EVENT_UNSCHEDULABLE)
    if work.given_up > 1:
        text = "Slurm jobs were given up, on hosts that cannot take it; another one follows"
        return Word(text, EVENT_UNSCHEDULABLE)
    return None


def _of_job(work: Work) -> Word | None:
    job = work.job
    assert job is not None
    if is_waiting(job):
        message = waiting_message(job.reason, job.job_id, ahead=work.ahead, age_s=0.0)
        return Word(message, EVENT_UNSCHEDULABLE)
    occupants = [pod for berth in work.berths for pod in berth.occupants]
    if occupants:
        text = f"waits for Pod {occupants[0]} to end"
    elif work.killed_s is not None or work.stops:
        text = "its script was told to end"
    elif not work.started:
        text = "its script has not started yet"
    else:
        return None
    return Word(f"Slurm job {job.job_id} is allocated: {text}", EVENT_UNSCHEDULABLE)


def _said(pod: Pod, word: Word) -> list[Action]:
    """The condition, and once it stands the Event: the pace of the one is that of the other."""
    reference = reference_of(pod)
    if _stands(pod, word):
        return [Announce(reference, "Warning", word.event, word.message)]
    return [SetScheduled(reference, word.reason, word.message)]


def _stands(pod: Pod, word: Word) -> bool:
    """The Pod says so already."""
    said = (SCHEDULED_CONDITION, "False", word.reason, word.message)
    told = [(one.type, one.status, one.reason, one.message) for one in pod.conditions]
    return said in told


def _annotated(work: Work, pod: Pod, *, told: bool) -> list[Action]:
    """The hint, and what a human's cancel leaves on the Pod (P17).

    The hint alone comes after the condition: of two writes at once the API server refuses one.
    """
    wanted = {}
    job_id = work.job.job_id if work.job is not None else pod.job_id
    if job_id:
        wanted[JOB_ID] = job_id
    cancelled = pod.cancelled
    if work.job is None and work.last is not None and was_cancelled(work.last):
        same = pod.cancelled.partition("/")[0] == work.last.job_id
        cancelled = cancelled if same else mark_of(work.last.job_id, pod)
    if cancelled:
        wanted[CANCELLED] = cancelled
    if (job_id, cancelled) == (pod.job_id, pod.cancelled):
        return []
    if cancelled == pod.cancelled and not told:
        return []
    annotations = tuple(sorted(wanted.items()))
    return [SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), annotations)]


def _corrected(work: Work) -> list[Action]:
    """A Pod of ours that carries the id of an earlier job: another was found for it (P30), or an
    older word arrived after the binding. Its end follows the job that it names (P16).
    """
    job = work.job
    if job is None or not is_running(job) or job.identity.replaced or work.stands_elsewhere:
        return []
    wrong = [pod for pod in work.bound if pod.job_id not in ("", job.job_id)]
    return [
        SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), ((JOB_ID, job.job_id),))
        for pod in wrong
        if not (pod.ended or pod.terminating)
    ]


def _warnings(work: Work, pods: list[Pod], configuration: Configuration) -> list[Action]:
    """What the Pod asks for and will not get (P8, P27)."""
    found: list[tuple[str, str]] = []
    hard = unsupported(pods)
    if hard and configuration.unsupported == "ignore":
        found.append((EVENT_UNSUPPORTED, f"Slurm cannot keep these rules: {', '.join(hard)}"))
    pinned = static_cpu_warning(pods)
    if pinned and not work.invalid:
        found.append((EVENT_STATIC_CPU, pinned))
    return [
        Announce(reference_of(pod), "Warning", reason, message)
        for pod in pods
        for reason, message in found
    ]


def _surplus(work: Work) -> Ruling:
    """G7."""
    if not work.surplus:
        return QUIET
    word = Word("its gang has as many Pods as its size says already", EVENT_UNSCHEDULABLE)
    waiting = [pod for pod in work.surplus if not (pod.node_name or pod.ended or pod.terminating)]
    return Ruling(tuple(action for pod in waiting for action in _said(pod, word)))


def _late_edit(work: Work) -> tuple[Action, ...]:
    """P20: an edit after the binding has no effect."""
    job = work.job
    if job is None or work.absent or not work.digest or job.identity.digest in ("", work.digest):
        return ()
    message = "annotations changed after the binding: the Slurm job stays as it is"
    return tuple(
        Announce(reference_of(pod), "Warning", EVENT_TOO_LATE, message)
        for pod in work.pods
        if not (pod.ended or pod.terminating)
    )
