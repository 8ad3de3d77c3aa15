"""Build the view of one host: its Slurm node, its Pod and Node, and its residents."""

from sunk_sync.core.model.facts import Node, Reference, SlurmdPod
from sunk_sync.core.model.node_lock import tolerates_lock
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.node_sets.snapshot import NodeSetSnapshots
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.entries import Claim
from sunk_sync.core.tables.last_seen import node_place, pod_place
from sunk_sync.core.views.host import NO_LOCK, NO_TRACES, Host, HostLock, Traces
from sunk_sync.core.views.parts import Arrival, Doubtful, Residents
from sunk_sync.core.workloads.residents import residents_of
from sunk_sync.core.workloads.workloads import Workloads


class HostSnapshots:
    def __init__(self, workloads: Workloads, node_sets: NodeSetSnapshots) -> None:
        self._node_sets = node_sets
        hosts = workloads.hosts
        self._workloads = workloads
        self._slurmd_pods = node_sets.slurmd_pods
        self._nodes = hosts.nodes
        self._slurm_nodes = hosts.slurm_nodes
        self._claims = hosts.claims
        self._last_seen = hosts.last_seen
        self._calls = workloads.calls
        self._locks = hosts.locks

    def host(self, name: str) -> Host:
        claim = self._claims.claim_of(name)
        pod = claim.pod.row if claim.pod is not None else None
        node = claim.node.row if claim.node is not None else None
        since = claim.pod or claim.finished
        traces = NO_TRACES if pod is not None and node is not None else self._traces(name, claim)
        record = self._slurm_nodes.entries.get(name)
        slurm_node = record.row if record is not None else None
        return Host(
            name=name,
            slurm_node=slurm_node,
            slurm_read_s=self._slurm_nodes.agreed_s,
            controller=self._node_sets.controller(),
            pod_changed_s=since.changed_s if since is not None else 0.0,
            home=self._node_sets.home(slurm_node, self._last_seen) if pod is None else None,
            wish=self._node_sets.wish(slurm_node) if pod is not None else None,
            drained_since_s=record.since_s if record is not None else 0.0,
            requeued=self._node_sets.requeued(name),
            slurm_listed=self._slurm_nodes.listed,
            kube_listed=self._nodes.listed and self._slurmd_pods.listed,
            blind=self._slurm_nodes.blind,
            pod=pod,
            unregistered=self._node_sets.unregistered(pod) if pod is not None else None,
            pod_since_s=since.since_s if since is not None else 0.0,
            node=node,
            node_since_s=claim.node.since_s if claim.node is not None else 0.0,
            owns_node=self._claims.owns_node(name, claim),
            mark=self._last_seen.marks.get(name),
            traces=traces,
            rivals=claim.rivals,
            rival_pods=self._rival_pods(name, claim.rivals) if claim.rivals else (),
            stray=self._stray(name, claim),
            residents=self._residents_at(name, node, traces),
            lock=self._lock(name, node),
            gate_calls=self._calls.gates_at(name),
            arrivals=self._arrivals(name) if self._calls.waits_at(name) else (),
            doubtful=self._doubtful(name) if self._calls.waits_at(name) else (),
            gate=self._workloads.gate(),
            blocks=self._node_sets.topology.state.applied.blocks,
        )

    def _lock(self, name: str, node: Node | None) -> HostLock:
        calls = self._calls.locks_at(name)
        if not calls and (node is None or not node.lock):
            return NO_LOCK
        node_name = node.name if node is not None else ""
        entry = self._slurm_nodes.entries.get(name)
        changed_s = entry.changed_s if entry is not None else 0.0
        tainted_s = self._locks.tainted_s.get(node_name, 0.0)
        strict_s = [one.asked_s for one in calls if one.strict]
        since_s = max([tainted_s, *strict_s])
        pods = self._locks.pods.get(node_name)
        if pods is not None and pods.asked_s < since_s:
            pods = None
        return HostLock(
            calls=calls,
            strict=bool(strict_s),
            since_s=since_s,
            listed_s=pods.asked_s if pods is not None else 0.0,
            living=pods.foreign(strict=bool(strict_s)) if pods is not None else None,
            exposed=self._exposed(node_name),
            unused_s=max(changed_s, tainted_s, self._locks.asked_s.get(name, 0.0)),
        )

    def _exposed(self, node_name: str) -> tuple[str, ...]:
        """Return the Pods of jobs that the lock would end."""
        there = self._workloads.index.pods_on_node.get(node_name, {}).values()
        ours = [one for one in there if not (one.ended or tolerates_lock(one.spec.tolerations))]
        return tuple(sorted(f"{one.namespace}/{one.name}" for one in ours))

    def _traces(self, name: str, claim: Claim) -> Traces:
        last = self._last_seen.last(name)
        node_name = last.node if last is not None else ""
        absent = claim.node is None and bool(node_name) and node_name not in self._nodes.entries
        seen = last if claim.pod is None else None
        get_result = self._last_seen.get_result
        return Traces(
            last=last,
            finished=claim.finished.row if claim.finished is not None else None,
            moved=seen is not None and self._moved(name, seen),
            node_absent=absent,
            pod_get_result=get_result(pod_place(seen)) if seen is not None else None,
            node_get_result=get_result(node_place(node_name)) if absent else None,
        )

    def _stray(self, name: str, claim: Claim) -> Node | None:
        node = claim.node.row if claim.node is not None else None
        if node is not None and node.name == name and not claim.rivals:
            return None
        if node is None and claim.pod is None and not claim.rivals:
            return None
        return self._claims.stray_of(name)

    def _residents_at(self, name: str, node: Node | None, traces: Traces) -> Residents:
        """Return the Pods on its Node; if the Node is unknown, on every possible Node (L7)."""
        residents = self._workloads.residents
        if node is not None:
            return residents.on(node.name, slurm_node=name)
        last_node = traces.last.node if traces.last is not None else ""
        near = [one for one in self._claims.nodes_near(name) | {last_node} if one]
        found = [one for place in near for one in residents.on(place, slurm_node=name).all]
        return residents_of(found)

    def _arrivals(self, name: str) -> tuple[Arrival, ...]:
        entries = self._workloads.jobs.entries
        jobs = self._workloads.index.arrivals.get(name, ())
        return tuple([Arrival(one, entries[one].order) for one in sorted(jobs)])

    def _doubtful(self, name: str) -> tuple[Doubtful, ...]:
        index = self._workloads.index
        tried = self._workloads.memory.tried_at(name)
        pods = [(index.pod_of(one.uid), one) for one in tried]
        unbound = [(pod, one) for pod, one in pods if pod is not None and not pod.node_name]
        return tuple([Doubtful(pod.namespace, pod.name, one) for pod, one in unbound])

    def _moved(self, name: str, last: Mark) -> bool:
        pod = self._slurmd_pods.get(pod_key(last.namespace, last.pod))
        return pod is not None and pod.uid == last.uid and pod.slurm_node != name

    def _rival_pods(self, name: str, rivals: tuple[Reference, ...]) -> tuple[SlurmdPod, ...]:
        keys = [pod_key(one.namespace, one.name) for one in rivals if one.kind == "Pod"]
        pods = [self._slurmd_pods.entries[key].row for key in keys]
        return tuple(pod for pod in pods if pod.slurm_node == name)
