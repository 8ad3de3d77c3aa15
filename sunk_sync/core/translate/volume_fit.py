"""Which volume a claim may take, by the rules of kube-scheduler's volume binding."""

from collections.abc import Collection, Iterable

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.volumes import Volume, VolumeClaim
from sunk_sync.core.translate.fences import holds
from sunk_sync.core.translate.node_fit import selects

OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
IN_USE = "node(s) are not where another Pod uses the ReadWriteOnce volume"
TOO_MANY = "node(s) exceed max volume count"
SELECTED = "node(s) are not where the provisioner makes the volume"


def is_reserved_for(volume: Volume, claim: VolumeClaim) -> bool:
    """Whether the volume names this claim as its owner."""
    if volume.claim != claim_path(claim):
        return False
    return volume.claim_uid in ("", claim.uid)


def claim_path(claim: VolumeClaim) -> str:
    return f"{claim.namespace}/{claim.name}"


def can_take(claim: VolumeClaim, volume: Volume) -> bool:
    """Whether a free volume has what the claim asks for; its Nodes do not count."""
    if volume.claim or volume.terminating or not volume.available:
        return False
    if (volume.block, volume.storage_class) != (claim.block, claim.storage_class):
        return False
    if volume.size < claim.size or not set(claim.modes).issubset(volume.modes):
        return False
    return selects(claim.selector, volume.labels)


def choose(volumes: Iterable[Volume], node: Node, *, taken: Collection[str] = ()) -> Volume | None:
    """Return the smallest of these volumes that the Node reaches; `taken`: names of others."""
    free = [one for one in volumes if one.name not in taken and holds(one.terms, node)]
    return min(free, key=lambda one: (one.size, one.name), default=None)
