"""What rules may read: one host, or the cluster, as `Graph` puts it together for one decision."""

from msgspec import Struct

from sunk_sync.actions import JobDescription
from sunk_sync.facts import (
    Attempt,
    BindRefused,
    GateCall,
    Holding,
    Job,
    Node,
    Pod,
    Reference,
    Sighting,
    SlurmdPod,
    SlurmNode,
    StopCall,
    SubmitRefused,
)
from sunk_sync.fitness import Amounts
from sunk_sync.mark import Mark


class Tenant(Struct, frozen=True, gc=False):
    """A workload Pod that lives on a host, and what is known of its job."""

    pod: str
    """`namespace/name`."""
    uid: str
    work: str
    """Key of its Work."""
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


class Tenancy(Struct, frozen=True, gc=False):
    """All who live on one Node, as one Slurm node sees them."""

    all: tuple[Tenant, ...] = ()
    """Sorted by name."""
    lingering: tuple[Tenant, ...] = ()
    """Those whose jobs may not hold this host: ended, away, lost, or told to end."""
    taken: Amounts = ()
    """What those whose jobs are confirmed running take of the Node (P28). Those that are about to
    leave it are waited for (P11): what they take makes nobody unfit."""
    unconfirmed: tuple[str, ...] = ()
    """Pods whose jobs are not confirmed running."""


NOBODY = Tenancy()


class Host(Struct, frozen=True, kw_only=True, gc=False):
    """One machine seen from both sides, as the rules read it."""

    name: str
    """Name of the Slurm node."""
    slurm_node: SlurmNode | None
    slurm_listed: bool
    """Slurm was listed completely at least once: no row means no such node."""
    kube_listed: bool
    blind: bool
    """Slurm has been unreadable for a minute."""
    pod: SlurmdPod | None
    pod_since_s: float
    node: Node | None
    node_since_s: float
    owns_node: bool
    """The Node stands for this Slurm node and no other."""
    mark: Mark | None
    """Our mark as it stands on the Slurm node."""
    finished: SlurmdPod | None = None
    last: Mark | None = None
    """Where the host was last seen, by this process or by our mark on the Slurm node; told only
    where its Pod or its Node is missing."""
    last_moved: bool = False
    """The Pod in `last` lives, but claims another Slurm node now."""
    node_absent: bool = False
    """No Node of the name in `last` is in the picture: gone, or not listed yet."""
    pod_sighting: Sighting | None = None
    """Answer to the last read by name of the Pod in `last`."""
    node_sighting: Sighting | None = None
    rivals: tuple[Reference, ...] = ()
    """Claims that exclude each other; empty where all is well."""
    rival_pods: tuple[SlurmdPod, ...] = ()
    """The Pods among them that claim this very Slurm node."""
    stray: Node | None = None
    """A Node that claimed this Slurm node by equal name until a Pod or Node elsewhere did."""
    tenants: tuple[Tenant, ...] = ()
    """Workload Pods of ours that live here, sorted by name."""
    lingering: tuple[Tenant, ...] = ()
    """Those among them whose jobs may not hold it: ended, away, lost, or told to end."""
    gate_calls: tuple[GateCall, ...] = ()
    gate: bool = False
    """The gate stands: the next job waits for Pods by itself (P25)."""


class Cluster(Struct, frozen=True, kw_only=True, gc=False):
    """The cluster as a whole, as its rules read it."""

    holding: Holding | None
    marked: int
    """Slurm nodes that carry our mark."""
    unselected: int
    """Pods that exist by name but that no listing of slurmd Pods shows."""


class Berth(Struct, frozen=True, gc=False):
    """A host that a job of ours holds, as the place for a Pod."""

    slurm_node: str
    node: Node | None
    """Its one Node; None: Kubernetes knows none, or too many."""
    unfit: str
    """Why the Node cannot take the Pod now; empty: it can."""
    unknown: bool
    """Kubernetes cannot be read: absences prove nothing."""
    occupants: tuple[str, ...] = ()
    """Pods of other Works there whose job is not confirmed running (P11)."""


class Stuck(Struct, frozen=True, gc=False):
    """A bound Pod that is to end, on a Node that is gone or not ready (P25b)."""

    pod: Pod
    ready: str
    """Of its Node: False or Unknown; empty: the Node is not in the picture."""
    since_s: float | None
    """Since when it reads so; of a missing Node: when it was last asked for by name."""
    stranded: bool = False
    """The Node is gone for certain."""


class Members(Struct, frozen=True, gc=False):
    """Which Pods of one key make up the Work."""

    pods: tuple[Pod, ...]
    bound: tuple[Pod, ...]
    unbound: tuple[Pod, ...]
    surplus: tuple[Pod, ...] = ()
    missing: str = ""
    ask_size: bool = False
    size_asked_s: float = 0.0


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


