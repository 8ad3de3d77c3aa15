"""Views of the cluster, and parts of the views of hosts and workloads."""

import math

from msgspec import Struct

from sunk_sync.core.model.facts import Node, Pod, Source
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.model.topology_file import UNKNOWN, TopologyReport, TopologyState
from sunk_sync.core.model.volumes import VolumeClaim
from sunk_sync.core.translate.node_fit import Amounts


class Resident(Struct, frozen=True, gc=False):
    pod: str
    """`namespace/name`."""
    uid: str
    workload: str
    takes: Amounts
    job_id: str
    """Its live job, or empty."""
    confirmed: bool
    """sunk-sync read that job as RUNNING on this host."""
    read_s: float
    """When that read began."""
    held: bool
    """A batch script holds the host until it ends."""
    ended: bool
    """Slurm reports that its job has ended."""
    away: bool = False
    """Its job waits, or runs on other hosts."""
    lost: bool = False
    """Two complete listings, a minute apart, showed no job of its identity (P30)."""
    stop_until_s: float | None = None
    """Slurm is ending its script, and kills it then (L6)."""


class Residents(Struct, frozen=True, gc=False):
    all: tuple[Resident, ...] = ()
    """Sorted by name."""
    lingering: tuple[Resident, ...] = ()
    """Pods whose jobs may not hold this host: ended, away, lost, or ending."""
    taken: Amounts = ()
    """Amounts of the Node that Pods with a confirmed job use (P28). A new Pod waits until the
    others are gone (P11), so their amounts do not count."""
    unconfirmed: tuple[str, ...] = ()


NOBODY = Residents()


class Arrival(Struct, frozen=True, gc=False):
    """A live job that holds this host, and whose Pods are not all bound: one may come (L7)."""

    job_id: str
    read_s: float
    """When the latest read of the job began."""


class Doubtful(Struct, frozen=True, gc=False):
    """A Pod that may be bound here, by a binding without an answer (L7)."""

    namespace: str
    name: str
    tried: "Tried"


class Doubt(Struct, frozen=True, gc=False):
    """A source whose rows an answer contradicts (F3)."""

    source: Source
    row: str
    """Key of the row that has been in doubt for the longest time."""
    since_s: float
    """Start of the read or write whose answer contradicts it."""
    due_s: float


class Selection(Struct, frozen=True, gc=False):
    """A claim whose Node was selected for a job that has ended."""

    claim: VolumeClaim
    owner: str


class Cluster(Struct, frozen=True, kw_only=True, gc=False):
    holding: Holding | None
    marked: int
    """Number of Slurm nodes with a mark."""
    unselected: int
    """Number of slurmd Pods that exist by name but that no listing shows."""
    doubts: tuple[Doubt, ...] = ()
    topology: TopologyState = UNKNOWN
    topology_calls: tuple[TopologyReport, ...] = ()
    paused: str = ""
    """Why sunk-sync writes nothing, or empty."""
    selections: tuple[Selection, ...] = ()
    """Those that nobody needs any more, at most 100."""


class Placement(Struct, frozen=True, gc=False):
    """One host of a placeholder job, for one Pod."""

    slurm_node: str
    node: Node | None
    """Its Node; None: Kubernetes has none, or several."""
    unfit: str
    """Why the Node cannot take the Pod now, or empty."""
    unknown: bool
    """Kubernetes cannot be read: an absence proves nothing."""
    occupants: tuple[str, ...] = ()
    """Pods of other workloads there whose job is not confirmed running (P11)."""
    full: bool = False
    """The Node could take the Pod if no other stood there (P28)."""


class Stuck(Struct, frozen=True, gc=False):
    """A terminating Pod on a Node that is gone or not ready (P25b)."""

    pod: Pod
    ready: str
    """Status of the Node's condition Ready: False or Unknown; empty: no listing shows the Node."""
    since_s: float | None
    """Since when; for a missing Node: when sunk-sync last read it by name."""
    stranded: bool = False


class Reach(Struct, frozen=True, gc=False):
    """Hosts that can take one kind of Pod, by exclusion."""

    excluded: tuple[str, ...]
    """Slurm nodes that cannot, sorted."""
    unfit: str
    """Why no host can, or empty."""
    fit: tuple[str, ...]
    external: bool = False
    """Only EXTERNAL nodes can: no slurmd runs a script there."""
    hosts: str = ""
    """Digest of `excluded` and `required`."""
    required: tuple[str, ...] = ()
    """Slurm nodes that the job of a gang must get: only there a member has its volumes."""


class GivenUp(Struct, frozen=True, gc=False):
    """A Slurm node where sunk-sync gave up a job of a workload (P32)."""

    slurm_node: str
    since_s: float
    full: bool = False
    """It was for room: until other Pods leave the Node, such a Pod has no room there (P28)."""


class SubmissionHistory(Struct, frozen=True, gc=False):
    """Submissions of one workload, in monotonic seconds (P32)."""

    sent_s: tuple[float, ...] = ()
    """When the last five were sent, oldest first."""
    given_up: int = 0
    """Number of jobs in a row that sunk-sync gave up."""
    given_up_s: float = -math.inf
    """When the last of them ended."""
    hosts: tuple[GivenUp, ...] = ()
    """Slurm nodes of such jobs; those with room by now are left out."""


NO_HISTORY = SubmissionHistory()


class Tried(Struct, frozen=True, gc=False):
    """Bindings of one Pod without an answer: each may have succeeded (P14, P29)."""

    uid: str
    job_ids: tuple[str, ...]
    """Jobs on whose hosts the Pod may be bound."""
    given_up_s: float
    """When sunk-sync gave up the last of them."""
    asked_s: float = 0.0
    """When sunk-sync last read the Pod by name, without a proof."""
    slurm_nodes: tuple[str, ...] = ()
    """Hosts where the Pod may be bound."""
