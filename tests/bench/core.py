"""The core of sunk-sync, fed with facts in the slices of the loop."""

from collections.abc import Iterable, Sequence

from sunk_sync.controller.loop import KEYS_PER_STEP, NEWS_PER_STEP
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import ListingEnded, ListingStarted, News, Source
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler

NOW_S = 1000.0


class Core:
    def __init__(self, configuration: Configuration) -> None:
        self.reconciler = Reconciler(graph=Graph(configuration), policy=Policy())

    def observe(self, news: Sequence[News]) -> None:
        """Observe facts and decide, as the loop does."""
        for start in range(0, len(news), NEWS_PER_STEP):
            self.reconciler.observe(news[start : start + NEWS_PER_STEP], now=NOW_S)
            self.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)

    def settle(self) -> None:
        """Decide everything that is dirty."""
        while self.reconciler.pending:
            self.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)

    def list_source(self, source: Source, news: Iterable[News]) -> None:
        self.observe([ListingStarted(source, 1.0, 1.0), *news, ListingEnded(source)])
