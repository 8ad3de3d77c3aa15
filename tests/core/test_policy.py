"""Which wanted writes policy keeps back, and the breaker (S19)."""

from typing import Any

import pytest

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import (
    AnswerGate,
    Cordon,
    Drain,
    GetObject,
    RecordEvent,
    Relist,
    RewriteReason,
    SetComment,
    SetConditions,
    SetMetadata,
    Undrain,
)
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Confirmed, Lost, Row, Source
from sunk_sync.core.model.keys import CLUSTER, host_key
from sunk_sync.core.model.names import DRAINED, MANAGER_MIRROR, MANAGER_RETIRE
from sunk_sync.core.model.restraint import Holding, Paused
from sunk_sync.core.model.verdict import Verdict
from sunk_sync.core.policy import HELD_AGAIN_S, MINUTE_S, Breaker, Policy, drain_limit
from tests.kit.build import POD, Core, deleted, marked, node, room, slurm_node, slurmd_pod

SOURCES: tuple[Source, ...] = ("nodes", "slurmd_pods", "slurm_nodes")


def hosts(count: int) -> list[str]:
    return [f"n{i}" for i in range(count)]


def unready(count: int, **chosen: Any) -> Core:
    """Make so many hosts whose Pods have not been ready for longer than the grace."""
    rows: list[Row] = []
    for name in hosts(count):
        rows += [node(f"k{name}"), slurmd_pod(name, ready=False), slurm_node(name)]
    core = Core(*rows, **chosen)
    core.wait(6)
    return core


def drained(core: Core, count: int) -> set[str]:
    """Return which of so many hosts may be drained."""
    return {name for name in hosts(count) if core.allowed(name, Drain)}


def held(core: Core) -> int:
    return core.graph.holding.count if core.graph.holding else 0


def carry_out(core: Core, names: set[str]) -> None:
    for name in names:
        core.see(slurm_node(name, "IDLE+DRAIN", reason="k8s: pod not ready"))


def relist(core: Core, count: int) -> None:
    """List both sources once more, without a change."""
    core.see_listing("nodes", *[node(f"k{name}") for name in hosts(count)], after_s=1)
    pods = [slurmd_pod(name, ready=False) for name in hosts(count)]
    core.see_listing("slurmd_pods", *pods, after_s=0.1)


@pytest.mark.parametrize("missing", SOURCES)
def test_nothing_is_written_before_every_source_was_listed_S20(missing: Source) -> None:
    core = Core(listed=False)
    rows: dict[Source, Row] = {
        "nodes": node(unschedulable=True),
        "slurmd_pods": slurmd_pod(),
        "slurm_nodes": slurm_node(),
    }
    for source, row in rows.items():
        if source != missing:
            core.see_listing(source, row)
    core.see(*rows.values())
    assert core.wants("n1", Drain)
    assert not core.allowed("n1")
    core.see_listing(missing, rows[missing])
    assert core.allowed("n1", Drain)


@pytest.mark.parametrize("lost", SOURCES)
def test_no_drain_is_lifted_while_a_source_cannot_be_read_F4(lost: Source) -> None:
    """A cause may exist unseen. Drains go on."""
    ours = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned")
    core = Core(node(), slurmd_pod(), ours)
    assert core.allowed("n1", Undrain)
    core.see(Lost(lost, "broken"))
    assert core.wants("n1", Undrain)
    assert not core.allowed("n1", Undrain)
    core.see(node(unschedulable=True), slurm_node("n1"))
    assert core.allowed("n1", Drain)
    core.see(node(), ours, Confirmed(lost, core.now))
    assert core.allowed("n1", Undrain)


def test_our_reason_without_drain_stays_while_a_source_cannot_be_read_F4() -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", reason="k8s: node cordoned"))
    assert core.allowed("n1", RewriteReason)
    core.see(Lost("nodes", "broken"))
    assert core.wants("n1", RewriteReason)
    assert not core.allowed("n1", RewriteReason)


def test_annotations_are_written_while_a_source_cannot_be_read_F4() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(Lost("nodes", "broken"))
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    written = core.allowed("n1", SetMetadata)
    assert {want.manager for want in written if want.annotations} == {MANAGER_MIRROR}


