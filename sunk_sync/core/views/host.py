"""The view of one host: the Slurm node, its slurmd Pod, its Node, and the Pods on it."""

from msgspec import Struct

from sunk_sync.core.model.calls import GateCall, LockCall
from sunk_sync.core.model.facts import GetResult, Node, Reference, SlurmdPod, SlurmNode
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.model.node_set import Features, NodeSet, Requeueing, Stamp, Topology
from sunk_sync.core.model.node_set_answers import ControllerAge, RequeueTried
from sunk_sync.core.views.node_set import Failures
from sunk_sync.core.views.parts import NOBODY, Arrival, Doubtful, Residents


class Traces(Struct, frozen=True, kw_only=True, gc=False):
    """Facts about a slurmd Pod or Node that no listing shows now."""

    last: Mark | None = None
    """Place where this process, or the mark on the Slurm node, last saw the host."""
    finished: SlurmdPod | None = None
    """The slurmd Pod, if it has ended but still exists."""
    moved: bool = False
    """The Pod in `last` lives, but claims another Slurm node now."""
    node_absent: bool = False
    """No listing shows the Node in `last`: it is gone, or not listed yet."""
    pod_get_result: GetResult | None = None
    node_get_result: GetResult | None = None


NO_TRACES = Traces()


class Home(Struct, frozen=True, gc=False):
    """The NodeSet that the stamp of a Slurm node names."""

    spec: NodeSet
    stamp: Stamp
    """Of the records that its Pods make now."""
    pod_get_result: GetResult | None
    """Of the Pod that its name and the NodeSet name."""
    vacant: bool
    """It has fewer Pods than it wants: one of this name may come."""


class RecordWish(Struct, frozen=True, gc=False):
    """What a NodeSet wants of its Slurm nodes; all can change while slurmd lives."""

    node_set: str
    """Its name, which is a feature from the first moment."""
    features: Features
    weight: int
    topology: Topology
    requeueing: Requeueing
    lock: bool


class HostLock(Struct, frozen=True, kw_only=True, gc=False):
    """The lock of the Node: who asks for it, and what is known about the Pods there (L1)."""

    calls: tuple[LockCall, ...] = ()
    strict: bool = False
    """One of the calls needs the strict lock."""
    since_s: float = 0.0
    """Only a listing of Pods that begins later counts: the taint stood, the strict call was made.
    """
    listed_s: float = 0.0
    """Start of the last such listing."""
    living: tuple[str, ...] | None = None
    """The foreign Pods that it showed; None: there was none."""
    exposed: tuple[str, ...] = ()
    """Workload Pods of sunk-sync there that the lock would end."""
    unused_s: float = 0.0
    """When the Slurm node last changed, or a prolog last asked for the lock."""


NO_LOCK = HostLock()


class Host(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    slurm_node: SlurmNode | None = None
    slurm_listed: bool = False
    """All Slurm nodes were listed at least once, so a missing row means no such node."""
    kube_listed: bool = False
    """All Nodes and slurmd Pods were listed at least once."""
    blind: bool = False
    """sunk-sync could not read Slurm for a minute."""
    pod: SlurmdPod | None = None
    slurm_read_s: float = 0.0
    """Start of the latest complete read of all Slurm nodes."""
    controller: ControllerAge | None = None
    """Of slurmctld, if it was read."""
    pod_changed_s: float = 0.0
    """When the Pod last changed."""
    home: Home | None = None
    """Without a Pod; of the NodeSet that the stamp of the record names."""
    wish: RecordWish | None = None
    """With a Pod; of the NodeSet that the stamp of the record names."""
    drained_since_s: float = 0.0
    """Since when the Slurm node is drained, or in use."""
    requeued: RequeueTried | None = None
    """The last try to requeue jobs, since it was drained."""
    unregistered: Failures | None = None
    """Pods of its NodeSet and name before it that had no record in Slurm (N3)."""
    pod_since_s: float = 0.0
    """Since when the Pod, or the one that has ended, is as it is."""
    node: Node | None = None
    node_since_s: float = 0.0
    owns_node: bool = False
    """The Node belongs to this Slurm node and to no other."""
    mark: Mark | None = None
    traces: Traces = NO_TRACES
    """Empty while both the Pod and the Node exist."""
    rivals: tuple[Reference, ...] = ()
    """Claims that exclude each other."""
    rival_pods: tuple[SlurmdPod, ...] = ()
    """The Pods in `rivals` that claim this Slurm node."""
    stray: Node | None = None
    """A Node that claimed this Slurm node by equal name, until a Pod or another Node did."""
    residents: Residents = NOBODY
    gate_calls: tuple[GateCall, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    """Sorted by job id; empty while no gate call waits here."""
    doubtful: tuple[Doubtful, ...] = ()
    """Pods that may be bound here; empty while no gate call waits here."""
    lock: HostLock = NO_LOCK
    """Empty while nobody asks and the Node has no lock."""
    blocks: frozenset[str] = frozenset()
    """`topology:block` that slurmctld has read from its file."""
    gate: bool = False
    """The prolog of the next job waits for Pods by itself (P25)."""


def record_goes(host: Host) -> bool:
    """Whether the record in Slurm is one that no Pod of its NodeSet can use, and that has none."""
    record, home = host.slurm_node, host.home
    if record is None or record.stamp is None or home is None:
        return False
    if host.pod is not None or host.traces.finished is not None:
        return False
    return not (home.vacant and record.stamp == home.stamp)


def is_marked(host: Host) -> bool:
    """Whether the mark on the Slurm node names its present slurmd Pod; it is of this cluster."""
    mark, pod = host.mark, host.pod
    return (
        mark is not None
        and pod is not None
        and mark.uid == pod.uid
        and mark.node == pod.node_name
        and mark.pod == pod.name
        and mark.namespace == pod.namespace
    )
