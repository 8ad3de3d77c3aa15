"""Dirty edges of volumes: each change of a claim, volume or class → the keys that read it."""

from collections.abc import Collection

from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.model.keys import CLUSTER, workload_key
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from sunk_sync.core.workloads.workloads import Workloads


class VolumeEdges:
    def __init__(self, workloads: Workloads, keys: Keys) -> None:
        self._volumes = workloads.volumes
        self._neighbours = workloads.neighbours
        self._keys = keys

    def claim_changed(
        self, before: VolumeClaim | None, after: VolumeClaim | None, *_: object
    ) -> None:
        """The cluster reads which claims name a job."""
        self._mark_workloads(self._volumes.claim_changed(before, after))
        if any(one is not None and one.selected_for for one in (before, after)):
            self._keys.mark(CLUSTER)

    def volume_changed(self, before: Volume | None, after: Volume | None, *_: object) -> None:
        self._mark_workloads(self._volumes.volume_changed(before, after))

    def class_changed(
        self, before: StorageClass | None, after: StorageClass | None, *_: object
    ) -> None:
        self._mark_workloads(self._volumes.class_changed(before, after))

    def csi_node_changed(self, before: CsiNode | None, after: CsiNode | None, *_: object) -> None:
        self._mark_workloads(self._volumes.csi_node_changed(before, after))

    def driver_changed(self, before: CsiDriver | None, after: CsiDriver | None, *_: object) -> None:
        self._mark_workloads(self._volumes.driver_changed(before, after))

    def capacity_changed(
        self, before: StorageCapacity | None, after: StorageCapacity | None, *_: object
    ) -> None:
        self._mark_workloads(self._volumes.capacity_changed(before, after))

    def _mark_workloads(self, keys: Collection[str]) -> None:
        """Mark these, and those that take turns with one whose place a volume decides now."""
        beside = {one for key in keys for one in self._neighbours.refresh(key)}
        self._keys.mark_each(map(workload_key, {*keys, *beside}))

    def listed(self) -> None:
        """Claims, volumes and classes are listed, or one of them is not any more."""
        self._neighbours.rebuild()
