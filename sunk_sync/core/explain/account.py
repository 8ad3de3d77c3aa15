"""The account of one object: its facts with their ages, the decision, and what would change it."""

from typing import Any, Literal

from msgspec import Struct

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.verdict import Kept
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.table import Table

Kind = Literal["host", "pod", "job", "gang", "nodeset"]
Side = Literal["Kubernetes", "Slurm", "sunk-sync"]
SEE_MAX = 20
"""Other objects that an account names."""


class Fact(Struct, frozen=True, kw_only=True):
    side: Side
    what: str
    """`Node n1`, `Slurm node n1`, `job 12`."""
    says: str
    read_s: float | None = None
    """Seconds since the answer that shows it; 0: a watch shows every change."""
    unchanged_s: float | None = None
    """Seconds since its last change that this process saw."""


class Account(Struct, frozen=True, kw_only=True):
    kind: Kind
    name: str
    """As sunk-sync names it, which may differ from the question."""
    key: Key
    decision: str
    """The sentence that the logs call `because`."""
    facts: tuple[Fact, ...] = ()
    wants: tuple[Action, ...] = ()
    held: tuple[Kept, ...] = ()
    """The part of `wants` that policy holds back."""
    look_again_s: float | None = None
    """Seconds until time alone may change the decision."""
    cures: tuple[str, ...] = ()
    """What a person can do to change it."""
    problems: tuple[str, ...] = ()
    """Names of entries in docs/troubleshooting.md."""
    see: tuple[str, ...] = ()
    """Other objects that it depends on, as `KIND NAME`."""


class Unknown(Struct, frozen=True):
    """There is no such object, or sunk-sync does not read it."""

    why: str
    similar: tuple[str, ...] = ()
    """Names that the question may have meant."""


Answer = Account | Unknown


def watched(table: Table[Any], entry: Entry[Any], *, now: float) -> dict[str, float]:
    """Return the ages of a row of Kubernetes, as fields of Fact."""
    seen_s = now if table.live else max(table.agreed_s, entry.learnt_s)
    return {"read_s": max(0.0, now - seen_s), "unchanged_s": max(0.0, now - entry.changed_s)}


def polled(table: Table[Any], entry: Entry[Any], *, now: float) -> dict[str, float]:
    """Return the ages of a row of Slurm: its order is the start of the read."""
    seen_s = max(entry.order, table.agreed_s)
    return {"read_s": max(0.0, now - seen_s), "unchanged_s": max(0.0, now - entry.changed_s)}


def sentence(*parts: str) -> str:
    """Join the parts that are not empty."""
    return ", ".join(part for part in parts if part)
