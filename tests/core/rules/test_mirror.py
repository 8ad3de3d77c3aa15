"""Rows M1-M6: the state of a Slurm node, shown on its slurmd Pod and its Node."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetConditions, SetMetadata
from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.core.model.facts import Lost, Node, SlurmdPod, reference_of
from sunk_sync.core.model.names import (
    DRAIN,
    LABEL_CLUSTER,
    LABEL_NAMESPACE,
    LABEL_NODESET,
    LABEL_POD,
    MANAGER_MIRROR,
    NODE_CONDITIONS,
    NODE_LABELS,
)
from sunk_sync.core.rules.host.mirror import BLIND
from sunk_sync.core.translate.node_states import BASE_STATES, FLAGS
from tests.kit.build import Core, condition, deleted, labels_of, node, slurm_node, slurmd_pod

KINDS = (SetConditions, SetMetadata)


def conditions_of(core: Core, kind: str, name: str = "n1") -> SetConditions | None:
    """Return the wanted conditions of the Pod or Node of this host; None for no write."""
    wants = core.wants(name, SetConditions)
    return next((want for want in wants if want.reference.kind == kind), None)


def shown(core: Core, kind: str, name: str = "n1") -> tuple[Condition, ...] | None:
    want = conditions_of(core, kind, name)
    return want.conditions if want else None


def times(core: Core, kind: str) -> dict[str, str]:
    """Return the wanted lastTransitionTime by type; empty for the moment of the write."""
    want = conditions_of(core, kind)
    if want is None:
        return {}
    return dict(zip((one.type for one in want.conditions), want.changed_at, strict=True))


def metadata(core: Core, kind: str, name: str = "n1") -> Any:
    """Return the wanted labels and annotations of the Pod or Node, or None."""
    for want in core.wants(name, SetMetadata):
        if want.reference.kind == kind and want.manager == MANAGER_MIRROR:
            return want
    return None


def assert_cleaned(core: Core, name: str) -> None:
    """All labels and annotations of sunk-sync are to be removed from this Node."""
    want = metadata(core, "Node", name)
    assert (want.labels, want.annotations) == ((), ())


def node_now(core: Core) -> Node:
    row = core.graph.host("n1").node
    assert row is not None
    return row


def written(core: Core, name: str = "n1") -> list[Node | SlurmdPod]:
    """Return the Pod and Node of a host as all wanted writes would leave them."""
    host = core.graph.host(name)
    rows: list[Node | SlurmdPod] = []
    for kind, row in (("Pod", host.pod), ("Node", host.node)):
        if row is None:
            continue
        conditions = shown(core, kind, name)
        if conditions is not None:
            row = replace(row, conditions=conditions)
        wanted = metadata(core, kind, name)
        if wanted is not None:
            row = replace(row, drain=dict(wanted.annotations).get(DRAIN))
            row = replace(row, labels=labels_of(wanted.labels)) if isinstance(row, Node) else row
        rows.append(row)
    return rows


def write(core: Core) -> None:
    core.see(*written(core))


STATES = [
    *[(state, {suffix}) for state, suffix in BASE_STATES.items()],
    *[(f"IDLE+{flag}", {"Idle", suffix}) for flag, suffix in FLAGS.items()],
    ("MIXED+DRAIN+COMPLETING+PLANNED", {"Mixed", "Drain", "Completing", "Planned"}),
    ("IDLE+DOWN", {"Down"}),
    ("IDLE+SOMETHING_NEW", {"Idle"}),
    ("SOMETHING_NEW", set()),
    ("POWERING_DOWN+POWERED_DOWN+IDLE", {"Idle", "PowerDown"}),
]


@pytest.mark.parametrize(("state", "suffixes"), STATES, ids=[state for state, _ in STATES])
def test_each_known_state_is_a_condition_of_the_pod_M1(state: str, suffixes: set[str]) -> None:
    """The first base state and every flag; unknown states are not shown."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason="fan\nbroken"))
    conditions = shown(core, "Pod") or ()
    assert {one.type for one in conditions} == {f"SlurmNodeState{suffix}" for suffix in suffixes}
    assert {(one.status, one.reason) for one in conditions} <= {("True", "SlurmState")}
    flags = "+".join(sorted(state.split("+")))
    assert core.verdict().because.endswith(f"shown in Kubernetes: {flags}")
    assert all(one.message == "fan broken" for one in conditions)
    assert list(conditions) == sorted(conditions, key=lambda one: one.type)


def test_conditions_of_ended_states_go_and_others_keep_their_time_M1() -> None:
    standing = (condition("SlurmNodeStateDrain"), condition("SlurmNodeStateIdle"))
    pod = slurmd_pod(conditions=standing, changed_at=("10", "11"))
    core = Core(pod, slurm_node("n1", "ALLOCATED+DRAIN", reason="x"))
    assert times(core, "Pod") == {"SlurmNodeStateAllocated": "", "SlurmNodeStateDrain": "10"}


