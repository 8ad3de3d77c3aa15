"""Writes on nodes: the read before each one, the states that forbid it, few requests."""

from collections.abc import Sequence
from typing import TypeVar

import pytest
from msgspec import structs

from sunk_sync.core.model.actions import (
    Drain,
    GetSlurmNode,
    RecordEvent,
    RewriteReason,
    SetComment,
    SetWeight,
    SlurmAction,
    Undrain,
)
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import Deleted, News, Observed, Reference, SlurmNode
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.node_states import POWER, POWERED_OFF
from sunk_sync.core.translate.packed_weight import packed_weight
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall
from sunk_sync.slurm.read.one_node import YOUNG_S
from sunk_sync.slurm.write.nodes import SlurmPush
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes, slurm_node

T = TypeVar("T", Done, Refused, Unsure)
CORDONED = "k8s: node cordoned"
LIFTED = "lifted, was k8s: node cordoned"
MARK = mark_text(Mark(cluster="ours", node="n1"))
OLD_MARK = mark_text(Mark(cluster="ours", node="n0"))
THEIR_MARK = mark_text(Mark(cluster="theirs", node="n1"))

drain = Drain("n1", CORDONED)
gone = Drain("n1", "k8s: node gone", absence=True)
undrain = Undrain("n1", LIFTED)
rewrite = RewriteReason("n1", LIFTED)
mark = SetComment("n1", MARK)


def drains(count: int) -> list[Drain]:
    return [Drain(f"n{i}", CORDONED) for i in range(count)]


def nodes(count: int) -> list[SlurmNode]:
    return [slurm_node(f"n{i}") for i in range(count)]


async def push(slurm: SlurmNodes, *actions: SlurmAction) -> list[Outcome]:
    return list(await SlurmPush(slurm, slurm.clock).push(actions))


async def push_one(slurm: SlurmNodes, action: SlurmAction, kind: type[T]) -> T:
    (outcome,) = await push(slurm, action)
    assert isinstance(outcome, kind), outcome
    return outcome


def shown(outcome: Outcome) -> SlurmNode:
    """Return the one node that an outcome shows."""
    assert isinstance(outcome, Done | Refused)
    (news,) = outcome.seen
    assert isinstance(news, Observed)
    assert isinstance(news.row, SlurmNode)
    return news.row


def order_of(outcome: Outcome) -> float:
    (news,) = outcome.seen
    assert isinstance(news, Observed)
    return news.order


def seen(outcome: Outcome) -> SlurmNode:
    """Return it as a read would show it."""
    return structs.replace(shown(outcome), assumed=False)


WRITES: list[tuple[SlurmNode, SlurmAction, str]] = [
    (slurm_node("n1"), drain, f'{{"state":["DRAIN"],"reason":"{CORDONED}"}}'),
    (slurm_node("n1", "MIXED", "NOT_RESPONDING"), drain, '{"state":["DRAIN"]'),
    (slurm_node("n1", "IDLE", "DRAIN", reason="k8s: pod not ready"), drain, '{"state":["DRAIN"]'),
    (slurm_node("n1", reason="gres count lower"), drain, '{"state":["DRAIN"]'),
    (
        slurm_node("n1", "IDLE", "DRAIN", reason="k8s: anything"),
        undrain,
        f'{{"state":["UNDRAIN"],"reason":"{LIFTED}"}}',
    ),
    (slurm_node("n1", reason="k8s: left behind"), rewrite, f'{{"reason":"{LIFTED}"}}'),
    (slurm_node("n1"), mark, '{"comment":"{'),
    (slurm_node("n1", comment=OLD_MARK), mark, '{"comment":"{'),
]


@pytest.mark.parametrize(("node", "action", "body"), WRITES)
async def test_a_write_is_GET_and_POST_S0(node: SlurmNode, action: SlurmAction, body: str) -> None:
    slurm = SlurmNodes().add(node)
    outcome = await push_one(slurm, action, Done)
    assert [line.partition(" {")[0] for line in slurm.asked] == ["GET node/n1", "POST node/n1"]
    assert slurm.writes[0].startswith(f"POST node/n1 {body}")
    assert seen(outcome) == slurm.nodes["n1"]


async def test_a_look_at_a_node_is_one_GET_and_shows_the_node_or_that_it_is_gone() -> None:
    slurm = SlurmNodes().add(slurm_node("n1", "IDLE", "DRAIN"))
    found, gone = await SlurmPush(slurm, slurm.clock).push(
        [GetSlurmNode("n1", 0.0), GetSlurmNode("n2", 0.0)]
    )
    assert sorted(slurm.asked) == ["GET node/n1", "GET node/n2"]
    assert shown(found) == slurm.nodes["n1"]
    assert isinstance(gone.seen[0], Deleted)


