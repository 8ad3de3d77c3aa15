"""One job of slurmctld."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sunk_sync.embedded.slurm.model.gres import Gres
from sunk_sync.embedded.slurm.model.node import Node

Kind = Literal["batch", "allocation", "external"]
"""Only a batch job has a process on its node and can be requeued."""

ALIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
ON_NODES: Final = frozenset({"RUNNING", "SUSPENDED"})


class JobRequest(Struct, frozen=True, kw_only=True):
    """The request of a user. CPUs, memory and GRES are per node."""

    name: str = "job"
    user: str = "root"
    """The user who submits; the job belongs to `user_id`."""
    user_id: int | None = None
    """None: the id of `user`."""
    group_id: int = 0
    partition: str = ""
    """Empty: the default partition."""
    nodes: int = 1
    any_of: bool = False
    """`nodes` was given: if it is less than `required_nodes`, any of these suffice."""
    cpus: int = 1
    cpus_per_task: int = 1
    tasks: int = 0
    """In total; 0: one per node."""
    tasks_per_node: int = 0
    memory_mb: int = 0
    """0: all memory of the node."""
    tres_per_node: str = ""
    """As requested: `gres/gpu:2`."""
    exclusive: bool = False
    """Whole nodes."""
    shared: str = ""
    """In the spelling of Slurm; `none` together with `exclusive`."""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    prefer: str = ""
    duration_s: float | None = 600.0
    """How long it runs; None: until it is cancelled."""
    ending_s: float | None = None
    """How long it stays COMPLETING; None: the default of the cluster."""
    exit_code: int = 0
    acted: bool = False
    """Its script is simulated from outside: SlurmWorld.exit_script ends it."""
    time_limit_min: int | None = None
    """None: no limit."""
    requeue: bool = True
    """It waits again if its node fails."""
    priority: int = 1
    """0: held."""
    kind: Kind = "batch"
    comment: str = ""
    admin_comment: str = ""
    command: str = ""
    """Command line. No update changes it."""
    extra: str = ""
    account: str = ""
    qos: str = ""
    directory: str = ""
    array: tuple[int, ...] = ()
    """Task ids; empty: no array."""
    array_most: int = 0
    """Limit of running tasks; 0: none."""


class Job(Struct, frozen=True, kw_only=True):
    """A job. Times are seconds of the cluster; None: not yet."""

    job_id: int
    request: JobRequest
    partition: str
    state: str = "PENDING"
    """Base state; `ending` adds COMPLETING."""
    ending: bool = False
    lingers: bool = False
    """While ending: its script is still on its nodes."""
    configuring: bool = False
    """Allocated, but PrologSlurmctld has not ended."""
    state_reason: str = "None"
    state_description: str = ""
    nodes: tuple[str, ...] = ()
    """Nodes of the current or last run."""
    gres: tuple[Gres, ...] = ()
    submitted_s: float = 0.0
    eligible_s: float = 0.0
    """The job does not start before this time."""
    started_s: float | None = None
    ended_s: float | None = None
    preempted_s: float | None = None
    """Start of its preemption; while it is RUNNING, it is in its grace time."""
    ends_by_s: float | None = None
    restarts: int = 0
    exit_code: int = 0
    signalled: bool = False
    """A cancel ended its script."""
    array_id: int = 0
    """0: no task of an array."""
    task: int | None = None
    """None: no task of an array, or the record of all waiting tasks."""
    waiting_tasks: tuple[int, ...] = ()
    """Waiting tasks of an array that this record represents."""

    @property
    def held(self) -> bool:
        """Whether it does not start before a user releases it."""
        return self.state == "PENDING" and self.request.priority == 0


def has_script(job: Job) -> bool:
    alive = job.state in ON_NODES and not job.configuring
    return job.request.kind == "batch" and (alive or job.lingers)


def states_of(job: Job) -> Sequence[str]:
    flags = ("COMPLETING",) if job.ending else ("CONFIGURING",) if job.configuring else ()
    return (job.state, *flags)


def needed_cpus(request: JobRequest, node: Node) -> int:
    return node.spec.cpus if request.exclusive else request.cpus


def needed_memory_mb(request: JobRequest, node: Node) -> int:
    return request.memory_mb or node.spec.memory_mb
