"""Actions: what sunk-sync can write to Kubernetes and Slurm, and what it can read from them."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.condition import Condition, WaitReason
from sunk_sync.core.model.event_kinds import EventKind
from sunk_sync.core.model.facts import Kind, Reference, Source
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.lock_actions import AnswerLock, GetNodePods, Lock, LockAction, Unlock
from sunk_sync.core.model.node_set_actions import (
    ClearPod,
    Condemn,
    CreatePod,
    DeleteNode,
    DeletePod,
    GetJobEnds,
    NodeSetAction,
    OfNodeSets,
    OnRecord,
    RemakePod,
    RequeueJobs,
    SetFinalizer,
    SetReservation,
    SetStatus,
)
from sunk_sync.core.model.placeholder import PlaceholderKind
from sunk_sync.core.model.pod_spec import GangKind, PodSpec
from sunk_sync.core.model.topology_file import AnswerTopology
from sunk_sync.core.model.traits import Target, Traits
from sunk_sync.core.model.volume_actions import (
    GetProvisioning,
    ReserveVolume,
    SelectNode,
    UnselectNode,
    VolumeAction,
)


class Drain(Struct, frozen=True, gc=False):
    """Set DRAIN with this reason; never over a drain of another (S0, S13)."""

    slurm_node: str
    reason: str
    absence: bool = False
    """The cause is an absence or NotReady: the breaker counts it (S19)."""
    rewrites: bool = False
    """The node is drained already, and only the reason is new: S19 does not count this drain. The
    write is refused if the node is not drained any more."""


class Undrain(Struct, frozen=True, gc=False):
    """Remove DRAIN and leave this text, only if the drain is of sunk-sync (S2)."""

    slurm_node: str
    reason: str


class RewriteReason(Struct, frozen=True, gc=False):
    """Replace a `k8s:` reason on a Slurm node without DRAIN (S2)."""

    slurm_node: str
    reason: str


class SetComment(Struct, frozen=True, gc=False):
    """Set the mark in the comment of a Slurm node, only over an empty comment or a mark (M8)."""

    slurm_node: str
    comment: str


class SetFeatures(Struct, frozen=True, gc=False):
    """Set the features of a NodeSet on a Slurm node with a mark (T1).

    Features of others stay. The mark notes which ones sunk-sync set.
    """

    slurm_node: str
    features: tuple[str, ...]


class SetWeight(Struct, frozen=True, gc=False):
    """Set the weight of a Slurm node (T2, W1)."""

    slurm_node: str
    weight: int
    own: int | None
    """Only if this is still the node's own weight; None: a NodeSet says the own weight."""
    change: Literal["own", "empty", "step"]
    """own: packing begins or ends there, or the own weight is another one. empty: the node has
    become empty, or is not empty any more. step: it is fuller or less full."""


class SetTopology(Struct, frozen=True, gc=False):
    """Move a Slurm node to another place in the topology; empty: to none (T3)."""

    slurm_node: str
    topology: str


class SetConditions(Struct, frozen=True, gc=False):
    """Set all conditions of sunk-sync on a Pod or Node; remove those that are left out."""

    reference: Reference
    conditions: tuple[Condition, ...]
    changed_at: tuple[str, ...] = ()
    """lastTransitionTime of each; empty, or missing at the end: the time of the write."""


class SetMetadata(Struct, frozen=True, gc=False):
    """Set all labels and annotations that `manager` owns on a Pod or Node."""

    reference: Reference
    manager: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]


class Cordon(Struct, frozen=True, gc=False):
    """Make a Node unschedulable and mark the cordon, in one write (M7)."""

    reference: Reference


class Uncordon(Struct, frozen=True, gc=False):
    """Remove the cordon of sunk-sync and its mark, in one write; a user's cordon stays (M7)."""

    reference: Reference


class RecordEvent(Struct, frozen=True, gc=False):
    """Record one Event about an object; the same Event only once."""

    reference: Reference
    event: EventKind
    message: str

    @property
    def reason(self) -> str:
        return self.event.reason


LOOK_AGAIN_S = 30.0
"""Pause after a read by name that failed, or proved nothing."""


class GetSlurmNode(Struct, frozen=True, gc=False):
    """Read one Slurm node now; the answer is an Observed or Deleted of source slurm_nodes."""

    slurm_node: str
    after_s: float
    """Since when it is drained: it makes this read differ from that after another drain."""


class GetObject(Struct, frozen=True, gc=False):
    """Read a Node or Pod by name; the answer is a GetResult."""

    kind: Kind
    namespace: str
    name: str
    after_s: float
    """Time of the answer that proved nothing, or 0: it makes this read differ from the last one."""


class Relist(Struct, frozen=True, gc=False):
    """List this source completely, with a listing that begins later than `after_s` (S19)."""

    source: Source
    after_s: float


