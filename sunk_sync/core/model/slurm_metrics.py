"""Jobs, nodes and scheduler of Slurm, summed up as dashboards read them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from sunk_sync.core.model.pending_jobs import PendingJobs


class JobSet(Struct, frozen=True, order=True, gc=False):
    """Jobs that are counted together."""

    partition: str
    """As Slurm spells it: of a waiting job perhaps several, with commas."""
    account: str
    user: str


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """One record of a job; the waiting tasks of an array share one."""

    job_id: int
    name: str
    jobs: JobSet
    state: str
    """A state of `slurm_queue_…`."""
    started_s: float | None = None
    """Unix time of the start; None: the job holds no node."""
    cpus: int = 0
    gpus: int = 0


class QueuedJob(Struct, frozen=True, kw_only=True, gc=False):
    """A record of pending jobs."""

    job_id: int
    """Of an array: that of the array."""
    partitions: tuple[str, ...]
    priority: int
    tasks: int = 1
    starts_s: float | None = None
    """Unix time at which Slurm expects the start; None: it says nothing."""


class JobNumbers(Struct, frozen=True, kw_only=True):
    pending: PendingJobs
    states: Mapping[str, int]
    """State of `slurm_queue_…` → jobs. The tasks of an array count one by one."""
    pending_dependency: int
    """Pending jobs that wait for another job."""
    sets: Mapping[str, Mapping[JobSet, int]]
    """`running`, `pending` → jobs of each partition, account and user."""
    rows: Sequence[JobRow] = ()
    queue: Sequence[QueuedJob] = ()


class Amount(Struct, frozen=True, gc=False):
    alloc: int = 0
    idle: int = 0
    """0 on a node that is drained or down."""
    total: int = 0


class Resources(Struct, frozen=True, kw_only=True, gc=False):
    cpu: Amount
    gpu: Amount
    mem: Amount
    """Mebibytes, as Slurm counts memory."""


class NodeRow(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[str, ...]
    state: frozenset[str]
    resources: Resources
    drained_s: float | None = None
    """Unix time at which the reason of the drain was set; None: not drained."""


class NodeNumbers(Struct, frozen=True, kw_only=True):
    partitions: Mapping[str, Resources]
    rows: Sequence[NodeRow] = ()


class Calls(Struct, frozen=True):
    """Calls of one type that slurmctld has answered since its last reset."""

    count: int
    mean_s: float | None


class SchedulerNumbers(Struct, frozen=True, kw_only=True):
    values: Mapping[str, float]
    """Name after `slurm_scheduler_` → value."""
    calls: Mapping[str, Calls]
    """By type of the message."""