TRUE = {
    "IDLE": set(),
    "IDLE+DRAIN": {"SlurmDrain", "SlurmCordon"},
    "MIXED": {"SlurmRunning"},
    "ALLOCATED": {"SlurmRunning"},
    "IDLE+COMPLETING": {"SlurmRunning"},
    "DOWN+NOT_RESPONDING": {"SlurmNotResponding"},
}


@pytest.mark.parametrize("state", TRUE)
def test_the_node_has_four_conditions_true_or_false_M2(state: str) -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason="fan"))
    conditions = shown(core, "Node") or ()
    assert {one.type for one in conditions if one.status == "True"} == TRUE[state]
    assert {one.type for one in conditions} == set(NODE_CONDITIONS)
    assert {one.status for one in conditions} <= {"True", "False"}


@pytest.mark.parametrize(
    ("state", "status", "reasons", "messages"),
    [
        (
            "ALLOCATED+DRAIN+NOT_RESPONDING",
            "True",
            ("DrainedInSlurm", "Drained", "NotResponding", "JobsRunning"),
            ("fan", "fan", "", ""),
        ),
        (
            "IDLE",
            "False",
            ("NotDrainedInSlurm", "NotDrained", "Responding", "NoJobs"),
            ("", "", "", ""),
        ),
    ],
    ids=["all true", "all false"],
)
def test_each_condition_has_its_reason_and_a_drain_its_message_M2(
    state: str, status: ConditionStatus, reasons: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason="fan"))
    kinds = ("SlurmCordon", "SlurmDrain", "SlurmNotResponding", "SlurmRunning")
    assert shown(core, "Node") == tuple(
        Condition(kind, status, reason, message)
        for kind, reason, message in zip(kinds, reasons, messages, strict=True)
    )


