"""The runs of a seed with two replicas instead of one life."""

from tests.sim.life import Living
from tests.sim.node_sets.run import NodeSetRun
from tests.sim.outcome import Outcome, play_seed
from tests.sim.replicas.life import ReplicaLife
from tests.sim.replicas.pair import Pair, Surroundings
from tests.sim.run import Run
from tests.sim.workloads.run import WorkloadRun


class ReplicaRun(Run):
    """Hosts; the pair kills and stops its lives itself."""

    def _live(self) -> Living:
        self.crashes = self.stops = False
        return Pair(
            Surroundings(
                wire=self.wire,
                settings=self.settings,
                token=self.token,
                seed=str(self.seed),
                begin=self._begin,
                lead=self._lead,
            )
        )

    def _lead(self, life: ReplicaLife | None) -> None:
        if life is not None:
            self.checks.lead(life.process)


class ReplicaWorkloadRun(WorkloadRun):
    """Pods and jobs."""

    def _live(self) -> Living:
        self.crashes = self.stops = False
        return Pair(
            Surroundings(
                wire=self.wire,
                settings=self.settings,
                token=self.token,
                seed=f"works {self.seed}",
                begin=self._begin,
                lead=self._lead,
            )
        )

    def _lead(self, life: ReplicaLife | None) -> None:
        """Callers reach the leader through their Service, also while it is paused."""
        self.checks.lead(life.process if life else None)
        if life is not None:
            self.hosts_checks.lead(life.process)
            self.callers.life = life
        elif self.callers.life is not None and not self.callers.life.process.alive:
            self.callers.life = None


class ReplicaNodeSetRun(NodeSetRun):
    """NodeSets."""

    def _live(self) -> Living:
        self.crashes = self.stops = False
        return Pair(
            Surroundings(
                wire=self.wire,
                settings=self.settings,
                token=self.token,
                seed=f"node sets {self.seed}",
                begin=self._begin,
                lead=self._lead,
            )
        )

    def _lead(self, life: ReplicaLife | None) -> None:
        if life is not None:
            self.host_checks.lead(life.process)


def run_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(lambda history: ReplicaRun(seed, history).play(), seed=seed, aloud=aloud)


def run_workload_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(
        lambda history: ReplicaWorkloadRun(seed, history).play(), seed=seed, aloud=aloud
    )


def run_node_set_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(
        lambda history: ReplicaNodeSetRun(seed, history).play(), seed=seed, aloud=aloud
    )
