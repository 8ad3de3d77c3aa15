"""Writes about NodeSets, their Pods, and their nodes in Slurm."""

from msgspec import Struct

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.node_set import Counts, NodeSet, Plan, Requeueing, Stamp, Window


class CreatePod(Struct, frozen=True, gc=False):
    """Make one Pod of a NodeSet, with this fixed name (N1)."""

    reference: Reference
    """The NodeSet."""
    name: str
    spec: NodeSet
    plan: Plan
    node_name: str = ""
    """The only Node where it may run; empty: the scheduler chooses (N17)."""


class Condemn(Struct, frozen=True, gc=False):
    """Set the annotation pending-deletion on a Pod of a NodeSet; an empty text removes it."""

    reference: Reference
    why: str


class DeletePod(Struct, frozen=True, gc=False):
    """Delete a condemned Pod of a NodeSet, if it still is as the action says (N8)."""

    reference: Reference
    why: str
    """Its annotation pending-deletion."""
    drained: bool
    """It must have the annotation drained: its record was read idle after the drain."""
    unbound: bool = False
    """It must be on no Node: slurmd never started."""


class ClearPod(Struct, frozen=True, gc=False):
    """Delete a Pod of a NodeSet that has ended (N21)."""

    reference: Reference


class RemakePod(Struct, frozen=True, gc=False):
    """Delete a Pod of a NodeSet whose record vanished (N3); the breaker counts it (N5)."""

    reference: Reference


class DeleteNode(Struct, frozen=True, gc=False):
    """Delete the record of a Slurm node with this stamp, if no job needs it (N10)."""

    slurm_node: str
    stamp: Stamp


class SetStatus(Struct, frozen=True, gc=False):
    """Set the status of a NodeSet."""

    reference: Reference
    spec: NodeSet
    """The NodeSet that the status describes."""
    revision: str
    counts: Counts
    conditions: tuple[Condition, ...]


class SetFinalizer(Struct, frozen=True, gc=False):
    """Set the finalizer of sunk-sync on a NodeSet, or remove it (N23)."""

    reference: Reference
    held: bool


class RequeueJobs(Struct, frozen=True, gc=False):
    """Requeue jobs on a drained Slurm node (N28)."""

    slurm_node: str
    which: Requeueing


class GetJobEnds(Struct, frozen=True, gc=False):
    """List all jobs, to know which Slurm nodes of a NodeSet are free first (N6)."""

    node_set: str
    """Key of the NodeSet."""
    slurm_nodes: tuple[str, ...]
    """Sorted."""


class SetReservation(Struct, frozen=True, gc=False):
    """Reserve these Slurm nodes for the update of a NodeSet; without any, end it (N16)."""

    name: str
    """Of the reservation."""
    node_set: str
    """Key of the NodeSet."""
    slurm_nodes: tuple[str, ...]
    """Sorted."""
    window: Window


PodEnd = DeletePod | ClearPod | RemakePod
NodeSetAction = CreatePod | Condemn | PodEnd | SetStatus | SetFinalizer
OnRecord = DeleteNode | RequeueJobs
"""They list all jobs first."""
OfNodeSets = OnRecord | SetReservation | GetJobEnds
"""Requests to Slurm."""
