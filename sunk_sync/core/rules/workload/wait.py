"""A waiting Pod shows why it waits: condition, annotation, Event (P1, P2, P8, P10, P17, P26).

The only rule that writes PodScheduled, job-id and cancelled on workload Pods.
"""

from sunk_sync.core.model.actions import (
    Action,
    RecordEvent,
    SetMetadata,
    SetScheduled,
)
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_STATIC_CPU, EVENT_TOO_LATE
from sunk_sync.core.model.facts import Pod, reference_of
from sunk_sync.core.model.names import (
    CANCELLED,
    JOB_ID,
    MANAGER_SUBMIT,
    SCHEDULED_CONDITION,
)
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_spec import static_cpu_warning
from sunk_sync.core.translate.job_states import is_running, is_waiting
from sunk_sync.core.views.conclusions import cancelled_id, mark_of, was_cancelled
from sunk_sync.core.views.why_waiting import Notice, why_surplus, why_waiting
from sunk_sync.core.views.workload import LiveJob, Workload

SHOWN_AFTER_S = 1.0
"""A Pod that is bound sooner gets no condition, so its binding is the only write (P1)."""
REASON_S = 3.0
"""Slurm may take this long to give the reason of a job. A message changes at most once a minute."""
UNKNOWN_REASONS = ("", "None")


def wait(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Show the reason once the Pod waits for a while; show an error of the Pod at once."""
    pods = [pod for pod in workload.members.unbound if not (pod.ended or pod.terminating)]
    surplus = _surplus(workload)
    if not pods:
        wants = (*_corrected(workload), *_late_edit(workload), *surplus)
        return Ruling(wants) if wants else QUIET
    warnings = _warnings(workload, pods)
    notice = why_waiting(workload, configuration)
    if notice is None:
        return Ruling((*warnings, *surplus)) if warnings or surplus else QUIET
    ripe_s = _ripe_s(workload)
    if now < ripe_s:
        return Ruling(warnings, look_again_s=ripe_s)
    shown: list[Action] = []
    for pod in pods:
        shown += _show(pod, notice)
        shown += _annotate(workload, pod, shown=_is_shown(pod, notice))
    return Ruling((*shown, *warnings, *surplus), _because(workload.live))


def _because(live: LiveJob | None) -> str:
    """Name the job in Slurm's queue; other rules name other causes."""
    if live is None or not is_waiting(live.job):
        return ""
    return f"job {live.job.job_id} waits in Slurm ({live.job.reason or 'None'})"


def _ripe_s(workload: Workload) -> float:
    live = workload.live
    if workload.request.invalid or workload.hosts.unfit:
        return 0.0
    ripe_s = workload.binding.waits_since_s + SHOWN_AFTER_S
    if live is not None and is_waiting(live.job) and live.job.reason in UNKNOWN_REASONS:
        return max(ripe_s, live.since_s + REASON_S)
    return ripe_s


def _show(pod: Pod, notice: Notice) -> list[Action]:
    """Set the condition; once the Pod has it, record the Event."""
    reference = reference_of(pod)
    if _is_shown(pod, notice):
        return [RecordEvent(reference, notice.event, notice.message)]
    return [SetScheduled(reference, notice.reason, notice.message)]


def _is_shown(pod: Pod, notice: Notice) -> bool:
    wanted = (SCHEDULED_CONDITION, "False", notice.reason, notice.message)
    return wanted in [(one.type, one.status, one.reason, one.message) for one in pod.conditions]


def _annotate(workload: Workload, pod: Pod, *, shown: bool) -> list[Action]:
    """Set annotation job-id, and annotation cancelled after a user's cancel (P17).

    A new job-id alone follows the condition: of two writes at once the API server refuses one.
    """
    live, last = workload.live, workload.ended.last
    wanted = {}
    job_id = live.job.job_id if live is not None else pod.job_id
    if job_id:
        wanted[JOB_ID] = job_id
    cancelled = pod.cancelled
    if live is None and last is not None and was_cancelled(last):
        same = cancelled_id(pod) == last.job_id
        cancelled = cancelled if same else mark_of(last.job_id, pod)
    if cancelled:
        wanted[CANCELLED] = cancelled
    if (job_id, cancelled) == (pod.job_id, pod.cancelled):
        return []
    if cancelled == pod.cancelled and not shown:
        return []
    annotations = tuple(sorted(wanted.items()))
    return [SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), annotations)]


def _corrected(workload: Workload) -> list[Action]:
    """Correct annotation job-id of bound Pods, which decides with which job they end (P16).

    It is wrong if sunk-sync found another job for the Pod (P30), or if an older write arrived after
    the binding.
    """
    live = workload.live
    if live is None or not is_running(live.job) or live.job.identity.replaced:
        return []
    if workload.locations.elsewhere:
        return []
    job_id = live.job.job_id
    wrong = [pod for pod in workload.members.bound if pod.job_id not in ("", job_id)]
    return [
        SetMetadata(reference_of(pod), MANAGER_SUBMIT, (), ((JOB_ID, job_id),))
        for pod in wrong
        if not (pod.ended or pod.terminating)
    ]


def _warnings(workload: Workload, pods: list[Pod]) -> tuple[Action, ...]:
    """Name what the kubelet may do otherwise than Slurm, also if it is bound at once (P27)."""
    pinned = static_cpu_warning(pods)
    gated = any(pod.gated for pod in workload.members.pods)
    if gated or not pinned or workload.request.invalid:
        return ()
    return tuple([RecordEvent(reference_of(pod), EVENT_STATIC_CPU, pinned) for pod in pods])


def _surplus(workload: Workload) -> tuple[Action, ...]:
    """Warn Pods beyond the size of their gang (G7), and those that start it again (G8)."""
    members = workload.members
    if not members.surplus:
        return ()
    notice = why_surplus(workload)
    waiting = [
        pod for pod in members.surplus if not (pod.node_name or pod.ended or pod.terminating)
    ]
    return tuple(action for pod in waiting for action in _show(pod, notice))


def _late_edit(workload: Workload) -> tuple[Action, ...]:
    """Warn that an edit after the binding has no effect (P20)."""
    live, digest = workload.live, workload.request.digest
    if live is None or workload.absent.pods:
        return ()
    if len(workload.members.pods) < len(live.job.identity.pods):
        return ()  # an ended member is gone
    if not digest or live.job.identity.digest in ("", digest):
        return ()
    message = "the Pod was edited after the binding: the Slurm job stays as it is"
    return tuple(
        RecordEvent(reference_of(pod), EVENT_TOO_LATE, message)
        for pod in workload.members.pods
        if not (pod.ended or pod.terminating)
    )
