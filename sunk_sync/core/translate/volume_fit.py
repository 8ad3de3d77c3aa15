"""Which volume a claim may take, by the rules of kube-scheduler's volume binding."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.pod_spec import Requirement, Term
from sunk_sync.core.model.volumes import Volume, VolumeClaim
from sunk_sync.core.translate.fences import holds
from sunk_sync.core.translate.node_fit import selects

Places = tuple[str, frozenset[str]]
"""Label of Nodes, and its values."""
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
IN_USE = "node(s) are not where another Pod uses the ReadWriteOnce volume"
TOO_MANY = "node(s) exceed max volume count"
NO_ROOM = "node(s) did not have enough free storage"
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
    if _forms(volume) != _forms(claim):
        return False
    if volume.size < claim.size or not set(claim.modes).issubset(volume.modes):
        return False
    return selects(claim.selector, volume.labels)


def _forms(one: Volume | VolumeClaim) -> tuple[bool, str, str]:
    return one.block, one.storage_class, one.attributes_class


def choose(volumes: Iterable[Volume], node: Node, *, taken: Collection[str] = ()) -> Volume | None:
    """Return the smallest of these volumes that the Node reaches; `taken`: names of others."""
    free = [one for one in volumes if one.name not in taken and holds(one.terms, node)]
    return min(free, key=_by_size, default=None)


def places_for(claims: Sequence[VolumeClaim], volumes: Iterable[Volume]) -> Places | None:
    """Return where these claims can have a free volume each, by the label that all volumes name.

    None: everywhere, or the volumes name their Nodes in different ways.
    """
    near: defaultdict[str, list[Volume]] = defaultdict(list)
    anywhere: list[Volume] = []
    keys: set[str] = set()
    for volume in volumes:
        if volume.terms is None:
            anywhere.append(volume)
            continue
        line = _only_line(volume.terms)
        if line is None:
            return None
        keys.add(line.key)
        for value in line.values:
            near[value].append(volume)
    if len(keys) != 1 or are_enough(claims, anywhere):
        return None
    return keys.pop(), frozenset(
        value for value, there in near.items() if are_enough(claims, [*there, *anywhere])
    )


def _only_line(terms: tuple[Term, ...]) -> Requirement | None:
    if len(terms) != 1 or terms[0].fields or len(terms[0].expressions) != 1:
        return None
    (line,) = terms[0].expressions
    return line if line.operator == "In" else None


def are_enough(claims: Iterable[VolumeClaim], volumes: Iterable[Volume]) -> bool:
    """Whether each claim can take one of these volumes, in turn the smallest that is left."""
    left = sorted(volumes, key=_by_size)
    for claim in claims:
        taken = next((one for one in left if can_take(claim, one)), None)
        if taken is None:
            return False
        left.remove(taken)
    return True


def _by_size(volume: Volume) -> tuple[int, str]:
    return volume.size, volume.name
