"""The rows of one source with the age of each, and whether the source can be read."""

import itertools
from collections.abc import Iterator
from typing import Generic

from sunk_sync.core.model.facts import Pod, Row
from sunk_sync.core.tables.entries import Entry, RowT

GONE_KEPT_S = 120.0
"""Seconds to remember a deletion: longer than any answer can be on its way."""

NEVER = (float("-inf"), float("-inf"))


class Table(Generic[RowT]):
    """Rows of one source by key. The newest wins; only a complete listing proves absence."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry[RowT]] = {}
        self.listed = False
        self.live = False
        """The source can be read now without a gap."""
        self.blind = False
        """Unreadable for so long that sunk-sync must not show its rows as current."""
        self.why = "not listed yet"
        self.listed_s = float("-inf")
        """Start of the latest complete listing."""
        self.agreed_s = float("-inf")
        """Start of the latest request whose answer covers the whole source."""
        self._gone: dict[str, tuple[float, float]] = {}
        """Deleted keys, oldest first: order of the deletion, and when sunk-sync learned of it."""
        self._round = 0
        self._named = 0
        """Rows reported since the latest listing began."""
        self._listing_order: float | None = None
        self.begun_s = float("-inf")
        """Start of the latest listing, complete or not."""

    def get(self, key: str) -> RowT | None:
        entry = self.entries.get(key)
        return None if entry is None else entry.row

    def rows(self) -> Iterator[RowT]:
        return (entry.row for entry in self.entries.values())

    def last_news_s(self, key: str) -> float:
        """Return the second of the latest news about this row, also about its end."""
        entry = self.entries.get(key)
        return entry.learnt_s if entry else self._gone.get(key, NEVER)[1]

    def put(
        self, key: str, row: RowT, *, order: float, now: float, named: bool = True
    ) -> tuple[RowT | None, bool]:
        """Take in a row from an answer: return the row before, and whether anything changed.

        `named`: the source itself reports the row, so a listing in progress counts it.
        """
        entry = self.entries.get(key)
        if entry is None:
            return None, self._add(key, row, order=order, now=now)
        if named and entry.round != self._round:
            entry.round = self._round
            self._named += 1
        if named and (order > entry.named_order or self._older_than_listing(entry)):
            entry.named_order = order
        older = order < entry.order or is_unbound_again(entry.row, row)
        if older and not self._older_than_listing(entry):
            return entry.row, False
        entry.order = order
        entry.learnt_s = now
        before = entry.row
        if before == row:
            return before, False
        if readiness_changed(before, row):
            entry.since_s = now
        entry.row = row
        entry.changed_s = now
        return before, True

    def _add(self, key: str, row: RowT, *, order: float, now: float) -> bool:
        """Add an unknown row, unless the answer is older than the row's deletion."""
        gone_order, gone_s = self._gone.get(key, NEVER)
        listing = self._listing_order is not None and gone_s < self.begun_s
        if order < gone_order and not listing:
            return False
        self.entries[key] = Entry(row, order, self._round, now, now, now, order)
        self._named += 1
        return True

    def remove(self, key: str, *, uid: str, order: float, now: float) -> RowT | None:
        """Remove a row that the source reports gone; return it, or None if the news is old."""
        entry = self.entries.get(key)
        other = entry is not None and uid != getattr(entry.row, "uid", "")
        if entry is not None and (other or order < entry.named_order):
            return None
        self._forget_gone(now)
        if order <= self._gone.get(key, NEVER)[0]:
            return None
        self._gone.pop(key, None)
        self._gone[key] = (order, now)
        if entry is None:
            return None
        del self.entries[key]
        self._named -= entry.round == self._round
        return entry.row

    def _forget_gone(self, now: float) -> None:
        for key, (_, gone_s) in list(itertools.islice(self._gone.items(), 2)):
            if gone_s < now - GONE_KEPT_S:
                del self._gone[key]

    def start_listing(self, *, begun_s: float, order: float) -> None:
        """Begin a listing whose request started at `begun_s`.

        Earlier deletions of a higher order are from a time that a restore of the authority undid.
        """
        self._gone = {
            key: (gone_order, gone_s)
            for key, (gone_order, gone_s) in self._gone.items()
            if gone_s >= begun_s or gone_order <= order
        }
        self._round += 1
        self._named = 0
        self.begun_s = begun_s
        self._listing_order = order

    def _older_than_listing(self, entry: Entry[RowT]) -> bool:
        """Whether the row is from before the request for the listing, which then replaces it.

        Orders start again after a restore of the authority, so a later listing may have a lower
        order.
        """
        return self._listing_order is not None and entry.learnt_s < self.begun_s

    def end_listing(self) -> list[tuple[str, float]]:
        """The listing is complete: return (key, order) of rows that it does not contain."""
        order = self._listing_order
        if order is None:
            return []
        complete = self._named == len(self.entries)
        gone = [] if complete else self._unnamed(order)
        self._listing_order = None
        self.listed = self.live = True
        self.blind = False
        self.why = ""
        self.listed_s = max(self.listed_s, self.begun_s)  # listings may end out of order
        self.agreed_s = max(self.agreed_s, self.begun_s)
        return gone

    def _unnamed(self, order: float) -> list[tuple[str, float]]:
        """A replaced row ends with the listing's order: a restore undid any higher one."""
        found = []
        for key, entry in self.entries.items():
            if entry.round == self._round:
                continue
            if self._older_than_listing(entry):
                entry.order = entry.named_order = order
            if _shown(entry) <= order:
                found.append((key, max(entry.order, order)))
        return found

    def confirm(self, begun_s: float) -> None:
        self.live = self.listed
        self.blind = self.blind and not self.listed
        self.why = "" if self.listed else self.why
        self.agreed_s = max(self.agreed_s, begun_s)

    def lose(self, why: str, *, blind: bool) -> None:
        """The source cannot be read; discard an unfinished listing."""
        self._listing_order = None
        self.live = False
        self.blind = blind
        self.why = why


def _shown(entry: Entry[RowT]) -> float:
    """Return the order up to which a listing could show the row: only Kubernetes has selectors."""
    return entry.named_order if getattr(entry.row, "uid", "") else entry.order


def is_unbound_again(before: Row, row: Row) -> bool:
    """Whether the row lost its Node: then it is older, because a binding is never taken back.

    The order of a binding by sunk-sync is unknown: its answer does not contain it.
    """
    if type(row) is not Pod or type(before) is not Pod:
        return False
    return not row.node_name and bool(before.node_name) and row.uid == before.uid


def readiness_changed(before: Row, row: Row) -> bool:
    """Whether readiness changed, or another object has the name."""
    return _identity(before) != _identity(row)


def _identity(row: Row) -> tuple[object, object]:
    return getattr(row, "uid", None), getattr(row, "ready", None)
