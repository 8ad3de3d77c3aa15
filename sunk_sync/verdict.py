"""What a rule says of one key."""

from msgspec import Struct

from sunk_sync.actions import Action


class Ruling(Struct, frozen=True, gc=False):
    """One rule's part of a verdict."""

    wants: tuple[Action, ...] = ()
    because: str = ""
    """A sentence for an operator; empty where the rule has nothing to say."""
    look_again_s: float | None = None
    """Monotonic second at which time alone may change the answer."""


class Verdict(Struct, frozen=True, gc=False):
    """Everything wanted for one key, and why."""

    wants: tuple[Action, ...] = ()
    because: str = ""
    look_again_s: float | None = None


QUIET = Ruling()
