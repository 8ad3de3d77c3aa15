"""The loop: facts in, desired writes out, timers, audit, bounds."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sunk_sync.controller.batch import Cause
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
from sunk_sync.controller.outbox import Outbox, WriteReport, Writers
from sunk_sync.controller.workqueue import Limits, WorkQueue, Writer
from sunk_sync.core import decide as deciding
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, Bind, Drain, EndPod, GetObject, SetConditions
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
    reference_of,
)
from sunk_sync.core.model.keys import Key, host_key
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.verdict import Decision, Ruling
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.views.host import Host
from tests.kit.build import (
    CLUSTER_UID,
    POD,
    WORKLOAD,
    deleted,
    job,
    listing,
    marked,
    node,
    observed,
    pod,
    slurm_node,
    slurmd_pod,
)
from tests.kit.clock import in_virtual_time, now

LIMITS = Limits(concurrency=4, batch=1, leisurely=2)


class Journal:
    """A journal that keeps all entries."""

    traces: Any = None

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.sources: list[News] = []
        self.writes: list[tuple[Action, Outcome, str, float]] = []
        self.waited_s: list[float] = []
        self.keeps: list[tuple[Action, str]] = []
        self.failures: list[tuple[object, str]] = []
        self.surprises: list[object] = []
        self.delays_s: list[float] = []

    def stepped(self, seconds: float, keys: int, news: int) -> None:
        assert seconds >= 0
        self.steps.append((keys, news))

    def source(self, news: News) -> None:
        self.sources.append(news)

    def wrote(self, action: Action, outcome: Outcome, because: str, seconds: float) -> None:
        self.writes.append((action, outcome, because, seconds))

    def bound(self, waited_s: float) -> None:
        self.waited_s.append(waited_s)

    def ended(self, delay_s: float) -> None:
        self.delays_s.append(delay_s)

    def kept(self, action: Action, why: str, because: str) -> None:
        assert because
        self.keeps.append((action, why))

    def rule_failed(self, key: object, rule: str, error: BaseException) -> None:
        assert str(error)
        self.failures.append((key, rule))

    def surprise(self, key: object, standing: object, fresh: object) -> None:
        assert standing != fresh
        self.surprises.append(key)


class Controller:
    """A running loop with an outbox; the test answers its pushes."""

    def __init__(self, pause_s: float = 0.0, **chosen: object) -> None:
        configuration = Configuration(**{"cluster_uid": CLUSTER_UID, **chosen})  # type: ignore[arg-type]
        self.graph = Graph(configuration)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        self.pushed: list[tuple[float, Action]] = []
        self.first_drain_after: int | None = None
        """Keys decided before the first drain was sent."""
        self.answer: Callable[[Action], Outcome] = Done
        way = Writer(self.push, LIMITS)
        self.outbox = Outbox(
            Writers(slurm=way, jobs=way, kube=way, hooks=way), clock=now, random=lambda: 0.0
        )
        self.journal = Journal()
        self.loop = Loop(
            reconciler=self.reconciler,
            outbox=self.outbox,
            journal=self.journal,
            clock=now,
            pause=lambda: asyncio.sleep(pause_s),
        )
        self.task = asyncio.ensure_future(self.loop.run())
        self.work_queues = asyncio.ensure_future(self.outbox.run())

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        self.pushed += [(now(), action) for action in actions]
        if self.first_drain_after is None and any(isinstance(one, Drain) for one in actions):
            self.first_drain_after = sum(keys for keys, _ in self.journal.steps)
        await asyncio.sleep(0.01)
        return [self.answer(action) for action in actions]

    async def listed(self, *rows: object) -> None:
        """Report one listing of all three sources."""
        kinds = {"nodes": "Node", "slurmd_pods": "SlurmdPod", "slurm_nodes": "SlurmNode"}
        for source, kind in kinds.items():
            mine = [row for row in rows if type(row).__name__ == kind]
            await self.loop.tell(listing(source, *mine, begun_s=now()))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)

    async def hear(self, seconds: float, *news: News) -> None:
        """Report facts, and let time pass."""
        await self.loop.tell(news)
        await asyncio.sleep(seconds)

    def drains(self) -> list[Action]:
        return [action for _, action in self.pushed if isinstance(action, Drain)]


HOST = (node(), slurmd_pod(), slurm_node("n1", comment=marked()))


async def on_host(**chosen: object) -> Controller:
    """Start a controller that has listed one host."""
    made = Controller(**chosen)  # type: ignore[arg-type]
    await made.listed(*HOST)
    return made


@in_virtual_time
async def test_a_fact_is_pushed_at_once_with_its_cause() -> None:
    controller = await on_host()
    begun_s = now()
    await controller.hear(0.1, observed(node(unschedulable=True)))
    drain = Drain("n1", "k8s: node cordoned")
    assert (begun_s, drain) in controller.pushed
    writes = controller.journal.writes
    (outcome, because, seconds) = next(one[1:] for one in writes if one[0] == drain)
    assert outcome == Done(drain)
    assert because.startswith("drained: Node kn1 is cordoned")
    assert seconds == pytest.approx(0.01)


class Traces:
    """Keeps what the loop tells of."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.calls: list[tuple[Action, float, float]] = []

    def decided(self, graph: Graph, decision: Decision) -> None:
        assert graph.sources.readiness
        self.keys.append(decision.key)

    def answered(self, outcome: Outcome, *, sent_s: float, answered_s: float) -> None:
        self.calls.append((outcome.action, sent_s, answered_s))


