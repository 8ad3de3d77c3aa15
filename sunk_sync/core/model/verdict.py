"""Rulings of rules, the verdict of a key, and the part of it that policy allows."""

from msgspec import Struct

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.keys import Key


class Ruling(Struct, frozen=True, gc=False):
    """One rule's part of a verdict."""

    wants: tuple[Action, ...] = ()
    because: str = ""
    """A sentence for the operator, or empty."""
    look_again_s: float | None = None
    """Monotonic second at which time alone may change the ruling."""


class Verdict(Struct, frozen=True, gc=False):
    """Every desired write of one key, and why."""

    wants: tuple[Action, ...] = ()
    because: str = ""
    look_again_s: float | None = None
    follows: bool = False
    """A change of hosts wakes the workload at once (P7)."""


class Kept(Struct, frozen=True, gc=False):
    """An action that policy holds back."""

    action: Action
    why: str
    again_s: float | None = None
    """Monotonic second at which time alone may allow it."""


class Screened(Struct, frozen=True, gc=False):
    """Actions to send now, and actions to hold back."""

    allowed: tuple[Action, ...]
    kept: tuple[Kept, ...] = ()


class StandingVerdict(Struct, gc=False, eq=False):
    """The current verdict of a key, and when time may change it."""

    verdict: Verdict
    look_again_s: float | None = None
    kept: tuple[Kept, ...] = ()


class Decision(Struct, frozen=True, gc=False):
    """The allowed part of one key's verdict."""

    key: Key
    allowed: tuple[Action, ...]
    because: str
    kept: tuple[Kept, ...] = ()


QUIET = Ruling()
