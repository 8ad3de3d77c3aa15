"""The first claim of a workload Pod, from which on volumes are read."""

import asyncio
from collections.abc import Mapping, Sequence

from sunk_sync.core.model.facts import News, Observed, Pod, Source, Tell
from sunk_sync.core.model.volumes import VolumeClaim
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient, Backoff
from sunk_sync.kube.api.client import Caller
from sunk_sync.kube.read.listing import Listing
from sunk_sync.kube.read.selection import Selection

_FORBIDDEN = 403
"""The watch of claims says so when a Pod needs it."""


class FirstClaim:
    """Receives the facts of workload Pods, and passes them on."""

    def __init__(
        self,
        tell: Tell,
        client: Caller,
        *,
        selections: Mapping[Source, Selection],
        ambient: Ambient,
    ) -> None:
        self._tell = tell
        self._client = client
        self._selections = selections
        self._ambient = ambient
        self.seen = asyncio.Event()

    async def tell(self, news: Sequence[News]) -> None:
        if not self.seen.is_set() and any(map(_has_claim, news)):
            self.seen.set()
        await self._tell(news)

    async def find_selected(self) -> None:
        """Read all claims once: one may be selected for a Pod that went while nobody watched.

        It retries with back-off until an answer comes, or a Pod has a claim.
        """
        listing = Listing(
            self._client,
            self._selections["volume_claims"],
            tell=self._note,
            on_bad=_ignore,
            ambient=self._ambient,
        )
        backoff = Backoff(self._ambient)
        while not self.seen.is_set():
            answer = await listing.run()
            if not isinstance(answer, KubeError) or answer.status == _FORBIDDEN:
                return
            await backoff.wait(answer.retry_after_s)

    async def _note(self, news: Sequence[News]) -> None:
        if any(map(_is_selected, news)):
            self.seen.set()


def _has_claim(one: News) -> bool:
    return isinstance(one, Observed) and isinstance(one.row, Pod) and bool(one.row.volume_claims)


def _is_selected(one: News) -> bool:
    row = one.row if isinstance(one, Observed) else None
    return isinstance(row, VolumeClaim) and bool(row.selected_for)


def _ignore(kind: str, name: str, why: str) -> None:
    """A claim that cannot be read is told when it matters."""