@in_virtual_time
async def test_traces_hear_of_each_decision_and_of_each_answer_with_its_times() -> None:
    controller = await on_host()
    traces = controller.journal.traces = Traces()
    begun_s = now()
    await controller.hear(0.1, observed(node(unschedulable=True)))
    assert traces.keys[0] == host_key("n1")
    drain = Drain("n1", "k8s: node cordoned")
    (found,) = [call for call in traces.calls if call[0] == drain]
    assert found[1:] == pytest.approx((begun_s, begun_s + 0.01))


@in_virtual_time
async def test_a_standby_traces_nothing() -> None:
    controller = await on_host()
    controller.loop.leading = False
    traces = controller.journal.traces = Traces()
    await controller.hear(0.1, observed(node(unschedulable=True)))
    assert traces.keys == []


@in_virtual_time
async def test_the_fact_in_a_refusal_ends_the_desired_write() -> None:
    controller = await on_host()
    human = slurm_node("n1", "IDLE+DRAIN", reason="fan", comment=marked())
    controller.answer = lambda action: Refused(action, "not ours", (Observed(human, 1e9),))
    await controller.hear(30, observed(node(unschedulable=True)))
    assert controller.graph.slurm_nodes.get("n1") == human
    assert len(controller.drains()) == 1


@in_virtual_time
async def test_a_timer_drains_without_a_fact_S4() -> None:
    controller = await on_host()
    begun_s = now()
    await controller.hear(20, observed(slurmd_pod(ready=False)))
    at_s, action = next(one for one in controller.pushed if isinstance(one[1], Drain))
    assert action == Drain("n1", "k8s: pod not ready", absence=True)
    assert at_s - begun_s == pytest.approx(5, abs=0.001)


@in_virtual_time
async def test_without_facts_the_loop_only_updates_its_heartbeat_M5() -> None:
    controller = await on_host()
    await asyncio.sleep(2)
    controller.pushed.clear()
    controller.journal.steps.clear()
    await asyncio.sleep(300)
    assert now() - controller.loop.beat_s <= HEARTBEAT_S + 0.01
    assert not controller.pushed
    assert set(controller.journal.steps) == {(0, 0)}
    assert len(controller.journal.steps) <= 400


