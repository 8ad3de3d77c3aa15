"""What the tables and the indexes over them keep of each object."""

from typing import Generic, TypeVar

from msgspec import Struct

from sunk_sync.core.model.facts import Node, Reference, Row, SlurmdPod

RowT = TypeVar("RowT", bound=Row)


class Entry(Struct, Generic[RowT], gc=False, eq=False):
    """One row and how old the knowledge is.

    `gc=False`, here and in all facts: none of these can be part of a cycle, and a hundred
    thousand of them would stop the loop for a tenth of a second at every full collection.
    """

    row: RowT
    order: float
    round: int
    """Number of the listing that last named the row."""
    learnt_s: float
    """Monotonic second of the news that last spoke of the row."""
    since_s: float
    """Monotonic second since when the row reads ready or not ready, as it now does."""
    named_order: float
    """Order of what the source itself last said of the row: an answer to a write of ours may be
    newer, yet says nothing of whether the source still shows the row."""


class Claim(Struct, frozen=True, gc=False):
    """What stands for one Slurm node on the Kubernetes side."""

    pod: Entry[SlurmdPod] | None = None
    """The one living slurmd Pod."""
    finished: Entry[SlurmdPod] | None = None
    """Where none lives: a Succeeded or Failed one; it claims nothing."""
    node: Entry[Node] | None = None
    """The Node of that Pod, else the Node that claims the Slurm node itself."""
    rivals: tuple[Reference, ...] = ()
    """Objects whose claims exclude each other; empty where all is well."""
    alone: bool = False
    """Nothing else speaks of this Pod, this Node or this Slurm node."""


UNCLAIMED = Claim()
