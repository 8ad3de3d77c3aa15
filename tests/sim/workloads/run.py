"""One run of a seed: an hour of Pods and jobs with faults. Then the state must converge."""

import asyncio
import random
from functools import partial

from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.settings.model import Settings
from tests.sim.cast import PERSON, Cast
from tests.sim.checks import Checks
from tests.sim.ends import TokenFile
from tests.sim.faults import Faults
from tests.sim.history import History
from tests.sim.life import Life, Living
from tests.sim.outages import Outages
from tests.sim.outcome import Outcome, play_seed
from tests.sim.wire import Process, Wire
from tests.sim.workloads.callers import Callers, Habits
from tests.sim.workloads.checks import WorkloadChecks
from tests.sim.workloads.claim_people import ClaimPeople
from tests.sim.workloads.group_checks import CALM_S, GroupChecks
from tests.sim.workloads.groups import GroupPeople
from tests.sim.workloads.overlap import Overlap
from tests.sim.workloads.people import (
    NAMESPACE,
    PREEMPTING,
    Neighbourly,
    WorkloadPeople,
    offer_cpus,
    pod_spec,
)
from tests.sim.workloads.rest import Asked, workload_unrest
from tests.sim.workloads.site_people import SitePeople
from tests.sim.workloads.teams import TeamPeople
from tests.sim.workloads.volume_checks import VolumeChecks
from tests.sim.worlds import Worlds

ACTS = 90
ACTS_IN_PEACE = 60
"""Operations on groups of Pods after the faults."""
TRIES_IN_PEACE = 30
"""Operations on gangs and their controllers after the faults."""
STEPS_MIN = 300
GAPS_S = (0.0, 0.001, 0.05, 0.4, 2.0, 2.0, 7.0, 20.0)
LOOK_EVERY_S = 20.0
SETTLE_S = 100.0
REST_WITHIN_S = 900.0
"""Time to converge: a refused write is repeated after five minutes, a requeue takes two."""
QUIET_S = 90.0
QUIET_ROUNDS_MAX = 6
"""A submission refused every five minutes can change the reasons of others for a minute."""
CPUS = 16
"""Of a Slurm node."""
SCRIPT_MARK = "Placeholder of sunk-sync"
"""Text that marks the script of a placeholder."""


