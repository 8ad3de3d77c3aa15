"""Random histories with NodeSets: the machines work, people change their minds, writes get lost."""

from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.facts import SlurmdPod, SlurmNode
from sunk_sync.core.model.node_set import EVERY_NODE, Features, NodeSet, Topology, UpdateStrategy
from sunk_sync.core.model.pod_spec import Offer, PodSpec, Taint
from sunk_sync.core.translate.node_states import is_drained
from tests.core.checks import HistoryError
from tests.core.history import History
from tests.core.node_set_world import NodeSetWorld
from tests.core.world import World
from tests.kit.build import node
from tests.kit.node_sets import LARGER, NEWER, SHAPE, TEMPLATE, node_set, plan

REPLICAS = (0, 1, 2, 3, 4)
PER_NODE = 0.4
"""Share of NodeSets with one Pod for each Node."""
CLAIMED = ("cpu-0", "cpu-1", "gpu-0")
OWNERS = ("cpu", "gpu")
FEATURES = (
    Features(),
    Features(("fast",)),
    Features(("fast", "large"), (("gpu", ""),)),
    Features((), (("gpu", "gpu-"), ("rack", "in-"))),
)
TOPOLOGIES = (Topology(), Topology(("rack",), "tree:root"), Topology(("gpu", "rack"), "tree:root"))
LABELS = ((), (("gpu", "h100"),), (("gpu", "a100"), ("rack", "r1")), (("rack", "r2"),))
TAINTS = ((), (), (), (Taint("x", "NoSchedule"),), (Taint("x", "NoExecute"),))
POOL = ("kd1", "kd2", "kd3", "kd4")
"""Nodes for NodeSets with one Pod for each."""
LIMITS = (0, 1, 2, EVERY_NODE, EVERY_NODE)
THEIRS = "theirs"
STRATEGIES = (
    UpdateStrategy(),
    UpdateStrategy("RollingUpdate", 1, percent=False),
    UpdateStrategy("OnDelete"),
)


