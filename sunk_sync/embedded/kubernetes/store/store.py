"""Objects with one counter of versions, a bounded history, and whoever watches: as etcd does it."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import Key, Kind, Object
from sunk_sync.embedded.kubernetes.store.refusal import expired

HISTORY_MAX = 10_000
"""Changes that are remembered for watches and for lists at an older version."""

_encode = msgspec.json.Encoder().encode

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored(Struct):
    """One version of one object. `an_object` is without apiVersion and kind."""

    an_object: Object
    version: int
    encoded: bytes = b""

    @property
    def body(self) -> bytes:
        """As JSON, encoded once: `{"metadata":…`"""
        if not self.encoded:
            self.encoded = _encode(self.an_object)
        return self.encoded


class Change(Struct, frozen=True):
    """One write. `now` of a deletion is the object as it last was, with the version of its end."""

    type: ChangeType
    kind: Kind
    key: Key
    before: Stored | None
    now: Stored

    @property
    def version(self) -> int:
        """When it was."""
        return self.now.version


class Table:
    """All objects of one kind, in the order of their keys."""

    def __init__(self) -> None:
        self.rows: dict[Key, Stored] = {}
        self.keys: list[Key] = []

    def put(self, key: Key, stored: Stored) -> None:
        """Add or replace."""
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = stored

    def remove(self, key: Key) -> None:
        """It must be there."""
        del self.rows[key]
        del self.keys[bisect_left(self.keys, key)]


class Snapshot(Struct, frozen=True):
    """A backup of everything."""

    version: int
    rows: dict[str, dict[Key, Stored]]


Listener = Callable[[Change], None]


class Store:
    """Everything there is. Objects that are given to it or taken from it are never changed."""

    def __init__(self, kinds: Iterable[Kind], *, history_max: int = HISTORY_MAX) -> None:
        self.version = 1
        self.oldest = 1
        """A watch from here on misses nothing."""
        self._tables = {kind.plural: Table() for kind in kinds}
        self._history: deque[Change] = deque()
        self._history_max = history_max
        self._listeners: dict[str, list[Listener]] = {plural: [] for plural in self._tables}
        self.on_restored: list[Callable[[], None]] = []
        """Called when the state went back."""

    # Reading

    def get(self, kind: Kind, key: Key) -> Stored | None:
        """The object as it is now."""
        return self._tables[kind.plural].rows.get(key)

    def rows(self, kind: Kind) -> dict[Key, Stored]:
        """All objects of a kind, in no order; not to be changed."""
        return self._tables[kind.plural].rows

    def scan(
        self, kind: Kind, *, namespace: str = "", after: Key = "", at: int = 0
    ) -> Iterator[tuple[Key, Stored]]:
        """Objects in order, behind `after`, as they were at that version (0: now).

        RefusalError where that version is no longer remembered.
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
        """How many there are behind this one."""
        return sum(1 for _ in self.scan(kind, namespace=namespace, after=after, at=at))

    def _older(self, kind: Kind, version: int) -> dict[Key, Stored | None]:
        """What has changed since, as it was then."""
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
        """Changes behind that version. RefusalError where some are forgotten."""
        if version < self.oldest:
            raise expired(version, self.oldest)
        found = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            if change.kind is kind:
                found.append(change)
        return found[::-1]

    # Writing

    def put(self, kind: Kind, key: Key, *, an_object: Object) -> Stored:
        """Add or replace, as the next version."""
        table = self._tables[kind.plural]
        before = table.rows.get(key)
        stored = self._stamped(an_object)
        table.put(key, stored)
        self._tell(Change("MODIFIED" if before else "ADDED", kind, key, before, stored))
        return stored

    def remove(self, kind: Kind, key: Key) -> Stored:
        """Take it away, as the next version: the object as it last was, with that version."""
        table = self._tables[kind.plural]
        before = table.rows[key]
        table.remove(key)
        last = self._stamped(before.an_object)
        self._tell(Change("DELETED", kind, key, before, last))
        return last

    def _stamped(self, an_object: Object) -> Stored:
        self.version += 1
        metadata = {**an_object["metadata"], "resourceVersion": str(self.version)}
        return Stored({**an_object, "metadata": metadata}, self.version)

    def _tell(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > self._history_max:
            self.oldest = self._history.popleft().version
        for listener in tuple(self._listeners[change.kind.plural]):
            listener(change)

    # Who watches

    def listen(self, kind: Kind, listener: Listener) -> Callable[[], None]:
        """Hear every change of a kind from now on; the answer ends it."""
        listeners = self._listeners[kind.plural]
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    # What happens to the whole

    def compact(self) -> None:
        """Forget the history: a watch from any older version is told 410."""
        self._history.clear()
        self.oldest = self.version

    def snapshot(self) -> Snapshot:
        """A backup."""
        rows = {plural: dict(table.rows) for plural, table in self._tables.items()}
        return Snapshot(self.version, rows)

    def restore(self, backup: Snapshot) -> None:
        """Everything is as it was then, versions too; nobody is told."""
        for plural, rows in backup.rows.items():
            table = self._tables[plural]
            table.rows, table.keys = dict(rows), sorted(rows)
        self.version = backup.version
        self.compact()
        for call in self.on_restored:
            call()