ALREADY: list[tuple[SlurmNode, SlurmAction]] = [
    (slurm_node("n1", "IDLE", "DRAIN", reason=CORDONED), drain),
    (slurm_node("n1"), undrain),
    (slurm_node("n1", reason="k8s: left behind"), undrain),
    (slurm_node("n1", reason=LIFTED), rewrite),
    (slurm_node("n1", comment=MARK), mark),
]


@pytest.mark.parametrize(("node", "action"), ALREADY)
async def test_a_state_that_holds_is_not_written_S14(node: SlurmNode, action: SlurmAction) -> None:
    slurm = SlurmNodes().add(node)
    (outcome,) = await push(slurm, action)
    assert outcome == Done(action, (Observed(node, 100.0),))
    assert slurm.asked == ["GET node/n1"]


S13 = "DOWN ERROR FAIL FUTURE UNKNOWN INVALID_REG REBOOT_ISSUED"
WAKES = "POWERED_DOWN POWERING_DOWN POWERING_UP POWER_UP"
FORBIDDEN: list[tuple[SlurmNode, SlurmAction, str]] = [
    (slurm_node("n1", "IDLE", "DRAIN", reason="bad disk"), drain, "somebody else: bad disk"),
    (slurm_node("n1", "IDLE", "DRAIN", reason=""), drain, "somebody else: no reason given"),
    (slurm_node("n1", "IDLE", "DRAIN", reason="bad disk"), undrain, "somebody else"),
    (slurm_node("n1", "IDLE", "DRAIN", reason=""), undrain, "somebody else"),
    (slurm_node("n1", "IDLE", "DRAIN", reason=LIFTED), undrain, "somebody else"),
    (slurm_node("n1", "IDLE", "DRAIN", reason="bad disk"), rewrite, "somebody else"),
    (slurm_node("n1", "IDLE", "DRAIN", reason=CORDONED), rewrite, "it is drained"),
    (slurm_node("n1", reason="Kill task failed"), rewrite, "not ours: Kill task failed"),
    (slurm_node("n1"), rewrite, "not ours: empty"),
    (slurm_node("n1", comment="rack 7"), mark, "belongs to somebody else"),
    (slurm_node("n1", comment=THEIR_MARK), mark, "belongs to somebody else"),
    (slurm_node("n1", comment='{"sunk-sync":3}'), mark, "belongs to somebody else"),
    (slurm_node("n1"), SetComment("n1", "no mark"), "not a mark of ours"),
    *[
        (slurm_node("n1", "IDLE", state, reason=reason), action, state)
        for state in S13.split()
        for action, reason in (
            (drain, ""),
            (drain, CORDONED),
            (undrain, CORDONED),
            (rewrite, "k8s:"),
            (mark, ""),
        )
    ],
    *[(slurm_node("n1", "IDLE", state), mark, state) for state in sorted(POWERED_OFF)],
    *[(slurm_node("n1", "MIXED", state), drain, "wakes it for a job") for state in WAKES.split()],
    *[(slurm_node("n1", "IDLE", state), gone, "unmakes the machine") for state in sorted(POWER)],
    (slurm_node("n1", "IDLE", "REBOOT_REQUESTED"), mark, "REBOOT_REQUESTED"),
    (slurm_node("n1", "DRAIN", "REBOOT_REQUESTED", reason=CORDONED), undrain, "REBOOT_REQUESTED"),
]


@pytest.mark.parametrize("state", sorted(POWERED_OFF | {"REBOOT_REQUESTED"}))
async def test_a_cordon_drains_without_power_and_before_a_reboot_S1_S13(state: str) -> None:
    slurm = SlurmNodes().add(slurm_node("n1", "IDLE", state))
    assert await push_one(slurm, drain, Done)
    slurm = SlurmNodes().add(slurm_node("n1", "IDLE", "DRAIN", state, reason=CORDONED))
    (outcome,) = await push(slurm, undrain)
    assert isinstance(outcome, Refused if state == "REBOOT_REQUESTED" else Done)


@pytest.mark.parametrize(("node", "action", "why"), FORBIDDEN)
async def test_a_write_that_the_fresh_read_forbids_is_refused_S0_S11_S12_S13_S15(
    node: SlurmNode, action: SlurmAction, why: str
) -> None:
    """Foreign drains and comments, and states in which a write would hide the reason."""
    slurm = SlurmNodes().add(node)
    outcome = await push_one(slurm, action, Refused)
    assert why in outcome.why
    assert outcome.seen == (Observed(node, 100.0),)
    assert slurm.asked == ["GET node/n1"]