def test_no_pod_is_marked_as_drained_while_slurm_cannot_be_read_S6() -> None:
    """Simulator, seed 739: a node that was drained and idle when last read may run a job by now."""
    ours = slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod pending deletion: roll")
    core = Core(node(), slurmd_pod(), ours)

    def annotations() -> list[tuple[tuple[str, str], ...]]:
        wants = core.allowed("n1", SetMetadata)
        return [one.annotations for one in wants if one.manager == MANAGER_RETIRE]

    core.see(Lost("slurm_nodes", "down"))
    core.see(slurmd_pod(pending_deletion="roll"))
    assert annotations() == []
    core.see(Confirmed("slurm_nodes", core.now))
    assert annotations() == [((DRAINED, "true"),)]
    core.see(slurmd_pod(pending_deletion="roll", drained=True))
    core.see(Lost("slurm_nodes", "down"))
    core.see(slurmd_pod(drained=True))
    assert annotations() == [()]


def test_a_dry_run_keeps_every_write_and_allows_reads() -> None:
    pod = slurmd_pod(node_name="n1")
    core = Core(node("n1", unschedulable=True), pod, slurm_node(), dry_run=True)
    core.see(deleted("slurmd_pods", pod))
    assert core.wants("n1", Drain)
    assert {one.why for one in core.reconciler.standing[host_key("n1")].kept} == {"dry run"}
    assert {type(want) for want in core.allowed("n1")} == {GetObject}
    verdict = Verdict((GetObject("Pod", "slurm", "p", 0.0), Relist("nodes", 1.0)))
    screened = Policy().screen(core.graph, host_key("n1"), verdict, now=core.now)
    assert screened.allowed == verdict.wants


@pytest.mark.parametrize(
    ("reason", "kind"), [("k8s: node cordoned", Undrain), ("fan", Cordon), ("fan", SetConditions)]
)
def test_a_dry_run_keeps_undrains_cordons_and_conditions(reason: str, kind: type) -> None:
    slurm = slurm_node("n1", "IDLE+DRAIN", reason=reason)
    core = Core(node(), slurmd_pod(), slurm, dry_run=True, cordon_on_slurm_drain=True)
    assert core.wants("n1", kind)
    assert not core.allowed("n1")
    kept = core.reconciler.standing[host_key("n1")].kept
    assert {one.why for one in kept if isinstance(one.action, kind)} == {"dry run"}


@pytest.mark.parametrize(
    ("chosen", "count", "limit"), [(None, 5, 20), (None, 300, 30), (7, 300, 7), (0, 5, 0)]
)
def test_the_limit_is_set_or_20_or_a_tenth_S19(chosen: int | None, count: int, limit: int) -> None:
    rows = [row for name in hosts(count) for row in (slurmd_pod(name), slurm_node(name))]
    assert drain_limit(Core(*rows, max_drains_per_minute=chosen).graph) == limit


def test_drains_beyond_the_limit_are_held_and_listings_asked_for_S19() -> None:
    core = unready(12, max_drains_per_minute=5)
    assert len(drained(core, 12)) == 5
    assert held(core) == 7
    relists = [want for want in core.decided(CLUSTER).wants if isinstance(want, Relist)]
    assert {want.source for want in relists} == {"nodes", "slurmd_pods"}


def test_neither_time_nor_a_resumed_watch_releases_held_drains_S19() -> None:
    core = unready(12, max_drains_per_minute=5)
    carry_out(core, drained(core, 12))
    core.wait(10 * MINUTE_S)
    assert not drained(core, 12)
    core.see(Confirmed("nodes", core.now), Confirmed("slurmd_pods", core.now))
    core.wait(MINUTE_S)
    assert not drained(core, 12)


def test_a_second_listing_releases_held_drains_at_the_limit_S19() -> None:
    core = unready(12, max_drains_per_minute=5)
    for allowed, rest in ((5, 7), (5, 2), (2, 0)):
        now = drained(core, 12)
        assert (len(now), held(core)) == (allowed, rest)
        carry_out(core, now)
        relist(core, 12)
        core.wait(MINUTE_S)
    assert core.graph.holding is None