@in_virtual_time
async def test_the_audit_decides_again_about_an_unmarked_change() -> None:
    controller = await on_host()
    await asyncio.sleep(AUDIT_ROUND_S + 2)
    assert not controller.journal.surprises
    controller.graph.nodes.entries["kn1"].row = node(unschedulable=True)
    await asyncio.sleep(2 * AUDIT_ROUND_S)
    assert controller.journal.surprises == [host_key("n1")]
    assert controller.drains() == [Drain("n1", "k8s: node cordoned")]


@in_virtual_time
async def test_the_audit_waits_while_facts_wait() -> None:
    controller = await on_host()
    controller.graph.nodes.entries["kn1"].row = node(unschedulable=True)
    controller.loop._audit_next_s = now()
    controller.loop._inbox.extend([Confirmed("nodes", now())] * (NEWS_PER_STEP + 1))
    controller.loop._step()
    assert not controller.journal.surprises


@in_virtual_time
async def test_the_audit_waits_while_keys_wait() -> None:
    controller = await on_host()
    due_s = controller.loop._audit_next_s = now()
    others = [host_key(f"other{number}") for number in range(KEYS_PER_STEP + 1)]
    controller.loop.reconciler.pending.update(dict.fromkeys(others))
    controller.loop._step()
    assert controller.loop._audit_next_s == due_s
    assert controller.loop._step()
    assert controller.loop._audit_next_s == due_s
    controller.loop._step()
    assert controller.loop._audit_next_s > due_s


@in_virtual_time
async def test_the_audit_has_a_step_of_its_own_also_while_news_come_all_the_time() -> None:
    """With news in the same step it would take too long."""
    controller = await on_host()
    due_s = controller.loop._audit_next_s = now()
    for audited in (False, True):
        controller.loop._inbox.append(Confirmed("nodes", now()))
        assert controller.loop._step()
        assert (controller.loop._audit_next_s > due_s) == audited
    assert controller.loop._inbox


@in_virtual_time
async def test_a_refused_write_is_retried_without_a_fact() -> None:
    """An administrator may have granted the permission."""
    controller = await on_host()
    controller.answer = lambda action: Refused(action, "forbidden")
    await controller.hear(290, observed(node(unschedulable=True)))
    assert len(controller.drains()) == 1
    await asyncio.sleep(180)
    assert len(controller.drains()) == 2


@in_virtual_time
async def test_readers_wait_while_the_inbox_is_full() -> None:
    controller = Controller()
    controller.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await controller.task
    rows = [observed(slurm_node(f"n{i}")) for i in range(INBOX_MAX)]
    await controller.loop.tell(rows)
    late = asyncio.ensure_future(controller.loop.tell([observed(slurm_node("late"))]))
    await asyncio.sleep(1)
    assert not late.done()
    controller.task = asyncio.ensure_future(controller.loop.run())
    await asyncio.sleep(1)
    assert late.done()
    assert len(controller.graph.slurm_nodes.entries) == INBOX_MAX + 1


@in_virtual_time
async def test_a_step_takes_a_bounded_number_of_facts_and_keys() -> None:
    controller = Controller()
    rows = [slurm_node(f"n{i}") for i in range(2000)]
    await controller.listed(*rows, *[node(f"n{i}") for i in range(2000)])
    await asyncio.sleep(5)
    steps = controller.journal.steps
    assert max(news for _, news in steps) == NEWS_PER_STEP
    assert max(keys for keys, _ in steps) <= KEYS_PER_STEP
    assert len(steps) > 4000 / NEWS_PER_STEP


@in_virtual_time
async def test_slow_steps_become_smaller() -> None:
    taken: list[int] = []
    controller = Controller()
    await controller.listed()
    controller.journal.steps.clear()
    controller.loop._inbox.extend(observed(node(f"n{number}")) for number in range(500))
    late_s = itertools.count(0.0, 0.01)
    for clock in (lambda: now() + next(late_s), now):
        controller.loop._clock = clock
        for _ in range(6):
            controller.loop._step()
    taken.extend(news for _, news in controller.journal.steps)
    assert taken == [100, 50, 25, 12, 6, 6, 6, 12, 25, 50, 100, 100]


