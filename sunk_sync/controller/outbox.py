"""Writes waiting to be sent. Each target has at most one in flight.

A newer write replaces a waiting one. The loop passes the desired writes of each key. One work queue
for each authority sends them with bounded concurrency. Every outcome goes back to the loop as news.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec import Struct

from sunk_sync.controller.batch import Answer, Batch, Cause
from sunk_sync.controller.mutual_exclusion import MutualExclusion
from sunk_sync.controller.pacing import PACE_S, Pacing
from sunk_sync.controller.settling import settle
from sunk_sync.controller.slots import Slot, Slots
from sunk_sync.controller.workqueue import WorkQueue, Writer
from sunk_sync.core.model.actions import (
    Action,
    Bind,
    RecordEvent,
    Relist,
    SubmitJob,
    target_of,
    traits_of,
)
from sunk_sync.core.model.facts import Attempt, BindTried
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.outcomes import Outcome, Push, Unsure
from sunk_sync.core.model.traits import Queue, Target

PUSH_LIMIT_S = 60.0
"""A push without an answer by then counts as unsure: the writer's own deadline has a bug."""


class WriteReport(Struct, frozen=True):
    """One outcome, with the cause of its write."""

    outcome: Outcome
    cause: Cause
    answered_s: float
    sent_s: float
    """When the write was sent, the last time."""


class WriteState(Struct, frozen=True):
    """How far a desired write is."""

    action: Action
    says: str
    answered: bool
    """It is not repeated until a fact changes, or a while has passed."""
    desired_at_s: float


class Writers(Struct, frozen=True, kw_only=True):
    """The writer of each authority."""

    slurm: Writer
    """Slurm nodes."""
    jobs: Writer
    """Placeholder jobs: a burst of them never delays a drain."""
    kube: Writer
    hooks: Writer
    """Answers to the calls of prologs and placeholders."""


