"""Entries of the tables and of their indexes."""

from typing import Generic, TypeVar

from msgspec import Struct

from sunk_sync.core.model.facts import Node, Reference, Row, SlurmdPod

RowT = TypeVar("RowT", bound=Row)


class Entry(Struct, Generic[RowT], gc=False, eq=False):
    """One row and its age.

    `gc=False`, here and in all facts: none of these can be part of a cycle. A hundred thousand
    tracked objects would stop the loop for 0.1 s at each full collection.
    """

    row: RowT
    order: float
    round: int
    """Number of the listing that last contained the row."""
    learnt_s: float
    """Monotonic second of the latest news about the row."""
    since_s: float
    """Monotonic second since when the row is ready, or not ready."""
    changed_s: float
    """Monotonic second of the latest change of the row."""
    named_order: float
    """Order of the latest report by the source itself. The answer to a write may be newer, but does
    not prove that the source still has the row."""


class Claim(Struct, frozen=True, gc=False):
    """The Pod and Node of one Slurm node."""

    pod: Entry[SlurmdPod] | None = None
    """The one living slurmd Pod."""
    finished: Entry[SlurmdPod] | None = None
    """If none lives: one that succeeded or failed; it claims nothing."""
    node: Entry[Node] | None = None
    """The Node of that Pod, else the Node that claims the Slurm node itself."""
    rivals: tuple[Reference, ...] = ()
    """Objects whose claims exclude each other."""
    alone: bool = False
    """No other object claims this Pod, this Node or this Slurm node."""


UNCLAIMED = Claim()
