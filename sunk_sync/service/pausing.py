"""The pause: an operator stops all writes of all replicas, until a time or until `resume`.

It is an annotation of the Lease, so it survives restarts and reaches each replica within its next
look at the Lease. A person may also set it with kubectl.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk_sync.controller.wake import wait_at_most
from sunk_sync.core.model.facts import News
from sunk_sync.core.model.restraint import Paused
from sunk_sync.server.operators import PauseOrder, PauseState, Problem
from sunk_sync.service.leadership import Leadership
from sunk_sync.telemetry.alarms import AlarmGauges

LOOK_S: Final = 1.0
WHY_MAX: Final = 300
RUNNING: Final = Paused("")


class Pause(Struct, frozen=True):
    until: datetime | None
    """None: until `resume`."""
    why: str

    def sentence(self) -> str:
        until = "until resumed" if self.until is None else f"until {_spelled(self.until)}"
        return f"paused {until}: {self.why}" if self.why else f"paused {until}"


def annotation(pause: Pause) -> str:
    """Return the value of the annotation: the time, or `-`, and the reason."""
    until = "-" if pause.until is None else _spelled(pause.until)
    return f"{until} {pause.why}".strip()


def read_annotation(text: str) -> Pause | None:
    """Read it back; None: not paused. A text without a time is a pause until `resume`."""
    line = " ".join(text.split())[:WHY_MAX]
    if not line:
        return None
    first, _, rest = line.partition(" ")
    try:
        until = datetime.fromisoformat(first)
    except ValueError:
        return Pause(None, rest if first == "-" else line)
    return Pause(until if until.tzinfo else until.replace(tzinfo=UTC), rest)


class Pausing:
    """Tells the loop when a pause begins and ends."""

    def __init__(
        self,
        leadership: Leadership | None,
        tell: Callable[[Sequence[News]], Awaitable[None]],
        *,
        alarms: AlarmGauges,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self._leadership = leadership
        self._tell = tell
        self._alarms = alarms
        self._wall_clock = wall_clock
        self._told = RUNNING
        self._woken = asyncio.Event()

    async def order(self, order: PauseOrder | None) -> PauseState | Problem:
        """Pause all replicas, or let them go on (None). From the answer on nothing is decided."""
        if self._leadership is None:
            return Problem(409, "a pause is kept in the Lease of --leader-elect, which is off")
        failure = await self._leadership.set_paused(self._text(order))
        if failure:
            return Problem(502, failure)
        await self.look()
        return PauseState(paused=self._told.why)

    def _text(self, order: PauseOrder | None) -> str:
        if order is None:
            return ""
        until = None
        if order.for_s is not None:
            until = self._wall_clock() + timedelta(seconds=order.for_s)
        return annotation(Pause(until, " ".join(order.why.split())))

    def look_now(self) -> None:
        """The annotation may have changed."""
        self._woken.set()

    async def look(self) -> None:
        paused = Paused(self._sentence())
        if paused == self._told:
            return
        self._told = paused
        self._alarms.paused(paused.why)
        await self._tell([paused])

    async def run(self) -> None:
        while True:
            await wait_at_most(self._woken, LOOK_S)
            self._woken.clear()
            await self.look()

    def _sentence(self) -> str:
        pause = read_annotation(self._leadership.paused if self._leadership else "")
        if pause is None or (pause.until is not None and pause.until <= self._wall_clock()):
            return ""
        return pause.sentence()


def _spelled(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
