"""The loop: batch, observe, decide, policy, hand over; timers; audit slices.

The only writer of the graph. Never longer than a few milliseconds between two awaits.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio

from sunk_sync.controller.outbox import Outbox, WriteReport
from sunk_sync.core.model.actions import Action, Outcome, shown_by
from sunk_sync.core.model.facts import (
    SLURM_SOURCES,
    Confirmed,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
)
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.verdict import Kept
from sunk_sync.core.reconciler import Reconciler

NEWS_PER_STEP = 100
KEYS_PER_STEP = 100
"""Fewer where they want much: see `Reconciler.step`."""
STEP_S = 0.005
"""A step that took longer is followed by smaller ones: not every machine is quick, or alone."""
SHARE_MIN = 1 / 16
INBOX_MAX = 5000
"""News that wait; readers wait beyond it."""
BATCH_S = 0.05
"""So long, at most, the first desired writes of a batch wait for its last, to share requests
with them.
"""
HEARTBEAT_S = 1.0
AUDIT_ROUND_S = 60.0
"""All keys are decided anew once in this time."""
AUDIT_STEP = 100


class Journal(Protocol):
    """Who is told what the loop saw and did; must return at once."""

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        """One stretch without an await."""

    def source(self, news: News) -> None:
        """A source began or ended a listing, was confirmed or lost."""

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        """One action was answered, so long after it was first wished."""

    def kept(self, action: Action, why: str, because: str) -> None:
        """Policy began to keep a want back."""

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        """A rule broke: its key is out of service."""

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        """The audit found a standing verdict that was wrong."""


class Loop:
    """Drives a Reconciler: news in from readers and the outbox, wishes out to the outbox."""

    def __init__(
        self,
        *,
        reconciler: Reconciler,
        outbox: Outbox,
        journal: Journal,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
    ) -> None:
        self.reconciler = reconciler
        self.beat_s = clock()
        """Last time round: what /livez looks at."""
        self._outbox = outbox
        self._journal = journal
        self._clock = clock
        self._pause = pause
        self._inbox: deque[News | WriteReport] = deque()
        self._woken = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._changed: set[Key] = set()
        """Keys with news that are still to be decided."""
        self._kept: dict[Key, tuple[Kept, ...]] = {}
        self._audit_next_s = clock() + AUDIT_ROUND_S
        self._batch_s: float | None = None
        """Since when there is more to do than one step can."""
        self._share = 1.0
        """Of what a step may do at most."""
        outbox.report = self.tell

    async def tell(self, news: Sequence[News | WriteReport]) -> None:
        """Hand over news; waits while too much waits already. Readers and the outbox call it."""
        await self._roomy.wait()
        self._inbox.extend(news)
        self._woken.set()
        if len(self._inbox) >= INBOX_MAX:
            self._roomy.clear()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            while self._step():
                await self._pause()
            await self._wait()

    def flush(self) -> None:
        """Take in the last answers, so that each write has its line in the log."""
        while self._inbox:
            self._take_in(self._clock())

    async def _wait(self) -> None:
        """Until news, the next timer, the next audit slice, or the next heartbeat."""
        timer_s = self.reconciler.next_timer_s()
        due_s = min(self._audit_next_s, self._clock() + HEARTBEAT_S)
        due_s = due_s if timer_s is None else min(due_s, timer_s)
        with anyio.move_on_after(max(0.0, due_s - self._clock())):
            await self._woken.wait()

    def _step(self) -> bool:
        """One stretch of work; whether more waits."""
        begun_s = self._clock()
        self.beat_s = begun_s
        news = self._take_in(begun_s)
        keys = self._hand_over(begun_s)
        more = bool(self._inbox or self.reconciler.pending)
        if begun_s >= self._audit_next_s and not more:
            self._audit(begun_s)
            more = bool(self.reconciler.pending)
        spent_s = self._clock() - begun_s
        self._journal.stepped(seconds=spent_s, news=news, keys=keys)
        self._pace(spent_s, more=more)
        self._gather(begun_s, more=more)
        return more

    def _pace(self, spent_s: float, *, more: bool) -> None:
        """Half as much after a long step, twice as much after a short one that left something."""
        if spent_s > STEP_S:
            self._share = max(SHARE_MIN, self._share / 2)
        elif more and spent_s < STEP_S / 2:
            self._share = min(1.0, 2 * self._share)

    def _most(self, count: int) -> int:
        return max(1, int(count * self._share))

    def _gather(self, now: float, *, more: bool) -> None:
        """Let a batch that takes several steps leave together, as long as that is soon."""
        if not more:
            self._batch_s = None
        elif self._batch_s is None:
            self._batch_s = now
        self._outbox.gather(on=self._batch_s is not None and now - self._batch_s < BATCH_S)

    def _take_in(self, now: float) -> int:
        """Move one slice of the inbox into the graph."""
        inbox = self._inbox
        batch = [inbox.popleft() for _ in range(min(len(inbox), self._most(NEWS_PER_STEP)))]
        if not inbox:
            self._woken.clear()
        if len(inbox) < INBOX_MAX // 2:
            self._roomy.set()
        if not batch:
            return 0
        news: list[News] = []
        for one in batch:
            if isinstance(one, WriteReport):
                self._tell_wrote(one)
                news.extend(shown_by(one.outcome, asked_s=one.sent_s))
            else:
                news.append(one)
        self._tell_sources(news)
        self._changed.update(self.reconciler.observe(news, now=now))
        return len(news)

    def _tell_wrote(self, report: WriteReport) -> None:
        outcome = report.outcome
        seconds = report.answered_s - report.desired_at_s
        self._journal.wrote(outcome.action, outcome, report.because, seconds)

    def _tell_sources(self, news: Sequence[News]) -> None:
        for one in news:
            if isinstance(one, ListingStarted | ListingEnded | Confirmed | Lost):
                if isinstance(one, ListingEnded | Confirmed):
                    self._hurry(one)
                self._journal.source(one)

    def _hurry(self, news: ListingEnded | Confirmed) -> None:
        """A source that was lost answers again: what failed meanwhile need not wait longer."""
        if self.reconciler.graph.sources.tables[news.source].live:
            return
        outbox = self._outbox
        of_slurm = news.source in SLURM_SOURCES
        for work_queue in (outbox.slurm, outbox.jobs) if of_slurm else (outbox.kube,):
            work_queue.hurry()

    def _hand_over(self, now: float) -> int:
        decisions = self.reconciler.step(now=now, limit=self._most(KEYS_PER_STEP))
        for decision in decisions:
            key = decision.key
            if key in self._changed:
                self._changed.discard(key)
                self._outbox.facts_changed(key)
            self._outbox.want(key, decision.allowed, because=decision.because)
            if decision.kept or key in self._kept:
                self._tell_kept(key, decision.kept, decision.because)
            if key in self.reconciler.failures:
                error = self.reconciler.failures[key]
                self._journal.rule_failed(key, error.rule, error)
        return len(decisions)

    def _tell_kept(self, key: Key, kept: tuple[Kept, ...], because: str) -> None:
        """Say once what policy keeps back, not at every look."""
        told = {(one.action, one.why) for one in self._kept.pop(key, ())}
        for one in kept:
            if (one.action, one.why) not in told:
                self._journal.kept(one.action, one.why, because)
        if kept:
            self._kept[key] = kept

    def _audit(self, now: float) -> None:
        """Decide a slice of all keys anew; a difference means that an edge is missing."""
        surprises, _ = self.reconciler.audit(now=now, limit=AUDIT_STEP)
        for surprise in surprises:
            self._journal.surprise(*surprise)
        slices = max(len(self.reconciler.standing) // AUDIT_STEP + 1, self._outbox.slices())
        self._audit_next_s = now + AUDIT_ROUND_S / slices
        self._outbox.sweep()
