"""Build the view of one NodeSet."""

from collections.abc import Mapping

from sunk_sync.core.model.facts import SlurmdPod, SlurmNode
from sunk_sync.core.model.node_set import NodeSet, Plan
from sunk_sync.core.model.node_set_answers import ENDLESS, ControllerAge, RequeueTried
from sunk_sync.core.node_sets.index import NEVER, NodeSetIndex
from sunk_sync.core.node_sets.topology_plan import TopologyPlan
from sunk_sync.core.tables.claims import Claims, pod_key
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.last_seen import LastSeen
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.host import Home, RecordWish
from sunk_sync.core.views.node_set import NO_STORY, Failures, NodeSetView, Slot, Vacancy


class NodeSetSnapshots:
    def __init__(self, index: NodeSetIndex, claims: Claims) -> None:
        self._index = index
        self.topology = TopologyPlan(index)
        self._claims = claims
        self.slurmd_pods = index.slurmd_pods

    def view(self, key: str) -> NodeSetView | None:
        """Return the view; None: there is no such NodeSet."""
        index = self._index
        entry = index.node_sets.entries.get(key)
        if entry is None:
            return None
        spec = entry.row
        slots = self._slots(spec)
        return NodeSetView(
            spec=spec,
            wish=index.wish(key),
            plan=index.plan(spec),
            slots=slots,
            desired=index.desired(spec),
            vacancies=tuple(self._vacancy(spec, name) for name in index.free_names(spec)),
            records_left=len(list(index.left_records(spec))),
            kube_listed=self._is_listed(spec),
            slurm_listed=index.slurm_nodes.listed,
            blind=index.slurm_nodes.blind,
            slurm_read_s=index.slurm_nodes.agreed_s,
            ends_read_s=self._ends_read_s(key),
            reservation=index.memory.reservations.get(key),
            topology=self.topology.state,
            held=self._held(spec, slots),
            emptied_s=index.emptied_s(spec),
            story=index.memory.stories.get(key, NO_STORY),
            full=self._full(),
        )

    def _full(self) -> str:
        """Return why slurmctld takes no more nodes, or empty."""
        nodes, most = len(self._index.slurm_nodes.entries), self._index.nodes_max
        if most is None or nodes < most:
            return ""
        return f"Slurm has {counted(nodes, 'node')}, and MaxNodeCount in slurm.conf allows {most}"

    def _ends_read_s(self, key: str) -> float:
        read = self._index.memory.job_ends.get(key)
        return read.asked_s if read is not None else NEVER

    def size(self, key: str) -> int:
        """Return the number of its slots; 0 if there is no such NodeSet."""
        entry = self._index.node_sets.entries.get(key)
        return 0 if entry is None else len(self._index.pods_of(entry.row))

    def _held(self, spec: NodeSet, slots: tuple[Slot, ...]) -> tuple[str, ...]:
        held = self._index.held
        return tuple(one.name for one in slots if pod_key(spec.namespace, one.name) in held)

    def _is_listed(self, spec: NodeSet) -> bool:
        nodes = self._index.matches.listed or not spec.per_node
        return self._index.slurmd_pods.listed and self._index.node_sets.listed and nodes

    def home(self, slurm_node: SlurmNode | None, last_seen: LastSeen) -> Home | None:
        """Return what the NodeSet of this record wants; None: there is no such NodeSet."""
        spec = self._index.of_record(slurm_node) if slurm_node is not None else None
        if spec is None or slurm_node is None:
            return None
        return Home(
            spec=spec,
            stamp=self._index.plan(spec).stamp,
            pod_get_result=last_seen.get_result(("Pod", spec.namespace, slurm_node.name)),
            vacant=self._index.is_vacant(spec, slurm_node.name),
        )

    def wish(self, slurm_node: SlurmNode | None) -> RecordWish | None:
        """Return what the NodeSet of this record wants of it; None: there is no such NodeSet."""
        spec = self._index.of_record(slurm_node) if slurm_node is not None else None
        if spec is None:
            return None
        return RecordWish(
            node_set=spec.name,
            features=spec.features,
            weight=spec.registration.weight,
            topology=spec.topology,
            requeueing=spec.requeueing,
            lock=spec.lock,
        )

    def controller(self) -> ControllerAge | None:
        return self._index.controller

    def unregistered(self, pod: SlurmdPod) -> Failures | None:
        return self._index.unregistered_of(pod)

    def requeued(self, name: str) -> RequeueTried | None:
        return self._index.memory.requeued.get(name)

    def _slots(self, spec: NodeSet) -> tuple[Slot, ...]:
        plan, pods = self._index.plan(spec), self._index.slurmd_pods.entries
        read = self._index.memory.job_ends.get(spec.key)
        ends = dict(read.ends) if read is not None else {}
        slots = [self._slot(spec, plan, pods[key], ends) for key in self._index.pods_of(spec)]
        return tuple(sorted(slots, key=lambda slot: (slot.ordinal, slot.name)))

    def _slot(
        self, spec: NodeSet, plan: Plan, entry: Entry[SlurmdPod], ends: Mapping[str, int]
    ) -> Slot:
        pod = entry.row
        record = self._index.slurm_nodes.get(pod.slurm_node)
        stamp = record.stamp if record is not None else None
        own = stamp is not None and stamp.node_set == plan.stamp.node_set
        return Slot(
            name=pod.name,
            ordinal=_ordinal(pod.name, spec),
            pod=pod,
            since_s=entry.since_s,
            slurm_node=record,
            own=own,
            stale=own and stamp is not None and stamp.shape != pod.shape,
            ends_s=ends.get(pod.slurm_node, ENDLESS),
            spared=pod.uid in self._index.memory.spared.get(spec.uid, ()),
            outdated=pod.revision != plan.revision,
            unregistered=self._index.memory.unregistered.get(spec.key, pod.name),
            misplaced=spec.per_node and self._index.matches.is_misplaced(spec, pod),
        )

    def _vacancy(self, spec: NodeSet, name: str) -> Vacancy:
        index = self._index
        nodes = index.matches.nodes_of(spec, name) if spec.per_node else ("",)
        clash = f"more than one Node ({', '.join(nodes[:3])})" if len(nodes) > 1 else ""
        return Vacancy(
            name=name,
            node_name=nodes[0],
            taken=clash or self._taken(spec, name),
            record=index.slurm_nodes.get(name),
            failures=index.memory.failures.get(spec.key, name),
            unregistered=index.memory.unregistered.get(spec.key, name),
        )

    def _taken(self, spec: NodeSet, name: str) -> str:
        """Return a slurmd Pod, a Node or another NodeSet that claims a Slurm node of this name."""
        if f"{spec.namespace}/{name}" in self._index.slurmd_pods.entries:
            return f"Pod {spec.namespace}/{name}"
        claim = self._claims.claim_of(name)
        if claim.rivals:
            return claim.rivals[0].path
        if claim.pod is not None:
            return f"Pod {claim.pod.row.namespace}/{claim.pod.row.name}"
        if claim.node is not None:
            return f"Node {claim.node.row.name}"
        return next((f"NodeSet {key}" for key in self._index.rivals(spec.key, name)), "")


def _ordinal(name: str, spec: NodeSet) -> int:
    text = name.removeprefix(f"{spec.prefix}-")
    return int(text) if text != name and text.isascii() and text.isdecimal() else -1