def test_a_new_drain_does_not_go_before_held_ones_S19() -> None:
    """A held drain whose cause ended is no longer counted."""
    core = unready(6, max_drains_per_minute=5)
    carry_out(core, drained(core, 6))
    core.wait(MINUTE_S)
    core.see(slurm_node("n6"), node("kn6"), slurmd_pod("n6", ready=False))
    core.wait(6)
    assert not core.allowed("n6", Drain)
    first = next(name for name in hosts(6) if core.wants(name, Drain))
    core.see(slurmd_pod(first))
    assert held(core) == 1


def test_the_reason_of_a_held_drain_names_the_limit_S19() -> None:
    core = unready(2, max_drains_per_minute=1)
    kept = [one for name in hosts(2) for one in core.reconciler.standing[host_key(name)].kept]
    assert [one.why for one in kept] == [
        "more than 1 such drain a minute: held until a second listing agrees"
    ]


@pytest.mark.parametrize(
    ("listed_s", "goes"), [(99.0, False), (100.0, True), (101.0, True)], ids=str
)
def test_a_listing_releases_drains_held_before_it_S19(listed_s: float, goes: bool) -> None:
    breaker = Breaker()
    assert not breaker.admit("n1", limit=0, listed_s=0.0, now=100.0)
    assert breaker.again_s(100.0) == 100.0 + HELD_AGAIN_S
    assert breaker.admit("n1", limit=1, listed_s=listed_s, now=105.0) is goes


def test_a_drain_counts_for_a_minute_and_a_held_one_is_tried_again_then_S19() -> None:
    breaker = Breaker()
    assert breaker.admit("n1", limit=2, listed_s=0.0, now=100.0)
    assert breaker.admit("n2", limit=2, listed_s=0.0, now=130.0)
    assert not breaker.admit("n3", limit=2, listed_s=0.0, now=131.0)
    assert breaker.again_s(131.0) == 100.0 + MINUTE_S
    assert not breaker.admit("n3", limit=2, listed_s=140.0, now=159.9)
    assert breaker.again_s(159.9) == 159.9 + HELD_AGAIN_S
    assert breaker.admit("n3", limit=2, listed_s=140.0, now=160.0)
    assert breaker.again_s(190.0) == 190.0 + HELD_AGAIN_S


def test_a_withdrawn_drain_counts_again_S19() -> None:
    breaker = Breaker()
    assert breaker.admit("n1", limit=1, listed_s=0.0, now=100.0)
    assert breaker.admit("n1", limit=1, listed_s=0.0, now=101.0)
    breaker.withdraw("n1")
    assert not breaker.admit("n1", limit=1, listed_s=0.0, now=102.0)


@pytest.mark.parametrize(
    "between", [(), (SetComment("n1", "c"),)], ids=["nothing is wanted", "something else is"]
)
def test_a_drain_that_is_wanted_again_counts_again_S19(between: tuple[SetComment, ...]) -> None:
    core = Core(slurm_node(), max_drains_per_minute=1)
    policy, lost = Policy(), Verdict((Drain("n1", "k8s: node gone", absence=True),))

    def allowed(verdict: Verdict) -> bool:
        screened = policy.screen(core.graph, host_key("n1"), verdict, now=core.now)
        return screened.allowed == verdict.wants

    assert allowed(lost)
    assert allowed(lost)
    assert allowed(Verdict(between))
    assert not allowed(lost)


@pytest.mark.parametrize(
    "rows",
    [
        [slurmd_pod("n9"), node("kn9", unschedulable=True)],
        [slurmd_pod("n9", cordon="true")],
        [slurmd_pod("n9", terminating=True)],
        [slurmd_pod("n9", pending_deletion="roll")],
    ],
    ids=["S1", "S3", "S5", "S6"],
)
def test_drains_that_somebody_asked_for_are_never_held_S19(rows: list[Row]) -> None:
    core = unready(9, max_drains_per_minute=0)
    core.see(slurm_node("n9"), *rows)
    assert core.allowed("n9", Drain)


