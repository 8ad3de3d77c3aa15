"""Runs the steps of a story and checks each claim."""

import asyncio
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.step import Claim, Step


class Pace(Struct, frozen=True, kw_only=True):
    pause_s: float = 0.6
    """Pause after each check, for the viewer; the claim must stay true during it."""
    poll_s: float = 0.02
    timeout_factor: float = 1.0


class Runner:
    def __init__(
        self, context: Context, pace: Pace, *, clock: Callable[[], float] = time.monotonic
    ):
        self._context = context
        self._pace = pace
        self._clock = clock

    async def run(self, story: Iterable[Step], *, to_the_end: bool = False) -> bool:
        """Return whether every check passed; stop at the first failure unless `to_the_end`."""
        for step in story:
            if not await self._run_step(step) and not to_the_end:
                return False
        return not self._context.history.failed

    async def _run_step(self, step: Step) -> bool:
        history, begun_s = self._context.history, self._clock()
        history.record("action", step.text)
        step.act(self._context)
        if not await self._becomes(step.holds, within_s=step.within_s * self._pace.timeout_factor):
            return self._fail(f"not within {step.within_s:g} s: {step.expected}")
        took_ms = (self._clock() - begun_s) * 1000
        history.record("passed", f"{took_ms:5.0f} ms  {step.expected}")
        if step.transient:
            return True
        if not await self._stays(step.holds, for_s=max(step.stays_s, self._pace.pause_s)):
            return self._fail(f"did not stay true: {step.expected}")
        return True

    def _fail(self, what: str) -> bool:
        """Record the failure; a broken invariant explains more than the check."""
        self._context.history.record("failed", self._context.users.violation() or what)
        return False

    async def _becomes(self, claim: Claim, *, within_s: float) -> bool:
        end_s = self._clock() + within_s
        while not self._check(claim):
            if self._clock() > end_s or self._context.users.violation():
                return False
            await asyncio.sleep(self._pace.poll_s)
        return True

    async def _stays(self, claim: Claim, *, for_s: float) -> bool:
        end_s = self._clock() + for_s
        while self._clock() < end_s:
            await asyncio.sleep(self._pace.poll_s)
            if not self._check(claim) or self._context.users.violation():
                return False
        return True

    def _check(self, claim: Claim) -> bool:
        self._context.record_logs()
        return claim(self._context)
