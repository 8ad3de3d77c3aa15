"""One life of the service: the parts of production from a start to a crash or stop."""

import asyncio
import random
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    AnswerStop,
    GetJob,
    GetObject,
    RecordEvent,
    Relist,
)
from sunk_sync.core.model.facts import News
from sunk_sync.core.model.outcomes import Outcome
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.service.wiring import ALONE, Authorities, HooksSetup, Parts, Replica
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.telemetry.telemetry import spelled
from sunk_sync.telemetry.traces import PodTraces
from tests.kit.clock import Machine
from tests.sim.ends import KubeEnd, SlurmEnd, TokenFile
from tests.sim.history import History
from tests.sim.wire import Process, Wire

T = TypeVar("T")

HOOK_KEY = b"the key of every life"
HOOK_URL = "http://hooks:8000"
STANDING = (RecordEvent, GetObject, GetJob, Relist, AnswerGate, AnswerStop)
"""Actions that can stay wanted: they write nothing, or wait for an answer."""


class Diary:
    """The journal of the loop. It adds lines to the history, and checks two invariants."""

    traces: PodTraces | None = None

    def __init__(self, history: History) -> None:
        self._history = history

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        """Ignore steps."""

    def source(self, news: News) -> None:
        self._history.note("reader", news)

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        kind = "look" if isinstance(action, GetObject | Relist) else "wrote"
        self._history.note(kind, outcome, f"AFTER {seconds:.3f} s BECAUSE", because)

    def bound(self, waited_s: float) -> None:
        """Report a Pod that was bound."""

    def ended(self, delay_s: float) -> None:
        """Report a Pod that was deleted after its job."""

    def kept(self, action: Action, why: str, because: str) -> None:
        self._history.note("kept", action, "WHY", why, "BECAUSE", because)

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        """Report a rule that raised an error: none may."""
        self._history.break_promise("rule", f"{rule} failed for {spelled(key)}: {error!r}")

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        """Report a stale verdict that the audit found: an edge of the graph is missing."""
        self._history.break_promise(
            "surprise", f"{spelled(key)} has verdict {standing}, should have {fresh}"
        )


@contextmanager
def unbegun() -> Iterator[None]:
    """Ignore warnings of calls that a cancelled task group had not begun."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
        yield


class Living(Protocol):
    """One life, or several of which one writes."""

    @property
    def process(self) -> Process:
        """The process that writes."""
        ...

    def act(self) -> None:
        """Do something to it that only several lives survive."""

    def calm(self) -> None:
        """End such faults."""

    def check(self) -> None:
        """Report a bug that ended it."""

    async def crash(self) -> None:
        """End it as kill -9 does."""

    async def stop(self) -> None:
        """End it as SIGTERM does."""

    def unfinished(self) -> list[str]:
        """Return the writes that are still wanted, and Events that wait for their turn."""
        ...

    def pending(self) -> list[str]:
        """Return everything that it still wants or waits for."""
        ...


class Life:
    """Starts at once. Call exactly one of `crash` and `stop`."""

    def __init__(
        self, wire: Wire, settings: Settings, *, number: int, token: TokenFile, seed: str
    ) -> None:
        self.process = Process(number)
        self.machine = Machine()
        self._wire = wire
        history, loop = wire.history, asyncio.get_running_loop()
        self._rng = random.Random(f"life {number} of {seed}")
        self.history = history
        self.kube = KubeEnd(wire, self.process)
        self.slurm = SlurmClient(
            Access(addresses=settings.slurm_api_base),
            token,
            transport=SlurmEnd(wire, self.process),
            clock=loop.time,
            on_exchange=_unmeasured,
        )
        self.parts = Parts(
            settings,
            Authorities(
                self.kube,
                self.slurm,
                wire.worlds.cluster_uid,
                HooksSetup(HOOK_KEY, HOOK_URL, _unmeasured),
                replica=self._replica(),
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
        self._writers = self.create_task(self.parts.outbox.run())
        self._running = self.create_task(self.parts.run())

    def _replica(self) -> Replica:
        """Return its place among several replicas."""
        return ALONE

    def create_task(self, doing: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that ends with this life."""
        return asyncio.create_task(doing, context=self.machine.context.copy())

    def _on_bad(self, kind: str, name: str, why: str) -> None:
        self.history.break_promise("unreadable", f"{kind} {name}: {why}")

    def act(self) -> None:
        """Do nothing: a single life is killed and stopped by its run."""

    def calm(self) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Report the exception that ended the service: it is a bug."""
        for task in (self._writers, self._running):
            if task.done() and not task.cancelled():
                self.history.break_promise("died", repr(task.exception()))

    async def crash(self) -> None:
        """End all tasks, as kill -9 does. Requests on their way can still arrive."""
        self.history.note("service", f"life {self.process.number} is killed")
        self._wire.crash(self.process, lambda: self._rng.random() < 0.5)
        await self._bury()

    async def stop(self) -> None:
        self.history.note("service", f"life {self.process.number} gets SIGTERM")
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self.parts.finish()
        self._wire.crash(self.process, lambda: True)
        await self._bury()

    async def _bury(self) -> None:
        self.machine.wake()
        mine = {task for task in self.machine.tasks if not task.done()}
        with unbegun():
            mine = await _end(mine)
        if mine:
            self.history.break_promise("undead", f"tasks that cannot be cancelled: {mine}")
        for stream in list(self._wire.streams):
            if stream.process is self.process:
                stream.close()

    def unfinished(self) -> list[str]:
        """Return the writes that are still wanted, and Events that wait for their turn."""
        return [
            f"{spelled(key)} wants {want}: {one.verdict.because}"
            for key, one in self.parts.reconciler.standing.items()
            for want in one.verdict.wants
            if not isinstance(want, STANDING)
        ] + [
            f"{spelled(key)} has an Event to send: {state.action}"
            for key in self.parts.reconciler.standing
            for state in self.parts.outbox.states_of(key)
            if isinstance(state.action, RecordEvent) and not state.answered
        ]

    def pending(self) -> list[str]:
        """Return everything that this life still wants or waits for."""
        reconciler, words = self.parts.reconciler, []
        for source, table in reconciler.graph.sources.tables.items():
            if source != "pods" and not table.live:
                words.append(f"{source} cannot be read: {table.why}")
        for key, one in reconciler.standing.items():
            for want in one.verdict.wants:
                words.append(f"{spelled(key)} wants {want}: {one.verdict.because}")
            for kept in one.kept:
                words.append(f"{spelled(key)}: {kept.action} is held back: {kept.why}")
        for key, error in reconciler.failures.items():
            words.append(f"{spelled(key)} is out of service: {error}")
        return words


def _unmeasured(exchange: Any) -> None:
    """Ignore the measurement."""


async def _end(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    for _ in range(10):
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0)
        tasks = {task for task in tasks if not task.done()}
        if not tasks:
            break
    return tasks
