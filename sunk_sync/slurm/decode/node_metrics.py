"""Sum the CPUs, GPUs and memory of Slurm nodes by partition, from records of nodes."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.slurm_metrics import Amount, NodeNumbers, NodeRow, Resources
from sunk_sync.slurm.api.answers import UNREADABLE, Number, decoded, number_of
from sunk_sync.slurm.decode.job_record import label
from sunk_sync.slurm.decode.nodes import state_of

PARTITIONS_MAX: Final = 200
ROWS_MAX: Final = 20_000
_USELESS: Final = frozenset({"DOWN", "DRAIN", "ERROR", "FAIL", "UNKNOWN", "FUTURE"})
"""In these states a node takes no job: sinfo counts its free CPUs as `other`, not as idle."""


_GPUS: Final = re.compile(r"(?:^|,)gpu(?::[^:,(]+)?:(\d{1,9})").findall
"""In `gpu:a100:4(IDX:0,2-3),gpu:1`; an entry begins at the start or after a comma."""


class _WireNode(Struct, frozen=True):
    name: str
    state: list[str] | str | None = None
    partitions: list[str] | str | None = None
    cpus: int = 0
    effective_cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    alloc_memory: int = 0
    gres: str | None = None
    gres_used: str | None = None
    reason_changed_at: Number = None


_node = msgspec.json.Decoder(_WireNode).decode


class _Sum:
    """Three numbers of one resource that grow."""

    def __init__(self) -> None:
        self._alloc = self._idle = self._total = 0

    def add(self, more: Amount) -> None:
        self._alloc += more.alloc
        self._idle += more.idle
        self._total += more.total

    def result(self) -> Amount:
        return Amount(self._alloc, self._idle, self._total)


class _Sums:
    """The resources of one partition."""

    def __init__(self) -> None:
        self._cpu, self._gpu, self._mem = _Sum(), _Sum(), _Sum()

    def add(self, more: Resources) -> None:
        self._cpu.add(more.cpu)
        self._gpu.add(more.gpu)
        self._mem.add(more.mem)

    def result(self) -> Resources:
        return Resources(cpu=self._cpu.result(), gpu=self._gpu.result(), mem=self._mem.result())


class NodeSums:
    """Takes records of nodes one by one. Each of the partitions has numbers, perhaps 0."""

    def __init__(self, partitions: Sequence[str], *, rows: bool) -> None:
        """`rows`: also keep one row for each node."""
        self._sums = {label(name): _Sums() for name in partitions[:PARTITIONS_MAX]}
        self._keeps_rows = rows
        self._rows: list[NodeRow] = []

    def add(self, record: bytes) -> None:
        """Add the node to each of its partitions; ignore a record that is unreadable."""
        try:
            node = decoded(_node, record)
        except UNREADABLE:
            return
        state = state_of(node.state)
        resources = _resources_of(node, usable=not state & _USELESS)
        partitions = tuple(map(label, _each(node.partitions)))
        for name in partitions:
            if name in self._sums:
                self._sums[name].add(resources)
        if self._keeps_rows and len(self._rows) < ROWS_MAX:
            self._rows.append(
                NodeRow(
                    name=label(node.name),
                    partitions=partitions,
                    state=state,
                    resources=resources,
                    drained_s=number_of(node.reason_changed_at) if "DRAIN" in state else None,
                )
            )

    def result(self) -> NodeNumbers:
        partitions: Mapping[str, Resources] = {
            name: sums.result() for name, sums in self._sums.items()
        }
        return NodeNumbers(partitions=partitions, rows=self._rows)


def gpus_in(gres: str) -> int:
    """Return the number of GPUs in `gpu:a100:4(S:0-1),gpu:2,shard:8`: six."""
    return sum(map(int, _GPUS(gres))) if "gpu" in gres else 0


def _resources_of(node: _WireNode, *, usable: bool) -> Resources:
    cpus = node.effective_cpus or node.cpus
    return Resources(
        cpu=_amount(node.alloc_cpus, cpus, usable=usable),
        gpu=_amount(gpus_in(node.gres_used or ""), gpus_in(node.gres or ""), usable=usable),
        mem=_amount(node.alloc_memory, node.real_memory, usable=usable),
    )


def _amount(alloc: int, total: int, *, usable: bool) -> Amount:
    return Amount(alloc, max(0, total - alloc) if usable else 0, total)


def _each(partitions: list[str] | str | None) -> Sequence[str]:
    """Old versions join partitions with commas."""
    if isinstance(partitions, str):
        return partitions.split(",") if partitions else ()
    return partitions or ()
