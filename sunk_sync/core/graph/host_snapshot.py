"""Every row once, and one host or the cluster put together for a decision."""

from typing import Any

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    NEEDED,
    OTHER_PODS,
    SOURCES,
    WORKS_NEED,
    Holding,
    Job,
    Node,
    Pod,
    Reference,
    SlurmdPod,
    SlurmNode,
    Source,
    reference_of,
)
from sunk_sync.core.model.keys import CLUSTER, Key, host_key, workload_key
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.tables.claims import Claims, pod_key
from sunk_sync.core.tables.doubts import Doubts
from sunk_sync.core.tables.entries import Claim
from sunk_sync.core.tables.last_seen import LastSeen, node_place, pod_place
from sunk_sync.core.tables.open_calls import OpenCalls
from sunk_sync.core.tables.table import Table
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Cluster, Residents
from sunk_sync.core.views.workload import Workload
from sunk_sync.core.workloads.edges import WorkloadGraph
from sunk_sync.core.workloads.residents import residents_of
from sunk_sync.core.workloads.snapshot import Hosts


class HostSnapshot:
    """The tables and what rules read of hosts."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.tables: dict[Source, Table[Any]] = {
            source: Table() for source in (*SOURCES, OTHER_PODS)
        }
        self.nodes: Table[Node] = self.tables["nodes"]
        self.slurmd_pods: Table[SlurmdPod] = self.tables["slurmd_pods"]
        self.pods: Table[Pod] = self.tables["pods"]
        self.slurm_nodes: Table[SlurmNode] = self.tables["slurm_nodes"]
        self.jobs: Table[Job] = self.tables["jobs"]
        self.claims = Claims(nodes=self.nodes, pods=self.slurmd_pods)
        self.calls = OpenCalls()
        self._last_seen = LastSeen()
        self.doubts = Doubts()
        self.workloads = WorkloadGraph(
            configuration=configuration,
            pods=self.pods,
            jobs=self.jobs,
            hosts=Hosts(self.nodes, self.slurm_nodes, self.claims, self._last_seen),
            calls=self.calls,
        )
        self.holding: Holding | None = None
        self.unlisted = NEEDED
        """Sources that were never listed completely."""
        self.workloads_need = (
            (*WORKS_NEED, OTHER_PODS) if configuration.watch_all_pods else WORKS_NEED
        )
        """Sources that only workloads need."""
        self.workloads_unlisted = self.workloads_need
        """Of those the ones that were never listed completely."""
        self.stale = NEEDED
        """Sources that cannot be read now without a gap."""
        self.readiness = (self.unlisted, self.workloads_unlisted, self.stale, self.jobs.live)
        """What policy reads of the sources."""
        self.dirty: dict[Key, None] = {}
        """Keys to decide again, oldest first."""

    # Reading

    def host(self, name: str) -> Host:
        """All that rules may read of one host."""
        claim = self.claims.claim_of(name)
        host = Host()
        host.name = name
        host.slurm_node = self.slurm_nodes.get(name)
        host.slurm_listed = self.slurm_nodes.listed
        host.kube_listed = self.nodes.listed and self.slurmd_pods.listed
        host.blind = self.slurm_nodes.blind
        host.owns_node = self.claims.owns_node(name, claim)
        host.mark = self._last_seen.marks.get(name)
        host.gate = self.workloads.gate()
        host.gate_calls = self.calls.gates_at(name)
        if claim.pod is not None:
            host.pod, host.pod_since_s = claim.pod.row, claim.pod.since_s
        if claim.node is not None:
            host.node, host.node_since_s = claim.node.row, claim.node.since_s
        if claim.pod is None or claim.node is None:
            self._add_traces(host, claim)
            return host
        residents = self.workloads.residents.on(claim.node.row.name, slurm_node=name)
        host.residents, host.lingering = residents.all, residents.lingering
        if claim.node.row.name != name:
            host.stray = self.claims.stray_of(name)
        return host

    def workload(self, key: str) -> Workload:
        """All that rules may read of one workload."""
        return self.workloads.workload(key)

    def _add_traces(self, host: Host, claim: Claim) -> None:
        """Of a host of which Kubernetes shows no Pod or no Node, or too many."""
        name, pod, node = host.name, host.pod, host.node
        last = self._last_seen.last(name)
        node_name = last.node if last else ""
        residents = self._residents_near(name, node.name if node else "", node_name)
        host.residents, host.lingering = residents.all, residents.lingering
        if pod is None and claim.finished is not None:
            host.pod_since_s = claim.finished.since_s
        host.finished = claim.finished.row if claim.finished else None
        host.last = last
        absent = bool(node_name) and node_name not in self.nodes.entries
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
            host.stray = self.claims.stray_of(name)

    def _residents_near(self, name: str, node_name: str, last_node: str) -> Residents:
        """Where nobody knows which Node it is: Pods on any that it may be (L7)."""
        residents = self.workloads.residents
        if node_name:
            return residents.on(node_name, slurm_node=name)
        near = [node for node in self.claims.nodes_near(name) | {last_node} if node]
        found = [one for node in near for one in residents.on(node, slurm_node=name).all]
        return residents_of(found)

    def _moved(self, name: str, last: Mark) -> bool:
        pod = self.slurmd_pods.get(pod_key(last.namespace, last.pod))
        return pod is not None and pod.uid == last.uid and pod.slurm_node != name

    def _rival_pods(self, name: str, rivals: tuple[Reference, ...]) -> tuple[SlurmdPod, ...]:
        keys = [pod_key(one.namespace, one.name) for one in rivals if one.kind == "Pod"]
        pods = [self.slurmd_pods.entries[key].row for key in keys]
        return tuple(pod for pod in pods if pod.slurm_node == name)

    def cluster(self) -> Cluster:
        """All that rules may read of the cluster as a whole."""
        unselected = sum(
            pod_key(get_result.namespace, get_result.name) not in self.slurmd_pods.entries
            for get_result in self._last_seen.get_results().values()
            if get_result.kind == "Pod" and get_result.found == "yes"
        )
        marks = self._last_seen.marks.values() if unselected else ()
        marked = sum(bool(mark.pod) for mark in marks)
        return Cluster(
            holding=self.holding,
            marked=marked,
            unselected=unselected,
            doubts=self.doubts.standing(),
        )

    def keys(self) -> list[Key]:
        """Every key that any row concerns: what a full pass decides."""
        hosts = self.slurm_nodes.entries | self._last_seen.seen | self.calls.by_host
        return [CLUSTER, *map(host_key, hosts), *map(workload_key, self.workloads.workloads.keys())]

    def knows(self, key: Key) -> bool:
        """Whether any row concerns the key."""
        name = key[1]
        if key[0] == "workload":
            return self.workloads.workloads.knows(name)
        return key == CLUSTER or self._knows_host(name)

    def forget_kept(self, key: Key) -> None:
        """Workload out anew what is kept of what this key reads: an audit must not trust it."""
        rows = self.workloads.rows_of(key[1]) if key[0] == "workload" else ()
        names = [name for row in rows for name in row.slurm_nodes]
        for name in names if key[0] == "workload" else (key[1],):
            self.claims.forget(name)
            for node_name in self.claims.nodes_near(name):
                self.claims.forget_node(node_name)
                self.workloads.residents.forget(node_name)

    def _knows_host(self, name: str) -> bool:
        if name in self.slurm_nodes.entries or name in self._last_seen.seen:
            return True
        return self.calls.waits_at(name)

    def host_count(self) -> int:
        """About how many Slurm nodes Kubernetes knows: the breaker's share is taken of it."""
        return min(
            len(self.slurm_nodes.entries),
            max(len(self._last_seen.seen), len(self._last_seen.marks)),
        )

    def reference(self, key: Key) -> Reference:
        """The object that an Event about this key belongs to."""
        if key[0] == "workload":
            pods = self.workloads.workloads.pods.get(key[1], {})
            return next((reference_of(pod) for pod in pods.values()), self._ourselves())
        host = self.host(key[1]) if key != CLUSTER else None
        row = host and (host.pod or host.node)
        if row:
            return reference_of(row)
        return self._ourselves()

    def _ourselves(self) -> Reference:
        return Reference("Namespace", "", self.configuration.namespace, "")
