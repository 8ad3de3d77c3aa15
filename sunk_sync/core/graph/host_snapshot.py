"""Build the view of one host: its Slurm node, its Pod and Node, and its residents."""

from sunk_sync.core.model.facts import Reference, SlurmdPod
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.entries import Claim
from sunk_sync.core.tables.last_seen import node_place, pod_place
from sunk_sync.core.tables.table import Table
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Residents
from sunk_sync.core.workloads.residents import residents_of
from sunk_sync.core.workloads.workloads import Workloads


class HostSnapshots:
    """Builds the view that rules read of one host."""

    def __init__(self, workloads: Workloads, slurmd_pods: Table[SlurmdPod]) -> None:
        hosts = workloads.hosts
        self._workloads = workloads
        self._slurmd_pods = slurmd_pods
        self._nodes = hosts.nodes
        self._slurm_nodes = hosts.slurm_nodes
        self._claims = hosts.claims
        self._last_seen = hosts.last_seen
        self._calls = workloads.calls

    def host(self, name: str) -> Host:
        """All that rules may read of one host."""
        claim = self._claims.claim_of(name)
        host = Host()
        host.name = name
        host.slurm_node = self._slurm_nodes.get(name)
        host.slurm_listed = self._slurm_nodes.listed
        host.kube_listed = self._nodes.listed and self._slurmd_pods.listed
        host.blind = self._slurm_nodes.blind
        host.owns_node = self._claims.owns_node(name, claim)
        host.mark = self._last_seen.marks.get(name)
        host.gate = self._workloads.gate()
        host.gate_calls = self._calls.gates_at(name)
        if claim.pod is not None:
            host.pod, host.pod_since_s = claim.pod.row, claim.pod.since_s
        if claim.node is not None:
            host.node, host.node_since_s = claim.node.row, claim.node.since_s
        if claim.pod is None or claim.node is None:
            self._add_traces(host, claim)
            return host
        residents = self._workloads.residents.on(claim.node.row.name, slurm_node=name)
        host.residents, host.lingering = residents.all, residents.lingering
        if claim.node.row.name != name:
            host.stray = self._claims.stray_of(name)
        return host

    def _add_traces(self, host: Host, claim: Claim) -> None:
        """Add evidence for a host without a Pod or a Node, or with several."""
        name, pod, node = host.name, host.pod, host.node
        last = self._last_seen.last(name)
        node_name = last.node if last else ""
        residents = self._residents_near(name, node.name if node else "", node_name)
        host.residents, host.lingering = residents.all, residents.lingering
        if pod is None and claim.finished is not None:
            host.pod_since_s = claim.finished.since_s
        host.finished = claim.finished.row if claim.finished else None
        host.last = last
        absent = bool(node_name) and node_name not in self._nodes.entries
        host.node_absent = node is None and absent
        if last is not None and pod is None:
            host.last_moved = self._moved(name, last)
            host.pod_get_result = self._last_seen.get_result(pod_place(last))
        if host.node_absent:
            host.node_get_result = self._last_seen.get_result(node_place(node_name))
        if claim.rivals:
            host.rivals, host.rival_pods = claim.rivals, self._rival_pods(name, claim.rivals)
        elsewhere = node is not None and node.name != name
        if pod is not None or elsewhere or claim.rivals:
            host.stray = self._claims.stray_of(name)

    def _residents_near(self, name: str, node_name: str, last_node: str) -> Residents:
        """If the Node is not known: Pods on every Node that it may be (L7)."""
        residents = self._workloads.residents
        if node_name:
            return residents.on(node_name, slurm_node=name)
        near = [node for node in self._claims.nodes_near(name) | {last_node} if node]
        found = [one for node in near for one in residents.on(node, slurm_node=name).all]
        return residents_of(found)

    def _moved(self, name: str, last: Mark) -> bool:
        pod = self._slurmd_pods.get(pod_key(last.namespace, last.pod))
        return pod is not None and pod.uid == last.uid and pod.slurm_node != name

    def _rival_pods(self, name: str, rivals: tuple[Reference, ...]) -> tuple[SlurmdPod, ...]:
        keys = [pod_key(one.namespace, one.name) for one in rivals if one.kind == "Pod"]
        pods = [self._slurmd_pods.entries[key].row for key in keys]
        return tuple(pod for pod in pods if pod.slurm_node == name)
