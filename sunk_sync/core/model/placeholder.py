"""Kinds of placeholder jobs. A new kind is its name, and a row of `PLACEHOLDERS`."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

PlaceholderKind = Literal["allocation", "script", "external"]


class Placeholder(Struct, frozen=True, kw_only=True):
    """How sunk-sync submits jobs of one kind, and what holds their nodes."""

    at_once: bool = False
    """Slurm starts it at once or refuses it; a job of another kind may wait (P11a). It belongs to
    the user of the token (P5)."""
    scripted: bool = False
    """Its batch script holds the nodes until it ends, and reports its start (P24)."""
    external: bool = False
    """No slurmd runs it: it has Slurm's flag EXTERNAL_JOB."""
    as_array: PlaceholderKind | None = None
    """Kind of the array that replaces many equal jobs; None: no array."""


PLACEHOLDERS: Final[Mapping[PlaceholderKind, Placeholder]] = {
    "allocation": Placeholder(at_once=True, as_array="script"),
    "script": Placeholder(scripted=True, as_array="script"),
    "external": Placeholder(external=True),
}
AT_ONCE: Final = frozenset(kind for kind, made in PLACEHOLDERS.items() if made.at_once)
QUEUED: Final = PLACEHOLDERS.keys() - AT_ONCE
"""Jobs of these kinds wait in the queue of Slurm."""
