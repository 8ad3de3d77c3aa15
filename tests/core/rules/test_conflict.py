"""Row S16: two claims on one host."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent, SetConditions
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import Row
from sunk_sync.core.model.names import POD_CONFLICT_CONDITION
from sunk_sync.core.model.verdict import QUIET as QUIET_RULING
from sunk_sync.core.rules.host.conflict import NAMED_MAX, conflict
from tests.kit.build import Core, condition, node, slurm_node, slurmd_pod

A, B = slurmd_pod(), slurmd_pod(name="b", uid="b", node_name="k2")
ON_ONE_NODE = slurmd_pod("n2", node_name="kn1")
ANNOTATED = node("k9", slurm_node="n1")

BOTH = (
    "Slurm node n1 is claimed more than once: Pod slurm/b, Pod slurm/slurmd-n1;"
    " sunk-sync acts on none of them"
)

CONFLICTS: dict[str, tuple[tuple[Row, ...], set[str]]] = {
    "two Pods": ((A, B), {"Pod slurm/slurmd-n1", "Pod slurm/b"}),
    "two Pods, both ending": (
        (replace(A, terminating=True), replace(B, terminating=True)),
        {"Pod slurm/slurmd-n1", "Pod slurm/b"},
    ),
    "two living Pods and one that ends": (
        (A, B, slurmd_pod(name="c", uid="c", terminating=True)),
        {"Pod slurm/slurmd-n1", "Pod slurm/b", "Pod slurm/c"},
    ),
    "two Pods on one Node": ((A, ON_ONE_NODE), {"Pod slurm/slurmd-n1", "Pod slurm/slurmd-n2"}),
    "a Pod and an annotated Node": ((A, ANNOTATED), {"Pod slurm/slurmd-n1", "Node k9"}),
    "two annotated Nodes": ((node("k8", slurm_node="n1"), ANNOTATED), {"Node k8", "Node k9"}),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_two_claims_on_a_host_stop_all_other_writes_and_are_named_S16(case: str) -> None:
    rows, names = CONFLICTS[case]
    drained = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned")
    core = Core(node(unschedulable=True), node("k2"), *rows, drained)
    assert {type(want) for want in core.wants("n1")} <= {RecordEvent, SetConditions}
    assert all(name in core.verdict().because for name in names)
    events = core.wants("n1", RecordEvent)
    assert {one.event for one in events} == {EVENT_CONFLICT}
    assert {one.reference.path for one in events} <= names


def test_each_rival_pod_gets_a_condition_beside_its_others_S16() -> None:
    standing = (condition("SlurmNodeStateIdle"),)
    pods = (replace(A, conditions=standing), B)
    core = Core(*pods, slurm_node())
    for pod in pods:
        (want,) = [one for one in core.wants("n1", SetConditions) if one.reference.uid == pod.uid]
        conflict = Condition(POD_CONFLICT_CONDITION, "True", "DoubleClaim", BOTH)
        assert want.conditions == (conflict, *pod.conditions)
        assert want.changed_at == ("",) * len(want.conditions)
        core.see(replace(pod, conditions=want.conditions, changed_at=("7",) * len(want.conditions)))
    assert not core.wants("n1", SetConditions)


def test_the_condition_goes_with_the_rival_S16() -> None:
    core = Core(replace(A, conditions=(condition(POD_CONFLICT_CONDITION),)), slurm_node())
    (want,) = core.wants("n1", SetConditions)
    assert [one.type for one in want.conditions] == ["SlurmNodeStateIdle"]


def test_a_third_rival_changes_the_message_but_not_the_time_S16() -> None:
    """lastTransitionTime belongs to the status."""
    a = replace(A, conditions=(condition(POD_CONFLICT_CONDITION),), changed_at=("7",))
    core = Core(a, B, slurmd_pod(name="c", uid="c"), slurm_node())
    wants = core.wants("n1", SetConditions)
    mine = next(one for one in wants if one.reference.uid == A.uid)
    assert mine.changed_at == ("7",)
    assert "slurm/c" in mine.conditions[0].message


@pytest.mark.parametrize(
    ("count", "end"), [(NAMED_MAX, "slurm/p7"), (NAMED_MAX + 5, "slurm/p4 and 5 more")]
)
def test_at_most_eight_rivals_are_named_S16(count: int, end: str) -> None:
    pods = [slurmd_pod(name=f"p{i}", uid=f"u{i}") for i in range(count)]
    core = Core(*pods, slurm_node())
    sentence = core.verdict().because
    assert sentence.endswith(f"Pod {end}; sunk-sync acts on none of them")
    assert sentence.count("Pod slurm/") == NAMED_MAX
    events = core.wants("n1", RecordEvent)
    assert [one.message for one in events] == [sentence] * count


QUIET: dict[str, tuple[Row, ...]] = {
    "a finished Pod beside": (A, replace(B, finished=True)),
    "a terminating Pod beside one other": (replace(A, terminating=True), B),
    "a terminating Pod of another host on the Node": (A, replace(ON_ONE_NODE, terminating=True)),
    "a finished Pod of another host on the Node": (A, replace(ON_ONE_NODE, finished=True)),
    "an annotated Node that has a Pod of its own": (
        A, ANNOTATED, slurmd_pod("n3", node_name="k9"),
    ),
    "a Node of that name": (A, node("n1")),
    "an annotated Node beside one of that name": (ANNOTATED, node("n1")),
}  # fmt: skip


@pytest.mark.parametrize("case", QUIET)
def test_finished_and_yielding_pods_and_nodes_with_a_pod_make_no_conflict_S16(case: str) -> None:
    core = Core(node(), *QUIET[case], slurm_node())
    assert not core.wants("n1", RecordEvent)


def test_the_rule_is_quiet_for_a_host_claimed_once() -> None:
    core = Core(node(), A, slurm_node())
    assert conflict(core.graph.host("n1")) is QUIET_RULING
