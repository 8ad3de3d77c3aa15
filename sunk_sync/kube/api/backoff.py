"""Delays between attempts; clock, sleep and random numbers that tests can replace."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
"""Short, because drains wait for the watches, and three watches are no load at this rate."""


class Ambient(Struct, frozen=True):
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)
    """The time of day in UTC, for texts only."""


class Backoff:
    """Doubling delays with jitter, up to 5 s. A longer Retry-After has precedence."""

    def __init__(self, ambient: Ambient) -> None:
        self._ambient = ambient
        self._failures = 0

    def succeeded(self) -> None:
        """Start again with the shortest delay."""
        self._failures = 0

    async def wait(self, retry_after_s: float | None) -> None:
        longest_s = min(FIRST_DELAY_S * 2 ** min(self._failures, 20), LONGEST_DELAY_S)
        self._failures += 1
        delay_s = longest_s * (0.5 + 0.5 * self._ambient.random())
        await self._ambient.sleep(max(delay_s, retry_after_s or 0.0))
