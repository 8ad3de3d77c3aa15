"""What rules may read of the cluster, and what a workload or a host is put together of."""

import math

from msgspec import Struct

from sunk_sync.core.model.facts import Holding, Node, Pod, Source
from sunk_sync.core.translate.node_fit import Amounts


class Resident(Struct, frozen=True, gc=False):
    """A workload Pod that lives on a host, and what is known of its job."""

    pod: str
    """`namespace/name`."""
    uid: str
    workload: str
    """Key of its workload."""
    takes: Amounts
    """Of its Node."""
    job_id: str
    """Its live job; empty: none."""
    confirmed: bool
    """That job was read RUNNING on this host."""
    read_s: float
    """When that read began."""
    held: bool
    """A batch script holds the host until it ends."""
    ended: bool
    """Its job has ended, as Slurm says."""
    away: bool = False
    """Its job lives, and not here: it waits, or runs elsewhere."""
    lost: bool = False
    """Two complete listings, a minute apart, held no job of its identity (P30)."""
    stop_until_s: float | None = None
    """Its script was told to end, and is killed then (L6)."""


class Residents(Struct, frozen=True, gc=False):
    """All who live on one Node, as one Slurm node sees them."""

    all: tuple[Resident, ...] = ()
    """Sorted by name."""
    lingering: tuple[Resident, ...] = ()
    """Those whose jobs may not hold this host: ended, away, lost, or told to end."""
    taken: Amounts = ()
    """What those whose jobs are confirmed running take of the Node (P28). Those that are about to
    leave it are waited for (P11): what they take makes nobody unfit."""
    unconfirmed: tuple[str, ...] = ()
    """Pods whose jobs are not confirmed running."""


NOBODY = Residents()


class Doubt(Struct, frozen=True, gc=False):
    """A source of which answers contradict rows (F3)."""

    source: Source
    row: str
    """Key of the row that has been in doubt for the longest."""
    since_s: float
    """When the question was asked whose answer contradicted it."""
    due_s: float
    """When the source is to be listed."""


class Cluster(Struct, frozen=True, kw_only=True, gc=False):
    """The cluster as a whole, as its rules read it."""

    holding: Holding | None
    marked: int
    """Slurm nodes that carry our mark."""
    unselected: int
    """Pods that exist by name but that no listing of slurmd Pods shows."""
    doubts: tuple[Doubt, ...] = ()
    """Sources of which an answer contradicts a row."""


class Placement(Struct, frozen=True, gc=False):
    """A host that a job of ours holds, as the place for a Pod."""

    slurm_node: str
    node: Node | None
    """Its one Node; None: Kubernetes knows none, or too many."""
    unfit: str
    """Why the Node cannot take the Pod now; empty: it can."""
    unknown: bool
    """Kubernetes cannot be read: absences prove nothing."""
    occupants: tuple[str, ...] = ()
    """Pods of other workloads there whose job is not confirmed running (P11)."""


class Stuck(Struct, frozen=True, gc=False):
    """A bound Pod that is to end, on a Node that is gone or not ready (P25b)."""

    pod: Pod
    ready: str
    """Of its Node: False or Unknown; empty: the Node is not in the picture."""
    since_s: float | None
    """Since when it reads so; of a missing Node: when it was last asked for by name."""
    stranded: bool = False
    """The Node is gone for certain."""


class Reach(Struct, frozen=True, gc=False):
    """What the hosts, as they stand, mean for one kind of Pod."""

    excluded: tuple[str, ...]
    """Slurm nodes that cannot take it, sorted."""
    unfit: str
    """Why none can; empty: some can."""
    fit: tuple[str, ...]
    external: bool = False
    """Only EXTERNAL nodes can: no slurmd would run a script there."""
    hosts: str = ""
    """Digest of those excluded."""


class SubmissionHistory(Struct, frozen=True, gc=False):
    """Submissions of one workload, in monotonic seconds (P32)."""

    sent_s: tuple[float, ...] = ()
    """When the last five were sent, oldest first."""
    given_up: int = 0
    """Jobs in a row that we gave up."""
    given_up_s: float = -math.inf
    """When the last of them ended."""
    hosts: tuple[tuple[str, float], ...] = ()
    """Slurm nodes of such jobs, and when each was given up."""


NO_HISTORY = SubmissionHistory()


class Tried(Struct, frozen=True, gc=False):
    """Bindings of one Pod without an answer: each may have happened (P14, P29)."""

    uid: str
    job_ids: tuple[str, ...]
    """To whose hosts."""
    given_up_s: float
    """When the last of them was."""
    asked_s: float = 0.0
    """When the Pod was last read by name, and it did not tell."""
