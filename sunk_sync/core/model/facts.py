"""Facts: frozen structs with the fields that rules read, and the news of the sources.

`kube/` and `slurm/` make them from bytes. Times named `_s` are seconds of the monotonic clock.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from sunk_sync.core.model.calls import CallEnded, GateCall, JobNotice, LockCall, StopCall
from sunk_sync.core.model.claims import Claims
from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.node_lock import LockState, NodePods
from sunk_sync.core.model.node_set import NodeSet, Stamp
from sunk_sync.core.model.node_set_answers import NodeSetAnswer
from sunk_sync.core.model.node_signs import NO_SIGNS, Signs
from sunk_sync.core.model.placeholder import PlaceholderKind
from sunk_sync.core.model.pod_spec import NO_OFFER, Gang, Offer, OtherPod, PodPhase, PodSpec
from sunk_sync.core.model.restraint import Holding, Paused
from sunk_sync.core.model.topology_file import TopologyReport
from sunk_sync.core.model.user_policy import Namespace, PolicyRead
from sunk_sync.core.model.volumes import ProvisionerSaid, Volume, VolumeClaim, VolumeRow

Source = Literal[
    "nodes", "slurmd_pods", "pods", "namespaces", "slurm_nodes", "jobs", "other_pods", "node_sets",
    "volume_claims", "volumes", "storage_classes", "csi_nodes", "csi_drivers", "storage_capacities"
]  # fmt: skip
OTHER_PODS: Source = "other_pods"
"""Pods of other schedulers, only as `Taken`; read only with --watch-all-pods."""
NODE_SETS: Source = "node_sets"
"""Read only by component nodesets."""
NAMESPACES: Source = "namespaces"
"""Their defaults for Pods (P5), and their labels for rules about other Pods (P8)."""
VOLUME_SOURCES: tuple[Source, ...] = (
    "volume_claims", "volumes", "storage_classes", "csi_nodes", "csi_drivers", "storage_capacities"
)  # fmt: skip
"""Read from the moment when a workload Pod has a claim."""
OPTIONAL: tuple[Source, ...] = (OTHER_PODS, NODE_SETS, *VOLUME_SOURCES)
SOURCES: tuple[Source, ...] = tuple(one for one in get_args(Source) if one not in OPTIONAL)
SLURM_SOURCES: tuple[Source, ...] = ("slurm_nodes", "jobs")
NEEDED: tuple[Source, ...] = ("nodes", "slurmd_pods", "slurm_nodes")
"""sunk-sync writes nothing until these are listed."""
WORKLOADS_NEED: tuple[Source, ...] = ("pods", "jobs", NAMESPACES)
"""sunk-sync writes nothing for a workload until these are listed, too."""

Kind = Literal["Node", "Pod", "Namespace", "NodeSet", "PersistentVolumeClaim", "PersistentVolume"]


class Reference(Struct, frozen=True, gc=False):
    kind: Kind
    namespace: str
    """Empty for a Node and a PersistentVolume."""
    name: str
    uid: str

    @property
    def path(self) -> str:
        """`Node n1`, `Pod ns/name`."""
        prefix = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {prefix}{self.name}"


Labels = tuple[str | None, ...]
"""Values of names.NODE_LABELS on a Node, in that order; None: no such label."""
NO_LABELS: Labels = (None, None, None, None)


class Node(Struct, frozen=True, kw_only=True, gc=False):
    """A Kubernetes Node. Source: watch of Nodes."""

    name: str
    uid: str
    unschedulable: bool = False
    ready: ConditionStatus = "Unknown"
    """Status of condition Ready."""
    cordon_reason: str = ""
    slurm_node: str = ""
    cordoned_for_drain: bool = False
    """The Node has the mark of a cordon by sunk-sync (M7)."""
    keep_cordon: bool = False
    drain: str | None = None
    labels: Labels = NO_LABELS
    conditions: tuple[Condition, ...] = ()
    """Conditions in names.NODE_CONDITIONS, sorted by type."""
    changed_at: tuple[str, ...] = ()
    """lastTransitionTime of each of them, as served."""
    offer: Offer = NO_OFFER
    lock: LockState = ""
    tainted: bool = False
    """The lock: its annotation, and whether its taint is there."""
    signs: Signs = NO_SIGNS


class SlurmdPod(Struct, frozen=True, kw_only=True, gc=False):
    """A Pod that runs slurmd. Source: watch of Pods by --slurmd-selector."""

    namespace: str
    name: str
    uid: str
    node_name: str = ""
    slurm_node: str
    """Claimed: annotation slurm-node, else hostname, else (hostNetwork) the Node, else Pod name."""
    nodeset: str = ""
    finished: bool = False
    ready: bool = False
    terminating: bool = False
    cordon: str = ""
    """Annotation cordon, unless it is empty or `false`."""
    pending_deletion: str | None = None
    drained: bool = False
    drain: str | None = None
    conditions: tuple[Condition, ...] = ()
    """Those of sunk-sync (names.POD_STATE_CONDITION*, POD_CONFLICT_CONDITION), sorted by type."""
    changed_at: tuple[str, ...] = ()
    """As in Node."""
    requests: tuple[tuple[str, int], ...] = ()
    """As PodSpec.requests (P28)."""
    failed: str = ""
    """Why the Pod failed, in the words of the kubelet; empty: it did not."""
    waiting: str = ""
    """Why a Pod of a NodeSet does not start, in the words of the kubelet or of kube-scheduler."""
    busy: bool = False
    """It has the label busy (N27)."""
    owner: str = ""
    """UID of the NodeSet of sunk-sync that controls the Pod, or empty."""
    revision: str = ""
    shape: str = ""
    deletion_cost: int = 0
    """Of such a Pod: revision of its NodeSet, shape in the stamp of its record, and users' cost."""
    tolerates_lock: bool = False


