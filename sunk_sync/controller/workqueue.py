"""The writes of one authority: a queue by urgency and time, and the tasks that empty it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec import Struct

from sunk_sync.controller.slots import BEHIND_S, Slot
from sunk_sync.controller.urgency import LEISURELY, urgency
from sunk_sync.controller.wake import wait_at_most
from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.outcomes import Push


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds on the requests to one authority at a time."""

    concurrency: int
    batch: int
    """Actions in one push; more than 1 only if the API takes lists."""
    leisurely: int
    """Concurrent pushes that may carry actions that are not urgent: drains never wait for them."""
    leisurely_batch: int = 1


Split = Callable[[Sequence[Action]], Sequence[Sequence[int]]]
"""Returns the places of the actions of a batch in parts that do not wait for each other."""


def whole(actions: Sequence[Action]) -> Sequence[Sequence[int]]:
    """Return one part: a Split for a writer whose batch is one request."""
    return [range(len(actions))]


class Writer(Struct, frozen=True):
    """The writer of one authority, and its bounds."""

    push: Push
    limits: Limits
    split: Split = whole


Carry = Callable[[Writer, Sequence[Slot]], Awaitable[None]]
"""Pushes one batch and records its outcomes; the outbox passes it to its work queues."""


class WorkQueue:
    def __init__(self, writer: Writer, *, carry: Carry, clock: Callable[[], float]) -> None:
        self.closing = False
        """The queue sends nothing more."""
        self._gathering = False
        """The rest of a batch is about to come and may share a request: nothing is sent yet."""
        self.added = 0
        """Slots queued so far; a slot counts again after a failure."""
        self._writer = writer
        self._limits = writer.limits
        self._carry_out = carry
        self._clock = clock
        self._ready: list[tuple[int, int, Slot]] = []
        self._later: list[tuple[float, int, Slot]] = []
        self._count = itertools.count()
        self._waiting: dict[asyncio.Event, None] = {}
        self._leisurely_pushes = 0
        """Pushes in flight that carry nothing urgent."""

    def depth(self) -> int:
        return len(self._ready) + len(self._later)

    def add(self, slot: Slot, *, now: float) -> None:
        """Queue a slot; time and urgency decide when it is sent. A second call is harmless."""
        slot.queued = True
        self.added += 1
        if slot.not_before_s > now:
            heapq.heappush(self._later, (slot.not_before_s, next(self._count), slot))
        else:
            assert slot.desired is not None
            heapq.heappush(self._ready, (urgency(slot.desired), next(self._count), slot))
        self._wake()

    def gather(self, *, on: bool) -> None:
        """Send nothing while `on`; afterwards send all that was queued meanwhile together."""
        released = self._gathering and not on
        self._gathering = on
        if released:
            for event in self._waiting:
                event.set()

    def _wake(self) -> None:
        if self._gathering:
            return
        for event in self._waiting:
            if not event.is_set():
                event.set()
                return

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(self._limits.concurrency):
                tasks.start_soon(self._push_batches)

    async def _push_batches(self) -> None:
        event = asyncio.Event()
        while True:
            slots = self._take()
            if slots:
                await self._carry(slots)
                continue
            event.clear()
            self._waiting[event] = None
            await self._wait(event)
            self._waiting.pop(event, None)

    async def _carry(self, slots: list[Slot]) -> None:
        leisurely = _is_leisurely(slots[0])
        self._leisurely_pushes += leisurely
        try:
            await self._carry_out(self._writer, slots)
        finally:
            self._leisurely_pushes -= leisurely
        self._wake()

    async def _wait(self, event: asyncio.Event) -> None:
        """Wait until a slot is queued, or the first delayed slot is due."""
        if not self._later or self.closing or self._gathering:
            await event.wait()
            return
        delay_s = max(0.0, self._later[0][0] - self._clock())
        await wait_at_most(event, delay_s)

    def _take(self) -> list[Slot]:
        """Take up to one batch of the most urgent slots that are still open."""
        if self.closing or self._gathering:
            return []
        now = self._clock()
        self._ripen(now)
        taken: list[Slot] = []
        most = self._limits.batch
        while self._ready and len(taken) < most:
            if self._ready[0][0] >= LEISURELY:
                if self._leisurely_pushes >= self._limits.leisurely or _is_urgent(taken):
                    break
                most = self._limits.leisurely_batch
            slot = heapq.heappop(self._ready)[2]
            slot.queued = False
            if slot.open() and slot.not_before_s > now:
                self.add(slot, now=now)
            elif slot.open() and slot.must_wait(now):
                slot.not_before_s = now + BEHIND_S
                self.add(slot, now=now)
            elif slot.open():
                slot.in_flight, slot.facts_changed = slot.desired, False
                taken.append(slot)
        return taken

    def _ripen(self, now: float) -> None:
        """Move the slots that are due from the delayed to the ready ones."""
        while self._later and self._later[0][0] <= now:
            slot = heapq.heappop(self._later)[2]
            slot.queued = False
            if slot.open():
                self.add(slot, now=now)

    def hurry(self) -> None:
        """The authority is back: retry failed writes now."""
        now = self._clock()
        for _, _, slot in list(self._later):
            if slot.attempts and not slot.told_to_wait and slot.open():
                slot.not_before_s = now
                self.add(slot, now=now)


def _is_urgent(taken: Sequence[Slot]) -> bool:
    return bool(taken) and not _is_leisurely(taken[0])


def _is_leisurely(slot: Slot) -> bool:
    return slot.in_flight is not None and urgency(slot.in_flight) >= LEISURELY
