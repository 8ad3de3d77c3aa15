"""Rows M1-M6: what Slurm says of a host, shown on its Pod and its Node."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetConditions, SetMetadata
from sunk_sync.core.model.facts import Condition, Lost, Node, SlurmdPod
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
from tests.kit.build import (
    Core,
    condition,
    deleted,
    labels_of,
    listing,
    node,
    slurm_node,
    slurmd_pod,
)

KINDS = (SetConditions, SetMetadata)
Rows = dict[str, Node | SlurmdPod]


def shown(core: Core, kind: str, name: str = "n1") -> tuple[Condition, ...] | None:
    """The conditions wanted on the Pod or Node of this host; None where no write is wanted."""
    for want in core.wants(name, SetConditions):
        if want.reference.kind == kind:
            return want.conditions
    return None


def times(core: Core, kind: str) -> dict[str, str]:
    """Wanted lastTransitionTime by type; empty: the moment of the write."""
    for want in core.wants("n1", SetConditions):
        if want.reference.kind == kind:
            assert len(want.changed_at) == len(want.conditions)
            return dict(zip((one.type for one in want.conditions), want.changed_at, strict=True))
    return {}


def metadata(core: Core, kind: str, name: str = "n1") -> SetMetadata | None:
    for want in core.wants(name, SetMetadata):
        if want.reference.kind == kind and want.manager == MANAGER_MIRROR:
            return want
    return None


def written(core: Core, name: str = "n1") -> Rows:
    """The Pod and Node of a host as all that is wanted would leave them."""
    host = core.graph.host(name)
    rows: Rows = {}
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
        rows[kind] = row
    return rows


def write(core: Core) -> None:
    """Let the world have all of it."""
    for row in written(core).values():
        core.see(row)


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
def test_each_state_is_a_condition_of_the_pod_M1(state: str, suffixes: set[str]) -> None:
    """The first base state and every flag; what we do not know is not shown."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason="fan\nbroken"))
    conditions = shown(core, "Pod") or ()
    assert {one.type for one in conditions} == {f"SlurmNodeState{suffix}" for suffix in suffixes}
    assert {(one.status, one.reason) for one in conditions} <= {("True", "SlurmState")}
    flags = "+".join(sorted(state.split("+")))
    assert core.verdict().because.endswith(f"shown in Kubernetes: {flags}")
    assert all(one.message == "fan broken" for one in conditions)
    assert list(conditions) == sorted(conditions, key=lambda one: one.type)


