"""Log lines and metrics of the sources: when each was listed, lost and read again."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from sunk_sync.core.model.facts import Confirmed, ListingEnded, ListingStarted, Lost, News, Source
from sunk_sync.telemetry.metrics import Metrics


class SourceJournal:
    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        metrics: Metrics,
        sources: Sequence[Source],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._log = log
        self._clock = clock
        self._listed = metrics.gauge("sunk_sync_source_listed")
        self._age = metrics.gauge("sunk_sync_source_age_seconds")
        self._states: dict[Source, _SourceState] = {}
        for source in sources:
            self._state(source)

    def _state(self, source: Source) -> "_SourceState":
        """Return its state; sources of volumes are read only once a Pod has a claim."""
        state = self._states.get(source)
        if state is None:
            state = self._states[source] = _SourceState()
            self._listed.labels(source).set_function(state.listed)
            self._age.labels(source).set_function(partial(state.age_s, self._clock))
        return state

    def tell(self, news: News) -> None:
        """Record Lost, ListingStarted, ListingEnded or Confirmed; log each change."""
        match news:
            case ListingStarted():
                self._state(news.source).begun_s = news.begun_s
            case ListingEnded():
                self._readable(news.source, self._state(news.source).begun_s)
            case Confirmed() if self._state(news.source).ever:
                self._readable(news.source, news.begun_s)
            case Lost():
                self._lost(news)

    def _readable(self, source: Source, begun_s: float) -> None:
        state = self._state(source)
        if not state.ever:
            self._log.info(
                "source listed", source=source, seconds=round(self._clock() - begun_s, 3)
            )
        elif state.why is not None:
            lost_for = round(self._clock() - state.lost_s, 1)
            self._log.info("source back", source=source, lost_for_seconds=lost_for, was=state.why)
        state.ever, state.why, state.blind, state.seen_s = True, None, False, begun_s

    def _lost(self, news: Lost) -> None:
        state = self._state(news.source)
        if state.why is None:
            state.lost_s = self._clock()
            self._log.warning("source lost", source=news.source, why=news.why)
        elif news.blind and not state.blind:
            self._log.error(
                "source cannot be read for a long time", source=news.source, why=news.why
            )
        elif news.why != state.why:
            self._log.debug("source still lost", source=news.source, why=news.why)
        state.why, state.blind = news.why, news.blind


class _SourceState:
    def __init__(self) -> None:
        self.ever = False
        self.why: str | None = None
        self.blind = False
        self.begun_s = self.seen_s = self.lost_s = 0.0

    def listed(self) -> float:
        return float(self.ever and self.why is None)

    def age_s(self, clock: Callable[[], float]) -> float:
        return max(0.0, clock() - self.seen_s) if self.ever else math.nan
