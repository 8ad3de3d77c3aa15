"""One random history: changes of the model, what readers report of them, and what is written.

A seed replays it exactly. The checks run after every step. At the end the faults stop, and
everything must converge.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, RecordEvent, Relist, target_of
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import GetResult, News
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.outcomes import Outcome, Unsure, shown_by
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from tests.core.checks import (
    Evidence,
    HistoryError,
    ReadSet,
    check_oracle,
    check_rest,
    check_safety,
    is_write,
)
from tests.core.world import POLLED, World
from tests.core.world_changes import WorldChanges
from tests.kit.build import CLUSTER_UID

STEPS = 150
REST_ROUNDS = 60
STILL_ROUNDS = 4
GLANCE_S = 0.05
"""So soon after a check, and without news, another one would see the same."""


class History(WorldChanges):
    """Run one seed. HistoryError carries the last steps in its notes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = self._world()
        self.tidy = self.rng.random() < 0.5
        """Few claims collide and few drains are foreign, so drains of sunk-sync get their turn."""
        self.hides = self.rng.random() < 0.2
        """The selector and the Slurm nodes change often."""
        self.uid = 0
        self.steps: deque[str] = deque(maxlen=25)
        self.answers: deque[tuple[Key, Outcome, float]] = deque()
        """Writes whose answer is under way: key, outcome, and when it was sent."""
        self.configuration = self._configuration()
        self.weights = {kind: self.rng.choice((1, 2, 4)) for kind in self._kinds()}
        self.weights[self._hear] = self.weights[self._push] = self.rng.choice((2, 4, 6))
        self.weights[self._break] = 3 if self.hides else self.rng.choice((0, 0, 1))
        self._start()
        self._prepare()
        if self.rng.random() < 0.7:
            self._relist()

    # WorkloadHistory overrides these

    def _world(self) -> World:
        return World(self.rng)

    def _configuration(self) -> Configuration:
        return Configuration(
            cluster_uid=CLUSTER_UID,
            cordon_on_slurm_drain=self.rng.random() < 0.4,
            max_drains_per_minute=self.rng.choice((None, None, 1)),
        )

    def _read_set(self) -> ReadSet:
        return ReadSet(self.graph)

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        return (self._change_kubernetes, self._change_slurm, self._hear, self._push, self._break)

    def _prepare(self) -> None:
        for change in (self._change_kubernetes, self._change_slurm) * 6:
            change()

    def _before_observing(self, news: Sequence[News]) -> None:
        """Called with facts that the graph does not know yet."""

    def _check(self, decision: Decision) -> None:
        check_safety(decision, self.reconciler, self.world, self.evidence)

    def _check_graph(self) -> None:
        self.evidence.remember_nodes(self.graph)
        check_oracle(self.reconciler, self.world.now)

    def _check_rest(self) -> None:
        check_rest(self.reconciler, self.world)

    def run(self) -> None:
        """Run random steps with faults, then converge without faults."""
        try:
            for _ in range(STEPS):
                kinds = list(self.weights)
                self.world.tick(self.rng.choice((0.01, 0.01, 0.5, 6.0)))
                self.rng.choices(kinds, list(self.weights.values()))[0]()
                self._settle()
            self._heal()
            self._converge()
        except HistoryError as error:
            error.add_note("\n".join(self.steps))
            raise

    def _start(self) -> None:
        """Start a new process: it knows nothing, and nothing of the old one is under way."""
        self.world.following.clear()
        for stream in self.world.streams.values():
            stream.clear()
        self.answers.clear()
        self.desired_writes: dict[Key, tuple[Action, ...]] = {}
        self.settled: set[tuple[Key, Action]] = set()
        self.graph = Graph(self.configuration)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        self.reads = self._read_set()
        self.evidence = Evidence()
        self.check_due_s = 0.0

    def _note(self, *what: object) -> None:
        self.steps.append(f"{self.world.now:.2f} " + " ".join(map(str, what)))

    # The loop around the reconciler

    def _observe(self, news: Sequence[News]) -> None:
        if not news:
            return
        for one in news:
            self._note("observed", one)
            if isinstance(one, GetResult):
                self.evidence.shown(one)
        self._before_observing(news)
        self.check_due_s = 0.0
        before = self.reads.rows()
        changed = set(self.reconciler.observe(news, now=self.world.now))
        self.settled = {
            (key, action)
            for key, action in self.settled
            if key not in changed or isinstance(action, RecordEvent | Relist)
        }
        self.reads.check(before, self.reconciler.pending)

    def _settle(self) -> None:
        """Decide all dirty keys, as the loop does, and check the decisions and what they leave."""
        for _ in range(50):
            decisions = self.reconciler.step(now=self.world.now, limit=100)
            if not decisions:
                break
            for decision in decisions:
                self._check(decision)
                self.desired_writes[decision.key] = decision.allowed
                self.reads.decided(decision.key, self.world.now)
            self.check_due_s = 0.0
        else:
            raise HistoryError("rest: decisions never end")
        if self.reconciler.failures:
            raise HistoryError(f"rule: {self.reconciler.failures}")
        if self.world.now >= self.check_due_s:
            self.check_due_s = self.world.now + GLANCE_S
            self._check_graph()

    # Faults and deliveries

    def _break(self) -> None:
        """The rarer faults."""
        world = self.world
        fault = self.rng.randrange(5)
        match 1 if self.hides and fault in (0, 3) else fault:
            case 0:
                self._note("restart")
                self._start()
            case 1:
                self._note("selector")
                world.hide_pods(not world.hidden)
            case 2:
                world.unreadable = self.rng.choice((0.0, 0.5, 1.0))
            case 3:
                world.lose("slurm_nodes", blind=True)
            case _:
                world.tick(self.rng.choice((41.0, 61.0)))

    def _hear(self) -> None:
        """A reader makes progress."""
        source = self.rng.choice(self.world.sources)
        world = self.world
        broken = not world.streams[source] and source not in world.following
        match self.rng.randrange(10):
            case 0:
                world.lose(source)
            case 1:
                world.start_listing(source, whole=False)
            case 2 | 3:
                world.start_listing(source)
            case 4:
                world.confirm(source)
            case 5:
                self._observe(world.repeat())
            case 6:
                self._observe(world.deliver(source, 1))
            case _ if broken:
                world.start_listing(source)
            case _:
                self._observe(world.deliver(source, self.rng.choice((1, 3, 100))))

    def _push(self) -> None:
        """Send some desired writes, and deliver some answers."""
        for _ in range(self.rng.choice((1, 3, 10))):
            ready = self._ready()
            if ready and self.rng.random() < 0.7:
                self._send(*self.rng.choice(ready))
            elif self.answers:
                self._answer(lost=self.rng.random() < 0.15)
            self._settle()

    def _ready(self) -> list[tuple[Key, Action]]:
        """Return the desired writes that are neither under way nor answered."""
        under_way = {target_of(outcome.action) for _, outcome, _ in self.answers}
        return [
            (key, action)
            for key, wants in self.desired_writes.items()
            for action in wants
            if (key, action) not in self.settled and target_of(action) not in under_way
        ]

    def _send(self, key: Key, action: Action) -> None:
        sent_s = self.world.now
        outcome = self.world.perform(action)
        self._note("wrote", outcome)
        self.answers.append((key, outcome, sent_s))

    def _answer(self, *, lost: bool = False) -> None:
        key, outcome, sent_s = self.answers.popleft()
        if lost:
            return
        if not isinstance(outcome, Unsure):
            self.settled.add((key, outcome.action))
        self._observe(shown_by(outcome, asked_s=sent_s))

    # Convergence

    def _heal(self) -> None:
        """End all faults: everything under way arrives, and every source is listed again."""
        self._note("heal")
        self.world.unreadable = 0.0
        self.world.hide_pods(False)  # noqa: FBT003
        while self.answers:
            self._answer()
            self._settle()
        self._relist()

    def _relist(self) -> None:
        for source in self.world.sources:
            self.world.start_listing(source)
            self._observe(self.world.deliver(source))
            self._settle()

    def _round(self) -> bool:
        """Send each desired write once; return whether anything was written."""
        wrote = False
        for key, action in self._ready():
            if action not in self.desired_writes.get(key, ()):
                continue
            self._send(key, action)
            self._answer()
            wrote |= is_write(action)
            self._settle()
        for source in self.world.sources:
            if source in POLLED:
                self.world.start_listing(source)
            self._observe(self.world.deliver(source))
            self._settle()
        return wrote

    def _converge(self) -> None:
        self._come_to_rest()
        self.world.tick(301.0)  # a host where a job was given up may be used again (P32)
        self._settle()
        self._come_to_rest()
        self._stay_at_rest()
        self._check_rest()

    def _come_to_rest(self) -> None:
        quiet = 0
        for number in range(REST_ROUNDS):
            wrote = self._round()
            quiet = 0 if wrote else quiet + 1
            self.world.tick(61.0 if number % 3 == 2 else 1.0)
            self._settle()
            if quiet > STILL_ROUNDS:
                return
        raise HistoryError(f"rest: not within {REST_ROUNDS} rounds: {self._ready()}")

    def _rests_s(self) -> Sequence[float]:
        return 1.0, 7.0, 50.0, 301.0

    def _stay_at_rest(self) -> None:
        """While nothing changes, nothing is written."""
        for seconds in self._rests_s():
            self.world.tick(seconds)
            self._settle()
            self._relist()
            if self._round():
                raise HistoryError("quiet: written though nothing changed")


def run_histories(seeds: Sequence[int] | range, kind: type[History] = History) -> None:
    """Run these seeds; the error names the seed that failed."""
    for seed in seeds:
        try:
            kind(seed).run()
        except HistoryError as error:
            error.add_note(f"replay: SUNK_SYNC_HISTORY={seed}")
            raise
