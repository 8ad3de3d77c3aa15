"""What rules may read: one host, or the cluster, as `Graph` puts it together for one decision."""

from msgspec import Struct

from sunk_sync.facts import Holding, Node, Reference, Sighting, SlurmdPod, SlurmNode
from sunk_sync.mark import Mark


class Host(Struct, frozen=True, kw_only=True, gc=False):
    """One machine seen from both sides, as the rules read it."""

    name: str
    """Name of the Slurm node."""
    slurm_node: SlurmNode | None
    slurm_listed: bool
    """Slurm was listed completely at least once: no row means no such node."""
    kube_listed: bool
    blind: bool
    """Slurm has been unreadable for a minute."""
    pod: SlurmdPod | None
    pod_since_s: float
    node: Node | None
    node_since_s: float
    owns_node: bool
    """The Node stands for this Slurm node and no other."""
    mark: Mark | None
    """Our mark as it stands on the Slurm node."""
    finished: SlurmdPod | None = None
    last: Mark | None = None
    """Where the host was last seen, by this process or by our mark on the Slurm node; told only
    where its Pod or its Node is missing."""
    last_moved: bool = False
    """The Pod in `last` lives, but claims another Slurm node now."""
    node_absent: bool = False
    """No Node of the name in `last` is in the picture: gone, or not listed yet."""
    pod_sighting: Sighting | None = None
    """Answer to the last read by name of the Pod in `last`."""
    node_sighting: Sighting | None = None
    rivals: tuple[Reference, ...] = ()
    """Claims that exclude each other; empty where all is well."""
    rival_pods: tuple[SlurmdPod, ...] = ()
    """The Pods among them that claim this very Slurm node."""
    stray: Node | None = None
    """A Node that claimed this Slurm node by equal name until a Pod or Node elsewhere did."""


class Cluster(Struct, frozen=True, kw_only=True, gc=False):
    """The cluster as a whole, as its rules read it."""

    holding: Holding | None
    marked: int
    """Slurm nodes that carry our mark."""
    unselected: int
    """Pods that exist by name but that no listing of slurmd Pods shows."""
