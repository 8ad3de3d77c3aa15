"""Keep what a reader reports."""

from collections.abc import Sequence

from sunk_sync.core.model.facts import News


class NewsLog:
    """A place that readers report to; `news` holds everything in its order."""

    def __init__(self) -> None:
        self.news: list[News] = []

    async def tell(self, news: Sequence[News]) -> None:
        """Keep the facts."""
        self.news.extend(news)
