"""Reserve Slurm nodes for the update of a NodeSet (N16)."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from sunk_sync.core.model.node_set import Window
from sunk_sync.core.model.node_set_actions import SetReservation
from sunk_sync.core.model.node_set_answers import ReservationSet
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.hostlist import compress
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import PROBE, end_reservation, set_reservation
from sunk_sync.slurm.api.versions import dialect_of, first_that

FLAGS: Final = ("MAINT", "IGNORE_JOBS")
"""Jobs that run there go on; none starts that would run into it."""
USER: Final = "root"
"""A reservation needs somebody who may use it."""
MINUTE_S: Final = 60
NO_RESERVATION: Final = 2053


class ReservationPush:
    """Makes, changes and ends reservations. Never raises."""

    def __init__(self, client: Slurm, clock: Clock, wall_clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._wall_clock = wall_clock

    async def push(self, actions: Sequence[SetReservation]) -> Sequence[Outcome]:
        if not actions:
            return []
        probe = await self._client.call(PROBE)
        if isinstance(probe, SlurmError):
            return [Unsure(action, str(probe)) for action in actions]
        if not dialect_of(probe.version).reservations:
            return [self._without(action, version=probe.version) for action in actions]
        return [await self._one(action) for action in actions]

    async def _one(self, action: SetReservation) -> Outcome:
        if not action.slurm_nodes:
            return await self._end(action)
        if self._wall_clock() >= _end_of(action.window):
            return self._refused(action, f"the window that began at {_spelled(action)} is over")
        asked_s = self._clock()
        answer = await self._client.call(set_reservation(_body(action)))
        if not isinstance(answer, SlurmError):
            return Done(action, (_set(action, asked_s),))
        if answer.final:
            return self._refused(action, str(answer))
        return Unsure(action, str(answer))

    async def _end(self, action: SetReservation) -> Outcome:
        asked_s = self._clock()
        answer = await self._client.call(end_reservation(action.name))
        if isinstance(answer, SlurmError) and answer.error_number != NO_RESERVATION:
            return Unsure(action, str(answer))
        return Done(action, (_set(action, asked_s),))

    def _without(self, action: SetReservation, *, version: str) -> Outcome:
        """Answer for a slurmrestd that makes no reservations: an administrator can."""
        if not action.slurm_nodes:
            return Done(action, (_set(action, self._clock()),))
        needed = first_that(lambda one: one.reservations)
        return self._refused(
            action,
            f"slurmrestd makes reservations only from API {needed} on, and this is {version}."
            f" Make it by hand for {_spelled(action)}: {_command(action)}",
        )

    def _refused(self, action: SetReservation, why: str) -> Refused:
        return Refused(action, why, (_set(action, self._clock(), why_not=why),))


def _set(action: SetReservation, asked_s: float, *, why_not: str = "") -> ReservationSet:
    return ReservationSet(action.node_set, action.slurm_nodes, action.window, asked_s, why_not)


def _body(action: SetReservation) -> bytes:
    window = action.window
    return msgspec.json.encode(
        {
            "name": action.name,
            "node_list": [compress(action.slurm_nodes)],
            "start_time": {"set": True, "number": window.start},
            "duration": {"set": True, "number": _minutes(window)},
            "flags": FLAGS,
            "users": [USER],
        }
    )


def _minutes(window: Window) -> int:
    return max(1, -(-window.duration_s // MINUTE_S))


def _begin_of(window: Window) -> datetime:
    return datetime.fromtimestamp(window.start, UTC)


def _end_of(window: Window) -> datetime:
    return _begin_of(window) + timedelta(seconds=window.duration_s)


def _spelled(action: SetReservation) -> str:
    return f"{_begin_of(action.window):%Y-%m-%dT%H:%M:%SZ}"


def _command(action: SetReservation) -> str:
    """`uts`: Unix seconds, because the time zone of slurmctld is unknown."""
    return (
        f"scontrol create reservation ReservationName={action.name}"
        f" Nodes={compress(action.slurm_nodes)} StartTime=uts{action.window.start}"
        f" Duration={_minutes(action.window)} Flags={','.join(FLAGS)} Users={USER}"
    )