class WorkloadRun:
    """One seed. Call `play` once, in a VirtualLoop."""

    def __init__(self, seed: int, history: History) -> None:
        self.seed = seed
        self.history = history
        rng = self._rng = random.Random(f"works {seed}")
        hosts = rng.choice((1, 2, 3, 3))
        gated = rng.random() < 0.5
        others = random.Random(f"works others {seed}").random() < 0.4
        self.settings = _settings(rng, gated=gated, others=others)
        self.worlds = Worlds(_setup(rng, hosts, gated=gated), history, cluster=7)
        self.faults = Faults(random.Random(f"works faults {seed}"))
        self.wire = Wire(self.worlds, self.faults, history)
        self.cast = Cast(self.worlds, hosts, namespaces=self.settings.slurmd_namespace)
        # Every fourth cluster has Nodes with one CPU less than Slurm counts, until the faults end.
        self._furnish(cpus=random.Random(f"works room {seed}").choice((CPUS, CPUS, CPUS, CPUS - 1)))
        claims = ClaimPeople(
            random.Random(f"works claims {seed}"), self.worlds, namespace=NAMESPACE
        )
        self.groups = GroupPeople(
            random.Random(f"works groups {seed}"),
            self.cast,
            claims=claims,
            namespace=NAMESPACE,
            others=others,
        )
        self.teams = TeamPeople(
            random.Random(f"works teams {seed}"),
            self.worlds,
            namespace=NAMESPACE,
            spec=pod_spec(cpus=2),
        )
        self.people = WorkloadPeople(
            random.Random(f"works people {seed}"),
            self.worlds,
            rules=Neighbourly(
                ports=random.Random(f"works ports {seed}"),
                loners=random.Random(f"works loners {seed}"),
            ),
            claims=claims,
            groups=self.groups,
            teams=self.teams,
            site=SitePeople(random.Random(f"works site {seed}"), self.worlds),
        )
        self.token = TokenFile("token-0")
        self.outages = Outages(random.Random(f"works weather {seed}"), self.wire, self.token)
        self.crashes, self.stops = rng.random() < 0.5, rng.random() < 0.2
        lost = rng.choice((0.0, 0.05, 0.2))
        silent_s = rng.choice((60.0, 60.0, 3000.0))
        habits = Habits(
            busy_max_s=rng.choice((600.0, 3000.0)),
            silent_s=silent_s,
            lost=lost,
            unreached=random.Random(f"works unreached {seed}").random() < 0.06,
        )
        self.callers = Callers(random.Random(f"works door {seed}"), self.worlds, habits)
        self.hosts_checks = Checks(self.worlds, history, drains_a_minute=20)
        self.checks = WorkloadChecks(self.worlds, history)
        VolumeChecks(self.worlds, history)
        self.group_checks = GroupChecks(self.worlds, history)
        self.overlap = Overlap(self.worlds, history, self.callers, gated=gated)
        self.wire.witnesses += [self.hosts_checks, self.checks]
        self._lives = 0
        self.life = self._live()

    def _furnish(self, *, cpus: int) -> None:
        for name, node in zip(self.cast.slurm_nodes, self.cast.nodes, strict=True):
            self.worlds.act(PERSON, partial(self.worlds.kube.add_node, node, cpus=cpus))
            self.worlds.act(PERSON, partial(self.cast.add_pod, name, node=node))

    def _live(self) -> Living:
        self._lives += 1
        life = Life(
            self.wire,
            self.settings,
            number=self._lives,
            token=self.token,
            seed=f"works {self.seed}",
        )
        self.wire.on_streamed.clear()
        self._begin(life.process)
        self.callers.life = life
        return life

    def _begin(self, process: Process) -> None:
        self.checks.begin(process)
        self.wire.on_streamed.append(self.hosts_checks.begin(process).streamed)

    async def play(self) -> None:
        """Play the run to its end. Raises BrokenPromiseError."""
        try:
            await self._broken_hour()
            await self._heal()
            await self._come_to_rest()
            await self._stay_at_rest()
        finally:
            self.callers.life = None
            self.callers.close()
            await self.life.crash()
        self.history.raise_broken()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.life.check()
        self.history.raise_broken()

    async def _broken_hour(self) -> None:
        rng = self._rng
        storm = rng.choice((0.0, 0.05, 0.15, 0.3))
        acts = 0
        while acts < ACTS or self.history.steps < STEPS_MIN:
            acts += 1
            await self._sleep(rng.choice(GAPS_S) * rng.random() * 2)
            self.life.act()
            what = rng.random()
            if what < 0.03 and self.crashes:
                await self._crash()
            elif what < 0.04 and self.stops:
                self.callers.life = None
                await self.life.stop()
                self.life = self._live()
            elif rng.random() < storm:
                self.outages.act()
            else:
                self.people.act()

    async def _crash(self) -> None:
        """Crash at any await: after a few turns of the loop."""
        for _ in range(self._rng.randrange(12)):
            await asyncio.sleep(0)
        self.history.count("fault: our own crash")
        self.callers.life = None
        await self.life.crash()
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 1.0, 30.0)))
        self.life = self._live()

    async def _heal(self) -> None:
        """Stop all faults. Repair the hosts and end the jobs of others."""
        self.history.note("healed", "faults and operations stop")
        self.faults.stop()
        self.outages.calm()
        self.life.calm()
        self.callers.habits = Habits(unreached=self.callers.habits.unreached)
        self.people.calm()
        await self._sleep(SETTLE_S)
        self.people.calm()
        offer_cpus(self.worlds.kube, CPUS)
        await self._live_in_peace()
        await self._try_teams_again()
        self.checks.calm = True

    async def _live_in_peace(self) -> None:
        """Let groups of Pods change without faults: sunk-sync knows of each change at once."""
        if not self.groups.active:
            return
        self.group_checks.calm = True
        for _ in range(ACTS_IN_PEACE):
            await self._sleep(self.groups.pause_s())
            self.people.act_on_groups()
        self.people.calm()
        await self._sleep(CALM_S)
        self.group_checks.settle()

    async def _try_teams_again(self) -> None:
        """Let controllers make failed members again without faults."""
        for _ in range(TRIES_IN_PEACE if self.teams.active else 0):
            await self._sleep(self.teams.pause_s())
            self.people.act_on_teams()

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
        resubmits = self.settings.resubmit_cancelled
        asked = Asked(
            ends_read=self.checks.ends_read(self.life.process),
            ends_lost=self.settings.lost_job == "end",
            resubmits=resubmits,
        )
        found = workload_unrest(self.worlds, asked)
        return found or self.life.unfinished()

    def _sent(self) -> int:
        return self.hosts_checks.sent_writes - self.checks.refused_writes

    async def _stay_at_rest(self) -> None:
        """Check that quiet minutes cause no write.

        A Pod may end first: its host gets free, and a waiting job may avoid that host for five more
        minutes (P32). Another pending reason appears a minute later (P26).
        """
        await self._sleep(2 * LOOK_EVERY_S)
        for _ in range(QUIET_ROUNDS_MAX):
            await self._come_to_rest()
            sent, changes = self._sent(), self.history.counts["changes by others"]
            await self._sleep(QUIET_S)
            await self._come_to_rest()  # Slurm may be about to refuse a submission again (P10)
            if (self._sent(), self.history.counts["changes by others"]) == (sent, changes):
                break
        if self._sent() != sent:
            self.history.break_promise("quiet", "written although nothing changed")
        if found := self._unrest():
            self.history.break_promise("rest", "\n  ".join(found))
        self.history.raise_broken()


