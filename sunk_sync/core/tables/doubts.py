"""Rows that must be stale, because an answer contradicts them (F3).

A watch can miss a change, for example after a restore of etcd behind a dead connection or a stale
cache. The next write shows it: no object has that UID, or the object has a lower resourceVersion
than the row. Then sunk-sync lists the source again. Most contradictions are races, and the watch
reports the change a moment later. So a listing waits for the watch, and each further listing waits
longer.
"""

from msgspec import Struct

from sunk_sync.core.model.facts import Source
from sunk_sync.core.model.timing import doubled_s
from sunk_sync.core.views.parts import Doubt

WATCH_S = 2.0
"""The time that a watch may take to report a change."""
PAUSE_S = 10.0
"""Pause between two listings of one source for doubts; doubled after each."""
PAUSE_MAX_S = 300.0
CALM_S = 600.0
"""After so long without such a listing, the pause is PAUSE_S again."""


class _Listed(Struct, frozen=True, gc=False):
    """The last listing of a source that settled a doubt."""

    begun_s: float
    in_a_row: int

    @property
    def pause_s(self) -> float:
        """Return the pause until the next listing."""
        return doubled_s(PAUSE_S, doublings=self.in_a_row - 1, longest_s=PAUSE_MAX_S)


NEVER = _Listed(float("-inf"), 0)


class Doubts:
    """Stale rows, oldest first, and recent listings of their sources."""

    def __init__(self) -> None:
        self.rows: dict[Source, dict[str, float]] = {}
        """Source → key of the row → start of the request whose answer contradicts it."""
        self._listed: dict[Source, _Listed] = {}

    def note(self, source: Source, row: str, *, asked_s: float) -> None:
        self.rows.setdefault(source, {}).setdefault(row, asked_s)

    def settle(self, source: Source, row: str) -> bool:
        """The source reported the row: return whether it was in doubt."""
        rows = self.rows.get(source, {})
        known = rows.pop(row, None) is not None
        if known and not rows:
            del self.rows[source]
        return known

    def listed(self, source: Source, *, begun_s: float) -> bool:
        """A complete listing ended: return whether it settled any doubt."""
        rows = self.rows.get(source, {})
        settled = [row for row, asked_s in rows.items() if asked_s < begun_s]
        for row in settled:
            self.settle(source, row)
        if settled:
            last = self._listed.get(source, NEVER)
            in_a_row = last.in_a_row + 1 if begun_s - last.begun_s < CALM_S else 1
            self._listed[source] = _Listed(begun_s, in_a_row)
        return bool(settled)

    def current(self) -> tuple[Doubt, ...]:
        """Return the current doubts, sorted by source."""
        return tuple([self._doubt(source) for source in sorted(self.rows)])

    def _doubt(self, source: Source) -> Doubt:
        row, since_s = next(iter(self.rows[source].items()))
        last = self._listed.get(source)
        again_s = since_s if last is None else last.begun_s + last.pause_s
        return Doubt(source, row, since_s, max(since_s + WATCH_S, again_s))
