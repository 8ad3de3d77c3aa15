"""Count waiting jobs by partition, features and GRES; read the partitions."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from sunk_sync.core.model.pending_jobs import Demand, PendingJobs, Waiting
from sunk_sync.core.translate.slurm_reasons import more_nodes_help
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    SlurmError,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.decode.job_record import JobRecord, label

KINDS_MAX = 200
"""Users write partitions, features and GRES; each set becomes a series of the metrics."""
OTHER = "other"
"""Features and GRES of the jobs beyond that."""
NOTHING = Waiting(0, 0)


_ASKED = re.compile(r"gres[/:]([^:=,]+(?::(?!\d+(?:,|$))[^:=,]+)?)").findall
"""`gpu`, `gpu:h100` and `nic` in `gres/gpu:2,gres:gpu:h100:4,gres/nic=1`."""


class _WirePartition(Struct, frozen=True):
    name: str


class _WirePartitions(Struct, frozen=True):
    partitions: list[_WirePartition]


_partitions = msgspec.json.Decoder(_WirePartitions).decode


class PendingSums:
    """Takes records of jobs one by one. Each of the partitions has a count, perhaps 0."""

    def __init__(self, partitions: Sequence[str]) -> None:
        self._sums = {
            Demand(label(name), "", "", waits_for_nodes=True): NOTHING
            for name in partitions[:KINDS_MAX]
        }

    def add(self, job: JobRecord, *, jobs: int) -> None:
        """Count a record of jobs that wait; `jobs`: how many they are."""
        nodes = jobs * max(1, int(number_of(job.node_count) or 1))
        for partition in (job.partition or "").split(","):
            self._note(_demand(job, partition), Waiting(jobs, nodes))

    def _note(self, demand: Demand, more: Waiting) -> None:
        if demand not in self._sums and len(self._sums) >= KINDS_MAX:
            demand = Demand(OTHER, OTHER, OTHER, waits_for_nodes=demand.waits_for_nodes)
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


def _demand(job: JobRecord, partition: str) -> Demand:
    return Demand(
        label(partition),
        label(job.features or ""),
        label(",".join(sorted(_gres_of(job)))),
        waits_for_nodes=more_nodes_help(job.state_reason or ""),
    )


def _gres_of(job: JobRecord) -> set[str]:
    asked = (job.tres_per_job, job.tres_per_node, job.tres_per_socket, job.tres_per_task)
    return {gres for text in asked for gres in _ASKED(text or "")}
