"""What Kubernetes and Slurm answered about NodeSets."""

from typing import Final

from msgspec import Struct

from sunk_sync.core.model.node_set import Window

ENDLESS: Final = 1 << 40
"""End of a job whose end nobody knows."""


class NodeSetAnswer(Struct, frozen=True, gc=False):
    """One of those below."""


class CreateRefused(NodeSetAnswer, frozen=True, gc=False):
    """The API server refused to make a Pod of a NodeSet (N21)."""

    namespace: str
    node_set: str
    name: str
    """Of the Pod."""
    why: str


class ReservationSet(NodeSetAnswer, frozen=True, gc=False):
    """Slurm has the reservation for the update of a NodeSet, or has none any more (N16)."""

    node_set: str
    """Its key."""
    slurm_nodes: tuple[str, ...]
    window: Window
    asked_s: float
    why_not: str = ""
    """Why Slurm has none as wanted, or empty."""


class JobEnds(NodeSetAnswer, frozen=True, gc=False):
    """When the jobs on Slurm nodes of a NodeSet end at the latest, by their time limits (N6)."""

    node_set: str
    """Its key."""
    asked_s: float
    ends: tuple[tuple[str, int], ...] = ()
    """Slurm node → Unix seconds. A node without jobs is absent, and all are if Slurm did not tell.
    """


class ControllerAge(NodeSetAnswer, frozen=True, gc=False):
    """slurmctld has run for at least so long (N3). Source: GET /diag.

    Read after each listing of Slurm nodes, but only while a ready Pod has no record.
    """

    asked_s: float
    runs_s: float


class NodeLimit(NodeSetAnswer, frozen=True, gc=False):
    """Slurm has at most so many nodes (N3). Source: MaxNodeCount in GET /conf of Slurm 26.05.

    slurmd is not told when it is one too many. Read as ControllerAge, but at most once a minute.
    """

    nodes_max: int


class RequeueTried(NodeSetAnswer, frozen=True, gc=False):
    """sunk-sync asked Slurm to requeue the jobs on a Slurm node (N28)."""

    slurm_node: str
    asked_s: float
    requeued: int
    """Number of jobs that Slurm requeued."""
    left: str = ""
    """Why others stay; empty: none does."""
