"""One open watch: its events, its bookmarks and its end."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.selectors import Selector
from sunk_sync.embedded.kubernetes.store.kinds import Kind
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.kubernetes.store.store import Change, Store, Stored

BOOKMARK_S = 60.0
LAST_BOOKMARK_S = 2.0
"""The last bookmark comes this long before the end."""
TIMEOUT_S = 1800.0
"""Duration of a watch if the request gives none."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Render = Callable[[Stored], bytes]

_encode = msgspec.json.Encoder().encode


def head_of(kind: Kind) -> bytes:
    return f'{{"kind":"{kind.name}","apiVersion":"{kind.api_version}",'.encode()


def whole(kind: Kind) -> Render:
    head = head_of(kind)
    return lambda stored: head + stored.body[1:]


class Scope(Struct, frozen=True, kw_only=True):
    kind: Kind
    namespace: str = ""
    selector: Selector | None = None
    render: Render

    def sees(self, stored: Stored | None) -> bool:
        if stored is None:
            return False
        if self.namespace and stored.an_object["metadata"].get("namespace") != self.namespace:
            return False
        return self.selector is None or self.selector(stored.an_object)


class Subscription:
    """One watch. Call `take` after `wake` or at `next_s`; call `close` to end it.

    `closed`: no event follows after the next `take`.
    """

    def __init__(
        self, store: Store, scope: Scope, *, begun_s: float, timeout_s: float, bookmarks: bool
    ) -> None:
        self._store = store
        self._scope = scope
        self._ends_s = begun_s + timeout_s
        self._bookmarks = bookmarks
        self._next_bookmark_s = min(begun_s + BOOKMARK_S, self._ends_s - LAST_BOOKMARK_S)
        self._lines: list[bytes] = []
        self._seen = 0
        self.wake: Callable[[], None] = _nothing
        self.closed = False
        self._unlisten: Callable[[], None] = _nothing

    def begin_with(self, rows: Iterable[Stored], *, marked: bool) -> None:
        """Send all objects as ADDED, then all changes. `marked`: a bookmark separates the two."""
        self._seen = self._store.version
        for stored in rows:
            if self._scope.sees(stored):
                self._line("ADDED", self._scope.render(stored))
        if marked:
            self._bookmark({INITIAL_EVENTS_END: "true"})
        self._listen()

    def begin_at(self, version: int) -> None:
        """Send all changes after that version, which may be in the future."""
        self._seen = version
        try:
            missed = self._store.since(self._scope.kind, version)
        except RefusalError as refusal:
            self._line("ERROR", _encode(refusal.body))
            self.closed = True
            return
        for change in missed:
            self._note(change)
        self._listen()

    def _listen(self) -> None:
        unlisten = self._store.listen(self._scope.kind, self._on_change)
        self._store.on_restored.append(self.close)

        def forget() -> None:
            unlisten()
            self._store.on_restored.remove(self.close)

        self._unlisten = forget

    def _on_change(self, change: Change) -> None:
        waiting = len(self._lines)
        self._note(change)
        if len(self._lines) > waiting:
            self.wake()

    def _note(self, change: Change) -> None:
        if change.version <= self._seen:
            return
        self._seen = change.version
        saw = self._scope.sees(change.before)
        sees = change.type != "DELETED" and self._scope.sees(change.now)
        if sees:
            self._line("MODIFIED" if saw else "ADDED", self._scope.render(change.now))
        elif saw:
            self._line("DELETED", self._scope.render(_last(change)))

    def _line(self, kind: str, rendered: bytes) -> None:
        self._lines.append(b'{"type":"%s","object":%s}\n' % (kind.encode(), rendered))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        kind = self._scope.kind
        metadata: dict[str, Any] = {"resourceVersion": str(max(self._store.version, self._seen))}
        if annotations:
            metadata["annotations"] = annotations
        body = {"metadata": metadata, **kind.blank}
        self._line("BOOKMARK", head_of(kind) + _encode(body)[1:])

    def next_s(self) -> float | None:
        if self.closed:
            return None
        return self._next_bookmark_s if self._bookmarks_until_end() else self._ends_s

    def _bookmarks_until_end(self) -> bool:
        return self._bookmarks and self._next_bookmark_s < self._ends_s

    def take(self, now_s: float) -> list[bytes]:
        """Return the events since the last call; each ends with a line break."""
        if not self.closed:
            if self._bookmarks_until_end() and now_s >= self._next_bookmark_s:
                self._bookmark()
                self._plan_bookmark(now_s)
            if now_s >= self._ends_s:
                self.close()
        lines, self._lines = self._lines, []
        return lines

    def _plan_bookmark(self, now_s: float) -> None:
        """Plan a bookmark every minute, and one shortly before the end."""
        last_s = self._ends_s - LAST_BOOKMARK_S
        next_s = now_s + BOOKMARK_S
        self._next_bookmark_s = min(next_s, last_s) if now_s < last_s else self._ends_s

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._unlisten()
            self.wake()


def _last(change: Change) -> Stored:
    if change.type == "DELETED" or change.before is None:
        return change.now
    before = change.before.an_object
    metadata = {**before["metadata"], "resourceVersion": str(change.version)}
    return Stored({**before, "metadata": metadata}, change.version)


def _nothing() -> None:
    """Ignore the notification."""
