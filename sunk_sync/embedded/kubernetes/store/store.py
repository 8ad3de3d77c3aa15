"""Storage as in etcd: objects with one version counter, a bounded history, and listeners."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import Key, Kind, Object
from sunk_sync.embedded.kubernetes.store.refusal import expired

HISTORY_MAX = 10_000
"""Changes kept for watches and for lists at an older version."""

_encode = msgspec.json.Encoder().encode

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored(Struct):
    """One version of one object; `an_object` is without apiVersion and kind."""

    an_object: Object
    version: int
    encoded: bytes = b""

    @property
    def body(self) -> bytes:
        """Return the object as JSON, encoded once: `{"metadata":…`"""
        if not self.encoded:
            self.encoded = _encode(self.an_object)
        return self.encoded


class Change(Struct, frozen=True):
    """One write. For a deletion `now` is the last object, with the version of the deletion."""

    type: ChangeType
    kind: Kind
    key: Key
    before: Stored | None
    now: Stored

    @property
    def version(self) -> int:
        return self.now.version


class Table:
    def __init__(self) -> None:
        self.rows: dict[Key, Stored] = {}
        self.keys: list[Key] = []

    def put(self, key: Key, stored: Stored) -> None:
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = stored

    def remove(self, key: Key) -> None:
        del self.rows[key]
        del self.keys[bisect_left(self.keys, key)]


class Snapshot(Struct, frozen=True):
    version: int
    rows: dict[str, dict[Key, Stored]]


Listener = Callable[[Change], None]


class Store:
    """All objects. Neither the store nor its callers change an object in place."""

    def __init__(self, kinds: Iterable[Kind], *, history_max: int = HISTORY_MAX) -> None:
        self.version = 1
        self.oldest = 1
        """A watch from this version on misses no change."""
        self._tables = {kind.plural: Table() for kind in kinds}
        self._history: deque[Change] = deque()
        self._history_max = history_max
        self._listeners: dict[str, list[Listener]] = {plural: [] for plural in self._tables}
        self.on_restored: list[Callable[[], None]] = []

    def install(self, kind: Kind) -> None:
        """Take in a kind that comes later, as with a CustomResourceDefinition."""
        self._tables[kind.plural] = Table()
        self._listeners[kind.plural] = []

    def has_kind(self, kind: Kind) -> bool:
        return kind.plural in self._tables

    def get(self, kind: Kind, key: Key) -> Stored | None:
        return self._tables[kind.plural].rows.get(key)

    def rows(self, kind: Kind) -> dict[Key, Stored]:
        """Return all objects of a kind, unordered; do not change the mapping."""
        return self._tables[kind.plural].rows

    def scan(
        self, kind: Kind, *, namespace: str = "", after: Key = "", at: int = 0
    ) -> Iterator[tuple[Key, Stored]]:
        """Yield objects in order after `after`, as they were at version `at` (0: now).

        Raises RefusalError if that version is compacted.
        """
        table = self._tables[kind.plural]
        keys, older = table.keys, self._older(kind, at) if at else {}
        if older:
            keys = sorted(table.rows.keys() | older.keys())
        prefix = f"{namespace}/" if namespace else ""
        start = max(bisect_right(keys, after), bisect_left(keys, prefix))
        for index in range(start, len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                return
            stored = older[key] if key in older else table.rows.get(key)
            if stored is not None:
                yield key, stored

    def count(self, kind: Kind, *, namespace: str, after: Key, at: int) -> int:
        return sum(1 for _ in self.scan(kind, namespace=namespace, after=after, at=at))

    def _older(self, kind: Kind, version: int) -> dict[Key, Stored | None]:
        """Return the objects that have changed since that version, as they were then."""
        if version < self.oldest:
            raise expired(version, self.oldest)
        older: dict[Key, Stored | None] = {}
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.kind is kind:
                older[change.key] = change.before
        return older

    def since(self, kind: Kind, version: int) -> list[Change]:
        """Return the changes after that version. RefusalError if some are compacted."""
        if version < self.oldest:
            raise expired(version, self.oldest)
        found = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.kind is kind:
                found.append(change)
        return found[::-1]

    def put(self, kind: Kind, key: Key, *, an_object: Object) -> Stored:
        table = self._tables[kind.plural]
        before = table.rows.get(key)
        stored = self._stamped(an_object)
        table.put(key, stored)
        self._notify(Change("MODIFIED" if before else "ADDED", kind, key, before, stored))
        return stored

    def remove(self, kind: Kind, key: Key) -> Stored:
        """Remove an object; return its last state with the version of the removal."""
        table = self._tables[kind.plural]
        before = table.rows[key]
        table.remove(key)
        last = self._stamped(before.an_object)
        self._notify(Change("DELETED", kind, key, before, last))
        return last

    def _stamped(self, an_object: Object) -> Stored:
        self.version += 1
        metadata = {**an_object["metadata"], "resourceVersion": str(self.version)}
        return Stored({**an_object, "metadata": metadata}, self.version)

    def _notify(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > self._history_max:
            self.oldest = self._history.popleft().version
        for listener in tuple(self._listeners[change.kind.plural]):
            listener(change)

    def listen(self, kind: Kind, listener: Listener) -> Callable[[], None]:
        """Call `listener` for every change of a kind; return a function that ends this."""
        listeners = self._listeners[kind.plural]
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def compact(self) -> None:
        """Forget the history: a watch from an older version gets 410."""
        self._history.clear()
        self.oldest = self.version

    def snapshot(self) -> Snapshot:
        rows = {plural: dict(table.rows) for plural, table in self._tables.items()}
        return Snapshot(self.version, rows)

    def restore(self, backup: Snapshot) -> None:
        """Restore objects and versions without notifying listeners."""
        for plural, rows in backup.rows.items():
            table = self._tables[plural]
            table.rows, table.keys = dict(rows), sorted(rows)
        self.version = backup.version
        self.compact()
        for call in self.on_restored:
            call()