@pytest.mark.parametrize(
    ("pause_s", "steps"), [(0.0, 20), (0.02, 4)], ids=["together", "no longer than a moment"]
)
@in_virtual_time
async def test_a_batch_of_many_steps_is_sent_together_but_soon(pause_s: float, steps: int) -> None:
    """The first drain waits for the last of its batch, to share requests."""
    names = [f"n{i}" for i in range(5 * KEYS_PER_STEP)]
    controller = Controller(pause_s=pause_s)
    await controller.listed(*[node(name) for name in names], *[slurm_node(name) for name in names])
    await asyncio.sleep(10)
    controller.journal.steps.clear()
    await controller.hear(10, *(observed(node(name, unschedulable=True)) for name in names))
    assert BATCH_S < 3 * 0.02
    assert controller.first_drain_after == steps * controller.journal.steps[0][0]


@in_virtual_time
async def test_a_failing_rule_stops_only_its_key_F7(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(host: Host, *_: object) -> Ruling:
        if host.name == "n2":
            raise ValueError("odd")
        return Ruling()

    monkeypatch.setitem(deciding.HOST_RULES, "retire", rule)
    controller = Controller()
    odd = (node("kn2"), slurmd_pod("n2"), slurm_node("n2", comment=marked("n2")))
    await controller.listed(*HOST, *odd)
    cordons = [observed(node(name, unschedulable=True)) for name in ("kn1", "kn2")]
    await controller.loop.tell(cordons)
    await asyncio.sleep(1)
    assert set(controller.journal.failures) == {(host_key("n2"), "retire")}
    assert controller.drains() == [Drain("n1", "k8s: node cordoned")]


@in_virtual_time
async def test_a_fact_that_breaks_the_graph_ends_the_loop() -> None:
    controller = Controller()
    await controller.loop.tell([Observed(slurm_node(), "no order")])  # type: ignore[arg-type]
    await controller.loop.tell([Observed(slurm_node("n1", "DOWN"), 1.0)])
    with pytest.raises(TypeError):
        await controller.task


@in_virtual_time
async def test_a_write_kept_by_policy_is_reported_once() -> None:
    controller = await on_host(dry_run=True)
    for number in range(5):
        reason = f"text {number}"
        await controller.loop.tell([observed(node(unschedulable=True, cordon_reason="disk"))])
        await controller.hear(1, observed(slurm_node("n1", reason=reason, comment=marked())))
    await controller.hear(1, observed(node()))
    drains = [one for one in controller.journal.keeps if isinstance(one[0], Drain)]
    assert drains == [(Drain("n1", "k8s: node cordoned: disk"), "dry run")]
    assert not controller.pushed


@in_virtual_time
async def test_listings_confirmations_and_losses_are_reported_in_order() -> None:
    controller = await on_host()
    controller.journal.sources.clear()
    lost = Lost("slurm_nodes", "down")
    await controller.loop.tell([lost, Confirmed("slurm_nodes", now()), observed(slurm_node("n2"))])
    await controller.hear(0.1, *listing("nodes", node()))
    kinds = [type(news) for news in controller.journal.sources]
    assert kinds == [Lost, Confirmed, ListingStarted, ListingEnded]


@pytest.mark.parametrize("source", ["slurm_nodes", "nodes"])
@in_virtual_time
async def test_a_source_that_returns_hurries_its_failed_writes_F4(source: str) -> None:
    controller = await on_host()
    await asyncio.sleep(2)
    controller.answer = lambda action: Unsure(action, "down")
    await controller.loop.tell(
        [observed(node(unschedulable=True)), Lost(source, "down")]  # type: ignore[arg-type]
    )
    await asyncio.sleep(100)
    controller.answer = Done
    back_s = now()
    controller.pushed.clear()
    await controller.loop.tell([Confirmed(source, now())])  # type: ignore[arg-type]
    await asyncio.sleep(0.1)
    kind = Drain if source == "slurm_nodes" else SetConditions
    assert [at for at, action in controller.pushed if isinstance(action, kind)][:1] == [back_s]


@pytest.mark.parametrize("source", ["slurm_nodes", "jobs"])
@in_virtual_time
async def test_slurm_that_returns_hurries_writes_on_jobs_and_nodes_F4(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    controller = await on_host()
    await controller.hear(0.1, *listing("jobs"))
    await controller.hear(0.1, Lost(source, "down"))
    hurried: list[WorkQueue] = []
    monkeypatch.setattr(WorkQueue, "hurry", lambda work_queue: hurried.append(work_queue))
    await controller.hear(0.1, Confirmed(source, now()))
    assert hurried == [controller.outbox.slurm, controller.outbox.jobs]


@in_virtual_time
async def test_a_deleted_pod_is_read_and_a_404_drains_its_node_S7() -> None:
    controller = await on_host()

    def answer(action: Action) -> Outcome:
        if isinstance(action, GetObject):
            return Done(action, (GetResult("Pod", "slurm", action.name, "no", "", now()),))
        return Done(action)

    controller.answer = answer
    await controller.hear(1, deleted("slurmd_pods", slurmd_pod()))
    assert controller.drains() == [Drain("n1", "k8s: pod terminated", absence=True)]


@in_virtual_time
async def test_flush_processes_all_waiting_facts_F10() -> None:
    controller = await on_host()
    controller.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await controller.task
    await controller.loop.tell([Confirmed("nodes", now())] * (2 * NEWS_PER_STEP))
    controller.loop.flush()
    assert not controller.loop._inbox


@in_virtual_time
async def test_the_audit_visits_all_hosts_in_slices() -> None:
    controller = Controller()
    names = [f"n{i}" for i in range(3 * AUDIT_STEP)]
    await controller.listed(*[node(name) for name in names], *[slurm_node(name) for name in names])
    await asyncio.sleep(1)
    for name in names[::50]:
        controller.graph.nodes.entries[name].row = node(name, unschedulable=True)
    await asyncio.sleep(2 * AUDIT_ROUND_S + 2)
    assert sorted(map(str, controller.journal.surprises)) == sorted(
        str(host_key(name)) for name in names[::50]
    )


@in_virtual_time
async def test_a_binding_reports_how_long_its_pod_had_waited() -> None:
    made = Controller(scheduler="sunk")
    await made.loop.tell([*listing("pods", POD, begun_s=now())])
    await asyncio.sleep(3)
    where = Bind(reference_of(POD), "kn1", "7", "n1")
    begun_s = now()
    report = WriteReport(Done(where), Cause(("workload", WORKLOAD), "", begun_s), begun_s, begun_s)
    await made.loop.tell([report])
    await asyncio.sleep(0.1)
    assert made.journal.waited_s == [pytest.approx(3, abs=0.01)]


@in_virtual_time
async def test_an_end_reports_how_long_the_pod_outlived_its_job() -> None:
    made = Controller(scheduler="sunk")
    bound = pod(node_name="kn1", job_id="1")
    end = Done(EndPod(reference_of(bound), "TerminationByScheduler", "its job was cancelled"))
    await made.loop.tell(listing("pods", bound, begun_s=now()))
    for state in ("RUNNING", "CANCELLED"):
        await made.loop.tell(listing("jobs", job(bound, state=state), begun_s=now()))
        await asyncio.sleep(2)
        made.journal.delays_s.clear()
        report = WriteReport(end, Cause(("workload", WORKLOAD), "", now()), now(), now())
        await made.loop.tell([report])
        await asyncio.sleep(0.1)
        assert len(made.journal.delays_s) == (state == "CANCELLED")
    assert made.journal.delays_s == [pytest.approx(2, abs=0.1)]
