"""The loop: news in, wishes out, timers, audit, and bounds on everything."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest

from sunk_sync.controller.loop import (
    AUDIT_ROUND_S,
    AUDIT_STEP,
    BATCH_S,
    HEARTBEAT_S,
    INBOX_MAX,
    KEYS_PER_STEP,
    NEWS_PER_STEP,
    Loop,
)
from sunk_sync.controller.outbox import Outbox, Writers
from sunk_sync.controller.workqueue import Limits, WorkQueue
from sunk_sync.core import decide as deciding
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import (
    Action,
    Drain,
    GetObject,
    SetConditions,
)
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    Confirmed,
    GetResult,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
    Source,
)
from sunk_sync.core.model.keys import host_key
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.views.host import Host
from tests.kit.build import (
    CLUSTER_UID,
    deleted,
    listing,
    marked,
    node,
    observed,
    slurm_node,
    slurmd_pod,
)
from tests.kit.clock import now, run

LIMITS = Limits(concurrency=4, batch=1, leisurely=2)


class Diary:
    """A journal that remembers everything."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.sources: list[News] = []
        self.writes: list[tuple[Action, Outcome, str, float]] = []
        self.keeps: list[tuple[Action, str]] = []
        self.failures: list[tuple[object, str]] = []
        self.surprises: list[object] = []

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        assert seconds >= 0
        self.steps.append((keys, news))

    def source(self, news: News) -> None:
        self.sources.append(news)

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        self.writes.append((action, outcome, because, seconds))

    def kept(self, action: Action, why: str, because: str) -> None:
        assert because
        self.keeps.append((action, why))

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        assert str(error)
        self.failures.append((key, rule))

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        assert standing != fresh
        self.surprises.append(key)


class House:
    """A running loop with an outbox whose pushes the test answers."""

    def __init__(self, pause_s: float = 0.0, **chosen: object) -> None:
        configuration = Configuration(**{"cluster_uid": CLUSTER_UID, **chosen})  # type: ignore[arg-type]
        self.graph = Graph(configuration)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        self.pushed: list[tuple[float, Action]] = []
        self.first_drain_after: int | None = None
        """Keys that had been decided when the first drain left."""
        self.answer: Callable[[Action], Outcome] = Done
        way = (self.push, LIMITS)
        self.outbox = Outbox(
            Writers(slurm=way, jobs=way, kube=way, hooks=way), clock=now, random=lambda: 0.0
        )
        self.diary = Diary()
        self.loop = Loop(
            reconciler=self.reconciler,
            outbox=self.outbox,
            journal=self.diary,
            clock=now,
            pause=lambda: asyncio.sleep(pause_s),
        )
        self.task = asyncio.ensure_future(self.loop.run())
        self.work_queues = asyncio.ensure_future(self.outbox.run())

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        self.pushed += [(now(), action) for action in actions]
        if self.first_drain_after is None and any(isinstance(one, Drain) for one in actions):
            self.first_drain_after = sum(keys for keys, _ in self.diary.steps)
        await asyncio.sleep(0.01)
        return [self.answer(action) for action in actions]

    async def listed(self, *rows: object) -> None:
        """All three sources, once."""
        kinds = {"nodes": "Node", "slurmd_pods": "SlurmdPod", "slurm_nodes": "SlurmNode"}
        for source, kind in kinds.items():
            mine = [row for row in rows if type(row).__name__ == kind]
            await self.loop.tell(listing(source, *mine, begun_s=now()))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)

    def drains(self) -> list[Action]:
        return [action for _, action in self.pushed if isinstance(action, Drain)]


def story(
    tell: Callable[[House], Awaitable[None]], *, pause_s: float = 0.0, **chosen: object
) -> House:
    async def whole() -> House:
        house = House(pause_s, **chosen)
        await tell(house)
        return house

    return run(whole())


HOST = (node(), slurmd_pod(), slurm_node("n1", comment=marked()))


