"""When a reader of Slurm looks again: its pace, its share of the time, its patience."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError

_SHARE: Final = 5
"""One fifth of the time, at most, is spent waiting for slurmrestd."""
_REST_MIN_S: Final = 0.05
"""Unless somebody stands still until the next look: then only the share counts."""
_SPARE_MAX_S: Final = 0.2
"""So much rest that was taken beyond the share is remembered for who stands still."""
_RETRY_MIN_S: Final = 0.5
"""A failed look that took no time may be repeated so soon, however many failed before: it cost
slurmctld nothing."""


class PollTiming(Struct, frozen=True, kw_only=True):
    """How often to look."""

    interval_s: float = 1.0
    """From the start of one listing to the next; longer where listings take long."""
    full_every_s: float = 60.0
    """At least so often the whole listing, where an unchanged one is not sent."""
    blind_after_s: float = 60.0
    """Unreadable for so long: what was seen must no longer be shown as true."""
    retry_max_s: float = 5.0


class Time(Struct, frozen=True, kw_only=True):
    """Monotonic seconds, waiting, and a number in [0, 1) for jitter."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class PollLoop:
    """Looks for ever; `interval` says each time how long from one look to the next."""

    def __init__(self, timing: PollTiming, time: Time) -> None:
        self._timing = timing
        self._time = time
        self._wanted = asyncio.Event()
        self._awaited = asyncio.Event()
        self._failures = 0
        self._took_s = float("inf")
        """How long the look before took: one slow answer alone is no sign of load."""
        self._spare_s = 0.0
        """Rest that was taken beyond the share, and that nobody has made use of."""
        self.listing_s: float | None = None
        """How long the listing itself took; None: the whole look. What a look reads beside it is
        bounded by what is new, and resting four times as long would leave a burst waiting."""

    def poll_now(self, *, awaited: bool = False) -> None:
        """Look again as soon as the share of time allows; what runs now is too old.

        `awaited`: somebody stands still until then.
        """
        self._wanted.set()
        if awaited:
            self._awaited.set()

    async def run(
        self, look: Callable[[], Awaitable[SlurmError | None]], *, interval: Callable[[], float]
    ) -> None:
        """Ends only by cancellation."""
        while True:
            began_s = self._time.clock()
            self._wanted.clear()
            self._awaited.clear()
            self.listing_s = None
            if await look() is None:
                self._failures = 0
                await self._rest(began_s, interval)
            else:
                self._failures += 1
                await self._rest_after_failure(self._time.clock() - began_s)

    async def _rest(self, began_s: float, interval: Callable[[], float]) -> None:
        """Until the next look; so long that the share is kept, over all looks where one is awaited.

        slurmrestd holds a question while slurmctld restarts, and resting four times as long would
        keep us blind long after: the shorter of the last two looks counts.
        """
        took_s = self._time.clock() - began_s
        counted_s = took_s if self.listing_s is None else self.listing_s
        usual_s, self._took_s = min(counted_s, self._took_s), counted_s
        due_s = (_SHARE - 1) * usual_s
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
        """Longer after each failure, yet so that a look may take its share of the time."""
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
