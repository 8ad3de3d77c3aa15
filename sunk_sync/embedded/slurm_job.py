"""One job as slurmctld knows it, and which jobs may start where. Pure values.

Everything that decides when and where a job runs goes through `plan_starts`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from sunk_sync.embedded.slurm_node import Node, is_fit

STARTS_MAX: Final = 100
"""Jobs that one tick of the scheduler looks at (default_queue_depth)."""


class JobRequest(Struct, frozen=True, kw_only=True):
    """What a user asks for. CPUs and memory are per node."""

    name: str = "job"
    user: str = "root"
    partition: str = ""
    """Empty: the default one."""
    nodes: int = 1
    cpus: int = 1
    memory_mb: int = 0
    """0: all of the node's."""
    exclusive: bool = False
    """Whole nodes."""
    required_nodes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    duration_s: float | None = 600.0
    """How long it runs; None: until it is cancelled."""
    ending_s: float | None = None
    """How long it stays COMPLETING; None: as the cluster's jobs do."""
    requeue: bool = True
    """It waits again where its node fails."""
    priority: int = 1
    kind: str = "batch"
    comment: str = ""
    extra: str = ""


class Job(Struct, frozen=True, kw_only=True):
    """A job. Times are world seconds; None: not yet."""

    job_id: int
    request: JobRequest
    partition: str
    state: str = "PENDING"
    """Base state; COMPLETING is told by `ending`."""
    ending: bool = False
    state_reason: str = "None"
    nodes: tuple[str, ...] = ()
    """Where it runs or ran last."""
    submitted_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None
    restarts: int = 0


def states_of(job: Job) -> Sequence[str]:
    """As slurmrestd spells it."""
    return (job.state, "COMPLETING") if job.ending else (job.state,)


def needed_cpus(request: JobRequest, node: Node) -> int:
    """CPUs that the request takes of this node."""
    return node.spec.cpus if request.exclusive else request.cpus


def needed_memory_mb(request: JobRequest, node: Node) -> int:
    """Memory that the request takes of this node."""
    return node.spec.memory_mb if request.exclusive else request.memory_mb or node.spec.memory_mb


class Start(Struct, frozen=True):
    """A job that starts now, and where."""

    job: Job
    nodes: tuple[Node, ...]


def plan_starts(
    queue: Iterable[Job], members: Mapping[str, Sequence[Node]]
) -> tuple[Sequence[Start], Sequence[Job]]:
    """Which jobs of the queue start now, and which were looked at and wait.

    `members`: partition → its nodes. First fit in order of priority, then of submission; a job
    that waits lets others pass (as backfill does for what is short enough).
    """
    starts: list[Start] = []
    waiting: list[Job] = []
    taken: dict[str, tuple[int, int]] = {}
    ordered = sorted(queue, key=lambda job: (-job.request.priority, job.job_id))
    for job in ordered[:STARTS_MAX]:
        nodes = _fitting(job.request, members.get(job.partition, ()), taken)
        if nodes is None:
            waiting.append(job)
            continue
        starts.append(Start(job, nodes))
        for node in nodes:
            cpus, memory_mb = taken.get(node.name, (0, 0))
            cpus += needed_cpus(job.request, node)
            taken[node.name] = (cpus, memory_mb + needed_memory_mb(job.request, node))
    return starts, waiting


def _fitting(
    request: JobRequest, nodes: Sequence[Node], taken: Mapping[str, tuple[int, int]]
) -> tuple[Node, ...] | None:
    found: list[Node] = []
    wanted = max(request.nodes, len(request.required_nodes))
    for node in sorted(nodes, key=lambda node: node.weight) if request.nodes else ():
        if request.required_nodes and node.name not in request.required_nodes:
            continue
        if _has_room(request, node, taken.get(node.name, (0, 0))):
            found.append(node)
        if len(found) == wanted:
            return tuple(found)
    return None


def _has_room(request: JobRequest, node: Node, taken: tuple[int, int]) -> bool:
    cpus_left = node.spec.cpus - node.cpus_used - taken[0]
    memory_left_mb = node.spec.memory_mb - node.memory_used_mb - taken[1]
    return (
        is_fit(node)
        and set(request.features) <= set(node.active_features)
        and needed_cpus(request, node) <= cpus_left
        and needed_memory_mb(request, node) <= memory_left_mb
    )