def test_news_become_a_push_in_the_same_moment() -> None:
    """A cordon is on its way to Slurm without any tick, and its line names the cause."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        begun_s = now()
        await house.loop.tell([observed(node(unschedulable=True))])
        await asyncio.sleep(0.1)
        assert (begun_s, drain) in house.pushed

    drain = Drain("n1", "k8s: node cordoned")
    writes = story(tell).diary.writes
    (outcome, because, seconds) = next(one[1:] for one in writes if one[0] == drain)
    assert outcome == Done(drain)
    assert because.startswith("drained: Node kn1 is cordoned")
    assert seconds == pytest.approx(0.01)


def test_what_an_outcome_saw_is_news() -> None:
    """A refusal's fresh fact ends the desired write without another poll."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        human = slurm_node("n1", "IDLE+DRAIN", reason="fan", comment=marked())
        house.answer = lambda action: Refused(action, "not ours", (Observed(human, 1e9),))
        await house.loop.tell([observed(node(unschedulable=True))])
        await asyncio.sleep(30)
        assert house.graph.slurm_nodes.get("n1") == human

    assert len(story(tell).drains()) == 1


def test_timers_ring_without_any_news() -> None:
    """S4: five seconds after the Pod turned, to the moment."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        begun_s = now()
        await house.loop.tell([observed(slurmd_pod(ready=False))])
        await asyncio.sleep(20)
        at_s, action = next(one for one in house.pushed if isinstance(one[1], Drain))
        assert action == Drain("n1", "k8s: pod not ready", absence=True)
        assert at_s - begun_s == pytest.approx(5, abs=0.001)

    story(tell)


def test_a_quiet_world_only_beats() -> None:
    """M5: no news, no keys, no pushes: a heartbeat a second, which /livez looks at."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        await asyncio.sleep(2)
        house.pushed.clear()
        house.diary.steps.clear()
        await asyncio.sleep(300)
        assert now() - house.loop.beat_s <= HEARTBEAT_S + 0.01

    house = story(tell)
    assert not house.pushed
    assert set(house.diary.steps) == {(0, 0)}
    assert len(house.diary.steps) <= 400


def test_the_audit_finds_a_missing_edge_within_its_round() -> None:
    """A fact that changed unmarked is said, decided anew and pushed."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        await asyncio.sleep(AUDIT_ROUND_S + 2)
        assert not house.diary.surprises
        house.graph.nodes.entries["kn1"].row = node(unschedulable=True)
        await asyncio.sleep(2 * AUDIT_ROUND_S)

    house = story(tell)
    assert house.diary.surprises == [host_key("n1")]
    assert house.drains() == [Drain("n1", "k8s: node cordoned")]


def test_the_audit_waits_while_news_wait() -> None:
    """Under load the news go first."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        house.graph.nodes.entries["kn1"].row = node(unschedulable=True)
        house.loop._audit_next_s = now()
        house.loop._inbox.extend([Confirmed("nodes", now())] * (NEWS_PER_STEP + 1))
        house.loop._step()
        assert not house.diary.surprises

    story(tell)


def test_the_audit_waits_while_keys_wait() -> None:
    """A step that decides as much as one may has no time for it."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        due_s = house.loop._audit_next_s = now()
        others = [host_key(f"other{number}") for number in range(KEYS_PER_STEP + 1)]
        house.loop.reconciler.pending.update(dict.fromkeys(others))
        house.loop._step()
        assert house.loop._audit_next_s == due_s
        house.loop._step()
        assert house.loop._audit_next_s > due_s

    story(tell)


def test_a_refusal_is_tried_anew_by_the_audits_round() -> None:
    """Permissions were given meanwhile; no fact changed."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        house.answer = lambda action: Refused(action, "forbidden")
        await house.loop.tell([observed(node(unschedulable=True))])
        await asyncio.sleep(290)
        assert len(house.drains()) == 1
        await asyncio.sleep(180)

    assert len(story(tell).drains()) == 2


def test_the_inbox_is_bounded_and_readers_wait() -> None:
    """Whoever tells more than the loop can take stands still, and nothing is lost."""

    async def tell(house: House) -> None:
        house.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await house.task
        rows = [observed(slurm_node(f"n{i}")) for i in range(INBOX_MAX)]
        await house.loop.tell(rows)
        late = asyncio.ensure_future(house.loop.tell([observed(slurm_node("late"))]))
        await asyncio.sleep(1)
        assert not late.done()
        house.task = asyncio.ensure_future(house.loop.run())
        await asyncio.sleep(1)
        assert late.done()
        assert len(house.graph.slurm_nodes.entries) == INBOX_MAX + 1

    story(tell)