class Outbox:
    """Holds the desired writes of every key; its work queues send them."""

    def __init__(
        self, writers: Writers, *, clock: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self.clock = clock
        self._random = random
        self.slurm, self.jobs, self.kube, self.hooks = (
            WorkQueue(writer, carry=self._carry, clock=clock)
            for writer in (writers.slurm, writers.jobs, writers.kube, writers.hooks)
        )
        self.work_queues = (self.slurm, self.kube, self.jobs, self.hooks)
        self._queues: dict[Queue, WorkQueue] = {
            "slurm": self.slurm, "jobs": self.jobs, "hooks": self.hooks, "kubernetes": self.kube,
        }  # fmt: skip
        self._slots = Slots()
        self._mutual_exclusion = MutualExclusion(self._slots)
        self._pacing = Pacing()
        self._targets: dict[Key, tuple[Target, ...]] = {}
        """The targets of the desired writes of each key."""
        self.in_flight = 0
        self._answered = asyncio.Event()
        self.report: Callable[[Sequence[WriteReport]], Awaitable[None]]
        """Takes the outcomes; the loop sets it."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for work_queue in self.work_queues:
                tasks.start_soon(work_queue.run)

    async def finish(self, grace_s: float) -> None:
        """Send nothing more; wait at most `grace_s` for the answers to the writes in flight."""
        for work_queue in self.work_queues:
            work_queue.closing = True
        with anyio.move_on_after(grace_s):
            while self.in_flight:
                self._answered.clear()
                await self._answered.wait()

    def gather(self, *, on: bool) -> None:
        """Hold writes back while `on`: the rest of their batch is about to come."""
        for work_queue in self.work_queues:
            work_queue.gather(on=on)

    def want(self, key: Key, wants: Sequence[Action], *, because: str) -> None:
        """Replace the desired writes of the key by these."""
        before = self._targets.get(key, ())
        if not wants and not before:
            return
        now = self.clock()
        targets = tuple(target_of(action) for action in wants)
        for target in before:
            if target not in targets:
                self._drop(target, key=key, now=now)
        for target, action in zip(targets, wants, strict=True):
            self._set(target, action, key=key, because=because, now=now)
        if targets:
            self._targets[key] = targets
        else:
            del self._targets[key]

    def states_of(self, key: Key) -> Sequence[WriteState]:
        """Return the desired writes of the key, each with how far it is."""
        slots = [self._slots.get(target) for target in self._targets.get(key, ())]
        now = self.clock()
        return [
            WriteState(one.desired, one.says(now), one.desired == one.settled, one.desired_at_s)
            for one in slots
            if one is not None and one.desired is not None
        ]

    def stands(self, action: SubmitJob) -> bool:
        """Return whether this submission is still desired.

        Other excluded hosts do not matter: sunk-sync updates them in the job afterwards (P7).
        """
        slot = self._slots.get(target_of(action))
        desired = None if slot is None else slot.desired
        return isinstance(desired, SubmitJob) and desired.identity.digest == action.identity.digest

    def facts_changed(self, key: Key) -> None:
        """A fact of this key changed: an answered write may be sent again."""
        for target in self._targets.get(key, ()):
            slot = self._slots.get(target)
            if slot is None:
                continue
            if not isinstance(slot.settled, RecordEvent | Relist):
                slot.settled = None
            if not isinstance(slot.in_flight, RecordEvent | Relist):
                slot.facts_changed = True

    def _set(self, target: Target, action: Action, *, key: Key, because: str, now: float) -> None:
        slot = self._slots.of(target)
        slot.key, slot.because = key, because
        self._mutual_exclusion.arrange(slot, action, now=now)
        changed = slot.desired != action
        if changed:
            slot.desired, slot.desired_at_s, slot.attempts = action, now, 0
            slot.not_before_s = self._pacing.earliest_s(slot, action, now=now)
        if slot.open() and (changed or not slot.queued):
            self._work_queue(action).add(slot, now=now)

    def _drop(self, target: Target, *, key: Key, now: float) -> None:
        """End the key's desired write of a target, unless another key took the target over.

        A later sweep removes the slot.
        """
        slot = self._slots.get(target)
        if slot is None or slot.key != key:
            return
        self._mutual_exclusion.drop(slot, now=now)
        slot.desired = slot.settled = slot.ask_again_s = None

    def sweep(self) -> None:
        """Visit one slice: remove slots without a desired write, retry old refusals."""
        now = self.clock()
        for target, slot in self._slots.next_slice():
            self._retry_settled(slot, now=now)
            at_rest = not (slot.desired or slot.in_flight or slot.must_wait(now))
            if at_rest and slot.sent_s <= now - PACE_S:
                self._slots.forget(target)
                self._mutual_exclusion.forget(slot)

    def slices(self) -> int:
        """Return how many sweeps visit every target."""
        return self._slots.slices()

    def _retry_settled(self, slot: Slot, *, now: float) -> None:
        if slot.ask_again_s is None or now < slot.ask_again_s:
            return
        slot.settled = slot.ask_again_s = None
        assert slot.desired is not None, "a desired write that ends takes its answer along"
        self._work_queue(slot.desired).add(slot, now=now)

    def _work_queue(self, action: Action) -> WorkQueue:
        return self._queues[traits_of(action).queue]

    async def _carry(self, writer: Writer, slots: Sequence[Slot]) -> None:
        """Push the parts of a batch at once; settle and report answers as they come."""
        parts = writer.split([slot.in_flight for slot in slots if slot.in_flight is not None])
        batch, sent_s = Batch(parts=len(parts)), self.clock()
        self.in_flight += len(slots)
        async with anyio.create_task_group() as tasks:
            for part in parts:
                chosen = [slots[place] for place in part]
                tasks.start_soon(self._push_part, writer.push, chosen, batch)
            async for answers in batch.bundles():
                await self._conclude(answers, sent_s=sent_s)

    async def _push_part(self, push: Push, slots: Sequence[Slot], batch: Batch) -> None:
        actions = [slot.in_flight for slot in slots if slot.in_flight is not None]
        causes = [Cause(slot.key, slot.because, slot.desired_at_s) for slot in slots]
        outcomes = await self._push(push, actions)
        batch.take([Answer(*one) for one in zip(slots, causes, outcomes, strict=True)])

    async def _conclude(self, answers: Sequence[Answer], *, sent_s: float) -> None:
        self.in_flight -= len(answers)
        self._answered.set()
        now = self.clock()
        for one in answers:
            settle(one.slot, one.outcome, now=now, random=self._random)
        await self.report([WriteReport(one.outcome, one.cause, now, sent_s) for one in answers])
        for one in answers:
            slot = one.slot
            if slot.open() and slot.desired is not None:
                self._work_queue(slot.desired).add(slot, now=now)

    async def _push(self, push: Push, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Return one outcome for each action, whatever the push does."""
        try:
            with anyio.fail_after(PUSH_LIMIT_S):
                outcomes = await push(actions)
        except Exception as error:  # noqa: BLE001 - a bug there must not end the work queue
            why = _why(error)
            return [self._unknown(action, why) for action in actions]
        if len(outcomes) != len(actions):
            return [self._unknown(action, "push lost count of its answers") for action in actions]
        return outcomes

    def _unknown(self, action: Action, why: str) -> Unsure:
        """Slurm may have made the job: sunk-sync searches for it before it submits again (F2)."""
        if isinstance(action, SubmitJob):
            return Unsure(action, why, seen=(Attempt(action.identity.workload, self.clock()),))
        if isinstance(action, Bind):
            tried = BindTried(action.reference.uid, action.job_id, self.clock(), action.slurm_node)
            return Unsure(action, why, seen=(tried,))
        return Unsure(action, why)


def _why(error: Exception) -> str:
    """Return a short text; for a group of exceptions that of its first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:200]