async def test_a_drain_by_a_user_just_before_the_read_stays_S0() -> None:
    slurm = SlurmNodes().add(slurm_node("n1"))

    def human(line: str) -> SlurmError | None:
        if line.startswith("GET"):
            slurm.add(slurm_node("n1", "IDLE", "DRAIN", reason="bad disk"))
        return None

    slurm.before = human
    await push_one(slurm, drain, Refused)
    assert slurm.writes == []


async def test_an_unknown_node_is_reported_gone_with_the_time_of_the_read() -> None:
    outcome = await push_one(SlurmNodes(), drain, Refused)
    assert outcome.seen == (Deleted("slurm_nodes", "", "n1", "", 100.0),)


@pytest.mark.parametrize("name", ["n[1-100]", "n1,n2", "", "n1 n2", "n1\n", "../jobs", "é"])
async def test_a_name_that_could_mean_several_nodes_is_not_sent(name: str) -> None:
    """An annotation `n[1-100]` must not drain a hundred nodes."""
    slurm = SlurmNodes()
    await push_one(slurm, Drain(name, CORDONED), Refused)
    assert slurm.asked == []


async def test_an_answer_about_a_node_of_another_name_allows_no_write() -> None:
    """Slurm reads some names, such as ALL, as sets of nodes."""
    slurm = SlurmNodes()
    slurm.nodes["all"] = slurm_node("n1")
    await push_one(slurm, Drain("all", CORDONED), Unsure)
    assert slurm.writes == []


@pytest.mark.parametrize("count", [1, 60])
async def test_an_unreadable_answer_proves_neither_state_nor_absence_F4(count: int) -> None:
    slurm = SlurmNodes(unreadable=True).add(*nodes(count))
    outcomes = await push(slurm, *drains(count))
    assert {type(outcome) for outcome in outcomes} == {Unsure}
    assert slurm.writes == []


async def test_other_nodes_of_the_listing_are_not_written() -> None:
    slurm = SlurmNodes().add(*nodes(100))
    await push(slurm, *drains(60))
    assert sum("DRAIN" in node.state for node in slurm.nodes.values()) == 60


async def test_equal_desired_writes_become_one_request() -> None:
    slurm = SlurmNodes().add(*nodes(100))
    actions = [Drain(f"n{i}", "k8s: even" if i % 2 == 0 else "k8s: odd") for i in range(100)]
    outcomes = await push(slurm, *actions)
    assert [outcome.action for outcome in outcomes] == actions
    assert {type(outcome) for outcome in outcomes} == {Done}
    assert [line[:13] for line in slurm.asked] == ["GET nodes/", "POST nodes/ {", "POST nodes/ {"]
    assert [seen(outcome) for outcome in outcomes] == list(slurm.nodes.values())
    assert not any(call.bulk for call in slurm.calls[1:])


async def test_up_to_fifty_nodes_are_read_one_by_one_and_drained_by_one_request() -> None:
    """A listing of a large cluster would cost slurmctld more."""
    slurm = SlurmNodes(tick_s=0.01).add(*nodes(60))
    outcomes = await push(slurm, *drains(50))
    assert {type(outcome) for outcome in outcomes} == {Done}
    assert sum(line.startswith("GET node/") for line in slurm.asked) == 50
    assert len(slurm.writes) == 1


async def test_a_node_missing_from_a_complete_listing_is_refused_alone() -> None:
    slurm = SlurmNodes().add(*nodes(60)[1:])
    outcomes = await push(slurm, *drains(60))
    gone = Deleted("slurm_nodes", "", "n0", "", 100.0)
    gone_one = Refused(Drain("n0", CORDONED), "Slurm has no such node", (gone,), missing=True)
    assert outcomes[0] == gone_one
    assert {type(outcome) for outcome in outcomes[1:]} == {Done}


@pytest.mark.parametrize("names", [("n1",), ("n1", "n2")])
async def test_a_write_is_not_sent_long_after_its_read_S0(names: Sequence[str]) -> None:
    """In seed 8113111 it was sent again with a new token, 13 s later."""
    slurm = SlurmNodes(tick_s=0.0).add(*map(slurm_node, names))
    await push(slurm, *[Drain(name, CORDONED) for name in names])
    (post,) = [call for call in slurm.calls if call.method == "POST"]
    assert post.wanted()
    slurm.now_s += YOUNG_S
    assert post.wanted()
    slurm.now_s += 0.1
    assert not post.wanted()


