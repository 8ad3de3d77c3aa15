"""Plays one beat after the other, and looks whether its promise comes true and stays true."""

import asyncio
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from sunk_sync.demo.story.beats import Beat, Claim
from sunk_sync.demo.story.stage import Stage


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a story is told."""

    rest_s: float = 0.6
    """For whoever watches, after each promise; it must stay true so long."""
    look_s: float = 0.02
    patience: float = 1.0
    """Times the time that each promise has."""


class Teller:
    """Tells stories on one stage."""

    def __init__(self, stage: Stage, pace: Pace, *, clock: Callable[[], float] = time.monotonic):
        self._stage = stage
        self._pace = pace
        self._clock = clock

    async def tell(self, story: Iterable[Beat], *, to_the_end: bool = False) -> bool:
        """Whether every promise was kept; stops at the first broken one, unless `to_the_end`."""
        for beat in story:
            if not await self._play(beat) and not to_the_end:
                return False
        return not self._stage.diary.broken

    async def _play(self, beat: Beat) -> bool:
        diary, begun_s = self._stage.diary, self._clock()
        diary.tell("act", beat.said)
        beat.act(self._stage)
        if not await self._becomes(beat.kept, within_s=beat.within_s * self._pace.patience):
            return self._broken(f"not within {beat.within_s:g} s: {beat.promise}")
        took_ms = (self._clock() - begun_s) * 1000
        diary.tell("kept", f"{took_ms:5.0f} ms  {beat.promise}")
        if beat.passes:
            return True
        if not await self._stays(beat.kept, for_s=max(beat.stays_s, self._pace.rest_s)):
            return self._broken(f"did not stay so: {beat.promise}")
        return True

    def _broken(self, what: str) -> bool:
        """What must not be at any moment counts more."""
        self._stage.diary.tell("broken", self._stage.users.wrong() or what)
        return False

    async def _becomes(self, claim: Claim, *, within_s: float) -> bool:
        end_s = self._clock() + within_s
        while not self._holds(claim):
            if self._clock() > end_s or self._stage.users.wrong():
                return False
            await asyncio.sleep(self._pace.look_s)
        return True

    async def _stays(self, claim: Claim, *, for_s: float) -> bool:
        end_s = self._clock() + for_s
        while self._clock() < end_s:
            await asyncio.sleep(self._pace.look_s)
            if not self._holds(claim) or self._stage.users.wrong():
                return False
        return True

    def _holds(self, claim: Claim) -> bool:
        self._stage.listen()
        return claim(self._stage)
