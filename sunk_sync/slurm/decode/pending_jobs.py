"""Count waiting jobs by partition and features, from records of jobs."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from sunk_sync.core.model.pending_jobs import Demand, PendingJobs, Waiting
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    Number,
    SlurmError,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.decode.nodes import state_of

KINDS_MAX = 200
"""Users write partitions and features; each pair becomes a series of the metrics."""
OTHER = "other"
"""Features of the jobs beyond that."""
TEXT_MAX = 256
NOTHING = Waiting(0, 0)
_FOR_NODES = frozenset({
    "", "None", "Resources", "Priority", "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved",
    "NodeDown", "Node_Down", "ReqNodeNotAvail", "Partition_Config", "PartitionConfig",
    "PartitionNodeLimit", "Front_End_Down", "BadConstraints",
})  # fmt: skip
"""Reasons that more nodes can cure. BadConstraints: no node has the features yet."""
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?").fullmatch


class _WireJob(Struct, frozen=True):
    job_state: list[str] | str | None = None
    partition: str | None = None
    features: str | None = None
    state_reason: str | None = None
    node_count: Number = None
    array_task_string: str | None = None


class _WirePartition(Struct, frozen=True):
    name: str


class _WirePartitions(Struct, frozen=True):
    partitions: list[_WirePartition]


_partitions = msgspec.json.Decoder(_WirePartitions).decode
_job = msgspec.json.Decoder(_WireJob).decode


class PendingSums:
    """Takes records of jobs one by one. Each of the partitions has a count, perhaps 0."""

    def __init__(self, partitions: Sequence[str]) -> None:
        self._sums = {
            Demand(printable(name)[:TEXT_MAX], "", waits_for_nodes=True): NOTHING
            for name in partitions[:KINDS_MAX]
        }

    def add(self, record: bytes) -> None:
        """Count the record if the job waits; ignore one that is unreadable."""
        try:
            wire = decoded(_job, record)
        except UNREADABLE:
            return
        if "PENDING" not in state_of(wire.job_state):
            return
        jobs = tasks_in(wire.array_task_string or "")
        nodes = jobs * max(1, int(number_of(wire.node_count) or 1))
        for partition in (wire.partition or "").split(","):
            self._note(_demand(wire, partition), Waiting(jobs, nodes))

    def _note(self, demand: Demand, more: Waiting) -> None:
        if demand not in self._sums and len(self._sums) >= KINDS_MAX:
            demand = Demand(OTHER, OTHER, waits_for_nodes=demand.waits_for_nodes)
        known = self._sums.get(demand, NOTHING)
        self._sums[demand] = Waiting(known.jobs + more.jobs, known.nodes + more.nodes)

    def result(self) -> PendingJobs:
        return self._sums


def read_partitions(body: bytes) -> Sequence[str] | SlurmError:
    """Return the names of all partitions."""
    try:
        return [one.name for one in decoded(_partitions, body).partitions]
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"the partitions are unreadable: {error}"))


def _demand(wire: _WireJob, partition: str) -> Demand:
    reason = wire.state_reason or ""
    return Demand(
        printable(partition)[:TEXT_MAX],
        printable(wire.features or "")[:TEXT_MAX],
        waits_for_nodes=reason in _FOR_NODES or reason.startswith("ReqNodeNotAvail"),
    )


def tasks_in(text: str) -> int:
    """Return the number of waiting tasks in `0-9:3,12%2`; 1 for a job without tasks.

    Slurm cuts long lists short, with `...`; what follows is not counted.
    """
    parts: Sequence[str] = text.partition("%")[0].split(",")
    return max(1, sum(_tasks_in_range(part) for part in parts))


def _tasks_in_range(text: str) -> int:
    match = _RANGE(text)
    if match is None:
        return 0
    first, last, step = (int(one) if one else None for one in match.groups())
    if first is None or last is None:
        return 1
    return max(0, last - first) // max(1, step or 1) + 1
