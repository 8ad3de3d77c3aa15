"""A step of a story: an action, and the check that must pass after it."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from sunk_sync.demo.story.context import Context

Act = Callable[[Context], None]
Claim = Callable[[Context], bool]

SOON_S = 2.0
"""Limit for a change in Kubernetes: the watch reports it within milliseconds."""
POLLED_S = 4.0
"""Limit for a change in Slurm: polled once a second, written to an object at most once a second."""
LISTED_S = 12.0
"""Limit for a start or an outage: both sides are listed again, Slurm after its nodes registered."""


class Step(Struct, frozen=True, kw_only=True):
    """An action, and a claim that becomes true within `within_s` and then stays true."""

    text: str
    act: Act
    expected: str
    holds: Claim
    within_s: float = SOON_S
    stays_s: float = 0.0
    """Watch the claim at least this long."""
    transient: bool = False
    """The claim becomes false again by itself: do not watch it."""


class Incident(Struct, frozen=True):
    """Steps that cause a condition, and steps that resolve it."""

    begin: Sequence[Step]
    resolve: Sequence[Step]
