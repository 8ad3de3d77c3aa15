"""Every Event that sunk-sync records, one row each. `tools/reference.py` makes their table from it.

Rules for a row:
- A Warning asks somebody to act. Everything else is Normal. FailedScheduling is a Warning in every
  case, because that is what tools know it as from kube-scheduler.
- An Event exists once for each text, on one object; each repetition raises its count. So a text
  names no time, no age and no attempt: otherwise each repetition would be a new Event.
- Its reason has an entry in docs/troubleshooting.md.
"""

from typing import Final, Literal

from msgspec import Struct

Doing = Literal[
    "Binding",
    "Cancelling",
    "Creating",
    "Draining",
    "Ending",
    "Locking",
    "Matching",
    "Pausing",
    "Placing",
    "Remaking",
    "Replacing",
    "Requeueing",
    "Scaling",
    "Scheduling",
    "Submitting",
    "Updating",
]
"""The field `action` of an Event: what sunk-sync did, or could not do."""


class EventKind(Struct, frozen=True, eq=False, kw_only=True):
    """One kind of Event; two are equal only if they are the same row."""

    reason: str
    type: Literal["Normal", "Warning"]
    action: Doing
    on: str
    """The objects that get it."""
    repeats: str
    """When the same object gets another one, with another text or a higher count."""
    text: str