class Pod(Struct, frozen=True, kw_only=True, gc=False):
    """A workload Pod that names this scheduler. Source: watch of Pods by spec.schedulerName."""

    namespace: str
    name: str
    uid: str
    created_s: int = 0
    """creationTimestamp, Unix seconds: only for the order of waiting Pods."""
    node_name: str = ""
    phase: PodPhase = "Pending"
    terminating: bool = False
    gated: bool = False
    """The Pod has scheduling gates."""
    ended: bool = False
    """Phase Succeeded or Failed, or every container has ended."""
    spec: PodSpec = PodSpec()
    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""
    settings: tuple[tuple[str, str], ...] = ()
    """Annotations that job_description.SETTINGS names, without prefix, sorted (P4)."""
    volume_claims: tuple[str, ...] = ()
    """Names of its PersistentVolumeClaims, sorted."""
    gang: Gang | None = None
    job_id: str = ""
    """Annotation job-id: a hint."""
    bound_for: str = ""
    """Annotation bound-for: the job for which sunk-sync bound the Pod (P18)."""
    cancelled: str = ""
    """Annotation cancelled (P17)."""
    resubmit: str = ""
    """Annotation resubmit (P17)."""
    conditions: tuple[Condition, ...] = ()
    """Those of names.WORKLOAD_CONDITIONS, sorted by type."""


class SlurmNode(Struct, frozen=True, kw_only=True, gc=False):
    """A Slurm node. Source: GET /nodes/ and GET /node/{name}."""

    name: str
    state: frozenset[str]
    """Base state and flags in Slurm's spelling: {"IDLE", "DRAIN"}."""
    reason: str = ""
    comment: str = ""
    stamp: Stamp | None = None
    """Made with the record by a slurmd of a NodeSet."""
    features: tuple[str, ...] = ()
    """Without a stamp, this and the next two are not read."""
    active_features: tuple[str, ...] = ()
    topology: str | None = None
    """None: this Slurm cannot change it in a record."""
    weight: int = 0
    """Read with a stamp, with --pack, and if it is that of a packed node."""
    fill: int | None = None
    """How full the node is (translate.packed_weight); None: not read, as without --pack."""
    reason_by: str = ""
    """User who set the reason of a drain, if Slurm knows one. Without a stamp it is not read."""
    assumed: bool = False
    """Derived from an earlier read and a later write. Jobs may have started between the two."""

    @property
    def ready(self) -> bool:
        """Whether Slurm may start jobs there, as far as drains go."""
        return "DRAIN" not in self.state


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """A placeholder job of this cluster. Source: GET /jobs/state/, details by GET /job/{id}."""

    job_id: str
    """As in `scancel`: `12`, or `3_1` for a task of an array."""
    name: str
    """As read: a cancel names it. `identity.name` is the name that sunk-sync gave."""
    identity: Identity
    """For a task of an array: the identity of its own Pod, with `uids` empty."""
    state: frozenset[str]
    """Base state and flags: {"RUNNING"}, {"CANCELLED", "COMPLETING"}."""
    slurm_nodes: tuple[str, ...] = ()
    """Where it runs or ran; empty while it waits."""
    reason: str = ""
    submitted_at: int = 0
    """submit_time: together with id and identity it names one job forever."""
    script: bool = False
    """A batch script holds the nodes of the job until it ends."""
    started: bool = False
    """The script reported its start (P24)."""
    preempted_at: int = 0
    """preempt_time: when Slurm began to preempt it; 0: never."""
    requeued: bool = False
    """The job ran before (P19)."""
    cpus: int = 0
    """On each of its nodes; 0: not read."""
    memory_mb: int = 0
    """MiB on each of its nodes; 0: all, or not read."""
    signalled: bool = False
    """A signal ended its script, or its node failed."""
    prolog_failed: bool = False
    """Slurm says so: with `PrologFlags=Alloc` only."""
    overwritten: bool = False
    """Its admin_comment has no identity any more: somebody wrote another text."""


class Attempt(Struct, frozen=True, gc=False):
    """A submission without an answer: it may have happened (F2)."""

    workload: str
    sent_s: float


