"""The cluster of scenarios about NodeSets: Nodes k1-k5, no hosts, and one Slurm node of others."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from tests.sim import words
from tests.sim.cast import PERSON
from tests.sim.checks import Checks
from tests.sim.judging import mark_of
from tests.sim.node_sets import truth
from tests.sim.node_sets.checks import NodeSetChecks
from tests.sim.node_sets.farm import Farm
from tests.sim.node_sets.host_checks import HostChecks
from tests.sim.node_sets.rest import Expected, node_set_unrest
from tests.sim.node_sets.truth import NAMESPACE, name_of
from tests.sim.stage import Scenario, Stage
from tests.sim.wire import Exchange, Moment

NODES = ("k1", "k2", "k3", "k4", "k5")
OTHERS = "others1"
"""A Slurm node of slurm.conf that Kubernetes does not have."""
WINDOW_S = 12.0
"""An answer is never late here: one poll and one write."""


class NodeSetScenario(Scenario, frozen=True, kw_only=True):
    shows: Mapping[str, str] = {}
    """Slurm node at the end → its state, as `IDLE+DYNAMIC_NORM`."""
    stuck: frozenset[str] = frozenset()


class NodeSetStage(Stage):
    farm: Farm

    def _setup(self) -> Setup:
        return replace(super()._setup(), nodes=[NodeSpec(name=OTHERS)])

    def _furnish(self) -> None:
        self.worlds.install_node_sets()
        self.worlds.act(PERSON, partial(self.kube.add_namespace, NAMESPACE))
        for number, name in enumerate(NODES):
            labels = {"rack": f"r{number % 2}", "gpu": "h100"}
            self.act(partial(self.kube.add_node, name, labels=labels))
        self.farm = Farm(self.worlds)

    def _new_checks(self, drains_a_minute: int) -> Checks:
        self.node_sets = NodeSetChecks(self.worlds, self.history, window_s=WINDOW_S)
        self.wire.witnesses.append(self.node_sets)
        return HostChecks(self.worlds, self.history, drains_a_minute=drains_a_minute)

    def _counts(self, moment: Moment, exchange: Exchange) -> bool:
        """Whether a moment is a crash point: writes, and reads of one Pod or one Slurm node."""
        path = exchange.question.path
        return moment != "piece" and (exchange.writes or "/pods/" in path or "/node/" in path)

    def _unrest(self) -> list[str]:
        if any(job.ending for job in self.slurm.jobs.values()):
            return ["jobs are still ending"]
        assert isinstance(self.scenario, NodeSetScenario)
        found = node_set_unrest(self.worlds, Expected(stuck=self.scenario.stuck))
        return found or super()._unrest()

    def _picture(self) -> dict[str, Any]:
        """Return the final state, without the Nodes and what they show: these can differ."""
        shown: dict[str, Any] = {}
        for one in truth.node_sets(self.worlds):
            status = {
                key: value
                for key, value in (one.get("status") or {}).items()
                if key not in ("conditions", "observedGeneration")
            }
            shown[f"nset {name_of(one)}"] = (one["metadata"].get("finalizers"), status)
        for pod in self.kube.pods(NAMESPACE):
            labels = dict(words.labels_of(pod))
            shown[f"pod {name_of(pod)}"] = (labels, words.annotations_of(pod), words.is_ready(pod))
        for name, record in self.slurm.nodes.items():
            noted = mark_of(record.comment).get("set_features")
            state = sorted(state_of(record))
            shown[f"slurm {name}"] = (state, record.reason, record.features, noted, record.weight)
        shown["jobs"] = sorted(job.state for job in self.slurm.jobs.values())
        return shown

    async def _rest(self) -> None:
        await super()._rest()
        assert isinstance(self.scenario, NodeSetScenario)
        wanted = self.scenario.shows
        held = {
            name: "+".join(state_of(record))
            for name, record in self.slurm.nodes.items()
            if name != OTHERS
        }
        if held != wanted:
            self.history.break_promise("scenario", f"Slurm has {held}, not {wanted}")
