"""One job as slurmctld knows it. Pure values."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sunk_sync.embedded.slurm.model.gres import Gres
from sunk_sync.embedded.slurm.model.node import Node

Kind = Literal["batch", "allocation", "external"]
"""Only a batch job has a process on its node, and can be requeued."""

ALIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
ON_NODES: Final = frozenset({"RUNNING", "SUSPENDED"})


class JobRequest(Struct, frozen=True, kw_only=True):
    """What a user asks for. CPUs, memory and gres are per node."""

    name: str = "job"
    user: str = "root"
    """Who asks; the job is `user_id`'s."""
    user_id: int | None = None
    """None: the id of `user`."""
    group_id: int = 0
    partition: str = ""
    """Empty: the default one."""
    nodes: int = 1
    any_of: bool = False
    """`nodes` was asked for: it may be fewer than `required_nodes`, then any of them will do."""
    cpus: int = 1
    cpus_per_task: int = 1
    tasks: int = 0
    """In all; 0: one for each node."""
    tasks_per_node: int = 0
    memory_mb: int = 0
    """0: all of the node's."""
    tres_per_node: str = ""
    """As it was asked for: `gres/gpu:2`."""
    exclusive: bool = False
    """Whole nodes."""
    shared: str = ""
    """In Slurm's spelling; `none` goes with `exclusive`."""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    prefer: str = ""
    duration_s: float | None = 600.0
    """How long it runs; None: until it is cancelled."""
    ending_s: float | None = None
    """How long it stays COMPLETING; None: as the cluster's jobs do."""
    exit_code: int = 0
    """Of its script."""
    acted: bool = False
    """Its script is played from outside: SlurmWorld.exit_script ends it."""
    time_limit_min: int | None = None
    """None: none."""
    requeue: bool = True
    """It waits again where its node fails."""
    priority: int = 1
    """0: held."""
    kind: Kind = "batch"
    comment: str = ""
    admin_comment: str = ""
    extra: str = ""
    account: str = ""
    qos: str = ""
    directory: str = ""
    array: tuple[int, ...] = ()
    """Task ids; empty: no array."""
    array_most: int = 0
    """So many tasks at a time; 0: all."""


class Job(Struct, frozen=True, kw_only=True):
    """A job. Times are world seconds; None: not yet."""

    job_id: int
    request: JobRequest
    partition: str
    state: str = "PENDING"
    """Base state; COMPLETING is told by `ending`."""
    ending: bool = False
    lingers: bool = False
    """While it is ending: its script is still on its nodes."""
    configuring: bool = False
    """Allocated, but PrologSlurmctld has not answered."""
    state_reason: str = "None"
    state_description: str = ""
    nodes: tuple[str, ...] = ()
    """Where it runs or ran last."""
    gres: tuple[Gres, ...] = ()
    """What it has on each of them."""
    submitted_s: float = 0.0
    eligible_s: float = 0.0
    """Not to be started before."""
    started_s: float | None = None
    ended_s: float | None = None
    preempted_s: float | None = None
    """Its preemption has begun; while it is RUNNING this is its grace."""
    ends_by_s: float | None = None
    """When its grace is over."""
    restarts: int = 0
    exit_code: int = 0
    array_id: int = 0
    """0: of no array."""
    task: int | None = None
    """None: of no array, or still one record for all that wait."""
    waiting_tasks: tuple[int, ...] = ()
    """Tasks of an array that this one record stands for."""

    @property
    def held(self) -> bool:
        """Not to be started until somebody releases it."""
        return self.state == "PENDING" and self.request.priority == 0


def has_script(job: Job) -> bool:
    """A process of it is on its nodes."""
    alive = job.state in ON_NODES and not job.configuring
    return job.request.kind == "batch" and (alive or job.lingers)


def states_of(job: Job) -> Sequence[str]:
    """As slurmrestd spells it."""
    flags = ("COMPLETING",) if job.ending else ("CONFIGURING",) if job.configuring else ()
    return (job.state, *flags)


def needed_cpus(request: JobRequest, node: Node) -> int:
    """CPUs that the request takes of this node."""
    return node.spec.cpus if request.exclusive else request.cpus


def needed_memory_mb(request: JobRequest, node: Node) -> int:
    """Memory that the request takes of this node."""
    return request.memory_mb or node.spec.memory_mb
