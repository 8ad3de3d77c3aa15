"""The kinds of rows: their tables, their keys, and who marks what reads them."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from sunk_sync.core.graph.volume_edges import VolumeEdges
from sunk_sync.core.model.facts import Pod, Row, SlurmdPod, Source
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.table import Table


class RowKind(NamedTuple):
    """The table of one class of rows."""

    source: Source
    table: Table[Any]
    key: Callable[[Any], str]
    changed: Callable[..., None]
    """Marks every key that reads the row. Takes the row before and after, and the time. For a
    removed row it also takes whether a watch reported the deletion."""


key_without_namespace = attrgetter("name")


def key_with_namespace(row: Pod | SlurmdPod | NodeSet | VolumeClaim | StorageCapacity) -> str:
    return pod_key(row.namespace, row.name)


def kinds_of_volumes(
    tables: Mapping[Source, Table[Any]], edges: VolumeEdges
) -> dict[type[Row], RowKind]:
    by_name, by_path = key_without_namespace, key_with_namespace
    sources: dict[type[Row], tuple[Source, Callable[[Any], str], Callable[..., None]]] = {
        VolumeClaim: ("volume_claims", by_path, edges.claim_changed),
        Volume: ("volumes", by_name, edges.volume_changed),
        StorageClass: ("storage_classes", by_name, edges.class_changed),
        CsiNode: ("csi_nodes", by_name, edges.csi_node_changed),
        CsiDriver: ("csi_drivers", by_name, edges.driver_changed),
        StorageCapacity: ("storage_capacities", by_path, edges.capacity_changed),
    }
    return {
        row: RowKind(source, tables[source], key, changed)
        for row, (source, key, changed) in sources.items()
    }