async def test_a_read_that_waited_for_a_slow_one_is_too_old_for_a_write_S0() -> None:
    """A user may have drained the node meanwhile (seed 51)."""
    slurm = SlurmNodes().add(slurm_node("n1"), slurm_node("n2"))

    def hang(line: str) -> None:
        if line == "GET node/n2":
            slurm.now_s += 9

    slurm.before = hang
    first, slow = await push(slurm, Drain("n1", CORDONED), Drain("n2", CORDONED))
    assert isinstance(first, Unsure)
    assert first.seen == (Observed(slurm_node("n1"), 100.0),)
    assert isinstance(slow, Done)
    assert [line.partition(" {")[0] for line in slurm.writes] == ["POST node/n2"]


async def test_a_refused_group_is_written_one_by_one() -> None:
    """A node may disappear between read and write."""
    slurm = SlurmNodes().add(*nodes(3))

    def vanish(line: str) -> SlurmError | None:
        if line.startswith("POST nodes/"):
            slurm.nodes.pop("n1", None)
        return None

    slurm.before = vanish
    outcomes = await push(slurm, *drains(3))
    assert [one.missing for one in outcomes if isinstance(one, Refused)] == [True]
    assert len(slurm.writes) == 4


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (SlurmError("timeout", "no answer within 15 s"), Unsure),
        (SlurmError("broken", "connection reset"), Unsure),
        (SlurmError("unreachable", "refused"), Unsure),
        (SlurmError("auth", "token", 1007), Unsure),
        (SlurmError("garbage", "<html>"), Unsure),
        (DOWN, Unsure),
        (SlurmError("refused", "Invalid node state specified (2028)", 2028), Refused),
    ],
)
@pytest.mark.parametrize("at", ["GET", "POST"])
@pytest.mark.parametrize("count", [1, 3, 60])
async def test_a_failed_call_is_unsure_and_a_refusal_is_final_F4(
    failure: SlurmError, outcome: type, at: str, count: int
) -> None:
    slurm = SlurmNodes().add(*nodes(count))
    slurm.before = lambda line: failure if line.startswith(at) else None
    outcomes = await push(slurm, *drains(count))
    assert [type(each) for each in outcomes] == [outcome] * count
    assert all(str(failure) == each.why for each in outcomes if not isinstance(each, Done))
    assert slurm.nodes["n0"] == slurm_node("n0")


async def test_the_read_before_a_failed_write_is_reported_F4() -> None:
    """It can be the only news of Slurm for a long time (seed 8140561)."""
    slurm = SlurmNodes().add(slurm_node("n1"))
    slurm.before = lambda line: DOWN if line.startswith("POST") else None
    outcome = await push_one(slurm, drain, Unsure)
    assert outcome.seen == (Observed(slurm_node("n1"), 100.0),)


async def test_a_read_reaches_the_graph_before_its_write_is_answered_S6() -> None:
    """A write can last for ten seconds, and `drained=true` must not rely on an older listing.

    Found by the simulator (seed 9021353).
    """
    world = SlurmNodes().add(slurm_node("n1"))
    events: list[tuple[str, object]] = []

    async def tell(news: Sequence[News]) -> None:
        events.append(("told", tuple(news)))

    def note(line: str) -> None:
        events.append(("sent", line.partition(" {")[0]))

    world.before = note
    await SlurmPush(world, world.clock, tell=tell).push([drain])
    assert events == [
        ("sent", "GET node/n1"),
        ("told", (Observed(slurm_node("n1"), 100.0),)),
        ("sent", "POST node/n1"),
    ]


async def test_a_rewrite_of_a_reason_does_not_drain_an_undrained_node_S19() -> None:
    """The limit on drains does not count rewrites (seed 8140443)."""
    rewrites = Drain("n1", "k8s: pod terminated", rewrites=True)
    slurm = SlurmNodes().add(slurm_node("n1"))
    outcome = await push_one(slurm, rewrites, Refused)
    assert seen(outcome) == slurm_node("n1")
    slurm.add(slurm_node("n1", "IDLE", "DRAIN", reason=CORDONED))
    await push_one(slurm, rewrites, Done)


@pytest.mark.parametrize(("version", "reason"), [("v0.0.45", ""), ("v0.0.42", LIFTED)])
async def test_an_undrain_is_reported_as_a_version_leaves_it_S2(version: str, reason: str) -> None:
    """26.05 clears the reason, 24.11 keeps the text sent with the undrain."""
    slurm = SlurmNodes(version=version).add(slurm_node("n1", "IDLE", "DRAIN", reason=CORDONED))
    (outcome,) = await push(slurm, undrain)
    assert seen(outcome) == slurm_node("n1", reason=reason) == slurm.nodes["n1"]


