"""Why the Pods of a workload wait, for condition PodScheduled and its Event (P1, P33).

Reason Unschedulable makes autoscalers add Nodes, so only what more Nodes can cure has it.
"""

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.condition import WaitReason
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import (
    EVENT_CANCELLED,
    EVENT_ENDED_EARLY,
    EVENT_INVALID,
    EVENT_REFUSED,
    EVENT_UNPROVEN,
    EVENT_UNSCHEDULABLE,
    EventKind,
)
from sunk_sync.core.translate.gang_request import gang_request_in_words
from sunk_sync.core.translate.job_states import is_waiting
from sunk_sync.core.translate.pending import error_in_words, in_words, waiting_message
from sunk_sync.core.views.conclusions import (
    cancelled_job,
    claims_in_words,
    end_in_words,
    host_waited_for,
    refusal_ends_s,
    why_beside,
)
from sunk_sync.core.views.workload import LiveJob, Workload

UNSCHEDULABLE: WaitReason = "Unschedulable"


class Notice(Struct, frozen=True, gc=False):
    """Why a Pod waits."""

    message: str
    event: EventKind = EVENT_UNSCHEDULABLE
    reason: WaitReason = UNSCHEDULABLE


def why_waiting(workload: Workload, configuration: Configuration) -> Notice | None:
    """Return why its unbound Pods wait; None: nothing needs to be said."""
    if [pod for pod in workload.members.pods if pod.gated]:
        return None
    notice = _why(workload, configuration)
    if notice is None or notice.reason != UNSCHEDULABLE:
        return notice
    return replace(notice, message=_with_request(workload, notice.message))


def why_surplus(workload: Workload) -> Notice:
    """Return why Pods beside the members of a gang wait (G7, G8)."""
    return Notice(why_beside(workload), reason="GangFull")


def _why(workload: Workload, configuration: Configuration) -> Notice | None:
    members, hosts, request = workload.members, workload.hosts, workload.request
    if workload.live is not None:
        return _of_job(workload, workload.live)
    if claims := claims_in_words(workload):
        return Notice(claims, EVENT_UNPROVEN, "JobUnproven")
    if request.invalid:
        return Notice(request.invalid, EVENT_INVALID, "InvalidPod")
    if request.unread:
        return Notice(request.unread, reason="NotReadYet")
    if members.missing:
        return Notice(members.missing, reason="GangIncomplete")
    if workload.volumes.waits:
        return Notice(workload.volumes.waits, reason="VolumeNotReady")
    if why := hosts.unfit or host_waited_for(workload):
        return Notice(why)
    return _of_slurm(workload, configuration)


def _of_slurm(workload: Workload, configuration: Configuration) -> Notice | None:
    submission = workload.submission
    cancelled = cancelled_job(workload.members, workload.ended)
    if cancelled and not configuration.resubmit_cancelled:
        text = (
            f"Slurm job {cancelled} was cancelled in Slurm; set annotation resubmit for a new one"
        )
        return Notice(text, EVENT_CANCELLED, "SlurmJobCancelled")
    refused = submission.refused
    if refused is not None and refusal_ends_s(submission, workload.request) is not None:
        words = error_in_words(refused.number or 0, refused.text)
        return Notice(
            str(words), EVENT_REFUSED, UNSCHEDULABLE if words.nodes_help else "SlurmRefused"
        )
    if submission.attempt is not None:
        return Notice("Slurm has not answered the submission yet", reason="SlurmUnreachable")
    if ended := end_in_words(workload.ended):
        return Notice(f"{ended}; another job follows", EVENT_ENDED_EARLY, "SlurmJobEndedEarly")
    if workload.history.given_up > 1:
        text = "sunk-sync gave up its Slurm jobs on hosts that cannot take it; another job follows"
        return Notice(text)
    return None


def _of_job(workload: Workload, live: LiveJob) -> Notice | None:
    job = live.job
    if is_waiting(job):
        message = waiting_message(job.reason, job.job_id, ahead=live.ahead, age_s=0.0)
        helps = in_words(job.reason).nodes_help
        return Notice(message, reason=UNSCHEDULABLE if helps else "SlurmJobPending")
    text = _of_allocated(workload, live)
    if not text:
        return None
    return Notice(f"Slurm job {job.job_id} is allocated: {text}", reason="SlurmJobAllocated")


def _of_allocated(workload: Workload, live: LiveJob) -> str:
    """Return what keeps the Pods from their hosts, or empty."""
    calls, volumes, refused = workload.calls, workload.volumes, workload.binding.refused
    occupants = [pod for placement in live.placements for pod in placement.occupants]
    if occupants:
        return f"waits for Pod {occupants[0]} to end"
    if calls.killed_s is not None or calls.stops:
        return "Slurm is ending its script"
    if not live.started:
        return "its script has not started yet"
    if volumes.waits:
        return volumes.waits
    if volumes.wanted:
        first = volumes.wanted[0]
        text = f'claim "{first.claim.name}" gets its volume on Node {first.node_name}'
        return text + (f"; its provisioner says: {first.said}" if first.said else "")
    if refused:
        return f"Kubernetes refuses to bind the Pod to {refused[0].node_name}: {refused[0].why}"
    return ""


def _with_request(workload: Workload, message: str) -> str:
    """Add what a gang asks of each host: the numbers of its Pods alone do not tell it (G5)."""
    description = workload.request.description
    asked = gang_request_in_words(workload.members.pods, description) if description else ""
    if not asked:
        return message
    if message.endswith("."):
        return f"{message} {asked[:1].upper()}{asked[1:]}."
    return f"{message}; {asked}"
