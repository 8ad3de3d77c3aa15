"""Dirty edges of hosts: each change of a host's row marks the keys that read it."""

from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.model.calls import LockCall
from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode
from sunk_sync.core.model.keys import CLUSTER, Key, workload_key
from sunk_sync.core.model.node_lock import NodePods
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.node_sets.index import NodeSetIndex, same_wish
from sunk_sync.core.tables.claims import same_own_claim
from sunk_sync.core.translate.node_states import may_run_jobs, same_kind
from sunk_sync.core.workloads.edges import WorkloadEdges
from sunk_sync.core.workloads.workloads import Workloads


class HostEdges:
    def __init__(
        self, workloads: Workloads, edges: WorkloadEdges, keys: Keys, node_sets: NodeSetIndex
    ) -> None:
        self._node_sets = node_sets
        self._all = workloads
        self._hosts = workloads.hosts
        self._workload_edges = edges
        self._keys = keys

    def slurm_node_changed(
        self, before: SlurmNode | None, after: SlurmNode | None, *at: float
    ) -> None:
        hosts = self._hosts.slurm_node_changed(before, after)
        self._keys.mark_each(self._node_sets.slurm_node_changed(before, after, now=at[0]))
        self._expect(before, after)
        self._keys.mark_hosts(hosts, also_gone=True)
        if before is None or after is None or before.comment != after.comment:
            self._keys.mark(CLUSTER)
        if before is None or after is None:
            self._keys.mark_each(self._keys_of_pods_near(hosts))
        self._note_drain(before, after)
        same = before is not None and after is not None and same_kind(before, after)
        self._keys.mark_each(
            self._workload_edges.slurm_node_state_changed()
            if same
            else self._workload_edges.hosts_changed()
        )

    def _note_drain(self, before: SlurmNode | None, after: SlurmNode | None) -> None:
        """Workloads without a job say that a Prolog failed on the host of their last one (P17)."""
        row = after or before
        assert row is not None
        drained = after is not None and "DRAIN" in after.state
        if self._all.memory.note_drain(row.name, row.reason if drained else ""):
            self._keys.mark_each(map(workload_key, self._all.lists.unplaced))

    def slurm_was_read(self) -> None:
        """Slurm may have shown that no job runs on a locked Node (L3)."""
        locked = self._hosts.locks.names()
        records = self._hosts.slurm_nodes.entries
        names = [name for node in locked for name in self._hosts.claims.hosts_on_node(node)]
        idle = [
            one for one in names if one not in records or not may_run_jobs(records[one].row.state)
        ]
        self._keys.mark_hosts(idle)

    def lock_was_asked(self, call: LockCall) -> None:
        self._hosts.locks.asked(call)

    def pods_were_listed(self, pods: NodePods) -> None:
        if self._hosts.locks.listed(pods):
            self._keys.mark_hosts(self._hosts.claims.hosts_on_node(pods.node_name))

    def node_set_changed(self, before: NodeSet | None, after: NodeSet | None, *_: object) -> None:
        self._keys.mark_each(self._node_sets.node_set_changed(before, after))
        self._keys.mark(CLUSTER)
        if before is not None and after is not None and same_wish(before, after):
            return
        for row in filter(None, (before, after)):
            for name in self._node_sets.records_of(row):
                record = self._hosts.slurm_nodes.get(name)
                self._expect(record, record)

    def _expect(self, before: SlurmNode | None, after: SlurmNode | None) -> None:
        """Keep reads by name of the Pod that belongs to a record of a NodeSet."""
        row = after or before
        assert row is not None
        spec = self._node_sets.of_record(row) if after is not None else None
        if spec is None:
            self._hosts.last_seen.expect_nothing(row.name)
        else:
            self._hosts.last_seen.expect(row.name, ("Pod", spec.namespace, row.name))

    def slurmd_pod_changed(
        self, before: SlurmdPod | None, after: SlurmdPod | None, *at: float
    ) -> None:
        self._keys.mark_each(self._node_sets.pod_changed(before, after, now=at[0]))
        same_claim = self._hosts.keeps_claim(before, after)
        hosts = self._hosts.slurmd_pod_changed(before, after)
        if before is not None and after is not None and same_claim:
            if before.requests != after.requests:
                self._keys.mark_each(self._workload_edges.hosts_changed())
            self._keys.mark_hosts(hosts)
            return
        self._claims_changed(hosts)
        for row in filter(None, (before, after)):
            self._keys.mark_each(self._workload_edges.keys_of_pods_on(row.node_name))

    def node_changed(self, before: Node | None, after: Node | None, *at: float) -> None:
        self._hosts.locks.node_changed(before, after, now=at[0])
        self._keys.mark_each(self._node_sets.node_changed(before, after))
        hosts = self._hosts.node_changed(before, after)
        if before is not None and after is not None and same_own_claim(before, after):
            if before.offer != after.offer:
                self._keys.mark_each(self._workload_edges.hosts_changed())
            if before.ready != after.ready:
                self._keys.mark_each(self._workload_edges.node_readiness_changed(after.name))
            self._keys.mark_hosts(hosts)
            return
        self._claims_changed(hosts)
        row = after or before
        assert row is not None
        self._workload_edges.node_readiness_changed(row.name)  # the next line marks its keys
        self._keys.mark_each(self._workload_edges.keys_of_pods_on(row.name))

    def _claims_changed(self, hosts: set[str]) -> None:
        """The claims on these hosts changed; some hosts may not exist any more."""
        self._keys.mark_hosts(hosts, also_gone=True)
        self._keys.mark(CLUSTER)
        self._keys.mark_each(self._workload_edges.hosts_changed())

    def _keys_of_pods_near(self, hosts: set[str]) -> set[Key]:
        """Slurm added or removed them: whether Pods on their Nodes are placed right (P18)."""
        nodes = {name for host in hosts for name in self._hosts.claims.nodes_near(host)}
        return {key for name in nodes for key in self._workload_edges.keys_of_pods_on(name)}
