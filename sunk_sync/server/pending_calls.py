"""Calls that wait for the core's word: one future each. Knows nothing of HTTP (L6, L7)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import anyio
from msgspec import Struct

from sunk_sync.core.model.actions import Action, AnswerGate, AnswerStop, Done, Outcome, Refused
from sunk_sync.core.model.facts import CallEnded, GateCall, JobNotice, StopCall, Tell

Word = Literal["go", "gone", "drain", "wait"]


class GateVerdict(Struct, frozen=True, gc=False):
    """What a waiting call is told."""

    word: Word
    """wait: the caller's deadline came first."""
    why: tuple[str, ...] = ()
    """Whom a gate waits for, one sentence for each."""


class _Waiting:
    """One call. A gate's opens when its last node may go."""

    __slots__ = ("done", "held")

    def __init__(self, slurm_nodes: Sequence[str]) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self.held = dict.fromkeys(slurm_nodes, "")
        """Slurm node → why not yet, empty while nothing was said of it."""

    def word(self, action: AnswerGate | AnswerStop) -> Word | None:
        """Take in one answer; the last word of the call, or None: it waits on."""
        if isinstance(action, AnswerStop):
            return action.verdict
        if not action.go:
            self.held[action.slurm_node] = action.why
            return None
        self.held.pop(action.slurm_node, None)
        return None if self.held else "go"


class PendingCalls:
    """Tells the core of each call, and each caller what the core answers."""

    def __init__(self, tell: Tell, *, clock: Callable[[], float]) -> None:
        self._tell = tell
        self._clock = clock
        self._waiting: dict[int, _Waiting] = {}
        self._last = 0

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        return len(self._waiting)

    async def gate(
        self, job_id: str, slurm_nodes: Sequence[str], *, deadline_s: float
    ) -> GateVerdict:
        """Wait until every node may go, at most so long. Cancelled: the caller went away."""
        call, now = self._number(), self._clock()
        fact = GateCall(call, job_id, tuple(slurm_nodes), now, now + deadline_s)
        told = JobNotice(job_id, "starting", now)
        return await self._wait(fact, _Waiting(slurm_nodes), deadline_s=deadline_s, also=(told,))

    async def stop(self, job_id: str, *, deadline_s: float) -> GateVerdict:
        """Wait until the job's Pods are gone, or the host is drained for them."""
        call, now = self._number(), self._clock()
        fact = StopCall(call, job_id, now, now + deadline_s)
        return await self._wait(fact, _Waiting(()), deadline_s=deadline_s)

    async def told(self, job_id: str, what: Literal["starting", "started", "ended"]) -> None:
        """Hand a word about a job on: a reason to look at it now."""
        await self._tell([JobNotice(job_id, what, self._clock())])

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """The core's answers, AnswerGate and AnswerStop, to the calls they are for."""
        return [self._answer(action) for action in actions]

    def _number(self) -> int:
        self._last += 1
        return self._last

    async def _wait(
        self,
        fact: GateCall | StopCall,
        waiting: _Waiting,
        *,
        deadline_s: float,
        also: tuple[JobNotice, ...] = (),
    ) -> GateVerdict:
        self._waiting[fact.call] = waiting
        try:
            await self._tell([*also, fact])
            with anyio.fail_after(deadline_s):
                return GateVerdict(await waiting.done)
        except TimeoutError:
            return GateVerdict("wait", _distinct(waiting.held.values()))
        finally:
            del self._waiting[fact.call]
            await self._tell([CallEnded(fact.call)])

    def _answer(self, action: Action) -> Outcome:
        assert isinstance(action, AnswerGate | AnswerStop)
        waiting = self._waiting.get(action.call)
        if waiting is None:
            return Refused(action, "the caller is gone")
        word = waiting.word(action)
        if word and not waiting.done.done():
            waiting.done.set_result(word)
        return Done(action)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
