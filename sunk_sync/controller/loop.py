"""The loop: take in facts, decide keys, pass desired writes to the outbox; timers; audits.

Only the loop writes the graph. It yields after a few milliseconds.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from sunk_sync.controller.history import History
from sunk_sync.controller.outbox import Outbox, WriteReport
from sunk_sync.controller.wake import wait_at_most
from sunk_sync.core.model.actions import Action, Bind, EndPod
from sunk_sync.core.model.facts import (
    SLURM_SOURCES,
    Confirmed,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
)
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.outcomes import Done, Outcome, shown_by
from sunk_sync.core.model.verdict import Decision, Kept
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.telemetry.traces import PodTraces

NEWS_PER_STEP = 100
KEYS_PER_STEP = 100
"""Fewer if they want many writes: see `Reconciler.step`."""
STEP_S = 0.005
"""Smaller steps follow a step that took longer: the machine may be slow or busy."""
SHARE_MIN = 1 / 16
INBOX_MAX = 5000
"""Bound on waiting news; readers wait beyond it."""
BATCH_S = 0.05
"""The first writes of a batch wait at most this long for its last, to share requests."""
HEARTBEAT_S = 1.0
AUDIT_ROUND_S = 60.0
"""The audit decides every key again once in this time."""
AUDIT_STEP = 50


class TakeOver(Struct, frozen=True):
    """In the inbox: from here on this replica leads. All news before it are taken in first (F6)."""


class Journal(Protocol):
    """Takes reports of what the loop did; every method must return at once."""

    @property
    def traces(self) -> PodTraces | None:
        """Return what follows each Pod; None: nothing does."""

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        """Report one step."""

    def source(self, news: News) -> None:
        """Report that a source began or ended a listing, was confirmed or lost."""

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        """Report an answered write, and the seconds since it was first desired."""

    def bound(self, waited_s: float, /) -> None:
        """Report a Pod that was bound, and the seconds since it was first seen without a Node."""

    def ended(self, delay_s: float, /) -> None:
        """Report a Pod that was deleted, and the seconds since the end of its job was known."""

    def kept(self, action: Action, why: str, because: str) -> None:
        """Report a write that policy begins to keep back."""

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        """Report a rule that raised: its key is out of service."""

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        """Report a wrong verdict that the audit found."""


class Loop:
    """Drives a Reconciler: takes news from readers, passes desired writes to the outbox."""

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
        """Time of the last step; /livez checks it."""
        self.leading = True
        """False: decide, but pass nothing to the outbox: another replica leads."""
        self.history = History()
        self._outbox = outbox
        self._journal = journal
        self._clock = clock
        self._pause = pause
        self._inbox: deque[News | WriteReport | TakeOver] = deque()
        self._woken = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._changed: set[Key] = set()
        """Keys with news that are not decided yet."""
        self._kept: dict[Key, tuple[Kept, ...]] = {}
        self._audit_next_s = clock() + AUDIT_ROUND_S
        self._audit_is_due = False
        """The next step is one of the audit: both in one would take too long."""
        self._batch_s: float | None = None
        """Start of the current batch: since then there has been more work than one step does."""
        self._share = 1.0
        """The share of the bounds that a step may use."""
        outbox.report = self.tell

    async def tell(self, news: Sequence[News | WriteReport | TakeOver]) -> None:
        """Queue news; wait while the queue is full. Readers and the outbox call it."""
        await self._roomy.wait()
        self._inbox.extend(news)
        self._woken.set()
        if len(self._inbox) >= INBOX_MAX:
            self._roomy.clear()

    async def run(self) -> None:
        while True:
            while self._step():
                await self._pause()
            await self._wait()

    def flush(self) -> None:
        """Take in the last answers, so that each write has its log line."""
        while self._inbox:
            self._take_in(self._clock())

    async def _wait(self) -> None:
        """Wait for news, the next timer, the next audit slice, or the next heartbeat."""
        timer_s = self.reconciler.next_timer_s()
        due_s = min(self._audit_next_s, self._clock() + HEARTBEAT_S)
        due_s = due_s if timer_s is None else min(due_s, timer_s)
        await wait_at_most(self._woken, max(0.0, due_s - self._clock()))

    def _step(self) -> bool:
        begun_s = self._clock()
        self.beat_s = begun_s
        news = keys = 0
        audits, self._audit_is_due = self._audit_is_due, False
        if audits:
            self._audit(begun_s)
        else:
            news = self._take_in(begun_s)
            keys = self._hand_over(begun_s)
        more = bool(self._inbox or self.reconciler.pending)
        self._audit_is_due = begun_s >= self._audit_next_s and not more
        spent_s = self._clock() - begun_s
        self._journal.stepped(seconds=spent_s, news=news, keys=keys)
        self._pace(spent_s, more=more)
        self._gather(begun_s, more=more)
        return more or self._audit_is_due

    def _pace(self, spent_s: float, *, more: bool) -> None:
        """Halve the share after a long step; double it after a short step that left work."""
        if spent_s > STEP_S:
            self._share = max(SHARE_MIN, self._share / 2)
        elif more and spent_s < STEP_S / 2:
            self._share = min(1.0, 2 * self._share)

    def _most(self, count: int) -> int:
        return max(1, int(count * self._share))

    def _gather(self, now: float, *, more: bool) -> None:
        """Send the writes of a batch of several steps together, unless that takes too long."""
        if not more:
            self._batch_s = None
        elif self._batch_s is None:
            self._batch_s = now
        self._outbox.gather(on=self._batch_s is not None and now - self._batch_s < BATCH_S)

    def _take_in(self, now: float) -> int:
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
            elif isinstance(one, TakeOver):
                self.leading = True
                self.reconciler.decide_wanting()
                news += self.reconciler.graph.workloads.bindings_of_others(now)
            else:
                news.append(one)
        self._tell_sources(news)
        self._changed.update(self.reconciler.observe(news, now=now))
        return len(news)

    def _tell_wrote(self, report: WriteReport) -> None:
        outcome = report.outcome
        seconds = report.answered_s - report.cause.desired_at_s
        self._journal.wrote(outcome.action, outcome, report.cause.because, seconds)
        if isinstance(outcome, Done):
            self._tell_delay(outcome.action, answered_s=report.answered_s)
        self.history.answered(report.cause.key, outcome, now=report.answered_s)
        traces = self._journal.traces
        if traces is not None:
            traces.answered(outcome, sent_s=report.sent_s, answered_s=report.answered_s)

    def _tell_delay(self, action: Action, *, answered_s: float) -> None:
        memory = self.reconciler.graph.workloads.memory
        if isinstance(action, Bind):
            since_s = memory.waits_s.get(action.reference.uid)
            tell = self._journal.bound
        elif isinstance(action, EndPod):
            since_s = memory.job_ended_s(action.reference.uid)
            tell = self._journal.ended
        else:
            return
        if since_s is not None:
            tell(max(0.0, answered_s - since_s))

    def _tell_sources(self, news: Sequence[News]) -> None:
        for one in news:
            if isinstance(one, ListingStarted | ListingEnded | Confirmed | Lost):
                if isinstance(one, ListingEnded | Confirmed):
                    self._hurry(one)
                self._journal.source(one)

    def _hurry(self, news: ListingEnded | Confirmed) -> None:
        """The source is back: retry failed writes now."""
        if self.reconciler.graph.sources.tables[news.source].live:
            return
        outbox = self._outbox
        of_slurm = news.source in SLURM_SOURCES
        for work_queue in (outbox.slurm, outbox.jobs) if of_slurm else (outbox.kube,):
            work_queue.hurry()

    def _hand_over(self, now: float) -> int:
        decisions = self.reconciler.step(now=now, limit=self._most(KEYS_PER_STEP))
        traces = self._journal.traces if self.leading else None
        for decision in decisions:
            key = decision.key
            if key in self._changed:
                self._changed.discard(key)
                self._outbox.facts_changed(key)
            self.history.decided(key, decision.because, now=now)
            if self.leading:
                self._pass_on(decision, now=now)
            if traces is not None:
                traces.decided(self.reconciler.graph, decision)
            if key in self.reconciler.failures:
                error = self.reconciler.failures[key]
                self._journal.rule_failed(key, error.rule, error)
        return len(decisions)

    def _pass_on(self, decision: Decision, *, now: float) -> None:
        key = decision.key
        self._outbox.want(key, decision.allowed, because=decision.because)
        if decision.kept or key in self._kept:
            self._tell_kept(decision, now=now)

    def _tell_kept(self, decision: Decision, *, now: float) -> None:
        """Report once what policy keeps back, not at every decision."""
        key, kept = decision.key, decision.kept
        told = {(one.action, one.why) for one in self._kept.pop(key, ())}
        for one in kept:
            if (one.action, one.why) not in told:
                self._journal.kept(one.action, one.why, decision.because)
                self.history.held(key, one, now=now)
        if kept:
            self._kept[key] = kept

    def _audit(self, now: float) -> None:
        """Decide a slice of all keys again; a difference means that an edge is missing."""
        surprises, _ = self.reconciler.audit(now=now, limit=AUDIT_STEP)
        for surprise in surprises:
            self._journal.surprise(*surprise)
        slices = max(len(self.reconciler.standing) // AUDIT_STEP + 1, self._outbox.slices())
        self._audit_next_s = now + AUDIT_ROUND_S / slices
        self._outbox.sweep()
