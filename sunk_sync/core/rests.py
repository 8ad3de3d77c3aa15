"""Keys of many rows rest after a decision, and take in all that changes meanwhile at once.

A NodeSet of thousands of Pods takes tens of milliseconds to decide, and each Pod of it changes ten
times while it starts or ends. Deciding at each change would take longer than the changes.
"""

from typing import Final

from sunk_sync.core.model.keys import Key

MANY: Final = 100
"""Keys with fewer rows never rest."""
REST_S: Final = 250e-6
"""For each row: about twenty times what its part of a decision takes."""


class Rests:
    def __init__(self) -> None:
        self._until_s: dict[Key, float] = {}
        """Keys of many rows, and until when each rests."""
        self._changed: dict[Key, float] = {}
        """Those that changed meanwhile, and when their rest ends."""

    def begin(self, key: Key, *, rows: int, now: float) -> None:
        """Let the key rest, which was just decided, if it has many rows."""
        if rows < MANY:
            self._until_s.pop(key, None)
        else:
            self._until_s[key] = now + rows * REST_S

    def puts_off(self, key: Key, *, now: float) -> bool:
        """Return whether this changed key still rests; then it is due after its rest."""
        until_s = self._until_s.get(key)
        if until_s is None or until_s <= now:
            return False
        self._changed[key] = until_s
        return True

    def holds(self, key: Key) -> bool:
        return key in self._changed

    def next_s(self) -> float | None:
        return min(self._changed.values(), default=None)

    def end(self, *, now: float) -> list[Key]:
        """Return the changed keys whose rest is over."""
        due = [key for key, until_s in self._changed.items() if until_s <= now]
        for key in due:
            del self._changed[key]
        return due
