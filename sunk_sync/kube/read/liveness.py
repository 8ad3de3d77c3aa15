"""Whether one source can be read now, told once for each change."""

from sunk_sync.core.model.facts import Confirmed, Lost, Tell
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.read.selection import Selection

BLIND_S = 60.0
"""Unreadable for so long, what was seen must no longer be shown as true."""


class Liveness:
    """Turns what happens to the collections of a source into Lost and Confirmed."""

    def __init__(self, selection: Selection, *, tell: Tell, ambient: Ambient) -> None:
        self._source = selection.source
        self._tell = tell
        self._clock = ambient.clock
        self._broken: set[str] = set()
        self._lost_since_s: float | None = None
        self._reported: tuple[str, int, bool] | None = None
        self._heard_s = dict.fromkeys(selection.paths, 0.0)
        """When the server last spoke of each collection."""

    def heard(self, path: str) -> None:
        """The server said something of this collection."""
        self._heard_s[path] = self._clock()

    def listed(self, begun_s: float) -> None:
        """The whole source was listed: it stands, and everything before is forgotten."""
        self._broken.clear()
        self._lost_since_s = self._reported = None
        self._heard_s = dict.fromkeys(self._heard_s, begun_s)

    async def lost(self, path: str, error: KubeError) -> None:
        """A collection cannot be followed now. Told again when it grows worse or different."""
        now = self._clock()
        self._broken.add(path)
        if self._lost_since_s is None:
            self._lost_since_s = now
        blind = now - self._lost_since_s >= BLIND_S
        news = (error.kind, error.status, blind)
        if news != self._reported:
            self._reported = news
            await self._tell([Lost(self._source, error.why, blind)])

    async def resumed(self, path: str) -> None:
        """A collection is followed again, from where it broke off.

        Confirmed speaks for the moment when the server was last heard: what it says now to close
        the gap is still on its way.
        """
        self._broken.discard(path)
        if self._lost_since_s is not None and not self._broken:
            self._lost_since_s = self._reported = None
            await self._tell([Confirmed(self._source, min(self._heard_s.values()))])
