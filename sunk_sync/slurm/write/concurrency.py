"""The number of concurrent submissions, found by measurement.

If one more request in flight only makes each take longer, it waits in a queue before slurmctld. The
duration of a call relative to the quickest one shows how many wait: at twice that, half of those in
flight (as TCP Vegas counts). A few should wait, so that slurmctld is never idle.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sunk_sync.slurm.api.client import BULK_MAX

MOST: Final = BULK_MAX - 1
"""The listing of jobs keeps one connection."""
_FIRST: Final = 2
_WAITING_MIN: Final = 2.0
_WAITING_MAX: Final = 4.0
_FORGET: Final = 1.02
"""Growth of the quickest duration after each window: the server may have become slower."""


class Throttle:
    """Lets `limit` callers through at once, first come first served."""

    def __init__(self) -> None:
        self.limit = _FIRST
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._window: list[float] = []
        self._quickest_s = float("inf")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self._under_way -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._under_way < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)

    def note(self, took_s: float) -> None:
        """Note the duration of a call, and adapt the limit after as many calls as the limit."""
        self._window.append(took_s)
        if len(self._window) < self.limit:
            return
        usual_s = sorted(self._window)[len(self._window) // 2]
        self._window.clear()
        self._quickest_s = min(self._quickest_s * _FORGET, usual_s)
        self.limit = next_limit(self.limit, quickest_s=self._quickest_s, usual_s=usual_s)


def next_limit(limit: int, *, quickest_s: float, usual_s: float) -> int:
    """Return the next limit, from how many of those in flight seem to wait."""
    waiting = limit * (1 - quickest_s / usual_s) if usual_s > 0 else 0.0
    if waiting > _WAITING_MAX:
        return max(limit - 1, 1)
    return min(limit + 1, MOST) if waiting < _WAITING_MIN else limit
