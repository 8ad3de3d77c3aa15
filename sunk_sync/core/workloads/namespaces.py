"""Namespaces: what rules of --user-policy and selectors of Pods read of them (P5, P8)."""

from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_fit import Labels
from sunk_sync.core.translate.pod_rules import only


class Namespaces:
    def __init__(self, table: Table[Namespace]) -> None:
        self._table = table

    def get(self, name: str) -> Namespace | None:
        """Return the Namespace; None: it must be read first, as before all were listed."""
        return self._table.get(name) if self._table.listed else None

    def labels(self, name: str, *, read: frozenset[str]) -> Labels:
        """Return its labels that are read; none while it is unknown."""
        row = self.get(name) if read else None
        return () if row is None else only(row.labels, read)