def test_nobody_says_whether_jobs_run_until_slurmd_has_answered_M2() -> None:
    """After its start slurmctld shows a node whose CPUs are all in use as UNKNOWN."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", "UNKNOWN"))
    running = Condition("SlurmRunning", "Unknown", "NotKnownYet", "")
    assert (shown(core, "Node") or ())[-1] == running


@pytest.mark.parametrize(
    ("reason", "begun_in_slurm"), [("k8s: node cordoned", "False"), ("fan", "True"), ("", "True")]
)
def test_slurm_cordon_is_true_for_foreign_drains_M2(reason: str, begun_in_slurm: str) -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason=reason))
    status = {one.type: one.status for one in shown(core, "Node") or ()}
    assert status["SlurmCordon"] == begun_in_slurm
    assert status["SlurmDrain"] == "True"


def test_while_slurm_cannot_be_read_the_conditions_of_the_node_are_unknown_M2() -> None:
    """Times change only with the status."""
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    core.see(replace(node_now(core), changed_at=("5",) * 4))
    core.see(Lost("slurm_nodes", "down"))
    assert not core.wants("n1", *KINDS)
    core.see(Lost("slurm_nodes", "down", blind=True))
    unknown = shown(core, "Node") or ()
    assert {(one.status, one.reason) for one in unknown} == {("Unknown", "SlurmUnreachable")}
    assert set(times(core, "Node").values()) == {""}
    assert shown(core, "Pod") is None
    core.see(replace(node_now(core), conditions=unknown, changed_at=("9",) * 4))
    assert not core.wants("n1", *KINDS)
    core.see_listing("slurm_nodes", slurm_node())
    back = shown(core, "Node") or ()
    assert {one.status for one in back} == {"False"}
    assert set(times(core, "Node").values()) == {""}


def test_a_pod_that_is_created_while_slurm_cannot_be_read_gets_no_condition_M2() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(Lost("slurm_nodes", "down", blind=True), slurmd_pod(uid="new"))
    assert shown(core, "Pod") is None
    assert BLIND in core.verdict().because


def test_a_new_message_changes_no_time_M2() -> None:
    """lastTransitionTime belongs to the status."""
    core = Core(node(), slurm_node("n1"), slurmd_pod())
    write(core)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    write(core)
    core.see(replace(node_now(core), changed_at=("5",) * 4))
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="fan and disk"))
    assert set(times(core, "Node").values()) == {"5"}


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ("IDLE+DRAIN", "fan", "fan"),
        ("IDLE+DRAIN", "", "(no reason given)"),
        ("IDLE+DRAIN", "k8s: x", "k8s: x"),
        ("IDLE", "fan", None),
    ],
)
def test_the_reason_of_a_drain_is_an_annotation_M3(
    state: str, reason: str, text: str | None
) -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason=reason))
    assert {row.drain for row in written(core)} == {text}
    on_pod = metadata(core, "Pod")
    assert on_pod.labels == () if text else on_pod is None
    write(core)
    core.see(slurm_node("n1"))
    assert {row.drain for row in written(core)} == {None}


def test_the_labels_of_a_node_name_cluster_namespace_pod_and_nodeset_M4() -> None:
    core = Core(node(), slurmd_pod(nodeset="gpu"), slurm_node(), cluster_name="big one")
    labels = metadata(core, "Node").labels
    assert list(labels) == sorted(labels)
    write(core)
    assert dict(zip(NODE_LABELS, node_now(core).labels, strict=True)) == {
        LABEL_CLUSTER: "big-one",
        LABEL_NAMESPACE: "slurm",
        LABEL_POD: "slurmd-n1",
        LABEL_NODESET: "gpu",
    }
    core.see(deleted("slurmd_pods", slurmd_pod(nodeset="gpu")))
    assert [want.labels for want in core.wants("kn1", SetMetadata)] == [()]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("-" + "x" * 62 + ".yz", "x" * 62),
        ("x" * 70, "x" * 63),
        ("Xeon, 2 of X", "Xeon-2-of-X"),
        ("_.gpu-", "gpu"),
    ],
)
def test_a_name_that_is_no_valid_label_value_is_changed_into_one_M4(name: str, label: str) -> None:
    core = Core(node(), slurmd_pod(nodeset=name), slurm_node())
    assert dict(metadata(core, "Node").labels)[LABEL_NODESET] == label


def test_a_node_without_slurmd_pod_has_the_cluster_label_alone_M4() -> None:
    core = Core(node("n1"), slurm_node())
    assert metadata(core, "Node").labels == ((LABEL_CLUSTER, "slurm"),)


@pytest.mark.parametrize("state", ["IDLE", "IDLE+DRAIN", "DOWN+NOT_RESPONDING"])
@pytest.mark.parametrize("name", ["kn1", "n1"], ids=["names differ", "names are equal"])
def test_once_everything_is_shown_nothing_more_is_written_M5(state: str, name: str) -> None:
    core = Core(node(name), slurmd_pod(node_name=name), slurm_node("n1", state, reason="fan"))
    write(core)
    for _ in range(3):
        core.see_listing("slurm_nodes", slurm_node("n1", state, reason="fan"))
        core.wait(100)
        assert not core.wants("n1", *KINDS)


def test_everything_of_ours_goes_with_the_slurm_node_M6() -> None:
    core = Core(node(), slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    write(core)
    core.see_listing("slurm_nodes")
    assert "Slurm has no such node" in core.verdict().because
    for row in written(core):
        assert (row.conditions, row.drain) == ((), None)
        assert not any(getattr(row, "labels", ()))
    write(core)
    assert not core.wants("n1", *KINDS)


def test_a_slurm_node_that_was_gone_before_slurm_was_lost_counts_as_gone_M6() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    core.see_listing("slurm_nodes")
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert "Slurm has no such node" in core.verdict().because
    assert shown(core, "Node") == ()


def test_nothing_is_removed_before_slurm_was_listed_M6() -> None:
    core = Core(node(conditions=(condition("SlurmDrain"),)), slurmd_pod(), listed=False)
    assert not core.wants("n1", *KINDS)


def test_a_node_whose_slurmd_pod_moved_to_another_shows_nothing_M6() -> None:
    labels = labels_of(((LABEL_CLUSTER, "slurm"), (LABEL_POD, "slurmd-n1")))
    old = node("old", labels=labels, conditions=(condition("SlurmDrain"),), drain="fan")
    core = Core(old, node(), slurmd_pod(), slurm_node())
    assert shown(core, "Node", "old") == ()
    assert_cleaned(core, "old")


@pytest.mark.parametrize(
    "left",
    [{"labels": ((LABEL_CLUSTER, "slurm"),)}, {"drain": ""}, {"drain": "fan"}],
    ids=["labels", "an empty annotation", "the annotation"],
)
def test_each_annotation_and_label_of_ours_is_removed_by_itself_M6(left: dict[str, Any]) -> None:
    core = Core(node("old", **left), slurm_node())
    assert_cleaned(core, "old")
    assert shown(core, "Node", "old") is None


def test_a_namesake_of_a_slurm_node_is_cleaned_once_a_pod_claims_it_elsewhere_M6() -> None:
    namesake = node("n1", labels=labels_of(((LABEL_CLUSTER, "slurm"),)))
    core = Core(namesake, node(), slurmd_pod(), slurm_node())
    by_name = {want.reference.name: want for want in core.wants("n1", SetMetadata)}
    assert by_name["n1"] == SetMetadata(reference_of(namesake), MANAGER_MIRROR, (), ())
    assert by_name["kn1"].labels


def test_a_node_that_stands_for_two_slurm_nodes_shows_neither() -> None:
    """Their Pods do (S16)."""
    ends = [slurmd_pod(f"n{i}", node_name="kn1", terminating=True) for i in (1, 2)]
    core = Core(node(), *ends, slurm_node(), slurm_node("n2"))
    for name in ("n1", "n2"):
        assert shown(core, "Pod", name)
        assert shown(core, "Node", name) is None


@pytest.mark.parametrize("field", ["reason", "message", "status"])
def test_conditions_that_others_changed_are_written_again_M2(field: str) -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    host = node_now(core)
    right = host.conditions
    core.see(replace(host, conditions=(replace(right[0], **{field: "else"}), *right[1:])))
    assert shown(core, "Node") == right
