"""Merge schemas of the kinds, for server-side apply and strategic merge patch."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Shape(Struct, frozen=True):
    """How one value merges. By default: maps by key, lists and scalars as a whole."""

    keys: tuple[str, ...] = ()
    """A list whose items these fields identify."""
    is_set: bool = False
    """A list of scalars with an owner for each item."""
    atomic: bool = False
    """A value that is always replaced as a whole."""
    fields: Mapping[str, "Shape"] = {}
    each: "Shape | None" = None
    defaults: Mapping[str, Any] = {}
    """Default values of keys that an item may omit."""

    def of(self, name: str) -> "Shape":
        return self.fields.get(name, PLAIN)


PLAIN = Shape()
ATOMIC = Shape(atomic=True)


def _by(*keys: str, each: Shape = PLAIN, **defaults: str) -> Shape:
    return Shape(keys=keys, each=each, defaults=defaults)


def _of(**fields: Shape) -> Shape:
    return Shape(fields=fields)


_METADATA = _of(ownerReferences=_by("uid", each=ATOMIC), finalizers=Shape(is_set=True))
_NAMED = _by("name")
_CONTAINERS = _by(
    "name",
    each=_of(
        env=_by("name", each=_of(valueFrom=_of(fieldRef=ATOMIC, secretKeyRef=ATOMIC))),
        ports=_by("containerPort", "protocol", protocol="TCP"),
        volumeMounts=_by("mountPath"),
        volumeDevices=_by("devicePath"),
        resources=_of(claims=_NAMED),
    ),
)
_TYPED = _by("type")

SHAPES: dict[str, Shape] = {
    "Node": _of(
        metadata=_METADATA,
        spec=_of(podCIDRs=Shape(is_set=True)),
        status=_of(conditions=_TYPED, addresses=_TYPED),
    ),
    "Pod": _of(
        metadata=_METADATA,
        spec=_of(
            containers=_CONTAINERS,
            initContainers=_CONTAINERS,
            volumes=_NAMED,
            imagePullSecrets=_NAMED,
            schedulingGates=_NAMED,
            hostAliases=_by("ip"),
            nodeSelector=ATOMIC,
            topologySpreadConstraints=_by("topologyKey", "whenUnsatisfiable"),
        ),
        status=_of(conditions=_TYPED, podIPs=_by("ip")),
    ),
    "Event": _of(metadata=_METADATA, involvedObject=ATOMIC, related=ATOMIC),
    "Namespace": _of(metadata=_METADATA, status=_of(conditions=_TYPED)),
    "Lease": _of(metadata=_METADATA),
    "NodeSet": _of(metadata=_METADATA),
    "PersistentVolumeClaim": _of(
        metadata=_METADATA,
        spec=_of(accessModes=ATOMIC, selector=ATOMIC),
        status=_of(accessModes=ATOMIC, conditions=_TYPED),
    ),
    "PersistentVolume": _of(metadata=_METADATA, spec=_of(accessModes=ATOMIC, mountOptions=ATOMIC)),
    "StorageClass": _of(metadata=_METADATA, allowedTopologies=ATOMIC, mountOptions=ATOMIC),
    "CSINode": _of(metadata=_METADATA, spec=_of(drivers=_NAMED)),
    "CSIDriver": _of(metadata=_METADATA, spec=ATOMIC),
    "CSIStorageCapacity": _of(metadata=_METADATA, nodeTopology=ATOMIC),
    "SelfSubjectAccessReview": _of(metadata=_METADATA),
}
MERGE_KEYS = {"ports": "containerPort"}
"""Keys that strategic merge uses where server-side apply has several."""
