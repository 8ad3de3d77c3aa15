"""The last things that happened to each key: decisions, held writes and answers, in memory."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from sunk_sync.core.decide import NOTHING
from sunk_sync.core.model.actions import target_of, traits_of
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.outcomes import Done, Outcome
from sunk_sync.core.model.verdict import Kept

KEPT = 10
RECENT = 20
KEYS_MAX = 20_000
"""Beyond it sunk-sync forgets the key to which nothing happened for the longest time."""


class Happening(Struct, frozen=True, gc=False):
    at_s: float
    """Monotonic second."""
    what: str | Kept | Outcome
    """A new decision in its words, a write that is held back, or the outcome of one."""


class _Record(Struct, gc=False):
    because: str
    last: deque[Happening]


class History:
    """Costs one look-up for a key to which nothing happens."""

    def __init__(self) -> None:
        self.recent: deque[tuple[Key, Happening]] = deque(maxlen=RECENT)
        """The last of all keys, oldest first."""
        self._records: dict[Key, _Record] = {}

    def decided(self, key: Key, because: str, *, now: float) -> None:
        """Note a decision that differs from the one before; `in sync` is where each key begins."""
        record = self._records.get(key)
        before = NOTHING.because if record is None else record.because
        if because == before:
            return
        self._note(key, because, now=now).because = because

    def held(self, key: Key, kept: Kept, *, now: float) -> None:
        self._note(key, kept, now=now)

    def answered(self, key: Key, outcome: Outcome, *, now: float) -> None:
        """Note an answer. One read after another of the same object is one happening."""
        record = self._records.get(key)
        if record is not None and record.last and _is_read_again(record.last[-1].what, outcome):
            record.last[-1] = Happening(now, outcome)
        else:
            self._note(key, outcome, now=now)

    def of(self, key: Key) -> Sequence[Happening]:
        """Return what happened, oldest first."""
        record = self._records.get(key)
        return () if record is None else tuple(record.last)

    def since_s(self, key: Key, kept: Kept, *, now: float) -> float:
        """Return since when this write is held back for this reason, as far as is known."""
        return min(
            (one.at_s for one in self.of(key) if _is_same(one.what, kept)),
            default=now,
        )

    def _note(self, key: Key, what: str | Kept | Outcome, *, now: float) -> _Record:
        record = self._records.pop(key, None) or _Record(NOTHING.because, deque(maxlen=KEPT))
        happening = Happening(now, what)
        record.last.append(happening)
        self.recent.append((key, happening))
        self._records[key] = record  # the newest are last
        if len(self._records) > KEYS_MAX:
            del self._records[next(iter(self._records))]
        return record


def _is_same(what: str | Kept | Outcome, kept: Kept) -> bool:
    return isinstance(what, Kept) and (what.action, what.why) == (kept.action, kept.why)


def _is_read_again(before: str | Kept | Outcome, after: Outcome) -> bool:
    if not (isinstance(before, Done) and isinstance(after, Done)):
        return False
    reads = traits_of(before.action).reads and traits_of(after.action).reads
    return reads and target_of(before.action) == target_of(after.action)
