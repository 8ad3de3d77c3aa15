"""Random changes of Nodes, slurmd Pods and Slurm nodes in a history."""

import random

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode
from tests.core.world import World
from tests.kit.build import marked, node, slurm_node, slurmd_pod

NODES = ("k1", "k2", "k3", "n1")
PODS = ("p1", "p2", "p3")
SLURM_NODES = ("n1", "n2", "n3", "k1")
STATES = (
    "IDLE", "ALLOCATED", "MIXED", "IDLE+COMPLETING", "DOWN", "UNKNOWN", "IDLE+NOT_RESPONDING",
    "IDLE+POWERED_DOWN", "MIXED+POWERING_UP", "MIXED+REBOOT_REQUESTED",
)  # fmt: skip
REASONS = ("maintenance", "", "Kill task failed", "k8s: node cordoned", "lifted, was k8s: x")
COMMENTS = ("", "bought in 2019", marked(cluster="another"), marked(pod="p1", node="k1"))


class WorldChanges:
    """The random changes of `History`."""

    rng: random.Random
    world: World
    tidy: bool
    hides: bool
    uid: int

    def _note(self, *what: object) -> None:
        """Keep the step for the report of a failure."""
        raise NotImplementedError

    def _change_kubernetes(self) -> None:
        (self._change_node if self.rng.random() < 0.45 else self._change_pod)()

    def _change_node(self) -> None:
        name, world = self.rng.choice(NODES), self.world
        row = world.nodes.get(name)
        if row is None:
            annotated = "" if self.tidy else self.rng.choice(("", "", "n1", "n3"))
            row = node(name, uid=self._uid(), slurm_node=annotated)
        elif self.rng.random() < 0.15:
            self._note("drop", row)
            world.drop_node(name)
            return
        else:
            row = self._changed_node(row)
        self._note("put", row)
        world.put_node(row)

    def _changed_node(self, row: Node) -> Node:
        match self.rng.randrange(6):
            case 0 | 1:
                return self._cordoned_by_human(row)
            case 2:
                return replace(row, ready=self.rng.choice(("True", "True", "False", "Unknown")))
            case 3:
                return replace(row, cordon_reason=self.rng.choice(("", "disk")))
            case 4 if not self.tidy:
                return replace(row, slurm_node=self.rng.choice(("", "n1", "n2")))
            case _:
                return replace(row, keep_cordon=not row.keep_cordon)

    def _cordoned_by_human(self, row: Node) -> Node:
        if row.unschedulable:
            self.world.human_cordons.discard(row.name)
            return replace(row, unschedulable=False)
        self.world.human_cordons.add(row.name)
        return replace(row, unschedulable=True)

    def _change_pod(self) -> None:
        name, world = self.rng.choice(PODS), self.world
        row = world.pods.get(name)
        if row is not None and self.rng.random() < 0.2:
            self._note("drop", row)
            world.drop_pod(name)
            if self.rng.random() < 0.5:
                return
            row = None
        row = self._new_pod(name) if row is None else self._changed_pod(row)
        self._note("put", row)
        world.put_pod(row)

    def _new_pod(self, name: str) -> SlurmdPod:
        claimed, place = f"n{name[1:]}", f"k{name[1:]}"
        if not self.tidy:
            claimed = self.rng.choice((claimed, *SLURM_NODES))
            place = self.rng.choice((place, *NODES, ""))
        ready = self.rng.random() < 0.7
        return slurmd_pod(claimed, name=name, uid=self._uid(), node_name=place, ready=ready)

    def _changed_pod(self, row: SlurmdPod) -> SlurmdPod:
        match self.rng.randrange(8):
            case 0 | 1:
                return replace(row, ready=not row.ready)
            case 2:
                return replace(row, terminating=True)
            case 3:
                return replace(row, cordon=self.rng.choice(("", "true")))
            case 4:
                return replace(row, pending_deletion=self.rng.choice((None, "update", "")))
            case 5:
                return replace(row, node_name=row.node_name or self.rng.choice(NODES))
            case 6 if not self.tidy:
                return replace(row, slurm_node=self.rng.choice(SLURM_NODES))
            case 6 | 7 if self.tidy:
                return replace(row, ready=True, cordon="", pending_deletion=None)
            case _:
                return replace(row, finished=self.rng.random() < 0.5, ready=False)

    def _uid(self) -> str:
        self.uid += 1
        return f"u{self.uid}"

    def _change_slurm(self) -> None:
        name, world = self.rng.choice(SLURM_NODES), self.world
        row = world.slurm_nodes.get(name)
        if row is not None and self.rng.random() < (0.3 if self.hides else 0.07):
            self._note("drop", row)
            del world.slurm_nodes[name]
            return
        row = slurm_node(name) if row is None else self._changed_slurm_node(row)
        self._note("put", row)
        world.put_slurm_node(row)

    def _changed_slurm_node(self, row: SlurmNode) -> SlurmNode:
        drained = row.state & {"DRAIN"}
        if self.tidy and self.rng.random() < 0.8:
            return replace(row, state=frozenset({"IDLE"}) | drained)
        match self.rng.randrange(8):
            case 0 | 1:
                return replace(row, state=row.state | {"DRAIN"}, reason=self.rng.choice(REASONS))
            case 2:
                return replace(row, state=row.state - {"DRAIN"})
            case 3 | 4:
                state = frozenset(self.rng.choice(STATES).split("+"))
                return replace(row, state=state | drained)
            case 5:
                return replace(row, state=row.state ^ {"INVALID_REG"})
            case 6:
                return replace(row, comment=self.rng.choice(COMMENTS))
            case _:
                return replace(row, reason=self.rng.choice(REASONS))