EVENT_SCHEDULED: Final = EventKind(
    reason="Scheduled",
    type="Normal",
    action="Binding",
    on="Pod",
    repeats="never",
    text="The Pod was bound to the Node of its Slurm job.",
)
EVENT_UNSCHEDULABLE: Final = EventKind(
    reason="FailedScheduling",
    type="Warning",
    action="Scheduling",
    on="Pod",
    repeats="the cause, the job or tenfold the number of Pods before it changes; once a minute",
    text="The Pod waits; the message says why.",
)
EVENT_INVALID: Final = EventKind(
    reason="InvalidPod",
    type="Warning",
    action="Submitting",
    on="Pod",
    repeats="an edit leaves other mistakes",
    text="The manifest has errors. The Pod gets no job until it changes.",
)
EVENT_REFUSED: Final = EventKind(
    reason="SlurmRefused",
    type="Warning",
    action="Submitting",
    on="Pod",
    repeats="Slurm gives another number or text",
    text="Slurm refused the job, with its number and text.",
)
EVENT_CANCELLED: Final = EventKind(
    reason="SlurmJobCancelled",
    type="Warning",
    action="Submitting",
    on="Pod",
    repeats="somebody cancels the next job, too",
    text="Somebody cancelled the job while the Pod waited. It gets no new job.",
)
EVENT_REPLACED: Final = EventKind(
    reason="SlurmJobReplaced",
    type="Normal",
    action="Replacing",
    on="Pod",
    repeats="the cause is another one",
    text="sunk-sync gives the job up and submits another.",
)
EVENT_BOUND_ELSEWHERE: Final = EventKind(
    reason="BoundElsewhere",
    type="Warning",
    action="Cancelling",
    on="Pod",
    repeats="never",
    text="Somebody else bound the Pod. sunk-sync ends its job.",
)
EVENT_STATIC_CPU: Final = EventKind(
    reason="StaticCPU",
    type="Warning",
    action="Submitting",
    on="Pod",
    repeats="never",
    text="The kubelet may pin CPUs that Slurm counts otherwise.",
)
EVENT_TOO_LATE: Final = EventKind(
    reason="SettingsIgnored",
    type="Warning",
    action="Updating",
    on="Pod",
    repeats="never",
    text="The Pod was edited after the binding; its job stays as it is.",
)
EVENT_OUTGREW: Final = EventKind(
    reason="SlurmJobTooSmall",
    type="Warning",
    action="Updating",
    on="Pod",
    repeats="another resize leaves it larger than its job",
    text="A resize made the Pod larger than its Slurm job, which cannot grow.",
)
EVENT_LOST_JOB: Final = EventKind(
    reason="PodWithoutJob",
    type="Warning",
    action="Matching",
    on="Pod",
    repeats="never",
    text="Slurm has lost the job of a running Pod.",
)
EVENT_NODE_SILENT: Final = EventKind(
    reason="NodeSilent",
    type="Warning",
    action="Ending",
    on="Pod",
    repeats="the Node changes between not ready and unknown",
    text="The Pod is to end, and its Node does not answer.",
)
EVENT_END_HELD: Final = EventKind(
    reason="PodEndHeld",
    type="Warning",
    action="Ending",
    on="Pod",
    repeats="never",
    text="`--max-pod-ends-per-minute` delays the end of the Pod.",
)
EVENT_LOCK_LATE: Final = EventKind(
    reason="NodeLockLate",
    type="Warning",
    action="Locking",
    on="Node",
    repeats="other Pods live there; once a minute",
    text="Pods still live on a Node after `--lock-wait`; the message names them, and says whether"
    " the job starts.",
)
EVENT_NOT_LOCKED: Final = EventKind(
    reason="NodeNotLocked",
    type="Warning",
    action="Locking",
    on="slurmd Pod, else Node",
    repeats="the cause is another one; once a minute",
    text="A job starts without the lock; the message says why.",
)
EVENT_CONFLICT: Final = EventKind(
    reason="SlurmNodeConflict",
    type="Warning",
    action="Matching",
    on="slurmd Pod, Node",
    repeats="other objects claim the Slurm node; once a minute",
    text="Several objects claim one Slurm node.",
)
EVENT_NOT_REGISTERED: Final = EventKind(
    reason="SlurmNodeNotRegistered",
    type="Normal",
    action="Remaking",
    on="slurmd Pod of a NodeSet",
    repeats="never",
    text="Its record vanished from Slurm. sunk-sync makes the Pod anew.",
)
EVENT_NO_TOPOLOGY: Final = EventKind(
    reason="SlurmTopologyLabelsMissing",
    type="Warning",
    action="Placing",
    on="slurmd Pod of a NodeSet",
    repeats="other labels are missing",
    text="Its Node lacks a label that gives its place in the topology.",
)
EVENT_REQUEUED: Final = EventKind(
    reason="SlurmJobsRequeued",
    type="Normal",
    action="Requeueing",
    on="slurmd Pod of a NodeSet",
    repeats="Slurm requeues another number of jobs; once a minute",
    text="Slurm requeued jobs, because the Pod must go.",
)
EVENT_NOT_REQUEUED: Final = EventKind(
    reason="SlurmJobsNotRequeued",
    type="Warning",
    action="Requeueing",
    on="slurmd Pod of a NodeSet",
    repeats="other jobs are left; once a minute",
    text="The Pod must go and waits for jobs that cannot be requeued.",
)
EVENT_SCALED_OUT: Final = EventKind(
    reason="ScaledOut",
    type="Normal",
    action="Scaling",
    on="NodeSet",
    repeats="it is scaled out again; once a minute",
    text="The number of replicas rose; the message says from which to which.",
)
EVENT_SCALED_IN: Final = EventKind(
    reason="ScaledIn",
    type="Normal",
    action="Scaling",
    on="NodeSet",
    repeats="it is scaled in again; once a minute",
    text="The number of replicas fell; the message says from which to which.",
)
EVENT_CREATING: Final = EventKind(
    reason="CreatingPods",
    type="Normal",
    action="Creating",
    on="NodeSet",
    repeats="other Pods are made; once a minute",
    text="sunk-sync makes Pods; the message names them.",
)
EVENT_ENDING: Final = EventKind(
    reason="EndingPods",
    type="Normal",
    action="Ending",
    on="NodeSet",
    repeats="other Pods must go; once a minute",
    text="Pods must go, each once its jobs have ended; the message names them and says why.",
)
EVENT_UPDATE_BEGUN: Final = EventKind(
    reason="UpdateBegun",
    type="Normal",
    action="Updating",
    on="NodeSet",
    repeats="the template changes again; once a minute",
    text="Pods have an older template than the NodeSet.",
)
EVENT_UPDATE_ENDED: Final = EventKind(
    reason="UpdateEnded",
    type="Normal",
    action="Updating",
    on="NodeSet",
    repeats="another update ends; once a minute",
    text="All Pods have the new template and are available.",
)
EVENT_DELETED: Final = EventKind(
    reason="NodeSetDeleted",
    type="Normal",
    action="Ending",
    on="NodeSet",
    repeats="never",
    text="The NodeSet is deleted. sunk-sync drains its nodes first.",
)
EVENT_INVALID_NODE_SET: Final = EventKind(
    reason="InvalidNodeSet",
    type="Warning",
    action="Creating",
    on="NodeSet",
    repeats="an edit leaves other mistakes; once a minute",
    text="The NodeSet has a mistake, and nothing is made.",
)
EVENT_PODS_FAIL: Final = EventKind(
    reason="PodsFail",
    type="Warning",
    action="Creating",
    on="NodeSet",
    repeats="others fail, or for another cause; once a minute",
    text="Pods failed, or the API server refused them.",
)
EVENT_NAME_TAKEN: Final = EventKind(
    reason="NameTaken",
    type="Warning",
    action="Creating",
    on="NodeSet",
    repeats="other names are taken; once a minute",
    text="Another Pod or Slurm node has the name, or another NodeSet wants it.",
)
EVENT_INVALID_REGISTRATION: Final = EventKind(
    reason="InvalidRegistration",
    type="Warning",
    action="Matching",
    on="NodeSet",
    repeats="other Pods register wrongly; once a minute",
    text="Slurm refuses what slurmd registers.",
)
EVENT_PODS_NOT_READY: Final = EventKind(
    reason="PodsNotReady",
    type="Warning",
    action="Creating",
    on="NodeSet",
    repeats="other Pods are not ready, or for another cause; once a minute",
    text="Pods are not ready for a minute.",
)
EVENT_SILENT: Final = EventKind(
    reason="NotRegistered",
    type="Warning",
    action="Matching",
    on="NodeSet",
    repeats="other Pods do not register; once a minute",
    text="slurmd runs, and slurmctld does not hear from it.",
)
EVENT_DRAINED_BY_OTHERS: Final = EventKind(
    reason="DrainedByOthers",
    type="Warning",
    action="Updating",
    on="NodeSet",
    repeats="other records wait, or for another drain; once a minute",
    text="The rest of an update waits until somebody lifts a drain.",
)
EVENT_NO_RESERVATION: Final = EventKind(
    reason="NoReservation",
    type="Warning",
    action="Updating",
    on="NodeSet",
    repeats="other Pods wait; once a minute",
    text="The update waits for a reservation.",
)
EVENT_RECORDS_VANISHED: Final = EventKind(
    reason="RecordsVanished",
    type="Warning",
    action="Remaking",
    on="NodeSet",
    repeats="another number of Pods waits; once a minute",
    text="More Pods than `--max-drains-per-minute` lost their records in Slurm.",
)
EVENT_ENDED_EARLY: Final = EventKind(
    reason="SlurmJobEndedEarly",
    type="Warning",
    action="Replacing",
    on="Pod",
    repeats="the next job ends early, too",
    text="Its job ended before the Pod was bound, and nobody cancelled it. Another one follows.",
)
EVENT_UNPROVEN: Final = EventKind(
    reason="JobUnproven",
    type="Warning",
    action="Matching",
    on="Pod",
    repeats="another job may be its job",
    text="A live job may be that of the Pod, and nothing proves it. No other is submitted.",
)
EVENT_OVERWRITTEN: Final = EventKind(
    reason="JobCommentOverwritten",
    type="Warning",
    action="Matching",
    on="Pod",
    repeats="it happens to another job of the Pod",
    text="Somebody overwrote the admin_comment of its job, where sunk-sync notes what it does.",
)
EVENT_PAUSED: Final = EventKind(
    reason="Paused",
    type="Warning",
    action="Pausing",
    on="own namespace",
    repeats="somebody pauses with another end or reason",
    text="An operator paused sunk-sync; the message says until when and why.",
)
EVENT_DRAINS_HELD: Final = EventKind(
    reason="DrainsHeld",
    type="Warning",
    action="Draining",
    on="own namespace",
    repeats="drains are held again, as a higher count; once a minute",
    text="`--max-drains-per-minute` delays drains.",
)
EVENT_SELECTOR: Final = EventKind(
    reason="SlurmdSelectorMismatch",
    type="Warning",
    action="Matching",
    on="own namespace",
    repeats="the selector fails again, as a higher count; once a minute",
    text="`--slurmd-selector` does not match known slurmd Pods.",
)

EVENTS: Final = tuple(row for row in tuple(globals().values()) if isinstance(row, EventKind))
