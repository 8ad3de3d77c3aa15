"""Notice the first workload Pod with a claim: only then sunk-sync reads claims and volumes."""

import asyncio
from collections.abc import Sequence

from sunk_sync.core.model.facts import News, Observed, Pod, Tell


class FirstClaim:
    """Receives the facts of workload Pods, and passes them on."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.seen = asyncio.Event()

    async def tell(self, news: Sequence[News]) -> None:
        if not self.seen.is_set() and any(map(_has_claim, news)):
            self.seen.set()
        await self._tell(news)


def _has_claim(one: News) -> bool:
    return isinstance(one, Observed) and isinstance(one.row, Pod) and bool(one.row.volume_claims)
