"""What rules read of one workload: its Pods, its job, and the hosts that they use or need."""

from msgspec import Struct

from sunk_sync.core.model.facts import (
    Attempt,
    BindRefused,
    GetResult,
    Job,
    Pod,
    StopCall,
    SubmitRefused,
)
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.views.parts import Placement, Stuck, SubmissionHistory, Tried


class Members(Struct, frozen=True, gc=False):
    """The Pods of one workload."""

    pods: tuple[Pod, ...]
    """Sorted by name; empty: only jobs are left."""
    bound: tuple[Pod, ...]
    unbound: tuple[Pod, ...]
    surplus: tuple[Pod, ...] = ()
    """Pods beyond the size of their gang (G7)."""
    missing: str = ""
    """Why the gang is not complete yet; empty: it is complete."""
    ask_size: bool = False
    """sunk-sync must read the size from the PodGroup or Job."""
    size_asked_s: float = 0.0


class JobRequest(Struct, frozen=True, gc=False):
    """The job that the Pods ask for."""

    description: JobDescription | None = None
    """None: the gang is not complete, or a value is invalid."""
    digest: str = ""
    invalid: str = ""
    """Every invalid value of the Pods (P2-P6)."""


class LiveJob(Struct, frozen=True, kw_only=True, gc=False):
    """The job of the workload that has not ended; of several, the one that counts (P29)."""

    job: Job
    read_s: float
    """Start of the latest read of it."""
    since_s: float
    """When this process first saw it."""
    others: tuple[Job, ...]
    """Further live jobs: too many."""
    ahead: int
    """About how many Pods of sunk-sync wait longer: 0, 1, 10, 100 or 1,000 (P26)."""
    notified_at_s: float
    """When Slurm or the placeholder last sent a notice of the job."""
    end_notified: bool
    """The latest notice says that the job has ended; no later read exists."""
    placed_after_s: float
    """If the notice was the first one of the script: a read that began later than this is good
    enough, too, if it shows where the job runs."""
    started: bool
    """The script reported its start, or the job has no script (P11)."""
    ran_s: float | None
    """Since when no prolog delays the script."""
    placements: tuple[Placement, ...]
    """Hosts of the job; empty: every Pod is bound."""


class EndedJobs(Struct, frozen=True, gc=False):
    """Jobs of the workload that have ended."""

    last: Job | None = None
    """The one that ended last."""
    since_s: float = 0.0
    """When this process first saw the end of the last job."""
    left: tuple[str, ...] = ()
    """Slurm nodes where the last job ran before it was requeued."""
    by_itself: int = 0
    """Number of jobs that ended by themselves before the Pods were bound."""
    allocation_refused: bool = False
    """Slurm refused an immediate allocation (P11a)."""


class AbsentPods(Struct, frozen=True, gc=False):
    """Pods in the identity of the job that no listing shows."""

    pods: tuple[str, ...] = ()
    """`namespace/name/uid` of each."""
    gone: frozenset[str] = frozenset()
    """UIDs of those that a watch reported as deleted."""
    get_results: tuple[GetResult, ...] = ()
    """Reads of them by name; without those that began before the job was seen."""
    listed: bool = False
    """A complete listing of Pods, later than the job, shows none of them."""


class Binding(Struct, frozen=True, gc=False):
    """How far the binding of the Pods has come."""

    waits_since_s: float = 0.0
    """When this process first saw the youngest unbound Pod."""
    refused: tuple[BindRefused, ...] = ()
    tried: tuple[Tried, ...] = ()
    """Bindings of unbound Pods without an answer; no later read of the Pod exists."""
    placed_s: float | None = None
    """When this process saw the last Pod become bound."""


class PodLocations(Struct, frozen=True, gc=False):
    """Where the bound Pods are, compared with the hosts of the job."""

    elsewhere: bool = False
    """Somebody else bound a Pod to a Node that the job does not hold (P18)."""
    moved: bool = False
    """A Pod is where the job ran before: Slurm requeued the job (P19)."""
    here: tuple[Pod, ...] = ()
    """Bound Pods on the hosts of the job that have not ended."""
    slurm_nodes: tuple[str, ...] = ()
    """Slurm node of each bound Pod; empty name: unknown. Set only without a live job."""


class CandidateHosts(Struct, frozen=True, gc=False):
    """Which hosts can take the Pods. Set only while the job must know it."""

    excluded: tuple[str, ...] = ()
    """Slurm nodes that cannot take the Pods (P7)."""
    digest: str = ""
    """Of `excluded`."""
    unfit: str = ""
    """Why no host can; empty: some can."""
    not_ready: tuple[str, ...] = ()
    """Nodes of all feasible hosts, if none is ready (P32)."""
    free: bool = False
    """Some feasible host looks free, and no other workload waits (P11a)."""
    external: bool = False
    """Every feasible host is an EXTERNAL node."""


class Submission(Struct, frozen=True, gc=False):
    """The latest submission, as long as it has no job."""

    attempt: Attempt | None = None
    """It got no answer."""
    refused: SubmitRefused | None = None
    refused_s: float = 0.0
    jobs_listed_s: float = 0.0
    """Start of the latest complete listing of jobs; 0: none since the attempt."""


class Calls(Struct, frozen=True, gc=False):
    """Calls of the placeholder that sunk-sync has not answered, and what follows from them."""

    stops: tuple[StopCall, ...] = ()
    killed_s: float | None = None
    """When Slurm kills the script. It asked whether its Pods are gone, so the job is ending."""


NO_REQUEST = JobRequest()
NO_ENDED_JOBS = EndedJobs()
NO_ABSENT_PODS = AbsentPods()
NO_BINDING = Binding()
NO_LOCATIONS = PodLocations()
NO_CANDIDATES = CandidateHosts()
NO_SUBMISSION = Submission()
NO_CALLS = Calls()


class Workload(Struct, frozen=True, kw_only=True, gc=False):
    """The Pods that one placeholder job stands for, and that job, as the rules read them."""

    key: str
    id: str
    """Workload id in the job's identity; empty: the gang is not complete yet."""
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
    """Earlier submissions; empty while it has a job."""
    calls: Calls
    stuck: tuple[Stuck, ...]
    """Bound Pods that must end, on Nodes that do not answer (P25b)."""
    lost: bool
    """It is on a host, and complete listings over a minute showed no job of it (P30)."""
    gate: bool
    """The prolog of the next job waits for Pods by itself (P25)."""
