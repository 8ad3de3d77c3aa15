"""Rows T1-T5, T8: features, weight and topology of the Slurm nodes of NodeSets."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    RecordEvent,
    SetComment,
    SetFeatures,
    SetTopology,
    SetWeight,
)
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.node_mark import Mark, mark_text, parse_mark
from sunk_sync.core.model.node_set import Features, NodeSet, Registration, Topology
from sunk_sync.core.model.pod_spec import Offer
from sunk_sync.core.translate.node_features import wanted_topology
from sunk_sync.slurm.write.precondition import Forbidden, NodeUpdate, plan
from tests.kit.build import CLUSTER_UID, Core, node, slurm_node
from tests.kit.node_sets import node_set, record, set_pod
from tests.kit.node_sets import plan as node_set_plan

DYNAMIC = (("gpu", ""), ("rack", "rack-"))
FEATURES = Features(("fast",), DYNAMIC)
TREE = Topology(("zone", "rack"), "tree:root")
SPEC = node_set(features=FEATURES)
STAMP = node_set_plan(SPEC).stamp.feature
LABELS = {"gpu": "H100", "rack": "r 7"}
WANTED = ("H100", "fast", "rack-r_7")


def noting(*features: str, comment: str | None = None) -> dict[str, Any]:
    """Return the comment of a marked Slurm node where sunk-sync set these features."""
    mark = Mark(CLUSTER_UID, "kcpu-0", "slurm", "cpu-0", "uid-cpu-0")
    return {"comment": mark_text(mark.with_features(features)) if comment is None else comment}


def having(*features: str) -> dict[str, Any]:
    both = ("cpu", STAMP, *features)
    return {"features": both, "active_features": both}


def core_of(slurm_node: SlurmNode, spec: NodeSet = SPEC, **labels: str) -> Core:
    offer = Offer(labels=tuple(sorted((labels or LABELS).items())))
    return Core(spec, set_pod(0, spec), slurm_node, node("kcpu-0", offer=offer))


def wanted(core: Core) -> list[Any]:
    return core.wants("cpu-0", SetFeatures, SetTopology)


@pytest.mark.parametrize(
    ("slurm_node", "wants", "why"),
    [
        (having(), True, "a new record"),
        (having(*WANTED) | noting(*WANTED), False, "all as wanted"),
        (having(*WANTED) | noting(), False, "others set them before, and they stay theirs"),
        (having(*WANTED, "old") | noting(*WANTED, "old"), True, "a label is gone"),
        (having(*WANTED, "theirs") | noting(*WANTED), False, "a feature of others"),
        (having("H100", "fast") | noting(*WANTED), True, "somebody took one away"),
        (having(*WANTED) | noting(*WANTED) | {"active_features": ("cpu", STAMP)}, True, "inactive"),
        (having() | noting(comment=""), False, "the mark comes first"),
        (having() | noting(comment="rack 5"), False, "no mark over the comment of others"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_features_follow_the_node_set_and_the_labels_T1_T2(
    slurm_node: dict[str, Any], wants: bool, why: str
) -> None:
    core = core_of(record(0, **slurm_node))
    assert wanted(core) == ([SetFeatures("cpu-0", WANTED)] if wants else []), why


@pytest.mark.parametrize(
    ("slurm_node", "features", "notes"),
    [
        (having(), ("cpu", STAMP, *WANTED), WANTED),
        (having("theirs"), ("cpu", STAMP, "theirs", *WANTED), WANTED),
        (having("old") | noting("old"), ("cpu", STAMP, *WANTED), WANTED),
        (having("fast"), ("cpu", STAMP, "fast", "H100", "rack-r_7"), ("H100", "rack-r_7")),
    ],
    ids=["new", "of others", "gone", "of others and wanted"],
)
def test_a_write_keeps_features_of_others_and_the_stamp_T1(
    slurm_node: dict[str, Any], features: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    given = record(0, **slurm_node)
    update = plan(SetFeatures("cpu-0", WANTED), given)
    assert isinstance(update, NodeUpdate)
    assert (update.features, update.active_features) == (features, features)
    after = update.applied_to(given, clears_reason=True)
    mark = parse_mark(after.comment)
    assert mark is not None
    assert mark.features == notes
    assert mark.pod == "cpu-0"
    assert plan(SetFeatures("cpu-0", WANTED), after) is None
    assert not wanted(core_of(after))


def test_features_are_not_written_without_a_mark_T1() -> None:
    given = record(0, **having(), **noting(comment="rack 5"))
    assert isinstance(plan(SetFeatures("cpu-0", WANTED), given), Forbidden)


def test_the_weight_is_changed_in_the_record_and_not_by_new_pods_T2() -> None:
    heavier = replace(SPEC, registration=Registration(cpus=4, memory_mib=8192, gres=(), weight=9))
    assert node_set_plan(heavier).stamp == node_set_plan(SPEC).stamp
    assert node_set_plan(heavier).revision == node_set_plan(SPEC).revision
    given = record(0, **having(*WANTED), **noting(*WANTED))
    write = SetWeight("cpu-0", 9, None, "own")
    assert core_of(given, heavier).wants("cpu-0", SetWeight) == [write]
    assert plan(write, given) == NodeUpdate(weight=9)


def test_the_stamp_and_the_name_of_the_node_set_are_never_ours_to_remove_T1() -> None:
    spec = node_set(features=Features(("cpu", "k8s.1"), (("gpu", "k8s."),)))
    assert not wanted(core_of(record(0, **having()), spec))


@pytest.mark.parametrize(
    ("shown", "labels", "moves", "told"),
    [
        ("", {"zone": "z1", "rack": "r7"}, "tree:root:z1:z1-r7", False),
        ("tree:root:z1:z1-r6", {"zone": "z1", "rack": "r7"}, "tree:root:z1:z1-r7", False),
        ("tree:root:z1:z1-r7", {"zone": "z1", "rack": "r7"}, None, False),
        ("", {"zone": "a b", "rack": "r:7"}, "tree:root:a_b:a_b-r_7", False),
        ("", {"zone": "z1"}, None, True),
        ("tree:root:z1:z1-r7", {"zone": "z1"}, "", True),
        ("other:top:s1", {"zone": "z1"}, None, True),
        (None, {"zone": "z1", "rack": "r7"}, None, False),
        (None, {"zone": "z1"}, None, True),
    ],
    ids=[
        "new", "moved", "in place", "signs", "no label", "label gone", "placed by others",
        "Slurm 24.11", "Slurm 24.11, no label",
    ],
)  # fmt: skip
def test_the_topology_follows_the_labels_T3_T4_T5_T8(
    shown: str | None, labels: dict[str, str], moves: str | None, told: bool
) -> None:
    spec = node_set(topology=TREE)
    core = core_of(record(0, **having(), topology=shown), spec, **labels)
    assert wanted(core) == ([] if moves is None else [SetTopology("cpu-0", moves)])
    events = [want.message for want in core.wants("cpu-0", RecordEvent)]
    said = "Node kcpu-0 has no label rack: its Slurm node has no topology"
    assert events == ([said] if told else [])


def test_long_names_of_switches_stay_apart_T8() -> None:
    spec = node_set(topology=Topology(("zone",), "tree:root"))
    places = [
        wanted(core_of(record(0, **having(), topology=""), spec, zone="z" * 63 + end))
        for end in "ab"
    ]
    assert places[0] != places[1]
    assert len(places[0][0].topology) == len("tree:root:") + 60 + 1 + 8


def leaf(*values: str) -> str:
    """Return the name of the last switch of a Node with these labels."""
    labels = {f"level{number}": value for number, value in enumerate(values)}
    core = core_of(
        record(0, **having(), topology=""),
        node_set(topology=Topology(tuple(labels), "tree:root")),
        **labels,
    )
    return str(wanted(core)[0].topology.rpartition(":")[2])


def test_no_two_places_give_one_name_of_a_switch_T8() -> None:
    """Hyphens in labels make paths look alike, also those of different lengths."""
    places = [
        ("a", "b", "c"),
        ("a-b", "c"),
        ("a", "b-c"),
        ("a-b-c",),
        ("a-", "b-c"),
        ("z" * 63, "r" * 62 + "1"),
        ("z" * 63, "r" * 62 + "2"),
        ("a b", "c"),
    ]
    names = [leaf(*place) for place in places]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,69}", name) for name in names)
    assert names[0] == "a-b-c"


def test_a_block_has_the_name_of_its_label_T8() -> None:
    asked = Topology(("rack",), "blk", blocks=True)
    offer = Offer(labels=(("rack", "r-3"),))
    assert wanted_topology(asked, node("kcpu-0", offer=offer)) == "blk:r-3"


def test_without_a_topology_in_the_node_set_its_place_is_of_others_T3() -> None:
    core = core_of(record(0, **having(*WANTED), **noting(*WANTED), topology="tree:root:s1"))
    assert not wanted(core)


def test_a_new_mark_keeps_the_note_of_features_T1_M8() -> None:
    given = record(0, **having("fast"), **noting("fast"))
    other = mark_text(Mark(CLUSTER_UID, "k9", "slurm", "cpu-0", "uid-9"))
    update = plan(SetComment("cpu-0", other), given)
    assert isinstance(update, NodeUpdate)
    mark = parse_mark(update.comment or "")
    assert mark == Mark(CLUSTER_UID, "k9", "slurm", "cpu-0", "uid-9", ("fast",))


def test_a_record_that_is_of_no_nodeset_any_more_gets_no_topology_T3() -> None:
    """Somebody else made a node of this name after the decision."""
    assert isinstance(plan(SetTopology("cpu-0", "tree:root:r1"), slurm_node("cpu-0")), Forbidden)