def test_no_stretch_takes_more_than_its_share() -> None:
    """However much waits: so many news and so many keys between two awaits."""

    async def tell(house: House) -> None:
        rows = [slurm_node(f"n{i}") for i in range(2000)]
        await house.listed(*rows, *[node(f"n{i}") for i in range(2000)])
        await asyncio.sleep(5)

    steps = story(tell).diary.steps
    assert max(news for _, news in steps) == NEWS_PER_STEP
    assert max(keys for keys, _ in steps) <= KEYS_PER_STEP
    assert len(steps) > 4000 / NEWS_PER_STEP


def test_steps_are_smaller_while_they_take_long() -> None:
    """A busy machine, or one half as quick: others get their turn all the same."""

    taken: list[int] = []

    async def tell(house: House) -> None:
        await house.listed()
        house.diary.steps.clear()
        house.loop._inbox.extend(observed(node(f"n{number}")) for number in range(500))
        late_s = itertools.count(0.0, 0.01)
        for clock in (lambda: now() + next(late_s), now):
            house.loop._clock = clock
            for _ in range(6):
                house.loop._step()
        taken.extend(news for _, news in house.diary.steps)

    story(tell)
    assert taken == [100, 50, 25, 12, 6, 6, 6, 12, 25, 50, 100, 100]


@pytest.mark.parametrize(
    ("pause_s", "steps"), [(0.0, 20), (0.02, 4)], ids=["together", "no longer than a moment"]
)
def test_a_batch_of_several_steps_leaves(pause_s: float, steps: int) -> None:
    """The first drain waits for the last of its batch, to share requests, but never long."""
    names = [f"n{i}" for i in range(5 * KEYS_PER_STEP)]

    async def tell(house: House) -> None:
        await house.listed(*[node(name) for name in names], *[slurm_node(name) for name in names])
        await asyncio.sleep(10)
        house.diary.steps.clear()
        await house.loop.tell([observed(node(name, unschedulable=True)) for name in names])
        await asyncio.sleep(10)

    assert BATCH_S < 3 * 0.02
    house = story(tell, pause_s=pause_s)
    assert house.first_drain_after == steps * house.diary.steps[0][0]


def test_a_rule_that_breaks_is_told_and_the_others_go_on_F7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One odd object stops its key alone."""

    def rule(host: Host, *_: object) -> Ruling:
        if host.name == "n2":
            raise ValueError("odd")
        return Ruling()

    monkeypatch.setitem(deciding.HOST_RULES, "retire", rule)

    async def tell(house: House) -> None:
        odd = (node("kn2"), slurmd_pod("n2"), slurm_node("n2", comment=marked("n2")))
        await house.listed(*HOST, *odd)
        cordons = [observed(node(name, unschedulable=True)) for name in ("kn1", "kn2")]
        await house.loop.tell(cordons)
        await asyncio.sleep(1)

    house = story(tell)
    assert set(house.diary.failures) == {(host_key("n2"), "retire")}
    assert house.drains() == [Drain("n1", "k8s: node cordoned")]


def test_a_broken_invariant_of_the_graph_ends_the_loop() -> None:
    """The process ends, lists anew and starts clean."""

    async def tell(house: House) -> None:
        await house.loop.tell([Observed(slurm_node(), "no order")])  # type: ignore[arg-type]
        await house.loop.tell([Observed(slurm_node("n1", "DOWN"), 1.0)])
        with pytest.raises(TypeError):
            await house.task

    story(tell)


def test_what_policy_keeps_is_told_once() -> None:
    """Not at every look."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        for number in range(5):
            reason = f"text {number}"
            await house.loop.tell([observed(node(unschedulable=True, cordon_reason="disk"))])
            await house.loop.tell([observed(slurm_node("n1", reason=reason, comment=marked()))])
            await asyncio.sleep(1)
        await house.loop.tell([observed(node())])
        await asyncio.sleep(1)

    house = story(tell, dry_run=True)
    drains = [one for one in house.diary.keeps if isinstance(one[0], Drain)]
    assert drains == [(Drain("n1", "k8s: node cordoned: disk"), "dry run")]
    assert not house.pushed


