"""Host identity: the Node and slurmd Pod of each Slurm node, and where it was last seen.

Each method takes in one change of a row and returns the hosts that it concerns.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode, Source
from sunk_sync.core.tables.claims import Claims, same_claim, same_own_claim, yields
from sunk_sync.core.tables.entries import UNCLAIMED
from sunk_sync.core.tables.last_seen import LastSeen, Place, node_place
from sunk_sync.core.tables.node_locks import NodeLocks
from sunk_sync.core.tables.table import Table


class HostIdentity:
    """The claims and the last known places of all hosts."""

    def __init__(self, tables: Mapping[Source, Table[Any]], *, cluster_uid: str) -> None:
        self.nodes: Table[Node] = tables["nodes"]
        self.slurm_nodes: Table[SlurmNode] = tables["slurm_nodes"]
        self.claims = Claims(nodes=self.nodes, pods=tables["slurmd_pods"])
        self.last_seen = LastSeen()
        self.locks = NodeLocks()
        self._cluster_uid = cluster_uid

    def nodes_of_hosts(self) -> Iterator[Node]:
        """Yield the Node of each host that has one."""
        claims = map(self.claims.claim_of, self.slurm_nodes.entries)
        return (claim.node.row for claim in claims if claim.node is not None)

    def slurm_node_changed(self, before: SlurmNode | None, after: SlurmNode | None) -> set[str]:
        """Return the host itself; a new comment may mark another place."""
        row = after or before
        assert row is not None
        comment = after.comment if after else ""
        if comment != (before.comment if before else ""):
            self.last_seen.remark(row.name, comment, cluster=self._cluster_uid)
        if after is None:
            self._forget_unclaimed(row.name)
        return {row.name}

    def keeps_claim(self, before: SlurmdPod | None, after: SlurmdPod | None) -> bool:
        """Whether the Pod claims the same host, and no result of a read by name must be dropped."""
        if before is None or after is None or not same_claim(before, after):
            return False
        return self.last_seen.get_result(_place(after)) is None

    def slurmd_pod_changed(self, before: SlurmdPod | None, after: SlurmdPod | None) -> set[str]:
        """Return hosts that the Pod claims or claimed, others on its Node, and hosts seen there."""
        if after is not None and self.keeps_claim(before, after):
            return {after.slurm_node}
        hosts: set[str] = set()
        if before is not None:
            self.claims.drop_pod(before)
            hosts |= self._claim_changed(before)
        if after is not None:
            self.claims.add_pod(after)
            self.last_seen.withdraw(_place(after))
            if after.slurm_node:
                self.last_seen.remember_pod(after)
            hosts |= self._claim_changed(after)
        if before is not None and yields(before, after):
            self._remember_remaining(
                before.slurm_node, *self.claims.hosts_on_node(before.node_name)
            )
        return hosts - {""}

    def node_changed(self, before: Node | None, after: Node | None) -> set[str]:
        """Return hosts whose claim reads or read the Node, and those last seen on it."""
        row = after or before
        assert row is not None
        hosts = set(self.claims.hosts_on_node(row.name))
        if before is not None and after is not None and same_own_claim(before, after):
            return hosts
        if before is not None:
            hosts.add(before.slurm_node)
            self.claims.drop_node(before)
            self._forget_unclaimed(before.slurm_node or before.name)
            self._remember_remaining(before.slurm_node)
        if after is not None:
            self.claims.add_node(after)
            self.last_seen.withdraw(node_place(after.name))
            self._remember_node(after)
            hosts.update(self.claims.hosts_on_node(after.name))
        hosts.update(self.last_seen.hosts_last_at(node_place(row.name)))
        return hosts - {""}

    def _claim_changed(self, pod: SlurmdPod) -> set[str]:
        """The Pod came or went: its Node may claim a host by itself, or no longer."""
        node = self.nodes.get(pod.node_name)
        if node is not None:
            self._remember_node(node)
        hosts = {pod.slurm_node, *self.claims.hosts_on_node(pod.node_name)}
        hosts.update(self.last_seen.hosts_last_at(_place(pod)))
        self._forget_unclaimed(pod.slurm_node)
        return hosts

    def _remember_remaining(self, *slurm_nodes: str) -> None:
        """One claim ended, so another one for the same host may be the only one now."""
        for slurm_node in slurm_nodes:
            pod = self.claims.claim_of(slurm_node).pod
            if pod is not None:
                self.last_seen.remember_pod(pod.row, alone=True)

    def _remember_node(self, node: Node) -> None:
        """Remember the Node of a Slurm node that it claims by itself, without a slurmd Pod."""
        own = node.slurm_node or node.name
        if self.claims.host_of_node(node.name) == own:
            self.last_seen.remember_node(own, node)
        else:
            self._forget_unclaimed(own)

    def _forget_unclaimed(self, name: str) -> None:
        """Forget the last place of a host that neither Slurm nor Kubernetes has any more."""
        if name in self.slurm_nodes.entries or self.claims.claim_of(name) is not UNCLAIMED:
            return
        self.last_seen.forget(name)


def _place(pod: SlurmdPod) -> Place:
    return ("Pod", pod.namespace, pod.name)
