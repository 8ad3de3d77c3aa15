"""Report whether one source can be read, once for each change."""

from sunk_sync.core.model.facts import Confirmed, Lost, Tell
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.read.selection import Selection

NOT_FOUND = 404
BLIND_S = 60.0
"""After this time without reads, the last known state no longer counts as current."""


class Liveness:
    """Reports Lost and Confirmed for the collections of a source."""

    def __init__(self, selection: Selection, *, tell: Tell, ambient: Ambient) -> None:
        self._source = selection.source
        self._missing = selection.missing
        self._tell = tell
        self._clock = ambient.clock
        self._broken: set[str] = set()
        self._lost_since_s: float | None = None
        self._reported: tuple[str, int, bool] | None = None
        self._heard_s = dict.fromkeys(selection.paths, 0.0)
        """Collection → when the server last sent something."""

    def heard(self, path: str) -> None:
        self._heard_s[path] = self._clock()

    def listed(self, begun_s: float) -> None:
        """Note that the whole source was listed. Earlier failures no longer count."""
        self._broken.clear()
        self._lost_since_s = self._reported = None
        self._heard_s = dict.fromkeys(self._heard_s, begun_s)

    async def lost(self, path: str, error: KubeError) -> None:
        """Report that a collection cannot be read; again only if the error changes.

        Time does not make a missing kind worse: without it there are no objects.
        """
        now = self._clock()
        self._broken.add(path)
        if self._lost_since_s is None:
            self._lost_since_s = now
        is_missing = bool(self._missing) and error.status == NOT_FOUND
        blind = not is_missing and now - self._lost_since_s >= BLIND_S
        news = (error.kind, error.status, blind)
        if news != self._reported:
            self._reported = news
            why = self._missing if is_missing else error.why
            await self._tell([Lost(self._source, why, blind)])

    async def resumed(self, path: str) -> None:
        """Report that a stream continues from where the last one ended.

        Confirmed holds for the moment when the server last sent something: later changes may still
        be on their way.
        """
        self._broken.discard(path)
        if self._lost_since_s is not None and not self._broken:
            self._lost_since_s = self._reported = None
            await self._tell([Confirmed(self._source, min(self._heard_s.values()))])
