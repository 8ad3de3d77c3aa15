"""The view of one workload: its Pods, its job, and the hosts that they use or need."""

from msgspec import Struct

from sunk_sync.core.model.calls import StopCall
from sunk_sync.core.model.facts import Attempt, BindRefused, GetResult, Job, Pod, SubmitRefused
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.volumes import Volume, VolumeClaim
from sunk_sync.core.views.parts import Placement, Stuck, SubmissionHistory, Tried


class SizeRead(Struct, frozen=True, gc=False):
    """A read of the PodGroup or Job that names the size of a gang."""

    asked_s: float = 0.0
    """When it was read last; 0: never."""
    pause_s: float = 0.0
    """How long sunk-sync waits after that."""


class Members(Struct, frozen=True, gc=False):
    pods: tuple[Pod, ...]
    """Sorted by name; empty: only jobs are left."""
    bound: tuple[Pod, ...]
    unbound: tuple[Pod, ...]
    surplus: tuple[Pod, ...] = ()
    """Pods beyond the size of their gang (G7)."""
    missing: str = ""
    """Why the gang is not complete, or empty."""
    size_read: SizeRead | None = None
    """sunk-sync must read the size from the PodGroup or Job; None: it need not."""
    leaving: bool = False
    """A member was deleted before it ended, or ended before it was bound (G3)."""
    replacement: Pod | None = None
    """It takes the place of a member that failed, while others run (G8)."""
    cleaned_up: tuple[str, ...] = ()
    """UIDs of members that ended by themselves and are gone, as their Job says."""
    unread_ends: bool = False
    """Members are gone, and the Job must be read first: they may have succeeded."""
    resized: str = ""
    """The size of a gang whose job waits has changed, or empty (G9)."""


class JobRequest(Struct, frozen=True, gc=False):
    description: JobDescription | None = None
    """None: the gang is not complete, or `invalid` or `unread` says why there is none."""
    digest: str = ""
    """Of the request of the Pods. Empty: the gang is not complete, or a value is invalid."""
    invalid: str = ""
    """Values that are invalid, or that --user-policy refuses."""
    unread: str = ""
    """What must be read before there is a description (P5)."""


class LiveJob(Struct, frozen=True, kw_only=True, gc=False):
    """The job of the workload that has not ended; of several, the one that counts (P29)."""

    job: Job
    read_s: float
    """Start of the latest read of the job."""
    since_s: float
    others: tuple[Job, ...]
    """Further live jobs, which must end."""
    ahead: int
    """About how many Pods of sunk-sync wait longer: 0, 1, 10, 100 or 1,000 (P26)."""
    notified_at_s: float
    """When the latest notice of the job came, from Slurm or the placeholder."""
    end_notified: bool
    """The latest notice reports the end of the job; no later read exists."""
    placed_after_s: float
    """Set by the first notice of the script: a read that began later than this, and shows where the
    job runs, is good enough too."""
    started: bool
    """The script reported its start, or the job has no script (P11)."""
    ran_s: float | None
    """Since when no prolog delays the script."""
    placements: tuple[Placement, ...]
    """Hosts of the job; empty: every Pod is bound."""


class EndedJobs(Struct, frozen=True, gc=False):
    last: Job | None = None
    since_s: float = 0.0
    """When this process first saw the end of `last`."""
    left: tuple[str, ...] = ()
    """Slurm nodes where `last` ran before it was requeued."""
    by_itself: int = 0
    """Number of jobs that ended by themselves before their Pods were bound."""
    allocation_refused: bool = False
    """Slurm refused an immediate allocation (P11a)."""
    node_reason: str = ""
    """Why slurmctld drained a host of `last`, if that ended `last` before it began."""


class AbsentPods(Struct, frozen=True, gc=False):
    """Pods in the identity of the job that no listing shows."""

    pods: tuple[str, ...] = ()
    """`namespace/name/uid` of each."""
    gone: frozenset[str] = frozenset()
    """UIDs that a watch reported as deleted."""
    get_results: tuple[GetResult, ...] = ()
    """Reads of them by name, without those that began before the job was seen."""
    listed: bool = False
    """A complete listing of Pods, later than the job, contains none of them."""


class Binding(Struct, frozen=True, gc=False):
    waits_since_s: float = 0.0
    """When this process first saw the youngest unbound Pod."""
    refused: tuple[BindRefused, ...] = ()
    tried: tuple[Tried, ...] = ()
    """Bindings of unbound Pods without an answer, and without a later read of the Pod."""
    placed_s: float | None = None
    """When this process saw the binding of the last Pod."""


