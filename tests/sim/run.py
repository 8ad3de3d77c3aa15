"""One run of a seed: an hour with faults. Then the faults stop, and the state must converge."""

import asyncio
import random
from functools import partial

from msgspec.structs import replace

from sunk_sync.embedded.slurm.memory import Knobs, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.settings.model import Settings
from tests.sim import words
from tests.sim.cast import PERSON, Cast
from tests.sim.checks import Checks
from tests.sim.ends import TokenFile
from tests.sim.faults import Faults
from tests.sim.history import History
from tests.sim.life import Life, Living
from tests.sim.outages import Outages
from tests.sim.outcome import Outcome, play_seed
from tests.sim.people import People
from tests.sim.rare import Rare
from tests.sim.rest import clear_hosts, unrest
from tests.sim.wire import Exchange, Moment, Process, Wire
from tests.sim.worlds import Worlds

ACTS = 110
STEPS_MIN = 300
"""Fewest steps of a run. A run with few hosts and rare polls needs more operations."""
GAPS_S = (0.0, 0.001, 0.005, 0.05, 0.4, 2.0, 2.0, 7.0, 20.0)
REST_WITHIN_S = 900.0
"""Time to converge after the end of all faults. The limit can be one drain a minute."""
LOOK_EVERY_S = 20.0
QUIET_S = 600.0
"""Long quiet phase, for one seed in LONG_EVERY: it takes most of the time of a run."""
SHORT_QUIET_S = 150.0
"""Short quiet phase: two audits, two full listings and two reads of absent objects."""
LONG_EVERY = 4
QUIET_ROUNDS_MAX = 4
"""slurmctld can notice an earlier end of a slurmd only now."""
PACKS_EVERY = 7
"""One of so many seeds runs with --pack nodes."""
SETTLE_S = 100.0
"""Within this time frozen streams are closed, and jobs have ended."""


class Run:
    """One seed. Call `play` once, in a VirtualLoop."""

    def __init__(self, seed: int, history: History) -> None:
        self.seed = seed
        self.history = history
        rng = self._rng = random.Random(f"run {seed}")
        hosts = rng.choice((1, 2, 3, 3, 5))
        self.tidy = rng.random() < 0.5
        self.settings = _settings(rng, seed)
        setup = _setup(rng, hosts)
        if self.settings.pack != "off":
            setup = _with_kinds(setup)
        self.worlds = Worlds(setup, history, cluster=7)
        self.faults = Faults(random.Random(f"faults {seed}"))
        self.wire = Wire(self.worlds, self.faults, history)
        self.cast = Cast(self.worlds, hosts, namespaces=self.settings.slurmd_namespace)
        self.people = People(random.Random(f"people {seed}"), self.cast, tidy=self.tidy)
        self.token = TokenFile("token-0")
        self.outages = Outages(random.Random(f"weather {seed}"), self.wire, self.token)
        self.crashes = rng.random() < 0.4
        self.race = rng.choice((0.0, 0.0, 0.3))
        """Probability that a user writes between our read of a Slurm node and our write."""
        self.wire.at = self._at
        self.stops = rng.random() < 0.2
        self._lives = 0
        self._storming = False
        _furnish(self.cast, rng)
        limit = self.settings.max_drains_per_minute
        self.checks = Checks(
            self.worlds,
            history,
            drains_a_minute=20 if limit is None else limit,
            packs=self.settings.pack != "off",
        )
        self.wire.witnesses.append(self.checks)
        self.rare = Rare(random.Random(f"rare {seed}"), self.wire)
        self.life = self._live()

    def _live(self) -> Living:
        self._lives += 1
        life = Life(
            self.wire, self.settings, number=self._lives, token=self.token, seed=str(self.seed)
        )
        self.wire.on_streamed.clear()
        self._begin(life.process)
        return life

    def _begin(self, process: Process) -> None:
        self.wire.on_streamed.append(self.checks.begin(process).streamed)

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
        rng = self._rng
        storm = rng.choice((0.05, 0.15, 0.4))
        self._storming = True
        acts = 0
        while acts < ACTS or self.history.steps < STEPS_MIN:
            acts += 1
            await self._sleep(rng.choice(GAPS_S) * rng.random() * 2)
            self.rare.act()
            self.life.act()
            what = rng.random()
            if what < 0.02 and self.crashes:
                await self._crash()
            elif what < 0.03 and self.stops:
                await self.life.stop()
                self.life = self._live()
            elif rng.random() < storm:
                self.outages.act()
            else:
                self.people.act()

    def _at(self, moment: Moment, exchange: Exchange) -> None:
        """S0: let a user write before our write arrives."""
        read = exchange.side == "slurm" and "/node/" in exchange.question.path
        if moment != "served" or exchange.writes or not read or not self._storming:
            return
        if self._rng.random() < self.race:
            name = exchange.question.path.rpartition("/")[2]
            self.people.meddle(name)

    async def _crash(self) -> None:
        """Crash at any await: after a few turns of the loop."""
        for _ in range(self._rng.randrange(12)):
            await asyncio.sleep(0)
        self.history.count("fault: our own crash")
        await self.life.crash()
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 1.0, 30.0)))
        self.life = self._live()

    async def _heal(self) -> None:
        """Stop all faults and operations. The damage stays."""
        self.history.note("healed", "faults and operations stop")
        self._storming = False
        self.faults.stop()
        self.outages.calm()
        self.life.calm()
        now_s = self.worlds.now_s
        slurm = self.worlds.slurm
        for job in list(slurm.jobs.values()):
            if job.state in ("PENDING", "RUNNING"):
                self.worlds.act(PERSON, partial(slurm.cancel, job.job_id, now_s=now_s))
        await self._sleep(SETTLE_S)

    async def _come_to_rest(self) -> None:
        by_s = self.worlds.now_s + REST_WITHIN_S
        while found := self._unrest():
            if self.worlds.now_s >= by_s:
                pending = "\n  ".join(self.life.pending() or ["no write is pending"])
                self.history.break_promise("rest", "\n  ".join([*found, "pending:", pending]))
            await self._sleep(LOOK_EVERY_S)

    def _unrest(self) -> list[str]:
        slurm = self.worlds.slurm
        if any(job.state == "RUNNING" or job.ending for job in slurm.jobs.values()):
            return ["jobs are still ending"]
        if held := [words for words in self.life.pending() if "is held back" in words]:
            return held
        return unrest(self.worlds, self.settings, self.checks.told_pods) or self.life.unfinished()

    async def _stay_at_rest(self) -> None:
        """Check that nothing is wanted and that quiet minutes cause no write."""
        quiet_s = SHORT_QUIET_S if self.seed % LONG_EVERY else QUIET_S
        await self._sleep(2 * LOOK_EVERY_S)
        for _ in range(QUIET_ROUNDS_MAX):
            sent, happened = self.checks.sent_writes, self.checks.others_changed
            await self._sleep(quiet_s)
            if self.checks.others_changed == happened:
                break
            await self._come_to_rest()
        if self.checks.sent_writes != sent:
            self.history.break_promise("quiet", "written although nothing changed")
        if found := self._unrest():
            self.history.break_promise("rest", "\n  ".join(found))
        spoken, hosts = clear_hosts(self.worlds, self.settings)
        self.history.counts["hosts checked at rest"] += spoken
        self.history.counts["hosts"] += hosts
        self.history.raise_broken()


