"""Calls that wait for an answer of the core, one future each, independent of HTTP (L1, L6, L7)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, AnswerGate, AnswerStop
from sunk_sync.core.model.calls import CallEnded, GateCall, JobNotice, LockCall, StopCall
from sunk_sync.core.model.facts import Tell
from sunk_sync.core.model.lock_actions import AnswerLock
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.topology_file import AnswerTopology, TopologyReport

Word = Literal["go", "gone", "drain", "wait"]


class GateVerdict(Struct, frozen=True, gc=False):
    word: Word
    """wait: the caller's deadline came first."""
    why: tuple[str, ...] = ()
    """The Pods that the job waits for, or starts beside; one sentence each."""


class CallsEndedError(Exception):
    """The service stops; the caller asks again, and another process answers."""


class _Waiting:
    """One call. A call of the gate, or for locks, ends when its last node may go."""

    __slots__ = ("done", "held", "passed")

    def __init__(self, slurm_nodes: Sequence[str]) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self.held = dict.fromkeys(slurm_nodes, "")
        """Slurm node → reason to wait; empty: no answer yet."""
        self.passed: list[str] = []
        """Why nodes may go although they have no lock."""

    def word(self, action: AnswerGate | AnswerLock | AnswerStop) -> Word | None:
        """Take in one answer; return the final answer of the call, or None to wait on."""
        if isinstance(action, AnswerStop):
            return action.verdict
        if not action.go:
            self.held[action.slurm_node] = action.why
            return None
        if isinstance(action, AnswerLock) and action.why:
            self.passed.append(action.why)
        self.held.pop(action.slurm_node, None)
        return None if self.held else "go"


class PendingCalls:
    """Reports each call to the core, and the core's answer to the caller."""

    def __init__(self, tell: Tell, *, clock: Callable[[], float]) -> None:
        self._tell = tell
        self._clock = clock
        self._waiting: dict[int, _Waiting] = {}
        self._topologies: dict[int, asyncio.Future[AnswerTopology]] = {}
        self._last = 0
        self._ended = False

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._topologies)

    async def gate(
        self, job_id: str, slurm_nodes: Sequence[str], *, deadline_s: float
    ) -> GateVerdict:
        """Wait until every node may go, or the deadline. Cancelled if the caller disconnects."""
        call, now = self._number(), self._clock()
        fact = GateCall(call, job_id, tuple(slurm_nodes), now, now + deadline_s)
        told = JobNotice(job_id, "starting", now)
        return await self._wait(fact, _Waiting(slurm_nodes), deadline_s=deadline_s, also=(told,))

    async def lock(self, fact: LockCall) -> GateVerdict:
        """Wait until the Node of each Slurm node is locked, or need not be, or the deadline."""
        fact = replace(fact, call=self._number())
        told = JobNotice(fact.job_id, "starting", fact.asked_s)
        waiting = _Waiting(fact.slurm_nodes)
        deadline_s = fact.until_s - self._clock()
        return await self._wait(fact, waiting, deadline_s=deadline_s, also=(told,))

    async def stop(self, job_id: str, *, deadline_s: float) -> GateVerdict:
        """Wait until the job's Pods are gone, or the host is drained for them."""
        call, now = self._number(), self._clock()
        fact = StopCall(call, job_id, now, now + deadline_s)
        return await self._wait(fact, _Waiting(()), deadline_s=deadline_s)

    async def topology(self, fact: TopologyReport, *, deadline_s: float) -> AnswerTopology | None:
        """Return what the script should do; None: the core did not answer in time."""
        if self._ended:
            raise CallsEndedError
        fact = replace(fact, call=self._number())
        answer: asyncio.Future[AnswerTopology] = asyncio.get_running_loop().create_future()
        self._topologies[fact.call] = answer
        try:
            await self._tell([fact])
            with anyio.move_on_after(deadline_s):
                return await answer
            return None
        finally:
            del self._topologies[fact.call]
            await self._tell([CallEnded(fact.call)])

    async def told(self, job_id: str, what: Literal["starting", "started", "ended"]) -> None:
        """Report a call about a job, so that sunk-sync reads the job now."""
        await self._tell([JobNotice(job_id, what, self._clock())])

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Pass the answers to their calls; return an outcome for each."""
        return [self._answer(action) for action in actions]

    def end(self) -> None:
        """End every waiting call with CallsEndedError, and each that still comes."""
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done.done():
                waiting.done.set_exception(CallsEndedError())
        for future in self._topologies.values():
            if not future.done():
                future.set_exception(CallsEndedError())

    def _number(self) -> int:
        self._last += 1
        return self._last

    async def _wait(
        self,
        fact: GateCall | LockCall | StopCall,
        waiting: _Waiting,
        *,
        deadline_s: float,
        also: tuple[JobNotice, ...] = (),
    ) -> GateVerdict:
        if self._ended:
            raise CallsEndedError
        self._waiting[fact.call] = waiting
        try:
            await self._tell([*also, fact])
            with anyio.fail_after(deadline_s):
                return GateVerdict(await waiting.done, _distinct(waiting.passed))
        except TimeoutError:
            return GateVerdict("wait", _distinct(waiting.held.values()))
        finally:
            del self._waiting[fact.call]
            await self._tell([CallEnded(fact.call)])

    def _answer(self, action: Action) -> Outcome:
        if isinstance(action, AnswerTopology):
            return self._answer_topology(action)
        assert isinstance(action, AnswerGate | AnswerLock | AnswerStop)
        waiting = self._waiting.get(action.call)
        if waiting is None:
            return Refused(action, "the caller is gone")
        word = waiting.word(action)
        if word and not waiting.done.done():
            waiting.done.set_result(word)
        return Done(action)

    def _answer_topology(self, action: AnswerTopology) -> Outcome:
        future = self._topologies.get(action.call)
        if future is None or future.done():
            return Refused(action, "the caller is gone")
        future.set_result(action)
        return Done(action)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
