"""What rules read of one workload: its Pods, its job, and the hosts that they hold or want."""

import math
from typing import Final, final

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
from sunk_sync.core.views.parts import Placement, Stuck, Tried

NEVER: Final = -math.inf
NONE_GONE: Final[frozenset[str]] = frozenset()


@final
class Workload:
    """The Pods that one placeholder job stands for, and that job, as the rules read them.

    Only `WorkloadSnapshot` writes its fields, while it builds it. tests/test_tidy.py checks that.
    """

    key: str = ""
    id: str = ""
    """Under which it is submitted; of a gang that is not whole yet: empty."""
    pods: tuple[Pod, ...] = ()
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
    gone: frozenset[str] = NONE_GONE
    """UIDs among them that are known to be gone."""
    get_results: tuple[GetResult, ...] = ()
    """Reads by name of absent Pods, in the order of `absent`; made before their job: left out."""
    placements: tuple[Placement, ...] = ()
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
    pods_listed_s: float = NEVER
    """Begin of the latest complete listing of the Pods that an array's task may stand for."""
    notified_at_s: float = 0.0
    """When Slurm or the placeholder last spoke of the job."""
    end_notified: bool = False
    """It said that the job has ended; nobody has read it since."""
    placed_after_s: float = math.inf
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
    not_ready: tuple[str, ...] = ()
    """Names of the Nodes that it waits for: those of all feasible hosts, none of which is ready."""
    sent_s: tuple[float, ...] = ()
    """When its last five submissions were sent, oldest first; only while it has no job (P32)."""
    given_up: int = 0
    """Jobs of it in a row that we gave up; 0: a host where that was is ready again."""
    given_up_s: float = 0.0
    """When the last of them ended."""
    given_up_on: tuple[tuple[str, float], ...] = ()
    """Slurm nodes where that was, and when; without those that are ready again."""
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
