"""Where the drivers of storage have room for new volumes, as they tell it (P8)."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sunk_sync.core.model.facts import Source
from sunk_sync.core.model.pod_spec import Term
from sunk_sync.core.model.volumes import CsiDriver, StorageCapacity, StorageClass, VolumeClaim
from sunk_sync.core.tables.table import Table

Places = tuple[Term, ...] | None
"""Nodes; None: all."""


class StorageRoom:
    def __init__(self, tables: Mapping[Source, Table[Any]]) -> None:
        self._drivers: Table[CsiDriver] = tables["csi_drivers"]
        self._of: defaultdict[str, dict[str, StorageCapacity]] = defaultdict(dict)
        """Class → `namespace/name` → room."""

    def capacity_changed(
        self, before: StorageCapacity | None, after: StorageCapacity | None
    ) -> None:
        if before is not None:
            self._of[before.storage_class].pop(_path(before), None)
        if after is not None:
            self._of[after.storage_class][_path(after)] = after

    def is_told(self, storage_class: StorageClass) -> bool:
        """Whether the driver of this class says where it has room."""
        driver = self._drivers.get(storage_class.provisioner)
        return driver is not None and driver.tells_room

    def places(self, claim: VolumeClaim, storage_class: StorageClass) -> Places:
        """Return where the provisioner can make the volume of this claim."""
        if not self.is_told(storage_class):
            return storage_class.terms
        all_of_class = self._of.get(claim.storage_class, {}).values()
        rooms = dict.fromkeys(one.nodes for one in all_of_class if has_room(one, claim))
        if () in rooms:
            return storage_class.terms
        lines = [one for one in rooms if one is not None]
        if storage_class.terms is None:
            return tuple(Term(one) for one in lines)
        return tuple(
            Term((*term.expressions, *one), term.fields)
            for term in storage_class.terms
            for one in lines
        )


def has_room(capacity: StorageCapacity | None, claim: VolumeClaim) -> bool:
    if capacity is None or capacity.nodes is None:
        return False
    return claim.size <= capacity.size


def _path(capacity: StorageCapacity) -> str:
    return f"{capacity.namespace}/{capacity.name}"
