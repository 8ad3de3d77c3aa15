"""One slot for each target: its desired write, the write in flight and the last answer."""

import itertools
from collections.abc import Iterator, Sequence

from msgspec import Struct

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.keys import CLUSTER, Key
from sunk_sync.core.model.traits import Target
from sunk_sync.core.translate.counted import counted

BEHIND_S = 0.05
"""Seconds until a slot that waits for another is tried again."""
SWEEP_STEP = 1000
"""Number of targets that one sweep visits, without an await in between."""


class Slot(Struct, gc=False, eq=False):
    key: Key = CLUSTER
    because: str = ""
    desired: Action | None = None
    desired_at_s: float = 0.0
    in_flight: Action | None = None
    facts_changed: bool = False
    """A fact of its key changed after the write in flight was sent."""
    settled: Action | None = None
    """This write was answered. It is not repeated until a fact of its key changes."""
    ask_again_s: float | None = None
    """Time of the next try without a changed fact: after a refusal, or if no fact will show the
    effect of the write."""
    attempts: int = 0
    told_to_wait: bool = False
    """The server sent Retry-After: nothing shortens that wait (F8)."""
    not_before_s: float = 0.0
    sent_s: float = float("-inf")
    sent: Action | None = None
    queued: bool = False
    behind: tuple["Slot", ...] = ()
    """This slot waits while a write to one of these is in flight."""
    after: tuple["Slot", ...] = ()
    """This slot also waits while the result of one of these is in doubt."""
    doubt_until_s: float = 0.0
    """Until then the last write sent may still take effect, or the loop may not know its result."""

    def open(self) -> bool:
        """Return whether the desired write is neither in flight nor answered."""
        return self.desired is not None and self.in_flight is None and self.desired != self.settled

    def says(self, now: float) -> str:
        """Return how far the desired write is, for a person."""
        if self.in_flight is not None:
            return f"sent {now - self.sent_s:.1f} s ago, no answer yet"
        if self.desired == self.settled:
            again = "" if self.ask_again_s is None else f", again in {self.ask_again_s - now:.0f} s"
            return f"answered {now - self.sent_s:.0f} s ago{again}"
        if self.attempts:
            again_s = max(0.0, self.not_before_s - now)
            return f"tried {counted(self.attempts, 'time')}, again in {again_s:.1f} s"
        return "waits for another write" if self.must_wait(now) else "about to be sent"

    def must_wait(self, now: float) -> bool:
        """Return whether a write that excludes this one is in flight or in doubt."""
        return any(one.in_flight is not None for one in (*self.behind, *self.after)) or any(
            one.doubt_until_s > now for one in self.after
        )


class Slots:
    """All slots by target, and the place of the next sweep among them."""

    def __init__(self) -> None:
        self._by_target: dict[Target, Slot] = {}
        self._unswept: Iterator[Target] = iter(())

    def __len__(self) -> int:
        return len(self._by_target)

    def get(self, target: Target) -> Slot | None:
        return self._by_target.get(target)

    def of(self, target: Target) -> Slot:
        """Return the slot of a target; make it if there is none."""
        slot = self._by_target.get(target)
        if slot is None:
            slot = self._by_target[target] = Slot()
        return slot

    def forget(self, target: Target) -> None:
        del self._by_target[target]

    def next_slice(self) -> Sequence[tuple[Target, Slot]]:
        """Return the slots of the next sweep; there may be a hundred thousand in all."""
        targets = list(itertools.islice(self._unswept, SWEEP_STEP))
        if not targets:
            self._unswept = iter(tuple(self._by_target))
            targets = list(itertools.islice(self._unswept, SWEEP_STEP))
        return [(target, self._by_target[target]) for target in targets]

    def slices(self) -> int:
        """Return how many sweeps visit every target."""
        return len(self._by_target) // SWEEP_STEP + 1
