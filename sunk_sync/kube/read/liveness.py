"""Whether one source can be read now, told once for each change."""

from sunk_sync.core.model.facts import Confirmed, Lost, Tell
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.read.selection import Subject

BLIND_S = 60.0
"""Unreadable for so long, what was seen must no longer be shown as true."""


class Liveness:
    """Turns what happens to the collections of a source into Lost and Confirmed."""

    def __init__(self, subject: Subject, *, tell: Tell, ambient: Ambient) -> None:
        self._source = subject.source
        self._tell = tell
        self._clock = ambient.clock
        self._broken: set[str] = set()
        self._lost_since_s: float | None = None
        self._told: tuple[str, int, bool] | None = None
        self._heard_s = dict.fromkeys(subject.paths, 0.0)
        """When the server last spoke of each collection."""

    def heard(self, path: str) -> None:
        """The server said something of this collection."""
        self._heard_s[path] = self._clock()

    def listed(self, begun_s: float) -> None:
        """The whole source was listed: it stands, and everything before is forgotten."""
        self._broken.clear()
        self._lost_since_s = self._told = None
        self._heard_s = dict.fromkeys(self._heard_s, begun_s)

    async def lost(self, path: str, trouble: KubeError) -> None:
        """A collection cannot be followed now. Told again when it grows worse or different."""
        now = self._clock()
        self._broken.add(path)
        if self._lost_since_s is None:
            self._lost_since_s = now
        blind = now - self._lost_since_s >= BLIND_S
        news = (trouble.kind, trouble.status, blind)
        if news != self._told:
            self._told = news
            await self._tell([Lost(self._source, trouble.why, blind)])

    async def stands(self, path: str) -> None:
        """A collection is followed again, from where it broke off.

        Confirmed speaks for the moment when the server was last heard: what it says now to close
        the gap is still on its way.
        """
        self._broken.discard(path)
        if self._lost_since_s is not None and not self._broken:
            self._lost_since_s = self._told = None
            await self._tell([Confirmed(self._source, min(self._heard_s.values()))])