class SubmitJob(Struct, frozen=True, gc=False, kw_only=True):
    """Submit the placeholder of one workload (P1), unless Slurm has it already."""

    name: str
    identity: Identity
    description: JobDescription
    excluded: tuple[str, ...] = ()
    """Slurm nodes that cannot take the Pods (P7), sorted."""
    kind: PlaceholderKind = "script"
    created_s: int = 0
    """Creation of the youngest Pod: of jobs submitted together the oldest goes first."""
    specs: tuple[PodSpec, ...] = ()
    """The specs of the Pods, each once. The tasks of an array have one spec, so one list of
    exclusions fits all of them."""
    volume_claims: tuple[str, ...] = ()
    """The claims of the Pods. Where a claim has its volume is known later: the tasks of an array
    have the same claims."""
    alone: bool = False
    """Not in an array: other Pods keep these Pods away from some hosts, and all tasks of an array
    share their exclusions."""


class CancelJob(Struct, frozen=True, gc=False, kw_only=True):
    """Cancel this job, only if it has this name (P23)."""

    job_id: str
    name: str
    identity: Identity
    replaced: bool = False
    """Mark the job first: later this cancel must not be taken for one by a user (P17)."""
    waiting: bool = False
    """Only while the job waits: Slurm does not cancel it once it runs."""


JobChange = Literal["edit", "hosts", "exclusions"]
"""edit: the Pods were edited. hosts: the job must get other hosts. exclusions: it must only exclude
others."""


class UpdateJob(Struct, frozen=True, gc=False, kw_only=True):
    """Change the description of a waiting job (P20), or only its exclusions."""

    job_id: str
    name: str
    identity: Identity
    description: JobDescription
    excluded: tuple[str, ...] = ()
    """An update replaces the whole list (P7)."""
    change: JobChange = "edit"


class GetJob(Struct, frozen=True, gc=False):
    """Read one job now; the answer is an Observed or Deleted of source jobs."""

    job_id: str
    after_s: float
    """A read that began later is good enough; the value also makes this read differ from the last.
    """
    placed_after_s: float = float("inf")
    """A read that began later than this, and shows where the job runs, is good enough too."""


class Bind(Struct, frozen=True, gc=False):
    """Bind a Pod to a host of its job, and set annotation job-id, in one write (P11)."""

    reference: Reference
    node_name: str
    job_id: str
    slurm_node: str
    shield: bool = False
    """Add the toleration of the lock first: the Node may be locked for the job (L1)."""


class EndPod(Struct, frozen=True, gc=False):
    """Set condition DisruptionTarget, then delete the Pod with its own grace (P16)."""

    reference: Reference
    reason: str
    message: str
    weak: bool = False
    """The cause is a failed node or a missing job: the breaker counts it (P31)."""


class GetGang(Struct, frozen=True, gc=False):
    """Read the size of a gang from its PodGroup or Job (G1); the answer is a GangSize."""

    kind: GangKind
    namespace: str
    name: str
    after_s: float
    owner: str = ""
    """UID of the Job."""


class SetScheduled(Struct, frozen=True, gc=False):
    """Set condition PodScheduled=False on a waiting Pod (P1, P2, P10, P26)."""

    reference: Reference
    reason: WaitReason
    message: str


class AnswerGate(Struct, frozen=True, gc=False):
    """Answer a prolog about one of its nodes (L7)."""

    call: int
    slurm_node: str
    go: bool
    why: str
    """Pods that the prolog waits for, for its log."""


class AnswerStop(Struct, frozen=True, gc=False):
    """Answer a placeholder that is ending: its Pods are gone, or the node must drain (L6)."""

    call: int
    verdict: Literal["gone", "drain"]


JobAction = SubmitJob | CancelJob | UpdateJob | GetJob
HookAction = AnswerGate | AnswerStop | AnswerLock | AnswerTopology
WorkloadAction = Bind | EndPod | SetScheduled | GetGang
OnObject = (
    SetConditions | SetMetadata | Cordon | Uncordon | Bind | EndPod | SetScheduled | Condemn
    | DeletePod | ClearPod | RemakePod | SetStatus | SetFinalizer | Lock | Unlock | VolumeAction
)  # fmt: skip
"""Writes to one Kubernetes object of one UID."""
SlurmAction = (
    Drain | Undrain | RewriteReason | SetComment | SetFeatures | SetTopology | SetWeight
)  # fmt: skip
KubeAction = SetConditions | SetMetadata | Cordon | Uncordon | RecordEvent | GetObject | Relist
Action = (
    SlurmAction | GetSlurmNode | KubeAction | JobAction | WorkloadAction | HookAction
    | NodeSetAction | OfNodeSets | LockAction | VolumeAction
)  # fmt: skip


def traits_of(action: Action) -> Traits:
    return TRAITS[type(action)]


