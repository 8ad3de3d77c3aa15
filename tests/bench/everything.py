"""Every host changes at once: CPU time from facts to verdicts, and how long the loop is blocked."""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sunk_sync.controller.loop import Loop
from sunk_sync.controller.outbox import Outbox, Writers
from sunk_sync.controller.workqueue import Writer
from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.facts import News
from sunk_sync.core.model.outcomes import Outcome
from sunk_sync.service import gc_pauses
from sunk_sync.service.wiring import HOOK_LIMITS, JOB_LIMITS, KUBE_LIMITS, SLURM_LIMITS
from sunk_sync.telemetry.logs import Logs
from sunk_sync.telemetry.telemetry import Log, Telemetry
from tests.bench.figures import Figure
from tests.bench.host_core import HostCore

HOSTS = 10_000
ROUNDS = 6
LIMIT_MS = 150.0
STRETCH_LIMIT_MS = 10.0
READ_AT_ONCE = 100
"""Facts that the readers deliver before they yield."""


def everything() -> Iterator[Figure]:
    """Change the state of every Slurm node: facts to verdicts, then the same through the loop."""
    core = HostCore(HOSTS)
    with gc_pauses.in_pieces():  # as the service runs
        spent_ms = min(_change_all(core, turn) for turn in range(ROUNDS))
        runs = [asyncio.run(_through_the_loop(core, turn)) for turn in range(ROUNDS)]
    yield Figure(f"{HOSTS:,} hosts change at once, facts to verdicts", spent_ms, "ms", LIMIT_MS)
    yield Figure("the same with outbox and loop", min(spent for spent, _ in runs), "ms")
    worst = max(longest for _, longest in runs)
    what = f"longest stretch of the loop, worst of {ROUNDS} runs"
    yield Figure(what, worst, "ms", STRETCH_LIMIT_MS)


def _news(core: HostCore, turn: int) -> Sequence[News]:
    return core.slurm_news(b"ALLOCATED" if turn % 2 == 0 else b"IDLE", 10.0 + turn)


def _change_all(core: HostCore, turn: int) -> float:
    news = _news(core, turn)
    gc.collect()
    begun_s = time.process_time()
    core.observe(news)
    core.settle()
    return (time.process_time() - begun_s) * 1e3


async def _through_the_loop(core: HostCore, turn: int) -> tuple[float, float]:
    """Return the CPU time until every key is decided, and the longest step, in milliseconds."""
    writers = Writers(
        slurm=Writer(_never, SLURM_LIMITS),
        kube=Writer(_never, KUBE_LIMITS),
        jobs=Writer(_never, JOB_LIMITS),
        hooks=Writer(_never, HOOK_LIMITS),
    )
    outbox = Outbox(writers, clock=time.monotonic, random=lambda: 0.5)
    logs = Logs("warning", "json", sys.stderr)
    counting = _Counting(logs.log)
    loop = Loop(reconciler=core.reconciler, outbox=outbox, journal=counting, clock=time.monotonic)
    news = _news(core, ROUNDS + turn)
    gc.collect()
    tasks = [asyncio.create_task(loop.run()), asyncio.create_task(outbox.run())]
    await asyncio.sleep(0.01)
    with _stretches() as stretches:
        counting.keys, begun_s = 0, time.process_time()
        counting.decided.clear()
        for start in range(0, len(news), READ_AT_ONCE):
            await loop.tell(news[start : start + READ_AT_ONCE])
            await asyncio.sleep(0)
        await counting.decided.wait()
        spent_s = time.process_time() - begun_s
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    logs.close()
    return spent_s * 1e3, max(stretches) * 1e3


class _Counting(Telemetry):
    """The journal of the service, which also counts decided keys."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.keys = 0
        self.decided = asyncio.Event()

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        super().stepped(seconds, keys, news)
        self.keys += keys
        if self.keys >= HOSTS:
            self.decided.set()


async def _never(actions: Sequence[Action]) -> Sequence[Outcome]:
    del actions
    await asyncio.Event().wait()
    return []


@contextmanager
def _stretches() -> Iterator[list[float]]:
    """Collect the CPU seconds of each turn of the event loop."""
    run: Any = asyncio.events.Handle._run
    spent: list[float] = [0.0]

    def timed(handle: asyncio.Handle) -> None:
        begun_s = time.thread_time()
        run(handle)
        spent.append(time.thread_time() - begun_s)

    asyncio.events.Handle._run = timed  # type: ignore[assignment, method-assign]
    try:
        yield spent
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]
