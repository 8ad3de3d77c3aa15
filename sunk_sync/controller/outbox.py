"""Desired writes on their way out: per target one in flight, the latest wins, back-off with jitter.

The loop hands over what each key wants now; work queues (one per authority) push it with bounded
concurrency and report every outcome back to the loop, where it is news like any other.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence

from msgspec import Struct

from sunk_sync.controller.workqueue import BEHIND_S, Limits, Slot, WorkQueue, only_unknown
from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    Bind,
    CancelJob,
    Done,
    EndPod,
    HookAction,
    JobAction,
    Outcome,
    Push,
    RecordEvent,
    Refused,
    Relist,
    SetConditions,
    SetMetadata,
    SetScheduled,
    SlurmAction,
    SubmitJob,
    Target,
    Unsure,
    target_of,
)
from sunk_sync.core.model.facts import Attempt, BindTried
from sunk_sync.core.model.timing import BINDING_S

SWEEP_STEP = 1000
"""Targets looked at between two awaits."""
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 30.0
REFUSED_AGAIN_S = 300.0
"""A refusal stands until a fact changes; permissions change without one, so it is tried anew."""
UNSEEN_AGAIN_S = 30.0
"""What ended goes on as if nothing were, and what was made is not there: a slurmctld that was
killed forgets seconds (F1); and a listing counted for nothing where its source was lost while it
came."""
PACE_S = 1.0
"""Between two writes of conditions or metadata to one object (M1)."""
UNKNOWN_PACE_S = 0.01
"""Between any two writes that only say Unknown (M2: 100 a second)."""
WAITING_PACE_S = 60.0
"""Between two writes of why one Pod waits (P26)."""
WAITING_ALL_PACE_S = 0.05
"""Between any two of them (P26: 20 a second)."""
ANSWERED_AGAIN_S = 1.0
"""What ends or binds something is not asked again before the world had time to show it."""
ENDS = (Bind, CancelJob, EndPod)
PUSH_LIMIT_S = 60.0
"""A push that has not answered by then counts as unsure: a bug in its own deadlines."""


class WriteReport(Struct, frozen=True):
    """One outcome, with what the loop knows it by."""

    outcome: Outcome
    key: tuple[str, str]
    because: str
    desired_at_s: float
    """When the desired write was first made."""
    answered_s: float
    sent_s: float
    """When it was taken up, the last time."""


class Writers(Struct, frozen=True, kw_only=True):
    """Who carries out what, and how much of it at a time."""

    slurm: tuple[Push, Limits]
    """Slurm nodes."""
    jobs: tuple[Push, Limits]
    """Placeholder jobs: a burst of them never keeps a drain waiting."""
    kube: tuple[Push, Limits]
    hooks: tuple[Push, Limits]
    """Answers to calls."""


class Outbox:
    """Standing desired writes of every key, and the work queues that carry them."""

    def __init__(
        self, ways: Writers, *, clock: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self.clock = clock
        self._random = random
        self.slurm, self.jobs, self.kube, self.hooks = (
            WorkQueue(push=push, limits=limits, carry=self._carry, clock=clock)
            for push, limits in (ways.slurm, ways.jobs, ways.kube, ways.hooks)
        )
        self.work_queues = (self.slurm, self.kube, self.jobs, self.hooks)
        self._slots: dict[Target, Slot] = {}
        self._unswept: Iterator[Target] = iter(())
        self._submits: dict[tuple[str, str], Slot] = {}
        """Key → the last submission for it."""
        self._binds: dict[str, list[Slot]] = {}
        """Slurm node → bindings to it that are under way, or may be."""
        self._targets: dict[tuple[str, str], tuple[Target, ...]] = {}
        """Targets that each key wishes something of."""
        self._unknown_next_s = 0.0
        self._waiting_next_s = 0.0
        self.flying = 0
        """Actions under way."""
        self._landed = asyncio.Event()
        self.report: Callable[[Sequence[WriteReport]], Awaitable[None]]
        """Set by the loop: where outcomes go."""

    async def run(self) -> None:
        """Carry wishes until cancelled."""
        async with asyncio.TaskGroup() as work_queues:
            for work_queue in self.work_queues:
                work_queues.create_task(work_queue.run())

    async def finish(self, grace_s: float) -> None:
        """Take up nothing more; wait for what is under way, at most so long."""
        for work_queue in self.work_queues:
            work_queue.closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self.flying:
                    self._landed.clear()
                    await self._landed.wait()

    def gather(self, *, on: bool) -> None:
        """While `on`, desired writes are only collected: the rest of their batch is about to
        come.
        """
        for work_queue in self.work_queues:
            work_queue.gather(on=on)

    def want(self, key: tuple[str, str], wants: Sequence[Action], *, because: str) -> None:
        """Make these the standing desired writes of the key; earlier ones that are not among
        them end.
        """
        before = self._targets.get(key, ())
        if not wants and not before:
            return
        now = self.clock()
        targets = tuple(target_of(action) for action in wants)
        for target in before:
            if target not in targets:
                self._drop(target, key=key)
        for target, action in zip(targets, wants, strict=True):
            self._set(target, action, key=key, because=because, now=now)
        if targets:
            self._targets[key] = targets
        else:
            del self._targets[key]

    def stands(self, action: SubmitJob) -> bool:
        """It is still wished; with other exclusions too, for they are brought after (P7)."""
        slot = self._slots.get(target_of(action))
        desired = None if slot is None else slot.desired
        return isinstance(desired, SubmitJob) and desired.identity.digest == action.identity.digest

    def facts_changed(self, key: tuple[str, str]) -> None:
        """A fact of this key changed: what was answered before may be asked again."""
        for target in self._targets.get(key, ()):
            slot = self._slots.get(target)
            if slot is None:
                continue
            if not isinstance(slot.settled, RecordEvent | Relist):
                slot.settled = None
            if not isinstance(slot.in_flight, RecordEvent | Relist):
                slot.facts_changed = True

    def _set(
        self, target: Target, action: Action, *, key: tuple[str, str], because: str, now: float
    ) -> None:
        slot = self._slots.get(target)
        if slot is None:
            slot = self._slots[target] = Slot()
        slot.key, slot.because = key, because
        if isinstance(action, Bind):
            self._exclude(slot, ("job", action.job_id))
            others = [one for one in self._bindings(action.slurm_node, now=now) if one is not slot]
            self._binds[action.slurm_node] = [*others, slot]
        if isinstance(action, SubmitJob):
            self._follow(slot, key)
        if isinstance(action, AnswerGate):
            slot.after = tuple(self._bindings(action.slurm_node, now=now)) if action.go else ()
        changed = slot.desired != action
        if changed:
            slot.desired, slot.desired_at_s, slot.attempts = action, now, 0
            slot.not_before_s = self._earliest(slot, action)
        if slot.open() and (changed or not slot.queued):
            self._work_queue(action).add(slot, now=now)

    def _exclude(self, bind: Slot, target: Target) -> None:
        """A Pod is not bound while its job is being cancelled, nor the other way round (P12)."""
        job = self._slots.setdefault(target, Slot())
        bind.behind = (job,)
        if bind not in job.behind:
            job.behind = (*job.behind, bind)

    def _follow(self, submit: Slot, key: tuple[str, str]) -> None:
        """A gang whose members changed goes under another id: once what became of the earlier
        submission was heard (G1, P29).
        """
        earlier, self._submits[key] = self._submits.get(key, submit), submit
        if earlier is not submit and earlier.in_flight is not None:
            submit.behind, earlier.behind = (earlier,), (submit,)

    def _bindings(self, slurm_node: str, *, now: float) -> list[Slot]:
        """No job begins on a host while a Pod may be about to arrive there (L7)."""
        slots = self._binds.pop(slurm_node, [])
        may = [one for one in slots if one.desired or one.in_flight or one.doubt_until_s > now]
        if may:
            self._binds[slurm_node] = may
        return may

    def _drop(self, target: Target, *, key: tuple[str, str]) -> None:
        """The key wishes nothing of it any more; another key may have taken the target over.

        What is then left of it goes with the next sweep.
        """
        slot = self._slots.get(target)
        if slot is None or slot.key != key:
            return
        slot.desired = slot.settled = slot.ask_again_s = None

    def sweep(self) -> None:
        """Forget targets that nobody wishes anything of; ask again where a refusal is old.

        Called now and then; a slice of them each time, for there may be a hundred thousand.
        """
        now = self.clock()
        for target in self._next_unswept():
            slot = self._slots[target]
            self._retry_settled(slot, now=now)
            at_rest = not (slot.desired or slot.in_flight or slot.must_wait(now))
            if at_rest and slot.sent_s <= now - PACE_S:
                del self._slots[target]
                if self._submits.get(slot.key) is slot:
                    del self._submits[slot.key]

    def slices(self) -> int:
        """How many sweeps it takes to see every target."""
        return len(self._slots) // SWEEP_STEP + 1

    def _next_unswept(self) -> Sequence[Target]:
        targets = list(itertools.islice(self._unswept, SWEEP_STEP))
        if not targets:
            self._unswept = iter(tuple(self._slots))
            targets = list(itertools.islice(self._unswept, SWEEP_STEP))
        return targets

    def _retry_settled(self, slot: Slot, *, now: float) -> None:
        if slot.ask_again_s is None or now < slot.ask_again_s:
            return
        slot.settled = slot.ask_again_s = None
        assert slot.desired is not None, "a desired write that ends takes its answer along"
        self._work_queue(slot.desired).add(slot, now=now)

    def _earliest(self, slot: Slot, action: Action) -> float:
        paced_s = _paced_s(slot, action)
        if only_unknown(action):
            self._unknown_next_s = max(self._unknown_next_s + UNKNOWN_PACE_S, self.clock())
            return max(self._unknown_next_s, paced_s)
        if isinstance(action, SetScheduled):
            now = self.clock()
            next_s = max(self._waiting_next_s + WAITING_ALL_PACE_S, now)
            self._waiting_next_s = min(next_s, now + WAITING_PACE_S)
            return max(self._waiting_next_s, paced_s)
        return paced_s

    def _work_queue(self, action: Action) -> WorkQueue:
        if isinstance(action, JobAction):
            return self.jobs
        if isinstance(action, HookAction):
            return self.hooks
        return self.slurm if isinstance(action, SlurmAction) else self.kube

    async def _carry(self, push: Push, slots: Sequence[Slot]) -> None:
        """Push one batch and report what came of it."""
        actions = [slot.in_flight for slot in slots if slot.in_flight is not None]
        causes = [(slot.key, slot.because, slot.desired_at_s) for slot in slots]
        self.flying += len(slots)
        sent_s = self.clock()
        try:
            outcomes = await self._push(push, actions)
        finally:
            self.flying -= len(slots)
            self._landed.set()
        now = self.clock()
        for slot, outcome in zip(slots, outcomes, strict=True):
            self._settle(slot, outcome, now=now)
        await self.report(
            [
                WriteReport(outcome, key, because, desired_at_s, now, sent_s)
                for outcome, (key, because, desired_at_s) in zip(outcomes, causes, strict=True)
            ]
        )
        for slot in slots:
            if slot.open() and slot.desired is not None:
                self._work_queue(slot.desired).add(slot, now=now)

    async def _push(self, push: Push, actions: Sequence[Action]) -> Sequence[Outcome]:
        """One outcome for each action, whatever the push does."""
        try:
            async with asyncio.timeout(PUSH_LIMIT_S):
                outcomes = await push(actions)
        except Exception as error:  # noqa: BLE001 - a bug there must not end the work queue
            why = f"{type(error).__name__}: {error}"[:200]
            return [self._unknown(action, why) for action in actions]
        if len(outcomes) != len(actions):
            return [self._unknown(action, "push lost count of its answers") for action in actions]
        return outcomes

    def _unknown(self, action: Action, why: str) -> Unsure:
        """A job may have been made: it is looked for before it is asked for again (F2)."""
        if isinstance(action, SubmitJob):
            return Unsure(action, why, seen=(Attempt(action.identity.workload, self.clock()),))
        if isinstance(action, Bind):
            tried = BindTried(action.reference.uid, action.job_id, self.clock())
            return Unsure(action, why, seen=(tried,))
        return Unsure(action, why)

    def _settle(self, slot: Slot, outcome: Outcome, *, now: float) -> None:
        action, slot.in_flight = slot.in_flight, None
        if isinstance(action, Bind):
            unsure = isinstance(outcome, Unsure)
            slot.doubt_until_s = now + (BINDING_S if unsure else BEHIND_S)
        for one in slot.behind:  # the loop hears of this answer first
            one.not_before_s = max(one.not_before_s, now + BEHIND_S)
        if not (isinstance(outcome, Unsure) and isinstance(action, SetScheduled)):
            slot.sent, slot.sent_s = action, now  # a word that did not arrive starts no minute
        if isinstance(outcome, Unsure):
            slot.attempts += 1
            slot.told_to_wait = outcome.retry_after_s is not None
            slot.not_before_s = now + self._backoff_s(slot.attempts, outcome.retry_after_s)
            return
        slot.attempts = 0
        if slot.desired is None:
            return
        if isinstance(action, SubmitJob) and isinstance(outcome, Done):
            # Another shape of the job may be wished by now, by who knew nothing of this one.
            slot.settled, slot.ask_again_s = slot.desired, now + UNSEEN_AGAIN_S
            return
        if slot.facts_changed and slot.desired == action:
            # Newer facts than this answer may ask for it once more; or they are about to end it.
            slot.not_before_s = max(_paced_s(slot, slot.desired), now + BACKOFF_FIRST_S)
            return
        slot.settled = action
        slot.ask_again_s = _ask_again_s(action, outcome, now)
        again_s = now + ANSWERED_AGAIN_S if isinstance(action, ENDS) else 0.0
        slot.not_before_s = max(slot.not_before_s, _paced_s(slot, slot.desired), again_s)

    def _backoff_s(self, attempts: int, retry_after_s: float | None) -> float:
        if retry_after_s is not None:
            return min(retry_after_s, BACKOFF_MAX_S) * (1.0 + 0.1 * self._random())
        longest_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempts - 1, 10))
        return longest_s * (0.5 + 0.5 * self._random())


def _ask_again_s(action: Action | None, outcome: Outcome, now: float) -> float | None:
    if isinstance(outcome, Refused):
        return now + REFUSED_AGAIN_S
    return now + UNSEEN_AGAIN_S if isinstance(action, CancelJob | EndPod | Relist) else None


def _paced_s(slot: Slot, action: Action) -> float:
    """A second after the last write of conditions or metadata to this object (M1), a minute after
    the last word of why it waits (P26); another reason comes sooner, and so does the first word
    to a Pod whose name another had.
    """
    if isinstance(action, SetScheduled):
        said = slot.sent
        same = isinstance(said, SetScheduled) and (
            (said.reference.uid, said.reason) == (action.reference.uid, action.reason)
        )
        return slot.sent_s + (WAITING_PACE_S if same else PACE_S)
    return slot.sent_s + PACE_S if isinstance(action, SetConditions | SetMetadata) else 0.0
