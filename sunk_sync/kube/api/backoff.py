"""How long to wait before the next attempt; and where time and chance come from."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
"""Three watches that knock so often harm nobody, and drains wait for them."""


class Ambient(Struct, frozen=True):
    """Clock, sleep and chance: all that makes one run of a reader differ from the next."""

    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    """From 0 up to 1."""
    wall_clock: Callable[[], datetime] = partial(datetime.now, UTC)
    """The time of day in UTC: for texts only."""


class Backoff:
    """Doubling delays with jitter, up to five seconds; the server's own wish goes first."""

    def __init__(self, ambient: Ambient) -> None:
        self._ambient = ambient
        self._failures = 0

    def succeeded(self) -> None:
        """The next failure counts as the first."""
        self._failures = 0

    async def wait(self, retry_after_s: float | None) -> None:
        """After a failure: sleep as long as it is fair to."""
        longest_s = min(FIRST_DELAY_S * 2 ** min(self._failures, 20), LONGEST_DELAY_S)
        self._failures += 1
        delay_s = longest_s * (0.5 + 0.5 * self._ambient.random())
        await self._ambient.sleep(max(delay_s, retry_after_s or 0.0))
