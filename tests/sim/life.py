"""One life of the service: the production parts, started, crashed or stopped."""

import asyncio
import random
from typing import Any

from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    AnswerStop,
    GetJob,
    GetObject,
    Outcome,
    RecordEvent,
    Relist,
)
from sunk_sync.core.model.facts import News
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.service.wiring import Authorities, Callers, Parts
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.telemetry.telemetry import spelled
from tests.sim.ends import KubeEnd, SlurmEnd, TokenFile
from tests.sim.history import History
from tests.sim.wire import Process, Wire

HOOK_KEY = b"the key of every life"
HOOK_URL = "http://hooks:8000"
STANDING = (RecordEvent, GetObject, GetJob, Relist, AnswerGate, AnswerStop)
"""What may stand as a desired write for ever: it writes nothing, or waits for somebody."""
OUTSIDE = "outside "
"""Names of tasks that are none of the service's begin so."""


class Diary:
    """The loop's journal: lines of the history, and two promises of its own."""

    def __init__(self, history: History) -> None:
        self._history = history

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        """Nothing to tell."""

    def source(self, news: News) -> None:
        """What a reader says of its source."""
        self._history.note("reader", news)

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        """One outcome."""
        kind = "look" if isinstance(action, GetObject | Relist) else "wrote"
        self._history.note(kind, outcome, f"AFTER {seconds:.3f} s BECAUSE", because)

    def kept(self, action: Action, why: str, because: str) -> None:
        """Policy keeps something back."""
        self._history.note("kept", action, "WHY", why, "BECAUSE", because)

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        """No rule may break in any world."""
        self._history.break_promise("rule", f"{rule} failed for {spelled(key)}: {error!r}")

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        """The audit found what a dirty edge should have."""
        self._history.break_promise("surprise", f"{spelled(key)} stands {standing}, is {fresh}")


class Life:
    """Starts at once. Exactly one of `crash` and `stop` ends it."""

    def __init__(
        self, wire: Wire, settings: Settings, *, number: int, token: TokenFile, seed: str
    ) -> None:
        self.process = Process(number)
        self._wire = wire
        history, loop = wire.history, asyncio.get_running_loop()
        self._rng = random.Random(f"life {number} of {seed}")
        self.history = history
        client = SlurmClient(
            Access(addresses=settings.slurm_api_base),
            token,
            transport=SlurmEnd(wire, self.process),
            clock=loop.time,
            on_exchange=_unmeasured,
        )
        uid = wire.worlds.cluster_uid
        self.parts = Parts(
            settings,
            Authorities(
                KubeEnd(wire, self.process), client, uid, Callers(HOOK_KEY, HOOK_URL, _unmeasured)
            ),
            journal=Diary(history),
            on_bad=self._on_bad,
            ambient=Ambient(
                clock=loop.time,
                sleep=asyncio.sleep,
                random=self._rng.random,
                wall_clock=wire.worlds.wall_clock,
            ),
        )
        history.note("service", f"life {number} begins")
        self._others = asyncio.all_tasks()
        self._running = asyncio.create_task(self.parts.run(), name="service")

    def _on_bad(self, kind: str, name: str, why: str) -> None:
        self.history.break_promise("unreadable", f"{kind} {name}: {why}")

    def check(self) -> None:
        """The service ends by itself only where it has a bug."""
        if self._running.done() and not self._running.cancelled():
            self.history.break_promise("died", repr(self._running.exception()))

    async def crash(self) -> None:
        """As kill -9: from now on nothing of it runs; what is on its way may still happen."""
        self.history.note("service", f"life {self.process.number} is killed")
        self._wire.crash(self.process, lambda: self._rng.random() < 0.5)
        await self._bury()

    async def stop(self) -> None:
        """As SIGTERM."""
        self.history.note("service", f"life {self.process.number} is told to stop")
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self.parts.finish()
        self._wire.crash(self.process, lambda: True)
        await self._bury()

    async def _bury(self) -> None:
        mine = {
            task
            for task in asyncio.all_tasks()
            if task not in self._others and not task.get_name().startswith(OUTSIDE)
        }
        mine.discard(asyncio.current_task())
        for _ in range(10):
            for task in mine:
                task.cancel()
            if mine:
                await asyncio.wait(mine, timeout=0)
            mine = {task for task in mine if not task.done()}
            if not mine:
                break
        else:
            self.history.break_promise("undead", f"tasks that cannot be cancelled: {mine}")
        for stream in list(self._wire.streams):
            stream.close()

    def unfinished(self) -> list[str]:
        """In words: writes that still stand as wishes; Events and reads are none."""
        return [
            f"{spelled(key)} wants {want}: {one.verdict.because}"
            for key, one in self.parts.reconciler.standing.items()
            for want in one.verdict.wants
            if not isinstance(want, STANDING)
        ]

    def pending(self) -> list[str]:
        """In words: what this life still wants or waits for."""
        reconciler, words = self.parts.reconciler, []
        for source, table in reconciler.graph.sources.tables.items():
            if source != "pods" and not table.live:
                words.append(f"{source} cannot be read: {table.why}")
        for key, one in reconciler.standing.items():
            for want in one.verdict.wants:
                words.append(f"{spelled(key)} wants {want}: {one.verdict.because}")
            for kept in one.kept:
                words.append(f"{spelled(key)}: {kept.action} is kept back: {kept.why}")
        for key, error in reconciler.failures.items():
            words.append(f"{spelled(key)} is out of service: {error}")
        return words


def _unmeasured(exchange: Any) -> None:
    """Nobody counts."""