class Tried(Struct, frozen=True, gc=False):
    """Bindings of one Pod without an answer: each may have happened (P14, P29)."""

    uid: str
    job_ids: tuple[str, ...]
    """To whose hosts."""
    given_up_s: float
    """When the last of them was."""
    asked_s: float = 0.0
    """When the Pod was last read by name, and it did not tell."""


class Work(Struct, frozen=True, gc=False):
    """The Pods that one placeholder job stands for, and that job, as the rules read them."""

    key: str
    id: str
    """Under which it is submitted; of a gang that is not whole yet: empty."""
    pods: tuple[Pod, ...]
    """Members, in their order; empty: only jobs are left."""
    bound: tuple[Pod, ...] = ()
    unbound: tuple[Pod, ...] = ()
    """Those of them that are on a Node, and those that are on none."""
    surplus: tuple[Pod, ...] = ()
    """Pods beyond the size of their gang (G7)."""
    missing: str = ""
    """Why the gang is not whole yet; empty: it is."""
    ask_size: bool = False
    """The size must be asked of the PodGroup or Job."""
    size_asked_s: float = 0.0
    job: Job | None = None
    """The live job that counts (P29)."""
    job_read_s: float = 0.0
    job_since_s: float = 0.0
    """Since when this process knows it."""
    others: tuple[Job, ...] = ()
    """Further live jobs: too many."""
    last: Job | None = None
    """Where none lives: the one that ended last."""
    tried: bool = False
    """An immediate allocation was refused (P11a)."""
    absent: tuple[str, ...] = ()
    """Pods in the job's identity that are not in the picture: `namespace/name/uid`."""
    gone: frozenset[str] = frozenset()
    """UIDs among them that are known to be gone."""
    sightings: tuple[Sighting, ...] = ()
    """Reads by name of absent Pods, in the order of `absent`; made before their job: left out."""
    berths: tuple[Berth, ...] = ()
    """Where the job runs; told only while a Pod of it is yet to be bound."""
    stands_elsewhere: bool = False
    """A Pod of it is bound to a Node that the job does not hold (P18)."""
    moved: bool = False
    """A Pod of it was bound where the job ran before: it was requeued, whoever saw it (P19)."""
    here: tuple[Pod, ...] = ()
    """Bound Pods that live on the job's hosts."""
    left: tuple[str, ...] = ()
    """Where the last job was seen before it went elsewhere."""
    attempt: Attempt | None = None
    refused: SubmitRefused | None = None
    refused_s: float = 0.0
    bind_refused: tuple[BindRefused, ...] = ()
    binds_tried: tuple[Tried, ...] = ()
    """Of its unbound Pods, those that may be bound by now: nobody has read them since."""
    waits_since_s: float = 0.0
    """Since when its youngest Pod is known; told only while one is not bound."""
    jobs_listed_s: float = 0.0
    """Begin of the latest complete listing of jobs."""
    ahead: int = 0
    """About how many Pods of ours wait longer: 0, 1, 10, 100 or 1,000 (P26)."""
    pods_listed_s: float = float("-inf")
    """Begin of the latest complete listing of the Pods that an array's task may stand for."""
    told_s: float = 0.0
    """When Slurm or the placeholder last spoke of the job."""
    told_ended: bool = False
    """It said that the job has ended; nobody has read it since."""
    placed_after_s: float = float("inf")
    """If it was but the first word of its script: a read that began later will do, too, if it shows
    where the job runs."""
    lost: bool = False
    """It stands on a host, and complete listings over a minute held no job of it (P30)."""
    excluded: tuple[str, ...] = ()
    """Slurm nodes that cannot take its Pods (P7); only while it has no job, or its job waits and
    is to exclude others than it does."""
    hosts: str = ""
    """Digest of `excluded`."""
    unfit: str = ""
    """Why no host can; empty: some can."""
    room: bool = False
    """Some host that can take it looks free, and nothing of ours waits (P11a)."""
    standing: tuple[str, ...] = ()
    """Slurm nodes that its bound Pods' Nodes stand for; empty names: nobody knows. Told only where
    it has no live job."""
    placed_s: float | None = None
    """When this process saw its last Pod become bound."""
    description: JobDescription | None = None
    """What its Pods ask for; None: it is not whole, or something is wrong."""
    digest: str = ""
    invalid: str = ""
    """All that is wrong with its Pods (P2-P6)."""
    started: bool = False
    """The script said that it started, or there is none (P11)."""
    ran_s: float | None = None
    """Since when no prolog keeps the job's script from starting."""
    last_s: float = 0.0
    """Since when the last job is known to have ended."""
    ends: int = 0
    """Jobs of it that ended by themselves before its Pods were bound."""
    stops: tuple[StopCall, ...] = ()
    killed_s: float | None = None
    """The script of its job asked whether its Pods are gone, so it holds its hosts no longer; when
    it is killed, or was."""
    external: bool = False
    """Every host that can take it is an EXTERNAL node."""
    stuck: tuple[Stuck, ...] = ()
    """Its Pods that cannot be seen to end."""
    gate: bool = False
