"""One table for each source, and which sources can be read."""

from typing import Any

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    NAMESPACES,
    NEEDED,
    NODE_SETS,
    OPTIONAL,
    OTHER_PODS,
    SOURCES,
    WORKLOADS_NEED,
    Source,
)
from sunk_sync.core.tables.table import Table

SCHEDULER_READS: tuple[Source, ...] = ("jobs", NAMESPACES)
"""Read only by component scheduler."""


def sources_from_start(*, scheduler: bool, all_pods: bool, node_sets: bool) -> tuple[Source, ...]:
    """Return the sources that are read from the start; those of volumes follow when needed."""
    chosen = {
        **dict.fromkeys(SOURCES, True),
        **dict.fromkeys(SCHEDULER_READS, scheduler),
        OTHER_PODS: all_pods,
        NODE_SETS: node_sets,
    }
    return tuple([source for source, is_read in chosen.items() if is_read])


class Sources:
    def __init__(self, configuration: Configuration) -> None:
        self.tables: dict[Source, Table[Any]] = {
            source: Table() for source in (*SOURCES, *OPTIONAL)
        }
        others = (OTHER_PODS,) if configuration.watch_all_pods else ()
        self._workloads_need = (*WORKLOADS_NEED, *others)
        self.from_start = sources_from_start(
            scheduler=bool(configuration.scheduler),
            all_pods=configuration.watch_all_pods,
            node_sets=configuration.node_sets,
        )
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