class PodLocations(Struct, frozen=True, gc=False):
    """The places of bound Pods, compared with the hosts of the job."""

    elsewhere: bool = False
    """Another bound a Pod to a Node that the job does not hold (P18)."""
    moved: bool = False
    """A Pod is where the job ran before Slurm requeued it (P19)."""
    here: tuple[Pod, ...] = ()
    slurm_nodes: tuple[str, ...] = ()
    """Slurm node of each bound Pod; empty name: unknown. Set only without a live job."""


class CandidateHosts(Struct, frozen=True, gc=False):
    """Hosts that can take the Pods. Set only while a job must be submitted or updated."""

    excluded: tuple[str, ...] = ()
    digest: str = ""
    unfit: str = ""
    """Why no host can, or empty."""
    not_ready: tuple[str, ...] = ()
    """Nodes of all feasible hosts, if none is ready (P32)."""
    free: bool = False
    """Some feasible host seems free, and no other workload waits (P11a)."""
    external: bool = False
    fit: tuple[str, ...] = ()
    """The feasible hosts, if sunk-sync gave up a job of the workload on some host (P32)."""
    in_turn: bool = True
    """No other Pod that it may not stand beside is being placed just now (P8)."""
    ruled: bool = False
    """They depend on where other Pods stand (P8)."""
    required: tuple[str, ...] = ()
    """Hosts that the job of a gang must get, because only there a member has its volumes."""
    may_require: bool = False
    """It is a gang with volumes, whose required hosts can change."""
    follows: bool = False
    """A change of hosts wakes the workload at once: its Pods were edited (P20), a rule about other
    Pods or a volume concerns it, or it avoids hosts for a while (P32)."""


class Submission(Struct, frozen=True, gc=False):
    """The latest submission, until it has a job."""

    attempt: Attempt | None = None
    """An attempt without an answer."""
    refused: SubmitRefused | None = None
    refused_s: float = 0.0
    refusals: int = 0
    """In a row, of one description."""
    hosts_changed: bool = False
    """Some host came, went or changed since the refusal."""
    jobs_listed_s: float = 0.0
    """Start of the latest complete listing of jobs; 0: none since the attempt."""


class WantedVolume(Struct, frozen=True, gc=False):
    """What a claim gets on the Node where its Pod will run."""

    claim: VolumeClaim
    node_name: str
    volume: Volume | None
    """None: its provisioner makes one."""
    since_s: float
    """When this process last saw the job, the claim or the volume change; infinite: nobody has
    written to them for this Node."""
    owner: str
    """What the claim notes about the job."""
    said: str = ""
    """Why its provisioner makes no volume, in its words."""
    asked_s: float = 0.0
    """When sunk-sync last read these words; 0: never."""
    is_given_up: bool = False
    """The provisioner took the Node off the claim: its words are read first."""


class VolumeNeeds(Struct, frozen=True, gc=False):
    """What the claims of the unbound Pods still need."""

    waits: str = ""
    """Why no job is submitted and no Pod is bound, or empty."""
    failed: str = ""
    """Why the Pods cannot have their volumes where the job runs, or empty."""
    wanted: tuple[WantedVolume, ...] = ()
    """Claims without a volume, once the job runs."""


class Calls(Struct, frozen=True, gc=False):
    """Open calls of the placeholder, and their consequences."""

    stops: tuple[StopCall, ...] = ()
    killed_s: float | None = None
    """When Slurm kills the script. The script asked whether its Pods are gone, so the job is
    ending."""


NO_REQUEST = JobRequest()
NO_ENDED_JOBS = EndedJobs()
NO_ABSENT_PODS = AbsentPods()
NO_BINDING = Binding()
NO_LOCATIONS = PodLocations()
NO_CANDIDATES = CandidateHosts()
FOLLOWED = CandidateHosts(follows=True)
NO_SUBMISSION = Submission()
NO_CALLS = Calls()
NO_VOLUMES = VolumeNeeds()


class Workload(Struct, frozen=True, kw_only=True, gc=False):
    """The Pods of one placeholder job, and that job."""

    key: str
    id: str
    """Workload id in the job's identity; empty: the gang is not complete."""
    members: Members
    request: JobRequest
    live: LiveJob | None
    ended: EndedJobs
    absent: AbsentPods
    binding: Binding
    locations: PodLocations
    hosts: CandidateHosts
    submission: Submission
    history: SubmissionHistory
    """Earlier submissions; empty while the workload has a job."""
    calls: Calls
    volumes: VolumeNeeds
    stuck: tuple[Stuck, ...]
    """Bound Pods that must end, on Nodes that do not answer (P25b)."""
    lost: bool
    """The Pods are on a host, but complete listings over a minute showed no job of them (P30)."""
    gate: bool
    """As in Host."""
    claims: tuple[str, ...] = ()
    """Live jobs that may be its job, while it has none: nothing proves whose they are (P23)."""
