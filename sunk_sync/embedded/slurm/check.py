"""Checks of slurmctld on a request, before and after it has a job id."""

from collections.abc import Collection, Iterable
from typing import Final

from sunk_sync.embedded.slurm.fit import is_out, wanted_nodes, why_never, why_not_now
from sunk_sync.embedded.slurm.memory import Memory, partition_of
from sunk_sync.embedded.slurm.model.gres import GresError, asked, known_names
from sunk_sync.embedded.slurm.model.job import Job, JobRequest
from sunk_sync.embedded.slurm.model.release import (
    BAD_FEATURE,
    BAD_GRES,
    BAD_PREFER,
    BAD_TASKS,
    BAD_TRES,
    HOLDS,
    INVALID_NAME,
    INVALID_PARTITION,
    NO_PRIORITY,
    NOT_ALLOWED,
    TOO_LONG,
    SlurmError,
)
from sunk_sync.embedded.slurm.model.tokens import OPERATORS

TEXT_MAX: Final = 1024
"""Maximum bytes of a name, comment or extra; an admin_comment may be longer."""


def invalid(request: JobRequest, memory: Memory, *, user: str | None = None) -> SlurmError | None:
    """Return why slurmctld makes no record at all. `user` None: the user was checked before."""
    if user is not None and request.admin_comment and user not in OPERATORS:
        return NOT_ALLOWED
    if (
        max(len(text.encode()) for text in (request.name, request.comment, request.extra))
        > TEXT_MAX
    ):
        return TOO_LONG
    return _invalid_gres(request, memory) or _invalid_names(request, memory)


def _invalid_gres(request: JobRequest, memory: Memory) -> SlurmError | None:
    try:
        kinds = {kind.partition(":")[0] for kind, _ in asked(request.tres_per_node)}
    except GresError:
        return BAD_TRES
    if not kinds:
        return None
    known = known_names([node.gres for node in memory.nodes.values()])
    return None if kinds <= known else BAD_GRES


def _invalid_names(request: JobRequest, memory: Memory) -> SlurmError | None:
    required, excluded = set(request.required_nodes), set(request.excluded_nodes)
    if not required | excluded <= memory.nodes.keys() or required & excluded:
        return INVALID_NAME
    if partition_of(request, memory) not in memory.partitions:
        return INVALID_PARTITION
    if not _are_known(request.features, memory):
        return BAD_FEATURE
    if request.prefer and not _are_known(request.prefer.split("&"), memory):
        return BAD_PREFER
    modern = memory.setup.generation == "26.05"
    return BAD_TASKS if modern and 0 < request.tasks < request.nodes else None


def _are_known(features: Collection[str], memory: Memory) -> bool:
    if not features:
        return True
    known = {feature for node in memory.nodes.values() for feature in node.features}
    return known.issuperset(features)


def impossible(job: Job, memory: Memory) -> SlurmError | None:
    """Return why the job can never start; only a too large allocation has its own number."""
    members = memory.members([job.partition])[job.partition]
    return why_never(job.request, members, release=memory.release)


def refused_now(job: Job, memory: Memory, *, queue: Iterable[Job]) -> SlurmError | None:
    """Return why an allocation is not tried at once; None: it starts if nodes are free."""
    if job.held:
        return HOLDS
    if any(is_ahead(each, job, memory=memory) for each in queue):
        return NO_PRIORITY
    return impossible(job, memory)


def no_room(job: Job, memory: Memory) -> SlurmError:
    return why_not_now(job.request, memory.members([job.partition])[job.partition])


def is_kept_out(job: Job, memory: Memory) -> tuple[str, ...]:
    """Return the required nodes that are down or drained; none if enough others are up."""
    required = job.request.required_nodes
    nodes = (memory.nodes.get(name) for name in required)
    out = tuple(node.name for node in nodes if node is not None and is_out(node))
    spare = len(required) - wanted_nodes(job.request)
    return out if len(out) > max(spare, 0) else ()


def is_ahead(other: Job, job: Job, *, memory: Memory) -> bool:
    """Whether another job waits for the same nodes and comes first."""
    if other.held or other.ending or other.eligible_s > memory.now_s or is_kept_out(other, memory):
        return False
    theirs, ours = memory.partitions[other.partition], memory.partitions[job.partition]
    if theirs.name == ours.name:
        return other.request.priority >= job.request.priority
    members = memory.members([theirs.name, ours.name])
    shared = {node.name for node in members[theirs.name]} & {
        node.name for node in members[ours.name]
    }
    return theirs.tier > ours.tier and bool(shared)


def wants_whole_partition(job: Job) -> bool:
    return len(job.request.required_nodes) < wanted_nodes(job.request)
