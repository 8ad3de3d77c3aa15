"""When a reader polls Slurm again: interval, share of the time, back-off."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError

_SHARE: Final = 5
"""A reader spends at most one fifth of the time waiting for slurmrestd."""
_REST_MIN_S: Final = 0.05
"""Shortest pause. If a caller waits for the next poll, only the share counts."""
_SPARE_MAX_S: Final = 0.2
"""Maximum pause beyond the share that is saved for callers that wait."""
_RETRY_MIN_S: Final = 0.5
"""Pause after a failed poll that took no time, after any number of failures: it cost slurmctld
nothing."""


STANDBY: Final = 10
"""A replica that stands by polls so many times more rarely (F6)."""


def _never() -> bool:
    return False


class PollTiming(Struct, frozen=True, kw_only=True):
    interval_s: float = 1.0
    """From the start of one listing to the next; longer if listings take long."""
    full_every_s: float = 60.0
    """How often to request the whole listing if the server can answer 304."""
    blind_after_s: float = 60.0
    """After this time without reads, the last known state no longer counts as current."""
    retry_max_s: float = 5.0
    stands_by: Callable[[], bool] = _never
    """Whether another replica leads."""

    @property
    def rarer(self) -> int:
        """Factor of all intervals."""
        return STANDBY if self.stands_by() else 1


class Time(Struct, frozen=True, kw_only=True):
    """Monotonic seconds, sleep, and a number in [0, 1) for jitter."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class PollLoop:
    """Polls for ever; `interval` gives the time from one poll to the next."""

    def __init__(self, timing: PollTiming, time: Time) -> None:
        self._timing = timing
        self._time = time
        self._wanted = asyncio.Event()
        self._awaited = asyncio.Event()
        self._failures = 0
        self._ended = asyncio.Event()
        self._ended_began_s = float("-inf")
        """Start of the latest poll that has ended."""
        self._took_s = float("inf")
        """Duration of the previous poll: one slow answer alone is no sign of load."""
        self._spare_s = 0.0
        self.listing_s: float | None = None
        """Duration of the listing alone; None: that of the whole poll. Other requests do not count:
        after a burst of reads, or after many questions for the version, a pause of four times as
        long would leave sunk-sync blind."""

    def poll_now(self, *, awaited: bool = False) -> None:
        """Poll again as soon as the share of time allows; a running poll is too old.

        `awaited`: a caller waits for it.
        """
        self._wanted.set()
        if awaited:
            self._awaited.set()

    async def poll_after(self, since_s: float) -> None:
        """Wait for the end of a poll that began later, whether it succeeded or not."""
        while self._ended_began_s <= since_s:
            self._ended.clear()
            self.poll_now(awaited=True)
            await self._ended.wait()

    async def run(
        self, look: Callable[[], Awaitable[SlurmError | None]], *, interval: Callable[[], float]
    ) -> None:
        while True:
            began_s = self._time.clock()
            self._wanted.clear()
            self._awaited.clear()
            self.listing_s = None
            failure = await look()
            self._ended_began_s = began_s
            self._ended.set()
            if failure is None:
                self._failures = 0
                await self._rest(began_s, interval)
            else:
                self._failures += 1
                await self._rest_after_failure(self._time.clock() - began_s)

    async def _rest(self, began_s: float, interval: Callable[[], float]) -> None:
        """Pause until the next poll, so that the share holds on average.

        slurmrestd holds requests while slurmctld restarts, and a pause of four times as long would
        leave sunk-sync blind long after. So the shorter of the last two polls counts, and no pause
        alone makes the last picture too old.
        """
        took_s = self._time.clock() - began_s
        counted_s = took_s if self.listing_s is None else self.listing_s
        usual_s, self._took_s = min(counted_s, self._took_s), counted_s
        due_s = min((_SHARE - 1) * usual_s, self._timing.blind_after_s / 2)
        from_s = self._time.clock()
        await self._time.sleep(max(0.0, due_s - self._spare_s))
        rested_s = self._time.clock() - from_s
        await self._sleep_unless(self._awaited, max(due_s, _REST_MIN_S) - rested_s)
        rested_s = self._time.clock() - from_s
        left_s = interval() - took_s - rested_s
        while left_s > 0 and not self._wanted.is_set():
            step_s = min(left_s, self._timing.interval_s)
            await self._sleep_unless(self._wanted, step_s)
            rested_s += step_s
            left_s = interval() - took_s - rested_s
        rested_s = self._time.clock() - from_s
        self._spare_s = min(self._spare_s + rested_s - due_s, _SPARE_MAX_S)

    async def _rest_after_failure(self, took_s: float) -> None:
        """Pause longer after each failure, up to what the share of time allows."""
        share_s = max(_RETRY_MIN_S, 2 * _SHARE * took_s)
        growing_s = min(_RETRY_MIN_S * 2 ** min(self._failures, 10), self._timing.retry_max_s)
        longest_s = min(share_s, growing_s)
        await self._time.sleep(longest_s * (1 + self._time.random()) / 2)

    async def _sleep_unless(self, event: asyncio.Event, seconds: float) -> None:
        if event.is_set() or seconds <= 0:
            return

        async def wake() -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            await self._time.sleep(seconds)
            tasks.cancel_scope.cancel()