def _settings(rng: random.Random, seed: int) -> Settings:
    return Settings(
        slurm_api_base=("http://restd:6820",),
        components=("syncer", "scheduler") if seed % 4 == 3 else ("syncer",),
        slurmd_namespace=rng.choice((("slurm",), ("slurm",), ("slurm", "slurm-b"))),
        slurm_poll_interval_s=rng.choice((1.0, 1.0, 2.5, 10.0)),
        cordon_on_slurm_drain=rng.random() < 0.35,
        max_drains_per_minute=rng.choice((None, None, None, 1, 2)),
        node_not_ready_grace_s=rng.choice((40.0, 40.0, 5.0)),
        pack="nodes" if seed % PACKS_EVERY == 5 else "off",
    )


def _with_kinds(setup: Setup) -> Setup:
    """Give every other node another weight of its own."""
    kinds = [replace(one, weight=1 + 10 * (at % 2)) for at, one in enumerate(setup.nodes)]
    return replace(setup, nodes=kinds)


def _setup(rng: random.Random, hosts: int) -> Setup:
    return Setup(
        nodes=[NodeSpec(name=f"n{number}") for number in range(1, hosts + 1)],
        generation=rng.choice(("26.05", "24.11")),
        knobs=Knobs(
            reconfigure_forgets_comments=rng.random() < 0.5,
            boot_s=rng.choice((5.0, 60.0)),
            slurmd_timeout_s=rng.choice((20.0, 90.0)),
            ping_every_s=rng.choice((5.0, 100.0)),
            return_to_service=rng.choice((2, 1, 0)),
            power_saving=True,
        ),
    )


def _furnish(cast: Cast, rng: random.Random) -> None:
    """Create hosts in the state before the first start of the service."""
    for name, node in zip(cast.slurm_nodes, cast.nodes, strict=True):
        kind = rng.choice(("pod", "pod", "pod", "hostname", "annotated pod", "node"))
        annotations = {words.SLURM_NODE: name} if kind == "node" else {}
        cast.worlds.act(PERSON, partial(cast.worlds.kube.add_node, node, annotations=annotations))
        if kind != "node":
            add_pod = partial(
                cast.add_pod,
                name if kind == "pod" else f"slurmd-{name}",
                node=node,
                claims=name if kind == "annotated pod" else "",
                hostname=name if kind == "hostname" else "",
            )
            cast.worlds.act(PERSON, add_pod)


def run_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(lambda history: Run(seed, history).play(), seed=seed, aloud=aloud)
