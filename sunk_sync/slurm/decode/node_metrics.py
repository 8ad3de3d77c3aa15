"""Sum the CPUs, GPUs and memory of Slurm nodes by partition, from records of nodes."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunk_sync.core.model.slurm_metrics import Amount, NodeNumbers, NodeRow, Resources
from sunk_sync.slurm.api.answers import UNREADABLE, Number, decoded, number_of
from sunk_sync.slurm.decode.job_record import label
from sunk_sync.slurm.decode.nodes import state_of
from sunk_sync.slurm.decode.wire_node import WireNodeInUse, cpus_of, gpus_of, memory_of

PARTITIONS_MAX: Final = 200
ROWS_MAX: Final = 20_000
_USELESS: Final = frozenset({"DOWN", "DRAIN", "ERROR", "FAIL", "UNKNOWN", "FUTURE"})
"""In these states a node takes no job: sinfo counts its free CPUs as `other`, not as idle."""


class _WireNode(WireNodeInUse, frozen=True, kw_only=True):
    partitions: list[str] | str | None = None
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


def _resources_of(node: _WireNode, *, usable: bool) -> Resources:
    return Resources(
        cpu=_amount(*cpus_of(node), usable=usable),
        gpu=_amount(*gpus_of(node), usable=usable),
        mem=_amount(*memory_of(node), usable=usable),
    )


def _amount(alloc: int, total: int, *, usable: bool) -> Amount:
    return Amount(alloc, max(0, total - alloc) if usable else 0, total)


def _each(partitions: list[str] | str | None) -> Sequence[str]:
    """Old versions join partitions with commas."""
    if isinstance(partitions, str):
        return partitions.split(",") if partitions else ()
    return partitions or ()