def test_sources_are_told_as_they_come_and_go() -> None:
    """Begin and end of a listing, confirmations and losses, in their order; no rows."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        house.diary.sources.clear()
        lost = Lost("slurm_nodes", "down")
        await house.loop.tell([lost, Confirmed("slurm_nodes", now()), observed(slurm_node("n2"))])
        await house.loop.tell(listing("nodes", node()))
        await asyncio.sleep(0.1)

    kinds = [type(news) for news in story(tell).diary.sources]
    assert kinds == [Lost, Confirmed, ListingStarted, ListingEnded]


@pytest.mark.parametrize("source", ["slurm_nodes", "nodes"])
def test_a_source_that_returns_hurries_what_failed_there(source: str) -> None:
    """An outage of minutes does not cost another half minute: F4."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        await asyncio.sleep(2)
        house.answer = lambda action: Unsure(action, "down")
        await house.loop.tell(
            [observed(node(unschedulable=True)), Lost(source, "down")]  # type: ignore[arg-type]
        )
        await asyncio.sleep(100)
        house.answer = Done
        back_s = now()
        house.pushed.clear()
        await house.loop.tell([Confirmed(source, now())])  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        kind = Drain if source == "slurm_nodes" else SetConditions
        assert [at for at, action in house.pushed if isinstance(action, kind)][:1] == [back_s]

    story(tell)


@pytest.mark.parametrize("source", ["slurm_nodes", "jobs"])
def test_slurm_that_returns_hurries_writes_to_jobs_too_F4(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    """After a long outage a job that is to end need not wait for half a minute of back-off."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        await house.loop.tell(listing("jobs"))
        await asyncio.sleep(0.1)
        await house.loop.tell([Lost(source, "down")])
        await asyncio.sleep(0.1)
        hurried: list[WorkQueue] = []
        monkeypatch.setattr(WorkQueue, "hurry", lambda work_queue: hurried.append(work_queue))
        await house.loop.tell([Confirmed(source, now())])
        await asyncio.sleep(0.1)
        assert hurried == [house.outbox.slurm, house.outbox.jobs]

    story(tell)


def test_a_missing_pod_is_asked_for_and_the_answer_drains() -> None:
    """S7 from end to end: DELETED, read by name, 404, DRAIN."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)

        def answer(action: Action) -> Outcome:
            if isinstance(action, GetObject):
                return Done(action, (GetResult("Pod", "slurm", action.name, "no", "", now()),))
            return Done(action)

        house.answer = answer
        await house.loop.tell([deleted("slurmd_pods", slurmd_pod())])
        await asyncio.sleep(1)

    assert story(tell).drains() == [Drain("n1", "k8s: pod terminated", absence=True)]


def test_the_last_answers_are_taken_in_F10() -> None:
    """flush(): each write has its line, also at the end."""

    async def tell(house: House) -> None:
        await house.listed(*HOST)
        house.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await house.task
        await house.loop.tell([Confirmed("nodes", now())] * (2 * NEWS_PER_STEP))
        house.loop.flush()
        assert not house.loop._inbox

    story(tell)


def test_the_audit_of_many_hosts_goes_by_slices() -> None:
    """All of them once a minute, a hundred at a stretch."""

    async def tell(house: House) -> None:
        names = [f"n{i}" for i in range(3 * AUDIT_STEP)]
        await house.listed(*[node(name) for name in names], *[slurm_node(name) for name in names])
        await asyncio.sleep(1)
        for name in names[::50]:
            house.graph.nodes.entries[name].row = node(name, unschedulable=True)
        await asyncio.sleep(2 * AUDIT_ROUND_S + 2)
        assert sorted(map(str, house.diary.surprises)) == sorted(
            str(host_key(name)) for name in names[::50]
        )

    story(tell)
