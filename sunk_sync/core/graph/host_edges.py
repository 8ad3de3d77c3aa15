"""What a change of a host's rows touches: the keys that read them, and the last known places."""

from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode
from sunk_sync.core.model.keys import CLUSTER, host_key
from sunk_sync.core.tables.claims import same_claim, same_own_claim, yields
from sunk_sync.core.tables.entries import UNCLAIMED
from sunk_sync.core.tables.last_seen import Place, node_place
from sunk_sync.core.translate.node_states import same_kind
from sunk_sync.core.workloads.edges import WorkloadEdges
from sunk_sync.core.workloads.workloads import Workloads


class HostEdges:
    """Each kind of fact about hosts, before and after → the keys that read it."""

    def __init__(self, workloads: Workloads, edges: WorkloadEdges, keys: Keys) -> None:
        self._configuration = workloads.configuration
        self._nodes = workloads.hosts.nodes
        self._slurm_nodes = workloads.hosts.slurm_nodes
        self._claims = workloads.hosts.claims
        self._last_seen = workloads.hosts.last_seen
        self._workload_edges = edges
        self._keys = keys

    def slurm_node_changed(
        self, before: SlurmNode | None, after: SlurmNode | None, *_: object
    ) -> None:
        name = (after or before).name  # type: ignore[union-attr]
        if (before.comment if before else "") != (after.comment if after else ""):
            comment = after.comment if after else ""
            self._last_seen.remark(name, comment, cluster=self._configuration.cluster_uid)
            self._keys.mark(CLUSTER)
        if before is None or after is None:
            self._mark_pods_at(name)
        if after is None:
            self._forget_place(name)
        self._keys.mark(host_key(name))
        same = before is not None and after is not None and same_kind(before, after)
        self._keys.mark_each(
            self._workload_edges.room_changed() if same else self._workload_edges.hosts_changed()
        )

    def slurmd_pod_changed(
        self, before: SlurmdPod | None, after: SlurmdPod | None, *_: object
    ) -> None:
        if before is not None and after is not None and same_claim(before, after):
            if before.requests != after.requests:
                self._keys.mark_each(self._workload_edges.hosts_changed())
            self._keys.mark_hosts((after.slurm_node,))
            self._forget_get_result(("Pod", after.namespace, after.name))
            return
        if before is not None:
            self._claims.drop_pod(before)
            self._pod_touched(before)
        if after is not None:
            self._claims.add_pod(after)
            self._forget_get_result(("Pod", after.namespace, after.name))
            if after.slurm_node and self._last_seen.remember_pod(after):
                self._keys.mark(CLUSTER)
            self._pod_touched(after)
        if before is not None and yields(before, after):
            beside = self._claims.hosts_on_node(before.node_name)
            self._remember_standing(before.slurm_node, *beside)

    def _remember_standing(self, *slurm_nodes: str) -> None:
        """A claim was given up: another of the same name or on the same Node may stand alone."""
        for slurm_node in slurm_nodes:
            pod = self._claims.claim_of(slurm_node).pod
            if pod is not None:
                self._last_seen.remember_pod(pod.row, alone=True)

    def _pod_touched(self, pod: SlurmdPod) -> None:
        """A Pod came, went or changed: its host, its neighbours, and the Node's own claim."""
        self._keys.mark_each(self._workload_edges.hosts_changed())
        self._keys.mark_each(self._workload_edges.keys_of_pods_on(pod.node_name))
        node = self._nodes.get(pod.node_name)
        if node is not None:
            self._remember_node(node)
        self._keys.mark(host_key(pod.slurm_node))
        self._keys.mark_hosts(self._claims.hosts_on_node(pod.node_name))
        place = ("Pod", pod.namespace, pod.name)
        self._keys.mark_hosts(self._last_seen.hosts_last_at(place))
        if self._last_seen.get_result(place):
            self._keys.mark(CLUSTER)
        self._forget_place(pod.slurm_node)

    def _node_stands(self, before: Node, after: Node) -> None:
        """It claims what it did: only hosts whose claim it is part of read its row."""
        if before.offer != after.offer:
            self._keys.mark_each(self._workload_edges.hosts_changed())
        if before.ready != after.ready:
            self._keys.mark_each(self._workload_edges.node_turned(after.name))
        self._keys.mark_hosts(self._claims.hosts_on_node(after.name))

    def node_changed(self, before: Node | None, after: Node | None, *_: object) -> None:
        if before is not None and after is not None and same_own_claim(before, after):
            self._node_stands(before, after)
            return
        row = after or before
        assert row is not None
        self._keys.mark_each(self._workload_edges.hosts_changed())
        self._workload_edges.node_turned(row.name)  # whom it names is among those on the Node
        self._keys.mark_each(self._workload_edges.keys_of_pods_on(row.name))
        if before is not None:
            self._keys.mark_hosts((*self._claims.hosts_on_node(before.name), before.slurm_node))
            self._claims.drop_node(before)
            self._forget_place(before.slurm_node or before.name)
            self._remember_standing(before.slurm_node)
        if after is not None:
            self._claims.add_node(after)
            self._forget_get_result(node_place(after.name))
            self._remember_node(after)
            self._keys.mark_hosts(self._claims.hosts_on_node(after.name))
        self._keys.mark_hosts(self._last_seen.hosts_last_at(node_place(row.name)))

    def _mark_pods_at(self, slurm_node: str) -> None:
        """Slurm began or ceased to know it: whether Pods on its Node stand well (P18)."""
        for name in sorted(self._claims.nodes_near(slurm_node)):
            self._keys.mark_each(self._workload_edges.keys_of_pods_on(name))

    def _forget_place(self, name: str) -> None:
        """Neither side speaks of this host any more: nothing is left to remember."""
        if name not in self._last_seen.seen or name in self._slurm_nodes.entries:
            return
        if self._claims.claim_of(name) is UNCLAIMED:
            self._last_seen.forget(name)
            self._keys.mark(host_key(name))
            self._keys.mark(CLUSTER)

    def _remember_node(self, node: Node) -> None:
        """A Node claims a Slurm node by itself only while no slurmd Pod lives on it."""
        own = node.slurm_node or node.name
        if self._claims.host_of_node(node.name) == own:
            self._last_seen.remember_node(own, node)
        else:
            self._forget_place(own)

    def _forget_get_result(self, place: Place) -> None:
        """The object is in our listings: what a read by name said of it no longer counts."""
        if self._last_seen.withdraw(place):
            self._keys.mark_hosts(self._last_seen.hosts_last_at(place))
            self._keys.mark(CLUSTER)