class NodeSetHistory(History):
    """Run one seed with two NodeSets."""

    world: NodeSetWorld

    def _world(self) -> World:
        return NodeSetWorld(self.rng)

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        self.quiet = False
        return (self._change_node_set, self._work, self._hear, self._push, self._break)

    def _prepare(self) -> None:
        for name in OWNERS[: self.rng.choice((1, 1, 2))]:
            self._make(name)
        for _ in range(6):
            self._work()

    def _make(self, name: str) -> None:
        replicas = self.rng.choice(REPLICAS)
        spec = node_set(
            replicas, name=name, prefix=name, uid=self._uid(), held=False,
            strategy=self.rng.choice(STRATEGIES), features=self.rng.choice(FEATURES),
            topology=self.rng.choice(TOPOLOGIES),
        )  # fmt: skip
        if self.rng.random() < PER_NODE:
            selector = (*self.rng.choice(LABELS[:2]), ("pool", name))
            limit = self.rng.choice(LIMITS)
            placement = PodSpec(node_selector=selector)
            spec = replace(spec, per_node=True, replicas=limit, placement=placement)
        self._note("make", spec)
        self.world.put_node_set(spec)

    def _change_node_set(self) -> None:
        """A user changes a NodeSet."""
        name = self.rng.choice(OWNERS)
        row = self.world.node_sets.get(name)
        if row is None:
            if self.rng.random() < 0.3:
                self._make(name)
            return
        row = replace(row, generation=row.generation + 1)
        match self.rng.randrange(10):
            case 8:
                row = replace(row, features=self.rng.choice(FEATURES))
            case 9:
                weight = self.rng.choice((1, 5))
                registration = replace(row.registration, weight=weight)
                topology = self.rng.choice(TOPOLOGIES)
                row = replace(row, topology=topology, registration=registration)
            case 0 | 1 | 2:
                numbers = LIMITS if row.per_node else REPLICAS
                row = replace(row, replicas=self.rng.choice(numbers))
            case 3:
                row = replace(row, template=self.rng.choice((TEMPLATE, NEWER)))
            case 4:
                row = replace(row, registration=self.rng.choice((SHAPE, LARGER)))
            case 5 if self.rng.random() < 0.2:
                row = replace(row, deleting=True, orphan=self.rng.random() < 0.2)
            case 6:
                row = replace(row, strategy=self.rng.choice(STRATEGIES))
            case _:
                self._meddle()
                return
        self._note("changed", row)
        self.world.put_node_set(row)

    def _meddle(self) -> None:
        """A person acts on a Pod or a Slurm node by hand."""
        world = self.world
        if self.rng.random() < 0.3:
            (self._relabel if self.rng.random() < 0.5 else self._set_by_hand)()
            return
        if self.rng.random() < 0.3:
            self._change_pool()
            return
        if not world.pods or self.rng.random() < 0.4:
            (self._drain_by_hand if self.rng.random() < 0.7 else self._claim_a_name)()
            return
        name = self.rng.choice(list(world.pods))
        pod = world.pods[name]
        match self.rng.randrange(4):
            case 3 if pod.owner and not self.quiet:
                self._note("replaced by a Pod of somebody else", name)
                world.end_job(name)
                world.put_pod(replace(pod, uid=self._uid(), owner="", nodeset=THEIRS))
            case 0:
                self._note("delete by hand", name)
                world.put_pod(replace(pod, terminating=True))
            case 1 if not pod.finished:
                self._note("evicted", name)
                world.put_pod(replace(pod, finished=True, ready=False, failed="Evicted"))
            case _:
                if pod.owner and name in world.slurm_nodes and not self.quiet:
                    self._note("record lost", name)
                    world.end_job(name)
                    del world.slurm_nodes[name]

    def _relabel(self) -> None:
        names = sorted(name for name in self.world.nodes if name.startswith("k"))
        if names:
            row = self.world.nodes[self.rng.choice(names)]
            row = replace(row, offer=self._offer(pooled=row.name in POOL))
            self._note("relabel", row)
            self.world.put_node(row)

    def _offer(self, *, pooled: bool) -> Offer:
        labels = self.rng.choice(LABELS)
        if not pooled:
            return Offer(labels)
        taints = self.rng.choice(TAINTS)
        return Offer(tuple(sorted((*labels, ("pool", self.rng.choice(OWNERS))))), taints)

    def _change_pool(self) -> None:
        """A Node comes or goes, or is ready or not."""
        name = self.rng.choice(POOL)
        row = self.world.nodes.get(name)
        if row is None:
            self.world.put_node(node(name, offer=self._offer(pooled=True)))
        elif self.rng.random() < 0.5:
            ready = "False" if row.ready == "True" else "True"
            self.world.put_node(replace(row, ready=ready))
        else:
            self.world.drop_node(name)
        self._note("pool", name)

    def _set_by_hand(self) -> None:
        """An administrator gives a feature, takes the others away, or reconfigures Slurm."""
        names = sorted(self.world.slurm_nodes)
        if not names:
            return
        row = self.world.slurm_nodes[self.rng.choice(names)]
        stays = row.features[:2]
        match self.rng.randrange(3):
            case 0 if THEIRS not in row.features and row.stamp is not None:
                features = (*row.features, THEIRS)
                row = replace(row, features=features, active_features=features)
            case 1 if row.stamp is not None:
                row = replace(row, features=stays, active_features=stays)
            case _:
                row = replace(row, weight=1)
        self._note("set by hand", row)
        self.world.put_slurm_node(row)

    def _claim_a_name(self) -> None:
        """A Node of this name claims the Slurm node that a NodeSet may want, or no longer."""
        name = self.rng.choice(CLAIMED)
        if name in self.world.nodes:
            self.world.drop_node(name)
        else:
            self.world.put_node(node(name))

    def _drain_by_hand(self) -> None:
        names = list(self.world.slurm_nodes)
        if not names:
            return
        row = self.world.slurm_nodes[self.rng.choice(names)]
        if is_drained(row.state) and not row.reason.startswith("k8s:"):
            row = replace(row, state=row.state - {"DRAIN"}, reason="")
        elif not is_drained(row.state):
            row = replace(row, state=row.state | {"DRAIN"}, reason="fan broken")
        self._note("by hand", row)
        self.world.put_slurm_node(row)

    def _work(self) -> None:
        """The machines make progress somewhere."""
        world = self.world
        steps = [step for name in world.pods for step in self._steps(name)]
        for name, row in world.slurm_nodes.items():
            if {"ALLOCATED", "MIXED"} & row.state:
                steps.append((world.end_job, name))
            elif not self.quiet:
                steps.append((world.start_job, name))
        if steps:
            step, name = self.rng.choice(steps)
            self._note(step.__name__, name)
            step(name)

    def _steps(self, name: str) -> list[tuple[Callable[[str], None], str]]:
        world, pod = self.world, self.world.pods[name]
        if pod.terminating:
            return [(world.remove_pod, name)]
        if pod.finished:
            return []
        pin = world.pins.get(name)
        if pin is not None and pin not in world.nodes:
            return [(world.collect, name)] if pod.node_name else []
        if not pod.node_name:
            if pin is None and f"k{name}" not in world.nodes:
                offer = Offer(labels=self.rng.choice(LABELS))
                world.put_node(node(f"k{name}", offer=offer))
            return [(world.place, name)]
        return [] if pod.ready else [(world.start_slurmd, name)]

    def _uid(self) -> str:
        self.uid += 1
        return f"set-{self.uid}"

    def _heal(self) -> None:
        """Faults end, jobs end, and people stop; the machines work on."""
        super()._heal()
        self.quiet = True
        for name in [name for name, pod in self.world.pods.items() if pod.nodeset == THEIRS]:
            self.world.drop_pod(name)
            self.world.slurm_nodes.pop(name, None)
        for name in CLAIMED:
            if name in self.world.nodes:
                self.world.drop_node(name)
        for name in POOL:
            if name in self.world.nodes:
                self.world.put_node(replace(self.world.nodes[name], ready="True"))
        for name, row in list(self.world.slurm_nodes.items()):
            if is_drained(row.state) and not row.reason.startswith("k8s:"):
                state = row.state - {"DRAIN"}
                self.world.put_slurm_node(replace(row, state=state, reason=""))
            self.world.end_job(name)

    def _round(self) -> bool:
        """In a round without faults every machine does its next step."""
        steps = [step for name in list(self.world.pods) for step in self._steps(name)]
        for step, name in steps:
            self._note(step.__name__, name)
            step(name)
        return super()._round() or bool(steps)

    def _check_rest(self) -> None:
        for spec in self.world.node_sets.values():
            if not spec.deleting:
                self._check_node_set(spec)
            elif not spec.orphan:
                raise HistoryError(f"deleted: {spec.path} stays: {self.world.pods}")
        self._check_records()

    def _check_node_set(self, spec: NodeSet) -> None:
        world, wanted = self.world, plan(spec)
        pods = [pod for pod in world.pods.values() if pod.owner == spec.uid]
        if self._taken(spec):
            return
        if spec.per_node:
            self._check_nodes(spec, pods)
        elif len(pods) != spec.replicas:
            raise HistoryError(f"number: {len(pods)} Pods of {spec.replicas}: {pods}")
        for pod in pods:
            record = world.slurm_nodes.get(pod.name)
            if record is None or record.stamp is None or is_drained(record.state):
                raise HistoryError(f"registered: {pod} has {record}")
            if record.stamp.shape != pod.shape:
                raise HistoryError(f"shape: {pod} has {record}")
            self._check_wish(spec, record)
            if spec.strategy.type == "RollingUpdate" and pod.revision != wanted.revision:
                raise HistoryError(f"revision: {pod} is not {wanted.revision}")
        counts = (spec.counts.replicas, spec.counts.registered, spec.counts.idle)
        if counts != (len(pods),) * 3:
            raise HistoryError(f"status: {counts} for {len(pods)} Pods")

    def _check_nodes(self, spec: NodeSet, pods: list[SlurmdPod]) -> None:
        """N17, N18: Pods are where they should be; a taint NoSchedule ends none."""
        nodes, selector = self.world.nodes, set(spec.placement.node_selector)
        matching = {name for name, row in nodes.items() if selector <= set(row.offer.labels)}
        effects = {name: {one.effect for one in nodes[name].offer.taints} for name in matching}
        may = {name for name in matching if "NoExecute" not in effects[name]}
        should = {name for name in may if not effects[name]}
        there = [pod.node_name for pod in pods]
        if len(set(there)) < len(there) or not may.issuperset(there):
            raise HistoryError(f"nodes: {pods} are on {there}, allowed: {may}")
        complete = should.issubset(there) if spec.replicas >= len(may) else True
        least = min(spec.replicas, len(should))
        if not complete or not least <= len(there) <= spec.replicas:
            raise HistoryError(f"number: Pods on {there} of {should}, at most {spec.replicas}")

    def _check_wish(self, spec: NodeSet, record: SlurmNode) -> None:
        """T1-T5: the record has what the NodeSet and the labels ask for, and what others set."""
        labels = dict(self.world.nodes[self.world.pods[record.name].node_name].offer.labels)
        assert record.stamp is not None
        wanted = {spec.name, record.stamp.feature, *spec.features.static}
        wanted |= {before + labels[key] for key, before in spec.features.dynamic if key in labels}
        for shown in (set(record.features), set(record.active_features)):
            if shown - {THEIRS} != wanted:
                raise HistoryError(f"features: {record} is to have {wanted}")
        if record.weight != spec.registration.weight:
            raise HistoryError(f"weight: {record} of {spec}")
        keys = spec.topology.labels
        if record.topology is None or not keys:
            return
        path = [labels.get(key, "") for key in keys]
        names = ["-".join(path[: number + 1]) for number in range(len(path))]
        place = ":".join([spec.topology.under, *names]) if all(path) else ""
        if record.topology != place:
            raise HistoryError(f"topology: {record} is to be at {place}")

    def _taken(self, spec: NodeSet) -> bool:
        """Whether Pods that an older NodeSet of this name left behind have its names, or records.

        A person can write the stamp of another NodeSet into the record of a name.
        """
        theirs, own = self.world.pods, plan(spec).stamp.node_set
        left = any(pod.owner != spec.uid and pod.nodeset == spec.name for pod in theirs.values())
        return left or any(
            name not in theirs and name.rpartition("-")[0] == spec.prefix
            for name, record in self.world.slurm_nodes.items()
            if record.stamp is not None and record.stamp.node_set != own
        )

    def _check_records(self) -> None:
        """N10: no record is left without a Pod, of a NodeSet that exists."""
        world = self.world
        digests = {plan(spec).stamp.node_set for spec in world.node_sets.values()}
        for name, record in world.slurm_nodes.items():
            ours = record.stamp is not None and record.stamp.node_set in digests
            if ours and name not in world.pods:
                raise HistoryError(f"ghost: {record} has no Pod")
