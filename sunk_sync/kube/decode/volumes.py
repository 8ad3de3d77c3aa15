"""Claims, volumes and classes of storage from wire shapes to facts."""

from sys import intern
from typing import Final

from sunk_sync.core.model.pod_spec import Requirement, Term
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.translate.quantity import NANO, nanos
from sunk_sync.kube.decode import wire_volumes as shapes
from sunk_sync.kube.decode.pod_rules import node_terms, selector_of
from sunk_sync.kube.decode.strings import cut

BLOCK: Final = "Block"
WAITS: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
FREE_PHASES: Final = ("", "Pending", "Available")
ZONES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
ZONE_SEPARATOR: Final = "__"
"""Between the zones of a volume that several zones can reach."""
NO_MARKS: Final = shapes.WireClaimAnnotations()


def claim_row(wire: shapes.WireVolumeClaim) -> VolumeClaim:
    """Decode a claim. Raise one of BAD_BYTES if its size is invalid."""
    meta, spec = wire.metadata, wire.spec
    marks = meta.annotations or NO_MARKS
    storage_class = spec.storage_class_name
    requests = spec.resources.requests if spec.resources is not None else None
    return VolumeClaim(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        storage_class=intern(marks.storage_class if storage_class is None else storage_class),
        attributes_class=intern(spec.volume_attributes_class_name or ""),
        volume=spec.volume_name,
        bound=bool(spec.volume_name and marks.bound),
        modes=spec.access_modes or (),
        block=spec.volume_mode == BLOCK,
        size=_bytes(requests),
        selector=selector_of(spec.selector) or () if spec.selector is not None else (),
        selected_node=cut(marks.selected_node),
        selected_for=cut(marks.selected_for),
        terminating=meta.deletion_timestamp is not None,
    )


def volume_row(wire: shapes.WireVolume) -> Volume:
    """Decode a volume. Raise one of BAD_BYTES if its size is invalid."""
    meta, spec = wire.metadata, wire.spec
    labels = tuple(sorted((meta.labels or {}).items()))
    affinity, owner = spec.node_affinity, spec.claim_ref
    terms = node_terms(affinity.required) if affinity is not None else None
    return Volume(
        name=meta.name,
        uid=meta.uid,
        storage_class=intern(spec.storage_class_name),
        attributes_class=intern(spec.volume_attributes_class_name or ""),
        modes=spec.access_modes or (),
        block=spec.volume_mode == BLOCK,
        size=_bytes(spec.capacity),
        terms=_within_zones(terms, labels),
        labels=labels,
        claim=f"{owner.namespace}/{owner.name}" if owner is not None else "",
        claim_uid=owner.uid if owner is not None else "",
        available=wire.status.phase in FREE_PHASES,
        driver=intern(spec.csi.driver) if spec.csi is not None else "",
        handle=spec.csi.volume_handle if spec.csi is not None else "",
        terminating=meta.deletion_timestamp is not None,
    )


def csi_node_row(wire: shapes.WireCsiNode) -> CsiNode:
    limits = {
        intern(driver.name): driver.allocatable.count
        for driver in wire.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    return CsiNode(
        name=intern(wire.metadata.name),
        uid=wire.metadata.uid,
        limits=tuple(sorted(limits.items())),
    )


def csi_driver_row(wire: shapes.WireCsiDriver) -> CsiDriver:
    meta = wire.metadata
    return CsiDriver(name=meta.name, uid=meta.uid, tells_room=wire.spec.storage_capacity)


def storage_capacity_row(wire: shapes.WireStorageCapacity) -> StorageCapacity:
    """Decode one room for volumes. Raise one of BAD_BYTES if its size is invalid."""
    meta, largest = wire.metadata, wire.maximum_volume_size
    size = wire.capacity if largest is None else largest
    return StorageCapacity(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        storage_class=intern(wire.storage_class_name),
        size=-1 if size is None else _bytes_of(size),
        nodes=selector_of(wire.node_topology),
    )


def storage_class_row(wire: shapes.WireStorageClass) -> StorageClass:
    topologies = wire.allowed_topologies
    terms = None
    if topologies:
        terms = tuple(
            Term(tuple(_among(line.key, line.values or ()) for line in one.match_label_expressions))
            for one in topologies
            if one.match_label_expressions
        )
    return StorageClass(
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        waits=wire.volume_binding_mode == WAITS,
        provisioner="" if wire.provisioner == NO_PROVISIONER else intern(cut(wire.provisioner)),
        terms=terms,
    )


def _bytes(storage: shapes.WireStorage | None) -> int:
    return 0 if storage is None else _bytes_of(storage.storage)


def _bytes_of(quantity: shapes.WireQuantity) -> int:
    return -(-nanos(str(quantity)) // NANO)


def _within_zones(
    terms: tuple[Term, ...] | None, labels: tuple[tuple[str, str], ...]
) -> tuple[Term, ...] | None:
    """Add the zone and region that older provisioners note as labels of the volume."""
    own = dict(labels)
    lines = tuple(
        _among(key, tuple(own[key].split(ZONE_SEPARATOR))) for key in ZONES if own.get(key)
    )
    if not lines:
        return terms
    if terms is None:
        return (Term(lines),)
    return tuple(Term((*term.expressions, *lines), term.fields) for term in terms)


def _among(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement(key, "In", values)
