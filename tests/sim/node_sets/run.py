"""One run of a seed: an hour of NodeSets and jobs with faults. Then the state must converge."""

import asyncio
import random
from functools import partial

from sunk_sync.embedded.slurm.memory import Knobs, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.settings.model import Settings
from tests.sim.cast import PERSON
from tests.sim.ends import TokenFile
from tests.sim.faults import Faults
from tests.sim.history import History
from tests.sim.life import Life, Living
from tests.sim.node_sets.checks import NodeSetChecks
from tests.sim.node_sets.farm import Farm
from tests.sim.node_sets.host_checks import HostChecks
from tests.sim.node_sets.people import OTHERS, NodeSetPeople
from tests.sim.node_sets.rest import Expected, node_set_unrest
from tests.sim.node_sets.truth import NAMESPACE
from tests.sim.outages import Outages
from tests.sim.outcome import Outcome, play_seed
from tests.sim.rest import unrest
from tests.sim.run import PACKS_EVERY
from tests.sim.wire import Process, Wire
from tests.sim.worlds import Worlds

ACTS = 100
STEPS_MIN = 300
GAPS_S = (0.0, 0.001, 0.05, 0.4, 2.0, 2.0, 7.0, 20.0)
LOOK_EVERY_S = 20.0
SETTLE_S = 100.0
REST_WITHIN_S = 1200.0
"""Time to converge: a Pod that failed often is made again after five minutes."""
QUIET_S = 150.0
QUIET_ROUNDS_MAX = 4
WINDOW_S = 110.0
"""A watch whose connection died shows an old state for so long."""
CALM_WINDOW_S = 12.0
"""Without faults: one poll and one write."""


