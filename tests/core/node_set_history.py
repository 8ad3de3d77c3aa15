"""Random histories with NodeSets: the machines work, people change their minds, writes get lost."""

from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.node_set import NodeSet, UpdateStrategy
from sunk_sync.core.translate.node_states import is_drained
from tests.core.checks import HistoryError
from tests.core.history import History
from tests.core.node_set_world import NodeSetWorld
from tests.core.world import World
from tests.kit.build import node
from tests.kit.node_sets import LARGER, NEWER, SHAPE, TEMPLATE, node_set, plan

REPLICAS = (0, 1, 2, 3, 4)
CLAIMED = ("cpu-0", "cpu-1", "gpu-0")
OWNERS = ("cpu", "gpu")
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
            strategy=self.rng.choice(STRATEGIES),
        )  # fmt: skip
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
        match self.rng.randrange(8):
            case 0 | 1 | 2:
                row = replace(row, replicas=self.rng.choice(REPLICAS))
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
        if not world.pods or self.rng.random() < 0.4:
            (self._drain_by_hand if self.rng.random() < 0.7 else self._claim_a_name)()
            return
        name = self.rng.choice(list(world.pods))
        pod = world.pods[name]
        match self.rng.randrange(3):
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
        if not pod.node_name:
            world.put_node(node(f"k{name}"))
            return [(world.place, name)]
        return [] if pod.ready else [(world.start_slurmd, name)]

    def _uid(self) -> str:
        self.uid += 1
        return f"set-{self.uid}"

    def _heal(self) -> None:
        """Faults end, jobs end, and people stop; the machines work on."""
        super()._heal()
        self.quiet = True
        for name in CLAIMED:
            if name in self.world.nodes:
                self.world.drop_node(name)
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
        if len(pods) != spec.replicas:
            raise HistoryError(f"number: {len(pods)} Pods of {spec.replicas}: {pods}")
        for pod in pods:
            record = world.slurm_nodes.get(pod.name)
            if record is None or record.stamp is None or is_drained(record.state):
                raise HistoryError(f"registered: {pod} has {record}")
            if record.stamp.shape != pod.shape:
                raise HistoryError(f"shape: {pod} has {record}")
            if spec.strategy.type == "RollingUpdate" and pod.revision != wanted.revision:
                raise HistoryError(f"revision: {pod} is not {wanted.revision}")
        counts = (spec.counts.replicas, spec.counts.registered, spec.counts.idle)
        if counts != (len(pods),) * 3:
            raise HistoryError(f"status: {counts} for {len(pods)} Pods")

    def _taken(self, spec: NodeSet) -> bool:
        """Whether Pods that an older NodeSet of this name left behind have its names."""
        return any(
            pod.owner != spec.uid and pod.nodeset == spec.name for pod in self.world.pods.values()
        )

    def _check_records(self) -> None:
        """N10: no record is left without a Pod, of a NodeSet that exists."""
        world = self.world
        digests = {plan(spec).stamp.node_set for spec in world.node_sets.values()}
        for name, record in world.slurm_nodes.items():
            ours = record.stamp is not None and record.stamp.node_set in digests
            if ours and name not in world.pods:
                raise HistoryError(f"ghost: {record} has no Pod")
