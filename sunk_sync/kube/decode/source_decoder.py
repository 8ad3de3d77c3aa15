"""Decode the answers of the API server to facts, one decoder for each source.

The msgspec structs have only the fields that rules read. Untrusted texts, such as annotations, are
cut to a bounded length.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from sunk_sync.core.model.facts import Node, Observed, Pod, Row, SlurmdPod, Source
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.kube.api.answers import BAD_BYTES
from sunk_sync.kube.decode import wire_hosts, wire_node_sets, wire_pods, wire_volumes
from sunk_sync.kube.decode.hosts import (
    namespace_row,
    node_row,
    offering_node_row,
    slurmd_pod_row,
)
from sunk_sync.kube.decode.node_sets import node_set_row
from sunk_sync.kube.decode.pods import other_row, pod_row
from sunk_sync.kube.decode.strings import VALUE_LENGTH_MAX
from sunk_sync.kube.decode.volumes import (
    claim_row,
    csi_driver_row,
    csi_node_row,
    storage_capacity_row,
    storage_class_row,
    volume_row,
)

VERSION_LENGTH_MAX = 16
NAME_LENGTH_MAX = 253

RowT = TypeVar("RowT", bound=Row)
ShapeT = TypeVar("ShapeT")


class Unreadable(Struct, frozen=True):
    """An object that cannot be decoded. Other objects are not affected."""

    name: str
    """`namespace/name`, or the readable part of it."""
    why: str
    order: float = 0.0
    """Its resourceVersion; 0 if unreadable."""


class Bookmark(Struct, frozen=True):
    """The server has sent everything up to this resourceVersion."""

    version: str
    ends_listing: bool
    """The bookmark ends the initial events of a WatchList."""


class DeletedEvent(Struct, frozen=True):
    """An event DELETED, with the last state of the object."""

    observed: Observed


class ErrorEvent(Struct, frozen=True):
    """An event ERROR; `status` is the JSON of its Status."""

    status: bytes


class ListPage(Struct, frozen=True):
    """One page of a list. Its items are decoded later, in slices."""

    version: str
    items: list[msgspec.Raw]
    next: str
    """Continue token; empty on the last page."""


WatchEvent = Observed | DeletedEvent | Bookmark | ErrorEvent | Unreadable

_decode_list = msgspec.json.Decoder(wire_hosts.WireList).decode
_decode_any_event = msgspec.json.Decoder(wire_hosts.WireEvent[msgspec.Raw]).decode
_decode_bookmark = msgspec.json.Decoder(wire_hosts.WireBookmark).decode
_decode_any_object = msgspec.json.Decoder(wire_hosts.WireAnyObject).decode


class SourceDecoder(Generic[RowT]):
    def __init__(
        self, source: Source, kind: str, shape: type[ShapeT], row_of: Callable[[ShapeT], RowT]
    ) -> None:
        self.source: Source = source
        self.kind = kind
        self._row_of: Callable[[Any], RowT] = row_of
        self._decode_object = msgspec.json.Decoder(shape).decode
        event: Any = wire_hosts.WireEvent
        self._decode_event = msgspec.json.Decoder(event[shape]).decode

    def page(self, body: bytes) -> ListPage:
        """Decode one page of a list. Raise one of BAD_BYTES if it is not a list of this kind."""
        answer = _decode_list(body)
        if answer.kind != f"{self.kind}List":
            raise ValueError(f"the answer has kind {answer.kind[:40]!r} instead of {self.kind}List")
        version = answer.metadata.resource_version
        order_of(version)
        return ListPage(version, answer.items, answer.metadata.continue_ or "")

    def object(self, body: bytes | msgspec.Raw) -> Observed | Unreadable:
        """Decode an item of a list, or the answer to a write."""
        try:
            return self._observed(self._decode_object(body))
        except BAD_BYTES as error:
            return _unreadable(body, error)

    def event(self, line: bytes) -> WatchEvent | None:
        """Decode one line of a watch; None if it is not an event."""
        try:
            event = self._decode_event(line)
            kind = event.type
            if kind in ("MODIFIED", "ADDED"):
                return self._observed(event.object)
            if kind == "DELETED":
                return DeletedEvent(self._observed(event.object))
        except BAD_BYTES:
            return self._odd_event(line)
        return self._odd_event(line)

    def _observed(self, wire: Any) -> Observed:
        meta = wire.metadata
        if not (meta.name and meta.uid and wire.kind == self.kind):
            raise ValueError(f"this is no {self.kind} with name and uid")
        return Observed(self._row_of(wire), order_of(meta.resource_version))

    def _odd_event(self, line: bytes) -> WatchEvent | None:
        """Decode an event that is no change, or a change whose object is unreadable."""
        try:
            event = _decode_any_event(line)
        except BAD_BYTES:
            return None
        if event.type == "ERROR":
            return ErrorEvent(bytes(event.object))
        if event.type == "BOOKMARK":
            return _bookmark(event.object)
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return None
        seen = self.object(event.object)
        return seen if isinstance(seen, Unreadable) else None


def order_of(version: str) -> float:
    """Return a resourceVersion as a number: the revision of etcd, exact in a float up to 2**53.

    Raise ValueError if it is not a number.
    """
    if not (version.isascii() and version.isdecimal()) or len(version) > VERSION_LENGTH_MAX:
        raise ValueError(f"resourceVersion {version[:40]!r} is not a number")
    return float(version)


def _bookmark(body: msgspec.Raw) -> Bookmark | None:
    try:
        meta = _decode_bookmark(body).metadata
        order_of(meta.resource_version)
    except BAD_BYTES:
        return None
    annotations = meta.annotations
    ends = annotations is not None and annotations.initial_events_end == "true"
    return Bookmark(meta.resource_version, ends)


def _unreadable(body: bytes | msgspec.Raw, error: Exception) -> Unreadable:
    why = str(error)[:VALUE_LENGTH_MAX]
    try:
        meta = _decode_any_object(body).metadata
    except BAD_BYTES:
        return Unreadable("", why)
    name = "/".join(str(part)[:NAME_LENGTH_MAX] for part in (meta.namespace, meta.name) if part)
    try:
        return Unreadable(name, why, order_of(str(meta.resource_version)))
    except ValueError:
        return Unreadable(name, why)


NODES: SourceDecoder[Node] = SourceDecoder("nodes", "Node", wire_hosts.WireNode, node_row)
OFFERING_NODES: SourceDecoder[Node] = SourceDecoder(
    "nodes", "Node", wire_pods.WireOfferingNode, offering_node_row
)
"""Nodes with labels, taints and allocatable, for the scheduler only: they cost time."""
SLURMD_PODS: SourceDecoder[SlurmdPod] = SourceDecoder(
    "slurmd_pods", "Pod", wire_hosts.WireSlurmdPod, slurmd_pod_row
)
OTHERS: SourceDecoder[Pod] = SourceDecoder("other_pods", "Pod", wire_pods.WireOtherPod, other_row)
"""Pods of other schedulers: only their Node and their requests."""
NAMESPACES: SourceDecoder[Namespace] = SourceDecoder(
    "namespaces", "Namespace", wire_hosts.WireNamespace, namespace_row
)
NODE_SETS: SourceDecoder[NodeSet] = SourceDecoder(
    "node_sets", "NodeSet", wire_node_sets.WireNodeSet, node_set_row
)
PODS: SourceDecoder[Pod] = SourceDecoder("pods", "Pod", wire_pods.WirePod, pod_row)
VOLUME_CLAIMS: SourceDecoder[VolumeClaim] = SourceDecoder(
    "volume_claims", "PersistentVolumeClaim", wire_volumes.WireVolumeClaim, claim_row
)
VOLUMES: SourceDecoder[Volume] = SourceDecoder(
    "volumes", "PersistentVolume", wire_volumes.WireVolume, volume_row
)
STORAGE_CLASSES: SourceDecoder[StorageClass] = SourceDecoder(
    "storage_classes", "StorageClass", wire_volumes.WireStorageClass, storage_class_row
)
CSI_NODES: SourceDecoder[CsiNode] = SourceDecoder(
    "csi_nodes", "CSINode", wire_volumes.WireCsiNode, csi_node_row
)
CSI_DRIVERS: SourceDecoder[CsiDriver] = SourceDecoder(
    "csi_drivers", "CSIDriver", wire_volumes.WireCsiDriver, csi_driver_row
)
STORAGE_CAPACITIES: SourceDecoder[StorageCapacity] = SourceDecoder(
    "storage_capacities",
    "CSIStorageCapacity",
    wire_volumes.WireStorageCapacity,
    storage_capacity_row,
)
