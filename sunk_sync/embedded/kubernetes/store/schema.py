"""How lists and maps of the kinds merge: what server-side apply and strategic merge must know."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Shape(Struct, frozen=True):
    """How one value merges. Without more: maps by key, lists and scalars as one."""

    keys: tuple[str, ...] = ()
    """A list whose items are told apart by these fields."""
    is_set: bool = False
    """A list of scalars, each of which counts by itself."""
    atomic: bool = False
    """One value, whatever is in it."""
    fields: Mapping[str, "Shape"] = {}
    each: "Shape | None" = None
    """The items of the list."""
    defaults: Mapping[str, Any] = {}
    """Keys that may be left out, and what they are then."""

    def of(self, name: str) -> "Shape":
        """The shape of this field."""
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
    "SelfSubjectAccessReview": _of(metadata=_METADATA),
}
MERGE_KEYS = {"ports": "containerPort"}
"""Strategic merge knows one key for a list where server-side apply has several."""
