"""One synchronous step of the loop: observe facts, decide dirty keys, screen and keep verdicts.

The caller passes the time as `now`.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence

from sunk_sync.core.decide import RuleError, decide
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, RecordEvent
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import News
from sunk_sync.core.model.keys import CLUSTER, Key
from sunk_sync.core.model.verdict import Decision, Kept, StandingVerdict, Verdict
from sunk_sync.core.policy import NONE_HELD, Policy
from sunk_sync.core.rests import Rests

OUT_OF_SERVICE = Verdict(because="out of service: a rule failed for this key")


Surprise = tuple[Key, Verdict | None, Verdict]
"""Key, the current verdict, the correct verdict."""


class Reconciler:
    """The graph, the current verdicts and their timers."""

    def __init__(self, *, graph: Graph, policy: Policy) -> None:
        self.graph = graph
        self.policy = policy
        self.pending: dict[Key, None] = {CLUSTER: None}
        """Keys to decide, oldest first."""
        self.standing: dict[Key, StandingVerdict] = {}
        self.failures: dict[Key, RuleError] = {}
        """Keys that sunk-sync does not decide until one of their facts changes."""
        self._rests = Rests()
        self._timers: list[tuple[float, Key]] = []
        self._wanting: dict[Key, None] = {}
        """Keys with desired writes: policy screens them again when a source changes."""
        self._audit: Iterator[Key] = iter(())

    def observe(self, news: Sequence[News], *, now: float) -> list[Key]:
        """Take news in; return the keys whose facts changed."""
        graph = self.graph
        before = (graph.sources.readiness, graph.paused)
        graph.observe(news, now=now)
        changed_keys = list(graph.keys.dirty)
        self.pending.update(graph.keys.dirty)
        graph.keys.dirty.clear()
        if before != (graph.sources.readiness, graph.paused):
            self.decide_wanting()
        return changed_keys

    def decide_wanting(self) -> None:
        """Decide all keys with desired writes again."""
        self.pending.update(self._wanting)

    def step(self, *, now: float, limit: int) -> list[Decision]:
        """Decide dirty keys and keys whose timer is due.

        `limit` counts one for each action, at least one for each key: actions cost more than
        decisions.
        """
        self._mark_due(now)
        decisions: list[Decision] = []
        spent = 0
        # Iterating a dict passes its deleted entries: do it once a step, and never if it is empty.
        for key in list(itertools.islice(self.pending, limit)) if self.pending else ():
            if spent >= limit:
                break
            del self.pending[key]
            if self._rests.puts_off(key, now=now):
                continue
            decision = self._decide(key, now=now)
            decisions.append(decision)
            spent += len(decision.allowed) or 1
        holding = self.policy.holding()
        if holding != (self.graph.holding or NONE_HELD):
            self.observe((holding,), now=now)
        return decisions

    def next_timer_s(self) -> float | None:
        times = (self._timers[0][0] if self._timers else None, self._rests.next_s())
        return min((time for time in times if time is not None), default=None)

    def contested(self) -> int:
        wants = (one.verdict.wants for one in self.standing.values())
        return sum(bool(want) and is_conflict(want[0]) for want in wants)

    def audit(self, *, now: float, limit: int) -> tuple[list[Surprise], bool]:
        """Decide a slice of all keys again; return wrong verdicts, and whether the round ended.

        A surprise means that some fact changed without marking its key. It makes the key dirty.
        """
        surprises: list[Surprise] = []
        for _ in range(limit):
            key = next(self._audit, None)
            if key is None:
                self._audit = iter(self.graph.keys.all())
                return surprises, True
            if self._settled(key, now=now) and (right := self._right(key, now=now)):
                surprises.append((key, self._standing_verdict(key), right))
                self.pending[key] = None
        return surprises, False

    def _right(self, key: Key, *, now: float) -> Verdict | None:
        """Return the correct verdict if the current one differs."""
        self.graph.forget_cached(key)
        try:
            verdict = decide(self.graph, key, now)
        except RuleError:
            return OUT_OF_SERVICE
        before = self._standing_verdict(key)
        if before is None:
            return verdict
        same = before.wants == verdict.wants and before.because == verdict.because
        return None if same else verdict

    def _standing_verdict(self, key: Key) -> Verdict | None:
        standing = self.standing.get(key)
        return None if standing is None else standing.verdict

    def _settled(self, key: Key, *, now: float) -> bool:
        """Whether the key is not pending, failed, due or forgotten."""
        if key in self.pending or self._rests.holds(key):
            return False
        if key in self.failures or not self.graph.keys.knows(key):
            return False
        standing = self.standing.get(key)
        again_s = standing.look_again_s if standing is not None else None
        return again_s is None or again_s > now

    def _decide(self, key: Key, *, now: float) -> Decision:
        try:
            verdict = decide(self.graph, key, now)
            self.graph.decided(key, verdict)
            self.failures.pop(key, None)
        except RuleError as error:
            self.failures[key] = error
            verdict = OUT_OF_SERVICE
        screened = self.policy.screen(self.graph, key, verdict, now=now)
        if self.graph.keys.knows(key):
            self._remember(key, verdict, screened.kept)
        else:
            self.standing.pop(key, None)
            self._wanting.pop(key, None)
        if key[0] == "nodeset":
            self._rests.begin(key, rows=self.graph.node_set_size(key[1]), now=now)
        return Decision(key, screened.allowed, verdict.because, screened.kept)

    def _remember(self, key: Key, verdict: Verdict, kept: tuple[Kept, ...]) -> None:
        standing = self.standing.get(key)
        if standing is None:
            standing = self.standing[key] = StandingVerdict(verdict)
        standing.verdict = verdict
        standing.kept = kept
        if verdict.wants:
            self._wanting[key] = None
        else:
            self._wanting.pop(key, None)
        again_s = _earliest(verdict, kept) if kept else verdict.look_again_s
        if again_s != standing.look_again_s and again_s is not None:
            heapq.heappush(self._timers, (again_s, key))
        standing.look_again_s = again_s

    def _mark_due(self, now: float) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now:
            again_s, key = heapq.heappop(timers)
            standing = self.standing.get(key)
            if standing is not None and standing.look_again_s == again_s:
                standing.look_again_s = None
                self.pending[key] = None
        self.pending.update(dict.fromkeys(self._rests.end(now=now)))


def _earliest(verdict: Verdict, kept: tuple[Kept, ...]) -> float | None:
    times = [verdict.look_again_s, *(one.again_s for one in kept)]
    return min((time for time in times if time is not None), default=None)


def is_conflict(action: Action) -> bool:
    """Whether the action reports several claims on one Slurm node (S16)."""
    return isinstance(action, RecordEvent) and action.event is EVENT_CONFLICT
