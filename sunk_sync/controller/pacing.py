"""Rate limits for writes that only show a state: per object, and for all objects together."""

from sunk_sync.controller.slots import Slot
from sunk_sync.controller.urgency import only_unknown
from sunk_sync.core.model.actions import (
    Action,
    RecordEvent,
    SetConditions,
    SetMetadata,
    SetScheduled,
)
from sunk_sync.core.model.node_set_actions import SetStatus

PACE_S = 1.0
"""Seconds between two writes of conditions or metadata to one object (M1)."""
UNKNOWN_PACE_S = 0.01
"""Seconds between any two writes that only say Unknown (M2: 100 a second)."""
WAITING_PACE_S = 60.0
"""Seconds between two writes of the reason why one Pod waits (P26)."""
EVENT_PACE_S = 60.0
"""Seconds between two texts of one Event on one object: a list of names may change every second."""
WAITING_ALL_PACE_S = 0.05
"""Seconds between any two of these writes (P26: 20 a second)."""


class Pacing:
    """The earliest time of each new write."""

    def __init__(self) -> None:
        self._unknown_next_s = 0.0
        self._waiting_next_s = 0.0

    def earliest_s(self, slot: Slot, action: Action, *, now: float) -> float:
        """Return when this write may be sent; it takes its turn among all of its kind."""
        if only_unknown(action):
            self._unknown_next_s = max(self._unknown_next_s + UNKNOWN_PACE_S, now)
            return max(self._unknown_next_s, paced_s(slot, action))
        if isinstance(action, SetScheduled):
            next_s = max(self._waiting_next_s + WAITING_ALL_PACE_S, now)
            self._waiting_next_s = min(next_s, now + WAITING_PACE_S)
            return max(self._waiting_next_s, paced_s(slot, action))
        return paced_s(slot, action)


def paced_s(slot: Slot, action: Action) -> float:
    """Return when the object of this slot may be written again.

    Conditions and metadata: a second after the last write (M1). The reason why a Pod waits: a
    minute after the last write (P26), but a second for another reason or a new Pod of that name.
    An Event with another text: a minute after the last one.
    """
    if isinstance(action, RecordEvent):
        return slot.sent_s + EVENT_PACE_S if slot.sent not in (None, action) else 0.0
    if isinstance(action, SetScheduled):
        sent = slot.sent
        same = isinstance(sent, SetScheduled) and (
            (sent.reference.uid, sent.reason) == (action.reference.uid, action.reason)
        )
        return slot.sent_s + (WAITING_PACE_S if same else PACE_S)
    paced = isinstance(action, SetConditions | SetMetadata | SetStatus)
    return slot.sent_s + PACE_S if paced else 0.0