class NodeSetRun:
    """One seed. Call `play` once, in a VirtualLoop."""

    def __init__(self, seed: int, history: History) -> None:
        self.seed = seed
        self.history = history
        rng = self._rng = random.Random(f"node sets {seed}")
        self.settings = _settings(rng, seed)
        packs = self.settings.pack != "off"
        self.worlds = Worlds(_setup(rng), history, cluster=7)
        self.worlds.install_node_sets()
        self.worlds.act(PERSON, partial(self.worlds.kube.add_namespace, NAMESPACE))
        gentle = rng.random() < 0.35
        """No faults: the checks allow no old state."""
        self.faults = Faults(None if gentle else random.Random(f"node sets faults {seed}"))
        self.wire = Wire(self.worlds, self.faults, history)
        self.farm = Farm(self.worlds, random.Random(f"node sets farm {seed}"))
        self.people = NodeSetPeople(
            random.Random(f"node sets people {seed}"),
            self.farm,
            self.worlds,
            nodes=rng.choice((1, 3, 4, 6)),
        )
        self.token = TokenFile("token-0")
        self.outages = Outages(random.Random(f"node sets weather {seed}"), self.wire, self.token)
        self.storm = 0.0 if gentle else rng.choice((0.0, 0.05, 0.15, 0.3))
        self.crashes, self.stops = rng.random() < 0.5, rng.random() < 0.2
        self.checks = NodeSetChecks(
            self.worlds, history, window_s=CALM_WINDOW_S if gentle else WINDOW_S, packs=packs
        )
        self.host_checks = HostChecks(self.worlds, history, drains_a_minute=20)
        self.wire.witnesses += [self.checks, self.host_checks]
        self.people.furnish()
        self._lives = 0
        self.life = self._live()

    def _live(self) -> Living:
        self._lives += 1
        life = Life(
            self.wire,
            self.settings,
            number=self._lives,
            token=self.token,
            seed=f"node sets {self.seed}",
        )
        self.wire.on_streamed.clear()
        self._begin(life.process)
        return life

    def _begin(self, process: Process) -> None:
        self.wire.on_streamed.append(self.host_checks.begin(process).streamed)

    async def play(self) -> None:
        """Play the run to its end. Raises BrokenPromiseError."""
        try:
            await self._broken_hour()
            await self._heal()
            await self._come_to_rest()
            await self._stay_at_rest()
        finally:
            await self.life.crash()
        self.history.raise_broken()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.life.check()
        self.history.raise_broken()

    async def _broken_hour(self) -> None:
        rng, acts = self._rng, 0
        while acts < ACTS or self.history.steps < STEPS_MIN:
            acts += 1
            await self._sleep(rng.choice(GAPS_S) * rng.random() * 2)
            self.life.act()
            what = rng.random()
            if what < 0.03 and self.crashes:
                await self._crash()
            elif what < 0.04 and self.stops:
                await self.life.stop()
                self.life = self._live()
            elif rng.random() < self.storm:
                self.outages.act()
            else:
                self.people.act()

    async def _crash(self) -> None:
        """Crash at any await: after a few turns of the loop."""
        for _ in range(self._rng.randrange(12)):
            await asyncio.sleep(0)
        self.history.count("fault: our own crash")
        await self.life.crash()
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 1.0, 30.0)))
        self.life = self._live()

    async def _heal(self) -> None:
        """Stop all faults, repair everything and end the jobs."""
        self.history.note("healed", "faults and operations stop")
        self.faults.stop()
        self.outages.calm()
        self.life.calm()
        for _ in range(2):
            self.people.forget_orphans()
            self.people.calm()
            await self._sleep(SETTLE_S)
        self.people.calm()

    async def _come_to_rest(self) -> None:
        by_s = self.worlds.now_s + REST_WITHIN_S
        while found := self._unrest():
            if self.worlds.now_s >= by_s:
                pending = "\n  ".join(self.life.pending() or ["no write is pending"])
                self.history.break_promise("rest", "\n  ".join([*found, "pending:", pending]))
            await self._sleep(LOOK_EVERY_S)

    def _unrest(self) -> list[str]:
        if any(job.ending for job in self.worlds.slurm.jobs.values()):
            return ["jobs are still ending"]
        found = node_set_unrest(self.worlds, Expected(packs=self.settings.pack != "off"))
        found += unrest(self.worlds, self.settings, self.host_checks.told_pods)
        return found or self.life.unfinished()

    async def _stay_at_rest(self) -> None:
        """Check that nothing is wanted and that quiet minutes cause no write."""
        await self._sleep(2 * LOOK_EVERY_S)
        for _ in range(QUIET_ROUNDS_MAX):
            sent, happened = self.host_checks.sent_writes, self.host_checks.others_changed
            await self._sleep(QUIET_S)
            if self.host_checks.others_changed == happened:
                break
            await self._come_to_rest()
        if self.host_checks.sent_writes != sent:
            self.history.break_promise("quiet", "written although nothing changed")
        if found := self._unrest():
            self.history.break_promise("rest", "\n  ".join(found))
        self.history.raise_broken()


def _settings(rng: random.Random, seed: int) -> Settings:
    return Settings(
        slurm_api_base=("http://restd:6820",),
        components=("syncer", "nodesets"),
        slurmd_namespace=(NAMESPACE,),
        slurm_poll_interval_s=rng.choice((1.0, 1.0, 2.5)),
        cordon_on_slurm_drain=rng.random() < 0.2,
        node_not_ready_grace_s=rng.choice((40.0, 5.0)),
        pack="nodes" if seed % PACKS_EVERY == 5 else "off",
    )


def _setup(rng: random.Random) -> Setup:
    return Setup(
        nodes=[NodeSpec(name=OTHERS)],
        generation=rng.choice(("26.05", "24.11")),
        knobs=Knobs(
            slurmd_timeout_s=rng.choice((20.0, 90.0)),
            ping_every_s=rng.choice((5.0, 30.0)),
            return_to_service=rng.choice((2, 1)),
            save_every_s=rng.choice((5.0, 2.0)),
        ),
    )


def run_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(lambda history: NodeSetRun(seed, history).play(), seed=seed, aloud=aloud)
