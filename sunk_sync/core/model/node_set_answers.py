"""What Kubernetes and Slurm answered to writes about NodeSets."""

from msgspec import Struct


class CreateRefused(Struct, frozen=True, gc=False):
    """The API server refused to make a Pod of a NodeSet (N21)."""

    namespace: str
    node_set: str
    name: str
    """Of the Pod."""
    why: str


class RequeueTried(Struct, frozen=True, gc=False):
    """sunk-sync asked Slurm to requeue the jobs on a Slurm node (N28)."""

    slurm_node: str
    asked_s: float
    requeued: int
    """Number of jobs that Slurm requeued."""
    left: str = ""
    """Why others stay; empty: none does."""