def test_a_drain_that_somebody_asked_for_is_not_held_while_a_source_cannot_be_read_S19() -> None:
    core = unready(9, max_drains_per_minute=0)
    core.see(slurm_node("n9"), slurmd_pod("n9"), node("kn9"))
    core.see(Lost("nodes", "broken"), slurmd_pod("n9", cordon="true"))
    assert core.allowed("n9", Drain)
    assert core.graph.holding == Holding(9, core.now)


def test_a_held_drain_goes_when_somebody_asks_for_it_S19() -> None:
    core = unready(2, max_drains_per_minute=0)
    assert core.graph.holding == Holding(2, core.now)
    core.see(slurmd_pod("n0", ready=False, cordon="true"))
    assert core.allowed("n0", Drain)
    assert core.graph.holding == Holding(1, core.now)


def test_a_new_reason_of_our_drain_does_not_count_S19() -> None:
    core = unready(9, max_drains_per_minute=0)
    core.see(slurm_node("n3", "IDLE+DRAIN", reason="k8s: pod cordoned"))
    assert core.allowed("n3", Drain) == [Drain("n3", "k8s: pod not ready", rewrites=True)]


def test_an_allowed_drain_stays_allowed_until_it_is_written_S19() -> None:
    core = unready(3, max_drains_per_minute=3)
    for number in range(5):
        core.see(*[slurm_node(name, reason=f"text {number}") for name in hosts(3)])
        core.wait(7)
    assert len(drained(core, 3)) == 3


@pytest.mark.parametrize("found", ["no", "yes"])
def test_drains_for_missing_pods_count_too_S19(found: Any) -> None:
    rows: list[Row] = []
    for name in hosts(4):
        rows += [slurm_node(name, comment=marked(name)), node(f"k{name}")]
    core = Core(*rows, max_drains_per_minute=1)
    for name in hosts(4):
        core.answer(slurmd_pod(name), found, "other")
    assert len(drained(core, 4)) == 1


def test_policy_allows_a_part_of_the_wants_in_their_order() -> None:
    core = Core(node(unschedulable=True), slurmd_pod(), slurm_node())
    verdict = core.verdict()
    screened = Policy().screen(core.graph, host_key("n1"), verdict, now=core.now)
    assert screened.allowed == verdict.wants
    fresh = Policy().screen(Graph(Configuration()), host_key("n1"), verdict, now=core.now)
    assert not fresh.allowed
    assert tuple(kept.action for kept in fresh.kept) == verdict.wants


def test_a_pause_keeps_every_write_until_it_ends_and_then_all_go() -> None:
    cordoned = node("n1", unschedulable=True)
    core = Core(node("n1"), slurmd_pod("n1", node_name="n1"), slurm_node())
    core.see(Paused("paused: upgrade"))
    core.see(cordoned)
    assert core.allowed("n1", Drain) == []
    standing = core.reconciler.standing[("host", "n1")]
    assert {kept.why for kept in standing.kept} == {"paused: upgrade"}
    core.see(Paused(""))
    assert core.allowed("n1", Drain)


def test_a_pause_keeps_the_writes_of_workloads_too() -> None:
    core = Core(*room())
    core.see(Paused("paused: upgrade"))
    core.see(POD)
    assert core.submission(POD) in core.workload_kept(POD)
    core.see(Paused(""))
    assert not core.workload_kept(POD)


def test_a_pause_answers_calls_of_slurm_and_reports_itself_once() -> None:
    core = Core(*room())
    core.see(Paused("paused: upgrade"))
    call = GateCall(1, "9", ("n1",), core.now, core.now + 60.0)
    decisions = core.see(call)
    answers = [one for each in decisions for one in each.allowed if isinstance(one, AnswerGate)]
    assert [one.go for one in answers] == [True]
    (event,) = core.decided(CLUSTER).wants
    assert isinstance(event, RecordEvent)
    assert event.reason == "Paused"
    assert "paused: upgrade. To go on: kubectl sunk resume" in event.message
    assert core.kept(CLUSTER) == []


def test_a_pause_before_the_listings_does_not_let_more_pass() -> None:
    core = Core(*room(), listed=False)
    decisions = core.see(Paused("paused: upgrade"))
    assert not [one for each in decisions for one in each.allowed]