class SubmitRefused(Struct, frozen=True, gc=False):
    """Slurm refused a submission (P10), or could not start it at once (P11a)."""

    workload: str
    number: int | None
    text: str
    kind: PlaceholderKind | Literal["update"]
    """Kind of the placeholder; or the job waits, and cannot follow the edit of its Pods."""
    digest: str
    """Digest of the refused description."""


class BindRefused(Struct, frozen=True, gc=False):
    """The API server refused a binding for good (P12, G4)."""

    uid: str
    node_name: str
    why: str


class BindTried(Struct, frozen=True, gc=False):
    """A binding that may have succeeded: no answer came, or a listing began meanwhile (P11)."""

    uid: str
    job_id: str
    given_up_s: float
    slurm_node: str = ""


class Placed(Struct, frozen=True, gc=False):
    """The API server accepted a binding; a watch may show it later (P11)."""

    reference: Reference
    node_name: str
    job_id: str
    slurm_node: str
    asked_s: float


class Contradicted(Struct, frozen=True, gc=False):
    """A write found no object of this UID: the row is outdated (F3)."""

    reference: Reference
    asked_s: float


class Taken(Struct, frozen=True, gc=False):
    """What Pods of other schedulers take on a Node (P8, P28). Source: watch of all Pods."""

    node_name: str
    amounts: tuple[tuple[str, int], ...]
    """As PodSpec.requests, and their number as `pods`; empty: there are none."""
    pods: tuple[tuple[OtherPod, int], ...] = ()
    """Those that are equal for every rule, and their number."""


RowWritten = Node | SlurmdPod | Pod | SlurmNode | NodeSet | VolumeClaim | Volume
"""Without Job: an answer about a job may be the first that shows it, so it is an Observed."""
Row = RowWritten | Job | Namespace | VolumeRow


def reference_of(row: Node | SlurmdPod | Pod | NodeSet | VolumeClaim | Volume) -> Reference:
    match row:
        case VolumeClaim():
            return Reference("PersistentVolumeClaim", row.namespace, row.name, row.uid)
        case Volume():
            return Reference("PersistentVolume", "", row.name, row.uid)
        case NodeSet():
            return Reference("NodeSet", row.namespace, row.name, row.uid)
        case Pod() | SlurmdPod():
            return Reference("Pod", row.namespace, row.name, row.uid)
        case _:
            return Reference("Node", "", row.name, row.uid)


class Observed(Struct, frozen=True, gc=False):
    """A row in an answer.

    An answer of a lower `order` is older and never replaces a newer one. The order is the
    resourceVersion of a Kubernetes object, or the start of the read of a Slurm node, in seconds.
    """

    row: Row
    order: float


class WriteEcho(Struct, frozen=True, gc=False):
    """A row in the answer to a write that began at `asked_s`. It updates a known row, or is `made`.

    The answer may be older than a listing in progress or than a deletion that sunk-sync knows.
    """

    row: RowWritten
    order: float
    asked_s: float
    made: bool = False
    """The write made the object, so the row may be new."""


class Deleted(Struct, frozen=True, gc=False):
    """The source reported that this object is gone (watch event DELETED)."""

    source: Source
    namespace: str
    name: str
    uid: str
    order: float


class ListingStarted(Struct, frozen=True, gc=False):
    """A complete listing began; its rows follow as Observed."""

    source: Source
    begun_s: float
    order: float
    """Order of the whole listing: newer rows stay even if the listing does not contain them."""


class ListingEnded(Struct, frozen=True, gc=False):
    """The listing is complete: rows that it did not contain are gone."""

    source: Source


class Confirmed(Struct, frozen=True, gc=False):
    """The source answered that nothing changed, or its watch resumed without a gap."""

    source: Source
    begun_s: float


class Lost(Struct, frozen=True, gc=False):
    """The source cannot be read now. Rows stay; an absence proves nothing."""

    source: Source
    why: str
    blind: bool = False
    """Unreadable for 60 s: sunk-sync must not show the rows as current any more."""


class GetResult(Struct, frozen=True, gc=False):
    """Result of one read by name (action GetObject)."""

    kind: Kind
    namespace: str
    name: str
    found: Literal["yes", "no", "unknown"]
    """no: 404. unknown: 403, time-out or any other error."""
    uid: str
    asked_s: float
    node_name: str = ""
    order: float = 0.0
    """Of a Pod: its Node, and its resourceVersion."""


News = (
    Observed | WriteEcho | Deleted | ListingStarted | ListingEnded | Confirmed | Lost | GetResult
    | Holding | GateCall | StopCall | CallEnded | JobNotice | Attempt | SubmitRefused | BindRefused
    | BindTried | Placed | Contradicted | GangSize | Taken | PolicyRead | LockCall | NodePods
    | NodeSetAnswer | Paused | TopologyReport | ProvisionerSaid | Claims
)  # fmt: skip

Tell = Callable[[Sequence[News]], Awaitable[None]]
"""Takes the news of a reader; it waits while the loop's inbox is full."""
