"""NodeSets: which slurmd Pods should exist, and how they register in Slurm (N1-N30)."""

from typing import Final, Literal

from msgspec import Struct

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.pod_spec import PodSpec

GROUP = "sunk-sync.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/drain"
"""Keeps a deleted NodeSet until its Pods have ended (N23)."""
ORPHAN_FINALIZER = "orphan"
"""Kubernetes sets it for a deletion that keeps the dependents."""
STAMP_PREFIX = "k8s."
"""Begins the one feature with which a record in Slurm names its NodeSet and its shape."""

EVERY_NODE: Final = 1 << 30
"""Number of Pods of a NodeSet with one for each Node, if it gives no limit."""

Cause = Literal["scale-in", "update", "registration", "deletion", "node-mismatch"]
"""Why a Pod must go. registration: its record has another shape than the Pod (N4). node-mismatch:
its Node does not match the template any more (N17)."""


class Stamp(Struct, frozen=True, gc=False):
    """The feature `k8s.<NodeSet>.<shape>` of a Slurm node. It is written with the record.

    A record is made once: a slurmd that comes back with another shape does not change it.
    """

    node_set: str
    """Digest of the Kubernetes cluster and of the NodeSet's namespace and name."""
    shape: str
    """Digest of the options of slurmd that end in the record."""

    @property
    def feature(self) -> str:
        return f"{STAMP_PREFIX}{self.node_set}.{self.shape}"


class Gres(Struct, frozen=True, gc=False):
    name: str
    count: int
    type: str = ""


class Registration(Struct, frozen=True, kw_only=True, gc=False):
    """What slurmd tells slurmctld about its node."""

    cpus: int = 0
    """0: slurmd finds them, and also the memory."""
    memory_mib: int = 0
    reserved_cores: int = 0
    reserved_mib: int = 0
    gres: tuple[Gres, ...] | None = None
    """None: those that the limits of container slurmd ask for."""
    weight: int = 1
    extra: str = ""
    """Further keys of --conf."""


class Features(Struct, frozen=True, gc=False):
    """Features of the Slurm nodes of a NodeSet, besides its name and its stamp (T1)."""

    static: tuple[str, ...] = ()
    dynamic: tuple[tuple[str, str], ...] = ()
    """Label of the Node → what precedes its value in the feature; sorted."""


class Topology(Struct, frozen=True, gc=False):
    """Where the Slurm nodes of a NodeSet stand in a tree of switches (T3), or in blocks (T6)."""

    labels: tuple[str, ...] = ()
    """Labels of the Node that name the switches, from the top, or the one that names the block;
    empty: sunk-sync sets none."""
    under: str = ""
    """What Slurm names before them: topology and switch, `tree:root`, or a topology of blocks."""
    blocks: bool = False
    """Slurm takes blocks only from its file."""


class Window(Struct, frozen=True, gc=False):
    """When Pods get a new template, in a reservation of Slurm (N16)."""

    start: int
    """Unix seconds."""
    duration_s: int


class UpdateStrategy(Struct, frozen=True, gc=False):
    type: Literal["RollingUpdate", "OnDelete", "ScheduledUpdate"] = "RollingUpdate"
    unavailable: int = 25
    """Pods that may be unavailable at once during a rolling update."""
    percent: bool = True
    """`unavailable` is a share of the desired Pods in percent, rounded down, but at least one."""
    window: Window | None = None
    """Of a ScheduledUpdate."""


class Requeueing(Struct, frozen=True, gc=False):
    """Which jobs on a condemned Slurm node are requeued, instead of waiting for their end (N28)."""

    method: Literal["none", "time", "partition", "qos"] = "none"
    """time: all jobs. partition, qos: those in one of `names`."""
    names: tuple[str, ...] = ()
    after_s: float = 0.0
    """How long after the drain; for updates."""
    scale_in_after_s: float | None = None
    """The same for all other ends. None: they wait for the jobs."""


class Counts(Struct, frozen=True, kw_only=True, gc=False):
    """Numbers in the status of a NodeSet."""

    desired: int = 0
    replicas: int = 0
    ready: int = 0
    registered: int = 0
    updated: int = 0
    available: int = 0
    idle: int = 0
    allocated: int = 0
    draining: int = 0
    down: int = 0


NO_COUNTS = Counts()


class NodeSet(Struct, frozen=True, kw_only=True, gc=False):
    """A NodeSet. Source: watch of NodeSets."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    deleting: bool = False
    held: bool = False
    """It has the finalizer of sunk-sync."""
    orphan: bool = False
    """Its Pods stay when it is deleted (`kubectl delete --cascade=orphan`)."""
    per_node: bool = False
    """One Pod for each Node that matches the template, instead of numbered ones (N17)."""
    replicas: int = 1
    """With one Pod for each Node: the upper limit."""
    placement: PodSpec = PodSpec()
    """Node selector, required affinity and tolerations of the template. Set if `per_node`."""
    prefix: str = ""
    """Begins the names of its Pods."""
    padding: int = 0
    """Digits of the ordinal at least."""
    template: bytes = b"{}"
    """JSON of the Pod's labels, annotations and spec, as the NodeSet gives them."""
    limits: tuple[tuple[str, int], ...] = ()
    """Of container slurmd, as PodSpec.requests."""
    registration: Registration = Registration()
    """As the NodeSet gives it: zeros and None are taken from the limits."""
    features: Features = Features()
    topology: Topology = Topology()
    strategy: UpdateStrategy = UpdateStrategy()
    requeueing: Requeueing = Requeueing()
    min_ready_s: float = 0.0
    lock: bool = True
    """Whether its jobs get the node lock (L1)."""
    counts: Counts = NO_COUNTS
    """As in its status."""
    observed_generation: int = 0
    shown_revision: str = ""
    shown_selector: str = ""
    conditions: tuple[Condition, ...] = ()
    """In its status, sorted by type."""
    changed_at: tuple[str, ...] = ()
    """As in Node."""

    @property
    def path(self) -> str:
        return f"NodeSet {self.namespace}/{self.name}"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def reservation(self) -> str:
        """Return the name of the reservation for its updates."""
        return f"k8s-{self.namespace}-{self.name}"

    def pod_name(self, ordinal: int) -> str:
        return f"{self.prefix}-{ordinal:0{self.padding}d}"


class Plan(Struct, frozen=True, kw_only=True, gc=False):
    """What the Pods of a NodeSet register now."""

    registration: Registration
    """Complete: its numbers come from the limits where the NodeSet gives none."""
    stamp: Stamp
    """Stamp of the records that its Pods make."""
    revision: str
    """Digest of the template and the registration: Pods with another one are outdated."""
    problem: str = ""
    """Why sunk-sync cannot follow the NodeSet, or empty (N30)."""
