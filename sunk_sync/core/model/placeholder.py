"""Kinds of placeholder jobs. A new kind is a row of `PLACEHOLDERS`, and its word in `Kind`."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["allocation", "script", "external"]


class Placeholder(Struct, frozen=True, kw_only=True):
    """How jobs of one kind are made, and what holds their nodes."""

    at_once: bool = False
    """Slurm starts it at once or refuses it; a job of another kind may still wait (P11a). Slurm
    makes it for the token's own user only (P5)."""
    scripted: bool = False
    """Its batch script holds its nodes until it ends, and says when it starts (P24)."""
    external: bool = False
    """No slurmd runs it: it has Slurm's flag EXTERNAL_JOB."""
    as_array: Kind | None = None
    """The kind of the array that stands for many equal ones; None: each is a job of its own."""


PLACEHOLDERS: Final[Mapping[str, Placeholder]] = {
    "allocation": Placeholder(at_once=True, as_array="script"),
    "script": Placeholder(scripted=True, as_array="script"),
    "external": Placeholder(external=True),
}
AT_ONCE: Final = frozenset(kind for kind, made in PLACEHOLDERS.items() if made.at_once)
QUEUED: Final = PLACEHOLDERS.keys() - AT_ONCE
"""Jobs of these kinds wait until there is room."""
