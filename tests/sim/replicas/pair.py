"""Two replicas of a Deployment: one that ends is started again."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from sunk_sync.settings.model import Settings
from tests.kit.clock import OUTSIDE
from tests.sim.ends import TokenFile
from tests.sim.replicas.life import ReplicaLife
from tests.sim.replicas.one_writer import OneWriter
from tests.sim.replicas.tampering import Tampering
from tests.sim.wire import Process, Wire

SHARES = (0.02, 0.08, 0.2)
"""Share of acts that harm a replica or the Lease."""
START_S = (1.0, 1.0, 5.0, 30.0)


class Surroundings(Struct, kw_only=True):
    """Where the lives take place, and who is told of them."""

    wire: Wire
    settings: Settings
    token: TokenFile
    seed: str
    begin: Callable[[Process], None]
    """Called with each new process."""
    lead: Callable[[ReplicaLife | None], None]
    """Called when a life begins to write, and with None when none does."""


class Pair:
    """Implements `Living` with two lives."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        rng = self._rng = random.Random(f"replicas {around.seed}")
        self._history = around.wire.history
        self._checker = OneWriter(self._history)
        around.wire.witnesses.append(self._checker)
        self._tampering = Tampering(random.Random(f"lease {around.seed}"), around.wire.worlds)
        self._share = rng.choice(SHARES)
        self._born = 0
        self._calm = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._lives = [self._new(), self._new()]
        self._leader: ReplicaLife | None = None
        self._newest = self._lives[0].process

    def _new(self) -> ReplicaLife:
        self._born += 1
        around = self._around
        life = ReplicaLife(
            around.wire,
            around.settings,
            number=self._born,
            token=around.token,
            seed=around.seed,
        )
        life.on_leads, life.on_ended = self._leads, self._ended
        around.begin(life.process)
        return life

    def _leads(self, life: ReplicaLife) -> None:
        self._leader = life
        self._around.lead(life)

    def _ended(self, life: ReplicaLife) -> None:
        self._spawn(self._replace(life, life.crash()))

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        """Start a task that belongs to no life."""
        task = asyncio.create_task(doing, context=OUTSIDE.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, life: ReplicaLife, ending: Coroutine[Any, Any, None]) -> None:
        """End a life, and start another one after a while."""
        if life not in self._lives:
            ending.close()
            return
        place = self._lives.index(life)
        self._lives.remove(life)
        if self._leader is life:
            self._leader = None
            self._around.lead(None)
        await ending
        await asyncio.sleep(self._rng.choice(START_S))
        self._lives.insert(place, self._new())

    @property
    def process(self) -> Process:
        """See Living; while nobody leads, that of any life."""
        return self._leader.process if self._leader else self._newest

    def act(self) -> None:
        """Harm a replica or the Lease now and then."""
        if self._calm or self._rng.random() >= self._share:
            return
        if self._rng.random() < 0.35 or not self._lives:
            self._tampering.act()
            return
        leader, rng = self._leader, self._rng
        often = leader is not None and leader in self._lives and rng.random() < 0.7
        life = leader if leader is not None and often else rng.choice(self._lives)
        what = rng.choice(("killed", "stopped", "paused", "paused", "cut off"))
        self._history.count(f"fault: replica {what}")
        self._harm(life, what)

    def _harm(self, life: ReplicaLife, what: str) -> None:
        match what:
            case "killed":
                self._spawn(self._replace(life, life.crash()))
            case "stopped" if not life.paused:
                self._spawn(self._replace(life, life.stop()))
            case "paused":
                self._pause(life)
                pause_s = self._rng.choice((0.5, 3.0, 8.0, 60.0)) * self._rng.random()
                self._later(pause_s, lambda: self._wake(life))
            case "cut off":
                life.cut_off(cut=True)
                self._later(
                    self._rng.choice((2.0, 20.0, 100.0)) * self._rng.random(),
                    lambda: life.cut_off(cut=False),
                )

    def _later(self, delay_s: float, doing: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(delay_s, doing, context=OUTSIDE.copy())

    def _pause(self, life: ReplicaLife) -> None:
        if life.paused:
            return
        life.pause()
        self._checker.paused_s[life.process.number] = float("inf")
        if life is self._leader:
            self._around.lead(None)

    def _wake(self, life: ReplicaLife) -> None:
        if not life.paused:
            return
        self._checker.paused_s[life.process.number] = self._around.wire.worlds.now_s
        if life is self._leader:
            self._around.lead(life)
        life.wake()

    def calm(self) -> None:
        """End all faults of replicas and of the Lease."""
        self._calm = True
        for life in list(self._lives):
            self._wake(life)
            if life.process.cut_off:
                life.cut_off(cut=False)

    def check(self) -> None:
        for life in self._lives:
            life.check()

    async def crash(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        for life in self._lives:
            await life.crash()

    async def stop(self) -> None:
        """End everything; `act` stops one alone."""
        await self.crash()

    def unfinished(self) -> list[str]:
        return self._leader.unfinished() if self._leader else ["no replica leads"]

    def pending(self) -> list[str]:
        return self._leader.pending() if self._leader else ["no replica leads"]