def test_ended_states_are_taken_away_and_lasting_ones_keep_their_time_M1() -> None:
    """The whole set is applied by one manager: what is left out ends."""
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
def test_the_node_says_what_slurm_does_M2(state: str) -> None:
    """Four conditions, always, True or False."""
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
def test_every_condition_has_its_reason_and_a_drain_its_message_M2(
    state: str, status: str, reasons: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    """What Slurm calls a reason is the message; a text without a drain is not told."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason="fan"))
    kinds = ("SlurmCordon", "SlurmDrain", "SlurmNotResponding", "SlurmRunning")
    assert shown(core, "Node") == tuple(
        Condition(kind, status, reason, message)
        for kind, reason, message in zip(kinds, reasons, messages, strict=True)
    )


@pytest.mark.parametrize(
    ("reason", "begun_in_slurm"), [("k8s: node cordoned", "False"), ("fan", "True"), ("", "True")]
)
def test_slurm_cordon_is_true_only_for_a_drain_begun_in_slurm_M2(
    reason: str, begun_in_slurm: str
) -> None:
    """Ours began in Kubernetes."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason=reason))
    status = {one.type: one.status for one in shown(core, "Node") or ()}
    assert status["SlurmCordon"] == begun_in_slurm
    assert status["SlurmDrain"] == "True"


def test_a_slurm_that_cannot_be_read_is_unknown_and_comes_back_with_its_times_M2() -> None:
    """Unknown after a minute, on the Node alone; times move only where the status does."""
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    before = core.graph.host("n1").node
    assert before is not None
    core.see(replace(before, changed_at=("5",) * 4))
    core.see(Lost("slurm_nodes", "down"))
    assert not core.wants("n1", *KINDS)
    core.see(Lost("slurm_nodes", "down", blind=True))
    unknown = shown(core, "Node") or ()
    assert {(one.status, one.reason) for one in unknown} == {("Unknown", "SlurmUnreachable")}
    assert set(times(core, "Node").values()) == {""}
    assert shown(core, "Pod") is None
    node_now = core.graph.host("n1").node
    assert node_now is not None
    core.see(replace(node_now, conditions=unknown, changed_at=("9",) * 4))
    assert not core.wants("n1", *KINDS)
    core.see(*listing("slurm_nodes", slurm_node()))
    back = shown(core, "Node") or ()
    assert {one.status for one in back} == {"False"}
    assert set(times(core, "Node").values()) == {""}


def test_a_pod_that_comes_while_slurm_cannot_be_read_is_shown_nothing_M2() -> None:
    """What was last known of the host may not hold for it."""
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(Lost("slurm_nodes", "down", blind=True), slurmd_pod(uid="new"))
    assert shown(core, "Pod") is None
    assert BLIND in core.verdict().because


def test_a_message_that_changes_moves_no_time_M2() -> None:
    """lastTransitionTime is the status's."""
    core = Core(node(), slurm_node("n1"), slurmd_pod())
    write(core)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    write(core)
    host = core.graph.host("n1").node
    assert host is not None
    core.see(replace(host, changed_at=("5",) * 4))
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
def test_the_drain_reason_is_an_annotation_M3(state: str, reason: str, text: str | None) -> None:
    """On the Pod and on the Node, while the drain lasts."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", state, reason=reason))
    assert {row.drain for row in written(core).values()} == {text}
    on_pod = metadata(core, "Pod")
    assert (on_pod.labels if on_pod else None) == (() if text else None)
    write(core)
    core.see(slurm_node("n1"))
    assert {row.drain for row in written(core).values()} == {None}


def test_the_node_names_cluster_namespace_pod_and_nodeset_M4() -> None:
    """Labels on Nodes in use; gone when the Node is no longer."""
    core = Core(node(), slurmd_pod(nodeset="gpu"), slurm_node(), cluster_name="big one")
    named = metadata(core, "Node")
    assert named is not None
    assert list(named.labels) == sorted(named.labels)
    write(core)
    host = core.graph.host("n1").node
    assert host is not None
    assert dict(zip(NODE_LABELS, host.labels, strict=True)) == {
        LABEL_CLUSTER: "big-one",
        LABEL_NAMESPACE: "slurm",
        LABEL_POD: "slurmd-n1",
        LABEL_NODESET: "gpu",
    }
    core.see(deleted("slurmd_pods", slurmd_pod(nodeset="gpu")))
    wanted = core.wants("kn1", SetMetadata)
    assert [want.labels for want in wanted] == [()]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("-" + "x" * 62 + ".yz", "x" * 62),
        ("x" * 70, "x" * 63),
        ("Xeon, 2 of X", "Xeon-2-of-X"),
        ("_.gpu-", "gpu"),
    ],
)
def test_a_name_that_may_not_be_a_label_is_made_one_M4(name: str, label: str) -> None:
    """At most 63 characters, beginning and ending with a letter or digit."""
    core = Core(node(), slurmd_pod(nodeset=name), slurm_node())
    wanted = metadata(core, "Node")
    assert wanted is not None
    assert dict(wanted.labels)[LABEL_NODESET] == label


def test_a_node_without_slurmd_pod_carries_the_cluster_alone_M4() -> None:
    """It claims a Slurm node by its name; there is no Pod to name."""
    core = Core(node("n1"), slurm_node())
    wanted = metadata(core, "Node")
    assert wanted is not None
    assert wanted.labels == ((LABEL_CLUSTER, "slurm"),)


@pytest.mark.parametrize("state", ["IDLE", "IDLE+DRAIN", "DOWN+NOT_RESPONDING"])
@pytest.mark.parametrize("name", ["kn1", "n1"], ids=["names differ", "names are equal"])
def test_the_second_round_writes_nothing_M5(state: str, name: str) -> None:
    """Once shown, nothing is wanted, however many rounds."""
    core = Core(node(name), slurmd_pod(node_name=name), slurm_node("n1", state, reason="fan"))
    write(core)
    for _ in range(3):
        core.see(*listing("slurm_nodes", slurm_node("n1", state, reason="fan")))
        core.wait(100)
        assert not core.wants("n1", *KINDS)


def test_a_vanished_slurm_node_takes_everything_along_M6() -> None:
    """Conditions, annotation and labels of ours are removed from Pod and Node."""
    core = Core(node(), slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    write(core)
    core.see(*listing("slurm_nodes"))
    assert "Slurm has no such node" in core.verdict().because
    for row in written(core).values():
        assert (row.conditions, row.drain) == ((), None)
        assert not any(getattr(row, "labels", ()))
    write(core)
    assert not core.wants("n1", *KINDS)


def test_a_node_that_had_vanished_before_slurm_went_blind_is_told_as_vanished_M6() -> None:
    """Nothing of it is unknown."""
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    core.see(*listing("slurm_nodes"))
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert "Slurm has no such node" in core.verdict().because
    assert shown(core, "Node") == ()


def test_nothing_is_taken_away_before_slurm_was_listed_M6() -> None:
    """Unknown is not gone."""
    core = Core(node(conditions=(condition("SlurmDrain"),)), slurmd_pod(), listed=False)
    assert not core.wants("n1", *KINDS)


def test_a_node_left_for_another_shows_nothing_of_the_host_M6() -> None:
    """The Pod came up on another Node: the old one stands for no Slurm node."""
    labels = labels_of(((LABEL_CLUSTER, "slurm"), (LABEL_POD, "slurmd-n1")))
    old = node("old", labels=labels, conditions=(condition("SlurmDrain"),), drain="fan")
    core = Core(old, node(), slurmd_pod(), slurm_node())
    assert shown(core, "Node", "old") == ()
    wanted = metadata(core, "Node", "old")
    assert wanted is not None
    assert (wanted.labels, wanted.annotations) == ((), ())


@pytest.mark.parametrize(
    "left",
    [{"labels": ((LABEL_CLUSTER, "slurm"),)}, {"drain": ""}, {"drain": "fan"}],
    ids=["labels", "an empty annotation", "the annotation"],
)
def test_each_thing_of_ours_is_taken_away_by_itself_M6(left: dict[str, Any]) -> None:
    """Whatever stands of it on a Node that stands for no Slurm node."""
    core = Core(node("old", **left), slurm_node())
    wanted = metadata(core, "Node", "old")
    assert wanted is not None
    assert (wanted.labels, wanted.annotations) == ((), ())
    assert shown(core, "Node", "old") is None


def test_a_namesake_of_a_slurm_node_that_a_pod_claims_is_cleaned_M6() -> None:
    """Node n1 stood for Slurm node n1 by its name until a Pod on another Node claimed it."""
    namesake = node("n1", labels=labels_of(((LABEL_CLUSTER, "slurm"),)))
    core = Core(namesake, node(), slurmd_pod(), slurm_node())
    cleaned = SetMetadata(core.graph.reference(("host", "?")), MANAGER_MIRROR, (), ())
    wanted = core.wants("n1", SetMetadata)
    by_name = {want.reference.name: want for want in wanted}
    assert replace(by_name["n1"], reference=cleaned.reference) == cleaned
    assert by_name["kn1"].labels


def test_two_slurm_nodes_on_one_node_show_nothing_on_it() -> None:
    """A Node that stands for two shows neither; their Pods still do (S16)."""
    ends = [slurmd_pod(f"n{i}", node_name="kn1", terminating=True) for i in (1, 2)]
    core = Core(node(), *ends, slurm_node(), slurm_node("n2"))
    for name in ("n1", "n2"):
        assert shown(core, "Pod", name)
        assert shown(core, "Node", name) is None


@pytest.mark.parametrize("field", ["reason", "message", "status"])
def test_whatever_differs_but_the_time_is_written_again_M2(field: str) -> None:
    """Another text by whomever: ours is the truth of Slurm."""
    core = Core(node(), slurmd_pod(), slurm_node())
    write(core)
    host = core.graph.host("n1").node
    assert host is not None
    right = host.conditions
    core.see(replace(host, conditions=(replace(right[0], **{field: "else"}), *right[1:])))
    assert shown(core, "Node") == right
