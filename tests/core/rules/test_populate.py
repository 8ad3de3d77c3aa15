"""Rows N1, N4, N21, N22, N24, N29, N30, T9: which Pods sunk-sync makes, and which names wait."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Undrain
from sunk_sync.core.model.facts import Lost, SlurmdPod, Source
from sunk_sync.core.model.keys import node_set_key
from sunk_sync.core.model.node_set import Gres, NodeSet
from sunk_sync.core.model.node_set_actions import CreatePod, SetStatus
from sunk_sync.core.model.node_set_answers import CreateRefused
from sunk_sync.core.rules.node_set.populate import LONGEST_PAUSE_S
from sunk_sync.core.translate.slurmd_options import conf_of
from tests.kit.build import Core, deleted, node, slurm_node
from tests.kit.node_sets import (
    LARGER,
    OTHER_STAMP,
    SHAPE,
    made,
    members,
    node_set,
    record,
    set_pod,
    status,
    wants,
)

STAYS = set_pod(1, pending_deletion="update of NodeSet cpu")
LEAVES = set_pod(1, pending_deletion="scale-in of NodeSet cpu")


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([], ["cpu-0", "cpu-1", "cpu-2"]),
        (members(0, 1, 2), []),
        (members(1), ["cpu-0", "cpu-2"]),
        (members(0, 5), ["cpu-1"]),
        (members(0, 1, 2, 3), []),
        ([set_pod(0), set_pod(1, terminating=True), set_pod(2)], []),
        ([set_pod(0), STAYS, set_pod(2)], []),
        ([set_pod(0), replace(LEAVES, terminating=True), set_pod(2)], ["cpu-3"]),
        ([set_pod(0), LEAVES, set_pod(2)], []),
    ],
    ids=[
        "an empty NodeSet",
        "all are there",
        "the lowest free ordinals come first",
        "a hole is filled",
        "more than wanted",
        "a terminating Pod keeps its name",
        "a Pod to be replaced keeps its name",
        "a Pod that leaves for good keeps its name but does not count",
        "a condemned Pod is taken back before another is made",
    ],
)
def test_missing_pods_are_made_with_the_lowest_free_ordinals_N1(
    rows: list[object], names: list[str]
) -> None:
    assert made(Core(node_set(3), *rows)) == names  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", ["node_sets", "slurmd_pods"])
def test_no_pod_is_made_while_nodesets_or_pods_cannot_be_read_N1(lost: Source) -> None:
    """After an outage of the API server one of them is listed before the other."""
    spec = node_set(1)
    key = node_set_key(spec.key)
    core = Core(spec)
    assert made(core) == ["cpu-0"]
    assert not core.kept(key)
    core.see(Lost(lost, "down", blind=False))
    assert [one.name for one in core.kept(key) if isinstance(one, CreatePod)] == ["cpu-0"]
    core.confirm(lost)
    assert not core.kept(key)


def test_ordinals_have_the_digits_that_the_nodeset_asks_for_N1() -> None:
    assert made(Core(node_set(2, padding=3, prefix="gpu"))) == ["gpu-000", "gpu-001"]


def test_no_pod_is_made_before_the_finalizer_stands_or_the_pods_are_listed_N1() -> None:
    assert not made(Core(node_set(held=False)))
    assert not made(Core(node_set(), listed=False))


def test_an_invalid_or_deleted_nodeset_gets_no_pods_N30_N23() -> None:
    spec = node_set(registration=SHAPE.__class__(cpus=4, memory_mib=64, reserved_cores=4, gres=()))
    core = Core(spec)
    assert not made(core)
    shown = status(core)
    assert shown is not None
    assert shown.conditions[0].reason == "InvalidNodeSet"
    assert "spec.reserved.cores leaves none of 4 CPUs" in shown.conditions[0].message
    assert not made(Core(node_set(deleting=True)))


@pytest.mark.parametrize(
    ("left", "names"),
    [
        (record(0), ["cpu-0"]),
        (record(0, stamp=OTHER_STAMP), []),
        (record(0, spec=node_set(registration=LARGER)), []),
        (slurm_node("cpu-0"), []),
    ],
    ids=[
        "a record of this shape is used again",
        "a record of another NodeSet blocks the name",
        "a record of an older shape must go first",
        "a static node blocks the name",
    ],
)
def test_a_name_with_a_record_in_slurm_waits_unless_the_record_fits_N4_N22(
    left: object, names: list[str]
) -> None:
    assert made(Core(node_set(1), left)) == names  # type: ignore[arg-type]


def test_a_pod_of_somebody_else_keeps_its_name_and_is_never_adopted_N29() -> None:
    core = Core(node_set(2), set_pod(0, owner="another"))
    assert made(core) == ["cpu-1"]
    shown = status(core)
    assert shown is not None
    assert shown.counts.replicas == 0
    assert "Pod slurm/cpu-0 has this name" in shown.conditions[-1].message


@pytest.mark.parametrize("owner", ["", "another"])
def test_a_pod_is_made_again_when_the_one_that_took_its_place_is_gone_N1_N29(owner: str) -> None:
    """Simulator 9315522: a Pod of somebody else took the place of ours between two listings."""
    core = Core(node_set(2), set_pod(0), set_pod(1))
    theirs = set_pod(1, uid="uid-of-theirs", owner=owner)
    core.see(theirs)
    shown = status(core)
    assert shown is not None
    assert "Pod slurm/cpu-1 has this name" in shown.conditions[-1].message
    core.see(deleted("slurmd_pods", theirs))
    assert made(core) == ["cpu-1"]


def test_a_node_that_claims_the_name_blocks_it_N22() -> None:
    assert made(Core(node_set(2), node("cpu-1"))) == ["cpu-0"]


RIVAL = node_set(2, name="rival", uid="uid-rival", prefix="cpu")


@pytest.mark.parametrize(
    ("rival", "pods", "names"),
    [
        (RIVAL, [], ["cpu-2"]),
        (RIVAL, [set_pod(0)], ["cpu-2"]),
        (replace(RIVAL, replicas=0), [], ["cpu-0", "cpu-1", "cpu-2"]),
        (replace(RIVAL, deleting=True), [], ["cpu-0", "cpu-1", "cpu-2"]),
        (replace(RIVAL, namespace="others"), [], ["cpu-2"]),
        (replace(RIVAL, prefix="gpu"), [], ["cpu-0", "cpu-1", "cpu-2"]),
    ],
    ids=[
        "both would make two Pods",
        "a Pod that exists stays, and its name is free for nobody",
        "the other wants none",
        "the other is being deleted",
        "Slurm has each name once, whatever the namespace",
        "another prefix",
    ],
)
def test_a_name_that_two_nodesets_want_gets_no_pod_of_either_N22(
    rival: NodeSet, pods: list[SlurmdPod], names: list[str]
) -> None:
    core = Core(node_set(3), rival, *pods)
    assert made(core) == names
    assert not wants(core, CreatePod, key=rival.key) or rival.prefix == "gpu"


def test_both_nodesets_say_so_and_one_that_goes_frees_the_name_N22() -> None:
    core = Core(node_set(1), RIVAL)
    for key, other in (("slurm/cpu", "rival"), ("slurm/rival", "cpu")):
        (shown,) = wants(core, SetStatus, key=key)
        assert shown.conditions[-1].reason == "NameTaken"
        assert f"cpu-0: NodeSet slurm/{other} has this name" in shown.conditions[-1].message
    core.see(deleted("node_sets", RIVAL))
    assert made(core) == ["cpu-0"]


def test_a_failed_pod_is_made_again_after_pauses_that_double_N21() -> None:
    failed = set_pod(0, finished=True, ready=False, failed="Evicted: disk pressure")
    core = Core(node_set(1), failed)
    pauses = []
    for _ in range(12):
        core.see(deleted("slurmd_pods", failed))
        assert not made(core)
        begun_s = core.now
        while not made(core):
            core.wait(0.5)
            assert core.now < begun_s + LONGEST_PAUSE_S + 1
        pauses.append(core.now - begun_s)
        core.see(failed)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(pauses) == LONGEST_PAUSE_S


def test_the_words_of_the_api_server_are_shown_and_the_pod_is_tried_again_N21() -> None:
    core = Core(node_set(1))
    core.see(CreateRefused("slurm", "cpu", "cpu-0", "exceeded quota: team"))
    assert not made(core)
    core.wait(1.0)
    assert made(core) == ["cpu-0"]
    shown = status(core)
    assert shown is not None
    assert shown.conditions[-1].reason == "PodsFail"
    assert shown.conditions[-1].message == "cpu-0: exceeded quota: team"


def test_pods_are_made_while_slurm_cannot_be_read_N24() -> None:
    core = Core(node_set(2), *members(0))
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert made(core) == ["cpu-1"]
    assert not core.kept(("nodeset", "slurm/cpu"))


@pytest.mark.parametrize(
    ("gres_map", "asked", "registered"),
    [
        ((("nvidia.com/gpu", "gpu:h100"),), None, "Gres=gpu:h100:8"),
        ((("nvidia.com/*", "gpu"),), None, "Gres=gpu:8"),
        ((), None, ""),
        ((("nvidia.com/gpu", "gpu"),), (Gres("gpu", 2, "a30"),), "Gres=gpu:a30:2"),
        ((("nvidia.com/gpu", "gpu"),), (), ""),
    ],
    ids=[
        "the map gives name and type",
        "a pattern of the map",
        "a resource that the map does not name",
        "the NodeSet says it itself",
        "the NodeSet says there is none",
    ],
)
def test_slurmd_registers_the_gres_of_its_limits_by_the_map_T9(
    gres_map: tuple[tuple[str, str], ...], asked: tuple[Gres, ...] | None, registered: str
) -> None:
    limits = (("nvidia.com/gpu", 8),)
    spec = node_set(1, limits=limits, registration=replace(SHAPE, gres=asked))
    (pod,) = wants(Core(spec, gres_map=gres_map), CreatePod)
    conf = conf_of(pod.plan.registration, name="cpu", stamp=pod.plan.stamp)
    assert registered in conf
    assert ("Gres=" in conf) == bool(registered)


def test_a_registration_that_slurm_refuses_is_named_with_its_words_and_not_undrained_T9() -> None:
    said = "gres/gpu count reported lower than configured (0 < 8)"
    refused = record(0, "IDLE+DRAIN+INVALID_REG", reason=said)
    core = Core(node_set(1), set_pod(0), refused, node("kcpu-0"))
    shown = status(core)
    assert shown is not None
    assert shown.conditions[-1].reason == "InvalidRegistration"
    assert shown.conditions[-1].message == f"cpu-0: {said}"
    assert (shown.counts.registered, shown.counts.available) == (0, 0)
    assert not core.wants("cpu-0", Undrain)
