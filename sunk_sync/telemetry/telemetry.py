"""Logs and metrics, fed by the loop, the outbox and the clients; nothing in the core logs.

Every method is synchronous and cheap, and never raises for untrusted input.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from sunk_sync.core.model import actions as act
from sunk_sync.core.model.actions import Action, target_of, traits_of
from sunk_sync.core.model.facts import SOURCES, News, Source
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.traits import Target
from sunk_sync.core.model.verdict import DRY_RUN
from sunk_sync.telemetry.action_words import authority_of, fields_of, name_of
from sunk_sync.telemetry.alarms import AlarmGauges
from sunk_sync.telemetry.drift import DriftGauges
from sunk_sync.telemetry.exchange import Exchange
from sunk_sync.telemetry.hooks import HookJournal
from sunk_sync.telemetry.latencies import Latencies
from sunk_sync.telemetry.metrics import Figures, Metrics
from sunk_sync.telemetry.requests import RequestMetrics
from sunk_sync.telemetry.sources import SourceJournal
from sunk_sync.telemetry.traces import PodTraces

LONGEST_STEP_WINDOW_S = 60.0
QUIET_S = 60.0
"""Log equal failures once in this time; the next line counts those in between."""
REMEMBERED_MAX = 10_000
SLOW_STEP_S = 0.1
SOON_S = 600.0
_EXPIRY = "slurm_token_expiry_timestamp_seconds"

_Extra = dict[str, object]
Log = structlog.typing.FilteringBoundLogger


class Telemetry:
    traces: PodTraces | None = None
    """None: --traces-endpoint is not set."""

    def __init__(
        self,
        log: Log,
        *,
        cluster_name: str = "slurm",
        sources: Sequence[Source] = SOURCES,
        clock: Callable[[], float] = time.monotonic,
        dropped_lines: Callable[[], int] = lambda: 0,
    ) -> None:
        self.log = log
        metrics = Metrics()
        self.registry = metrics.registry
        self.figures = metrics.figures
        self._clock = clock
        self._loop = _Loop(clock)
        self._sources = SourceJournal(log, metrics, sources, clock=clock)
        self._troubles = _Quietly(clock)
        self._kept: dict[Target, tuple[Action, str]] = {}
        self._token_expires: float | None = None
        self._writes = metrics.counter("sunk_sync_writes_total")
        self.latencies = Latencies(metrics, clock=clock)
        self._depth = metrics.gauge("workqueue_depth")
        self._adds = metrics.counter("workqueue_adds_total")
        self._retries = metrics.counter("workqueue_retries_total")
        self._requests = RequestMetrics(metrics)
        self._pod_ends = metrics.counter("sunk_sync_pod_ends_total")
        self._leads = metrics.gauge("leader_election_master_status")
        self._rule_failures = metrics.counter("sunk_sync_rule_failures_total")
        self.hooks = HookJournal(log, metrics, ask=self._troubles.ask)
        self.alarm_gauges = AlarmGauges(log, metrics.figures)
        self.node_set_gauges = metrics.node_sets
        self.slurm_gauges = metrics.slurm
        self.drift_gauges = DriftGauges(metrics)
        metrics.set_build(cluster_name)
        self.at_scrape = metrics.at_scrape
        self.at_scrape += [self._loop.tell, _counting(dropped_lines)]
        for authority in ("kubernetes", "slurm"):
            self._depth.labels(authority).set(0)
            self._adds.labels(authority)
            self._retries.labels(authority)

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        loop = self._loop
        loop.busy_s += seconds
        loop.steps += 1
        loop.decisions += keys
        loop.news += news
        if seconds > loop.longest_s:
            loop.longest_s = seconds
            if seconds > SLOW_STEP_S:
                self.log.warning("slow step", seconds=round(seconds, 3), keys=keys, news=news)

    def leads(self, lease: str, *, leads: bool) -> None:
        """Record whether this replica holds the Lease."""
        self._leads.labels(lease).set(leads)

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        """Log a rule that raised: its key is out of service until a fact of it changes (F7)."""
        self._rule_failures.labels(rule).inc()
        self.log.error("rule failed", key=spelled(key), rule=rule, exc_info=error)

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        """Log a decision that the audit would have made differently."""
        self.figures["sunk_sync_audit_surprises_total"] += 1
        self.log.error("audit surprise", key=spelled(key), standing=str(standing), fresh=str(fresh))

    def bound(self, waited_s: float) -> None:
        self.latencies.bound(waited_s)

    def ended(self, delay_s: float) -> None:
        self.latencies.ended(delay_s)

    def kept(self, action: Action, why: str, because: str) -> None:
        """Log a write that policy holds back; a dry run only does this."""
        target = target_of(action)
        if self._kept.get(target) == (action, why):
            return
        if len(self._kept) >= REMEMBERED_MAX:
            self._kept.clear()
        self._kept[target] = (action, why)
        level = self.log.info if why == DRY_RUN else self.log.debug
        level("not written", **fields_of(action), why=why, because=because)

    def source(self, news: News) -> None:
        """Record Lost, ListingStarted, ListingEnded or Confirmed; log each change."""
        self._sources.tell(news)

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        """Log an answered write with its cause and the seconds since it was first desired."""
        name, came_of_it = name_of(action), name_of(outcome)
        self._writes.labels(name, came_of_it).inc()
        self.latencies.wrote(name, seconds, authority=authority_of(action))
        if isinstance(action, act.EndPod) and isinstance(outcome, Done):
            self._pod_ends.labels(action.reason).inc()
        if isinstance(outcome, Unsure):
            self._retries.labels(authority_of(action)).inc()
        level, extra = self._level_of(action, outcome)
        level(
            "read" if traits_of(action).reads else "write",
            **{**fields_of(action), **extra},
            outcome=came_of_it,
            because=because,
            seconds=round(seconds, 4),
        )

    def _level_of(self, action: Action, outcome: Outcome) -> tuple[Callable[..., Any], _Extra]:
        """Return the level: debug for reads; equal failures are warnings once a minute.

        A refusal is one of this object alone, so those of other objects are not equal to it. If the
        object is gone it is no fault: its end and this write met, and nothing is left to do.
        """
        if isinstance(outcome, Done) and not outcome.why:
            return (self.log.debug if traits_of(action).reads else self.log.info), {}
        extra: _Extra = {"why": outcome.why}
        if isinstance(outcome, Refused) and outcome.missing:
            return self.log.debug, extra
        whose = target_of(action) if isinstance(outcome, Refused) else ()
        loud, others = self._troubles.ask((name_of(action), outcome.why, *whose))
        if others:
            extra["same_since_last_told"] = others
        return (self.log.warning if loud else self.log.debug), extra

    def depth(self, authority: str, waiting: int) -> None:
        self._depth.labels(authority).set(waiting)

    def added(self, authority: str, count: int = 1) -> None:
        self._adds.labels(authority).inc(count)

    def exchange(self, exchange: Exchange) -> None:
        self._requests.count(exchange)
        self.log.debug(
            "request",
            host=exchange.authority,
            method=exchange.method,
            path=exchange.path,
            status=exchange.status,
            seconds=round(exchange.seconds, 4),
            bytes=exchange.received_bytes,
        )

    def token_expires(self, at: float | None) -> None:
        """Set when the token for slurmrestd expires, Unix time; None: it has no expiry."""
        if at is not None and at != self._token_expires:
            left_s = at - time.time()
            level = self.log.info if left_s > SOON_S else self.log.warning
            level("slurm token read", expires_at=_utc(at), left_seconds=round(left_s))
        self._token_expires = at
        if at is None:
            self.figures.pop(_EXPIRY, None)
        else:
            self.figures[_EXPIRY] = at


class _Loop:
    """Numbers that the loop adds to and a scrape reads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.busy_s = 0.0
        self.longest_s = 0.0
        self.steps = self.decisions = self.news = 0
        self._longest_before_s = 0.0
        self._clock = clock
        self._window_s = clock()

    def tell(self, figures: Figures) -> None:
        now = self._clock()
        longest_s = max(self.longest_s, self._longest_before_s)
        if now - self._window_s >= LONGEST_STEP_WINDOW_S:
            self._longest_before_s, self.longest_s, self._window_s = self.longest_s, 0.0, now
        figures["sunk_sync_loop_busy_seconds_total"] = self.busy_s
        figures["sunk_sync_loop_longest_step_seconds"] = longest_s
        figures["sunk_sync_loop_steps_total"] = self.steps
        figures["sunk_sync_decisions_total"] = self.decisions
        figures["sunk_sync_news_total"] = self.news


def _counting(dropped_lines: Callable[[], int]) -> Callable[[Figures], None]:
    def tell(figures: Figures) -> None:
        figures["sunk_sync_log_lines_dropped_total"] = dropped_lines()

    return tell


class _Quietly:
    """Lets the first of many equal failures through, then one a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[tuple[str, ...], tuple[float, int]] = {}

    def ask(self, trouble: tuple[str, ...]) -> tuple[bool, int]:
        """Return whether to log it, and how many equal ones were not logged since."""
        now = self._clock()
        notified_at_s, swallowed = self._told.get(trouble, (-math.inf, 0))
        if now - notified_at_s < QUIET_S:
            self._told[trouble] = (notified_at_s, swallowed + 1)
            return False, 0
        if len(self._told) >= REMEMBERED_MAX:
            self._told.clear()
        self._told[trouble] = (now, 0)
        return True, swallowed


def spelled(key: object) -> str:
    """`("host", "n1")` → `host n1`"""
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _utc(at: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return str(at)
