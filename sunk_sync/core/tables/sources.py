"""One table for each source, and which sources can be read."""

from typing import Any

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    NEEDED,
    NODE_SETS,
    OPTIONAL,
    OTHER_PODS,
    SOURCES,
    WORKLOADS_NEED,
    Source,
)
from sunk_sync.core.tables.table import Table


class Sources:
    def __init__(self, configuration: Configuration) -> None:
        self.tables: dict[Source, Table[Any]] = {
            source: Table() for source in (*SOURCES, *OPTIONAL)
        }
        chosen = {
            OTHER_PODS: configuration.watch_all_pods,
            NODE_SETS: configuration.node_sets,
        }
        self.optional = tuple([source for source, is_read in chosen.items() if is_read])
        """Optional sources that the settings ask for."""
        self._workloads_need = (
            *WORKLOADS_NEED, *(one for one in self.optional if one != NODE_SETS),
        )  # fmt: skip
        self.refresh()

    def refresh(self) -> None:
        """A listing began or ended, or a source was lost."""
        tables = self.tables
        self.unlisted = tuple([name for name in NEEDED if not tables[name].listed])
        """Sources that were never listed completely."""
        needed = self._workloads_need
        self.workloads_unlisted = tuple([name for name in needed if not tables[name].listed])
        """Sources that only workloads need and that were never listed completely."""
        self.stale = tuple([name for name in NEEDED if not tables[name].live])
        """Sources that cannot be read now without a gap."""
        self.node_sets_live = tables["node_sets"].live and tables["slurmd_pods"].live
        """NodeSets and their Pods can be read now without a gap."""
        live = (tables["jobs"].live, self.node_sets_live)
        self.readiness = (self.unlisted, self.workloads_unlisted, self.stale, live)