async def test_the_result_of_a_write_has_the_time_of_its_answer_S6() -> None:
    slurm = SlurmNodes().add(slurm_node("n1"))
    outcome = await push_one(slurm, drain, Done)
    assert order_of(outcome) == slurm.now_s


async def test_a_state_computed_from_a_drain_is_marked_as_assumed_S6() -> None:
    """Jobs may have started between read and drain."""
    slurm = SlurmNodes().add(slurm_node("n1"))
    drained, already = [(await push(slurm, drain))[0] for _ in range(2)]
    assert [shown(drained).assumed, shown(already).assumed] == [True, False]
    (marked,) = await push(slurm, mark)
    assert not shown(marked).assumed


async def test_the_later_result_of_two_writes_on_one_node_shows_both() -> None:
    slurm = SlurmNodes().add(slurm_node("n1"))
    first, second = await push(slurm, drain, mark)
    assert slurm.nodes["n1"] == slurm_node("n1", "IDLE", "DRAIN", reason=CORDONED, comment=MARK)
    assert seen(max(first, second, key=order_of)) == slurm.nodes["n1"]


class Interrupted(SlurmNodes):
    """While a mark is on its way, another batch drains the node."""

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        if b"comment" in call.body:
            await self.writer.push([drain])
        return await super().call(call)

    writer: SlurmPush


async def test_a_drain_of_another_batch_is_kept_in_the_result() -> None:
    slurm = Interrupted().add(slurm_node("n1"))
    slurm.writer = SlurmPush(slurm, slurm.clock)
    (outcome,) = await slurm.writer.push([mark])
    assert seen(outcome) == slurm.nodes["n1"]
    assert "DRAIN" in slurm.nodes["n1"].state


async def test_a_read_after_a_write_counts_more_than_the_write() -> None:
    slurm = SlurmNodes().add(slurm_node("n1"))
    writer = SlurmPush(slurm, slurm.clock)
    await writer.push([drain])
    slurm.add(slurm_node("n1", "MIXED"))
    (outcome,) = await writer.push([mark])
    assert seen(outcome) == slurm_node("n1", "MIXED", comment=MARK)


async def test_marks_leave_connections_free_for_drains() -> None:
    """At the first start there are thousands of marks."""
    slurm = SlurmNodes().add(slurm_node("n1"), slurm_node("n2"))
    await push(slurm, mark, SetComment("n2", MARK))
    assert all(call.bulk for call in slurm.calls if call.path != "nodes/")


async def test_an_action_on_kubernetes_is_refused() -> None:
    event = RecordEvent(Reference("Node", "", "n1", "u"), EVENT_CONFLICT, "y")
    slurm = SlurmNodes()
    outcomes = await SlurmPush(slurm, slurm.clock).push([event])
    assert [type(outcome) for outcome in outcomes] == [Refused]
    assert slurm.asked == []


async def test_an_empty_batch_sends_no_request() -> None:
    slurm = SlurmNodes()
    assert await push(slurm) == []
    assert slurm.asked == []


async def test_nodes_that_get_one_weight_share_a_request_W1() -> None:
    """60 hosts begin to be packed; ten of them are in use."""
    given = [
        structs.replace(node, weight=1, fill=2 if at < 10 else 0)
        for at, node in enumerate(nodes(60))
    ]
    slurm = SlurmNodes().add(*given)
    actions = [SetWeight(one.name, packed_weight(1, one.fill or 0), 1, "own") for one in given]
    outcomes = await SlurmPush(slurm, slurm.clock, usage=True).push(actions)
    assert all(isinstance(one, Done) for one in outcomes)
    assert [line.partition(" {")[0] for line in slurm.asked] == ["GET nodes/", *["POST nodes/"] * 2]
    assert [shown(one).fill for one in outcomes] == [one.fill for one in given]
    assert [shown(one).weight for one in outcomes] == [one.weight for one in actions]


async def test_a_weight_that_somebody_has_just_set_is_not_overwritten_W3() -> None:
    slurm = SlurmNodes().add(structs.replace(slurm_node("n1"), weight=30))
    action = SetWeight("n1", packed_weight(1, 2), 1, "step")
    (outcome,) = await SlurmPush(slurm, slurm.clock, usage=True).push([action])
    assert isinstance(outcome, Refused)
    assert shown(outcome).weight == 30
    assert not slurm.writes
