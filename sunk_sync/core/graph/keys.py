"""All keys, and those that must be decided again."""

from collections.abc import Iterable

from sunk_sync.core.model.keys import CLUSTER, Key, host_key, node_set_key, workload_key
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.tables.table import Table
from sunk_sync.core.workloads.edges import WorkloadEdges
from sunk_sync.core.workloads.workloads import Workloads


class Keys:
    def __init__(
        self, workloads: Workloads, edges: WorkloadEdges, node_sets: Table[NodeSet]
    ) -> None:
        self._node_sets = node_sets
        self.dirty: dict[Key, None] = {}
        """Keys to decide again, oldest first."""
        self._edges = edges
        self._index = workloads.index
        self._calls = workloads.calls
        self._slurm_nodes = workloads.hosts.slurm_nodes
        self._last_seen = workloads.hosts.last_seen

    def all(self) -> list[Key]:
        """Return every key that any row concerns, for a full pass."""
        calls = self._calls.by_host | self._calls.locks_by_host
        hosts = self._slurm_nodes.entries | self._last_seen.seen | calls
        node_sets = map(node_set_key, self._node_sets.entries)
        workloads = map(workload_key, self._index.keys())
        return [CLUSTER, *map(host_key, hosts), *workloads, *node_sets]

    def knows(self, key: Key) -> bool:
        name = key[1]
        if key[0] == "workload":
            return self._index.knows(name)
        if key[0] == "nodeset":
            return name in self._node_sets.entries
        return key == CLUSTER or self.knows_host(name)

    def knows_host(self, name: str) -> bool:
        if name in self._slurm_nodes.entries or name in self._last_seen.seen:
            return True
        return self._calls.waits_at(name) or name in self._calls.locks_by_host

    def host_count(self) -> int:
        """Return about how many Slurm nodes Kubernetes knows, for the breaker's 10 %."""
        return min(
            len(self._slurm_nodes.entries),
            max(len(self._last_seen.seen), len(self._last_seen.marks)),
        )

    def mark(self, key: Key) -> None:
        self.dirty[key] = None

    def mark_each(self, keys: Iterable[Key]) -> None:
        """Mark in sorted order, so that a history replays the same in every process."""
        for key in sorted(keys):
            if key[0] != "host" or self.knows_host(key[1]):
                self.dirty[key] = None

    def mark_hosts(self, names: Iterable[str], *, also_gone: bool = False) -> None:
        """Mark the hosts that any row concerns; a Node's own name often is no host.

        `also_gone`: mark the others too, because the change may have removed them and the
        reconciler must forget their verdicts. The order is sorted, as in `mark_each`.
        """
        for name in sorted(names):
            if also_gone or self.knows_host(name):
                self.dirty[("host", name)] = None
            if name in self._index.arrivals:
                self.mark_each(self._edges.keys_at(name))

    def mark_all(self) -> None:
        self.dirty.update(dict.fromkeys(self.all()))
