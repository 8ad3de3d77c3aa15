"""One authority's way out: a queue by urgency and time, and the tasks that empty it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    AnswerStop,
    Bind,
    CancelJob,
    Cordon,
    Drain,
    EndPod,
    GetGang,
    GetJob,
    GetObject,
    Push,
    Relist,
    SetComment,
    SetConditions,
    SubmitJob,
    Uncordon,
    Undrain,
    UpdateJob,
)

LEISURELY = 2
"""Urgency from which on an action is not urgent."""


BEHIND_S = 0.05
"""Between two looks whether a target that excludes another is still under way."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one authority may be asked at a time."""

    concurrency: int
    batch: int
    """Actions handed to one push; above 1 only where its API takes lists."""
    leisurely: int
    """How many of the concurrent pushes may carry what is not urgent, so that drains never wait."""
    leisurely_batch: int = 1


class Slot(Struct, gc=False, eq=False):
    """One target: what is wished of it and what is under way."""

    key: tuple[str, str] = ("", "")
    because: str = ""
    desired: Action | None = None
    desired_at_s: float = 0.0
    in_flight: Action | None = None
    facts_changed: bool = False
    """A fact of its key changed since it went under way."""
    settled: Action | None = None
    """Answered, and not repeated until a fact of its key changes."""
    ask_again_s: float | None = None
    """When it is asked once more though nothing changed: a refusal, an end that nothing shows."""
    attempts: int = 0
    told_to_wait: bool = False
    """The authority said for how long (Retry-After): nothing cuts that short (F8)."""
    not_before_s: float = 0.0
    sent_s: float = float("-inf")
    sent: Action | None = None
    """What was sent last."""
    queued: bool = False
    behind: tuple["Slot", ...] = ()
    """Targets that exclude this one: not taken up while something is under way there."""
    after: tuple["Slot", ...] = ()
    """Targets whose end it waits for, also for that of their doubt."""
    doubt_until_s: float = 0.0
    """What was sent last may still happen, or the loop may not have heard what came of it."""

    def open(self) -> bool:
        """Something is wished that is neither under way nor answered."""
        return self.desired is not None and self.in_flight is None and self.desired != self.settled

    def must_wait(self, now: float) -> bool:
        """Something that excludes it is under way, or may be."""
        return any(one.in_flight is not None for one in (*self.behind, *self.after)) or any(
            one.doubt_until_s > now for one in self.after
        )


Carry = Callable[[Push, Sequence[Slot]], Awaitable[None]]
"""Pushes one batch and settles what came of it; the outbox gives it to its work queues."""


class WorkQueue:
    """One authority: a queue by urgency and time, and the tasks that empty it."""

    def __init__(
        self, *, push: Push, limits: Limits, carry: Carry, clock: Callable[[], float]
    ) -> None:
        self.closing = False
        """Nothing more is taken up."""
        self._gathering = False
        """More is about to come that may share a request: nothing is taken up yet."""
        self.added = 0
        """Slots queued so far, again after a failure too."""
        self._push = push
        self._limits = limits
        self._carry_out = carry
        self._clock = clock
        self._ready: list[tuple[int, int, Slot]] = []
        self._later: list[tuple[float, int, Slot]] = []
        self._count = itertools.count()
        self._waiting: dict[asyncio.Event, None] = {}
        self._strolling = 0
        """Pushes under way that carry nothing urgent."""

    def depth(self) -> int:
        """Targets that wait."""
        return len(self._ready) + len(self._later)

    def add(self, slot: Slot, *, now: float) -> None:
        """Queue a slot; time and urgency decide when it is taken. Twice is harmless."""
        slot.queued = True
        self.added += 1
        if slot.not_before_s > now:
            heapq.heappush(self._later, (slot.not_before_s, next(self._count), slot))
        else:
            assert slot.desired is not None
            heapq.heappush(self._ready, (urgency(slot.desired), next(self._count), slot))
        self._wake()

    def gather(self, *, on: bool) -> None:
        """Take nothing up while `on`; afterwards all that came meanwhile goes together."""
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
        """Push until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._limits.concurrency):
                tasks.create_task(self._workload())

    async def _workload(self) -> None:
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
        strolls = _is_leisurely(slots[0])
        self._strolling += strolls
        try:
            await self._carry_out(self._push, slots)
        finally:
            self._strolling -= strolls
        self._wake()

    async def _wait(self, event: asyncio.Event) -> None:
        """Until something is queued, or the first delayed slot is due."""
        if not self._later or self.closing or self._gathering:
            await event.wait()
            return
        delay_s = max(0.0, self._later[0][0] - self._clock())
        try:
            async with asyncio.timeout(delay_s):
                await event.wait()
        except TimeoutError:
            return

    def _take(self) -> list[Slot]:
        """Up to one batch of the most urgent slots that are still open."""
        if self.closing or self._gathering:
            return []
        now = self._clock()
        self._ripen(now)
        taken: list[Slot] = []
        most = self._limits.batch
        while self._ready and len(taken) < most:
            if self._ready[0][0] >= LEISURELY:
                if self._strolling >= self._limits.leisurely or _is_urgent(taken):
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
        """Move what is due from the delayed slots to the ready ones."""
        while self._later and self._later[0][0] <= now:
            slot = heapq.heappop(self._later)[2]
            slot.queued = False
            if slot.open():
                self.add(slot, now=now)

    def hurry(self) -> None:
        """The authority answers again: what waits only because it failed goes now."""
        now = self._clock()
        for _, _, slot in list(self._later):
            if slot.attempts and not slot.told_to_wait and slot.open():
                slot.not_before_s = now
                self.add(slot, now=now)


def urgency(action: Action) -> int:
    """Lower goes first: drains before reads before what is only shown."""
    match action:
        case Drain() | Undrain() | EndPod() | CancelJob() | AnswerGate() | AnswerStop():
            return 0
        case GetObject() | GetJob() | GetGang() | Cordon() | Uncordon() | Bind():
            return 1
        case Relist() if action.source == "jobs":
            return 1  # a prolog waits for it
        case SetComment() | SubmitJob() | UpdateJob():
            return 2
        case _ if only_unknown(action):
            return 5
        case SetConditions() if action.reference.kind == "Pod":
            return 3  # the first that tells of a drain; the same on the Node may follow
        case _:
            return 4


def _is_urgent(taken: Sequence[Slot]) -> bool:
    return bool(taken) and not _is_leisurely(taken[0])


def _is_leisurely(slot: Slot) -> bool:
    return slot.in_flight is not None and urgency(slot.in_flight) >= LEISURELY


def only_unknown(action: Action) -> bool:
    """Conditions that say nothing but that nobody knows (M2)."""
    return isinstance(action, SetConditions) and any(
        condition.status == "Unknown" for condition in action.conditions
    )