def _settings(rng: random.Random, *, gated: bool, others: bool) -> Settings:
    return Settings(
        watch_all_pods=others,
        slurm_api_base=("http://restd:6820",),
        slurmd_namespace=("slurm",),
        watch_namespace=(NAMESPACE,),
        slurm_poll_interval_s=rng.choice((1.0, 1.0, 2.5)),
        gate=rng.choice(("on", "auto")) if gated else rng.choice(("off", "auto")),
        placeholder=rng.choice(("auto", "auto", "script", "allocation")),
        lost_job=rng.choice(("keep", "keep", "readopt", "end")),
        resubmit_cancelled=rng.random() < 0.2,
        node_not_ready_grace_s=rng.choice((40.0, 5.0)),
        volume_timeout_s=30.0,
    )


def _setup(rng: random.Random, hosts: int, *, gated: bool) -> Setup:
    return Setup(
        nodes=[NodeSpec(name=f"n{number}") for number in range(1, hosts + 1)],
        partitions=(
            Partition(
                name="main",
                default=True,
                preempt_mode=rng.choice(("CANCEL", "REQUEUE", "OFF")),
                grace_s=rng.choice((0.0, 0.0, 40.0)),
            ),
            Partition(name=PREEMPTING, tier=2),
        ),
        generation=rng.choice(("26.05", "24.11")),
        knobs=Knobs(
            slurmd_timeout_s=rng.choice((20.0, 90.0)),
            ping_every_s=rng.choice((5.0, 30.0)),
            return_to_service=rng.choice((2, 1)),
            prolog_slurmctld=gated,
            epilog_slurmctld=gated and rng.random() < 0.7,
            acted_script=SCRIPT_MARK,
            boot_s=5.0,
        ),
    )


def run_seed(seed: int, *, aloud: bool = False) -> Outcome:
    return play_seed(lambda history: WorkloadRun(seed, history).play(), seed=seed, aloud=aloud)