def target_of(action: Action) -> Target:
    """Return the object or field that the action writes; each has one desired write at a time."""
    return TRAITS[type(action)].target(action)


def _of_node(field: str) -> Callable[[SlurmAction | OnRecord], Target]:
    return lambda action: ("slurm_node", action.slurm_node, field)


def _on_object(field: str) -> Callable[[OnObject | GetNodePods], Target]:
    def target(action: OnObject | GetNodePods) -> Target:
        reference = action.reference
        return (reference.kind, reference.namespace, reference.name, field)

    return target


def _job(action: CancelJob | UpdateJob) -> Target:
    return ("job", action.job_id)


def _look(action: GetObject | GetGang) -> Target:
    return ("look", action.kind, action.namespace, action.name)


def _metadata(action: SetMetadata) -> Target:
    reference = action.reference
    return (reference.kind, reference.namespace, reference.name, action.manager)


def _event(action: RecordEvent) -> Target:
    return ("event", action.reference.kind, action.reference.uid, action.reason)


TRAITS: dict[type, Traits] = {
    Drain: Traits(_of_node("state"), "slurm", urgency=0),
    Undrain: Traits(_of_node("state"), "slurm", urgency=0, lifts=True),
    RewriteReason: Traits(_of_node("state"), "slurm", lifts=True),
    SetComment: Traits(_of_node("comment"), "slurm", urgency=2),
    SetFeatures: Traits(_of_node("features"), "slurm", urgency=2),
    SetTopology: Traits(_of_node("topology"), "slurm", urgency=2),
    SetWeight: Traits(_of_node("weight"), "slurm", urgency=2),
    SetConditions: Traits(_on_object("conditions")),
    SetMetadata: Traits(_metadata),
    Cordon: Traits(_on_object("cordon"), urgency=1),
    Uncordon: Traits(_on_object("cordon"), urgency=1, lifts=True),
    RecordEvent: Traits(_event),
    GetSlurmNode: Traits(
        lambda action: ("look", "slurm_node", action.slurm_node), "slurm", urgency=1, reads=True
    ),
    GetObject: Traits(_look, urgency=1, reads=True),
    Relist: Traits(lambda action: ("relist", action.source), reads=True),
    SubmitJob: Traits(
        lambda action: ("workload", action.identity.workload, "submit"), "jobs", urgency=2
    ),
    CancelJob: Traits(_job, "jobs", urgency=0),
    UpdateJob: Traits(_job, "jobs", urgency=2),
    GetJob: Traits(lambda action: ("look", "job", action.job_id), "jobs", urgency=1, reads=True),
    Bind: Traits(_on_object("binding"), urgency=1),
    EndPod: Traits(_on_object("end"), urgency=0),
    SetScheduled: Traits(_on_object("scheduled")),
    GetGang: Traits(_look, urgency=1, reads=True),
    AnswerGate: Traits(
        lambda action: ("gate", str(action.call), action.slurm_node), "hooks", urgency=0
    ),
    AnswerStop: Traits(lambda action: ("stop", str(action.call)), "hooks", urgency=0),
    AnswerLock: Traits(
        lambda action: ("lock", str(action.call), action.slurm_node), "hooks", urgency=0
    ),
    AnswerTopology: Traits(lambda action: ("topology", str(action.call)), "hooks", urgency=2),
    Lock: Traits(_on_object("lock"), urgency=1),
    Unlock: Traits(_on_object("lock"), lifts=True),
    GetNodePods: Traits(_on_object("pods"), urgency=1, reads=True),
    CreatePod: Traits(lambda action: ("Pod", action.reference.namespace, action.name, "made")),
    Condemn: Traits(_on_object("pending-deletion"), urgency=2, lifts=True),
    ClearPod: Traits(_on_object("end"), urgency=1),
    RemakePod: Traits(_on_object("end"), lifts=True),
    DeletePod: Traits(_on_object("end"), urgency=1, lifts=True),
    DeleteNode: Traits(_of_node("record"), "slurm", lifts=True),
    RequeueJobs: Traits(_of_node("jobs"), "slurm", urgency=2, lifts=True),
    GetJobEnds: Traits(
        lambda action: ("look", "ends", action.node_set), "slurm", urgency=2, reads=True
    ),
    SetReservation: Traits(lambda action: ("reservation", action.name), "slurm", urgency=2),
    SetStatus: Traits(_on_object("status")),
    SetFinalizer: Traits(_on_object("finalizer"), urgency=1),
    ReserveVolume: Traits(_on_object("claim"), urgency=1),
    SelectNode: Traits(_on_object("node"), urgency=1),
    UnselectNode: Traits(_on_object("node"), lifts=True),
    GetProvisioning: Traits(_on_object("provisioning"), urgency=1, reads=True),
}
