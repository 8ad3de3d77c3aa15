"""Rows N2, N4, N13, N22: the numbers and conditions of a NodeSet, and what the decision says."""

from typing import Any

import pytest

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.keys import node_set_key
from sunk_sync.core.model.node_set_actions import CreatePod, SetStatus
from tests.kit.build import Core, slurm_node
from tests.kit.node_sets import (
    LARGER,
    OTHER_STAMP,
    members,
    node_set,
    record,
    set_pod,
    status,
    wants,
)

KEY = node_set_key("slurm/cpu")
FAN = "fan broken"


def shown(core: Core) -> SetStatus:
    found = status(core)
    assert found is not None
    return found


def condition(core: Core, kind: str) -> Condition:
    return next(one for one in shown(core).conditions if one.type == kind)


@pytest.mark.parametrize(
    ("state", "reason", "available", "idle"),
    [
        ("IDLE", "", 2, 2),
        ("IDLE+DRAIN", FAN, 1, 1),
        ("MIXED+DRAIN", FAN, 1, 1),
        ("IDLE+FAIL", FAN, 1, 1),
        ("IDLE+DRAIN", "k8s: node cordoned", 1, 1),
        ("DOWN", "", 1, 1),
        ("MIXED", "", 2, 1),
    ],
    ids=[
        "in use",
        "drained by a person",
        "draining for a person",
        "failed by a person",
        "drained by sunk-sync",
        "down",
        "jobs run there",
    ],
)
def test_a_node_is_available_only_if_slurm_may_start_jobs_there_N2(
    state: str, reason: str, available: int, idle: int
) -> None:
    core = Core(node_set(2), *members(0), set_pod(1), record(1, state, reason=reason))
    counts = shown(core).counts
    assert (counts.available, counts.idle) == (available, idle)


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "ALLOCATED+DRAIN", "IDLE+FAIL"])
def test_a_drain_of_a_person_is_named_and_leaves_nothing_to_do_N2(state: str) -> None:
    core = Core(node_set(2), *members(0), set_pod(1), record(1, state, reason=FAN))
    told = condition(core, "Available")
    assert (told.status, told.reason) == ("False", "TooFew")
    assert told.message == (
        "1 of 2 Pods are registered in Slurm and available; somebody else drained cpu-1: fan broken"
    )
    assert condition(core, "Progressing").reason == "Complete"
    assert core.decided(KEY).because == told.message


def test_a_drain_of_ours_is_what_a_nodeset_waits_for_N2() -> None:
    ours = "k8s: node cordoned: kernel update"
    core = Core(node_set(2), *members(0), set_pod(1), record(1, "IDLE+DRAIN", reason=ours))
    told = condition(core, "Progressing")
    assert (told.reason, told.message) == (
        "Working",
        f"1 Pod whose Slurm nodes sunk-sync drained (cpu-1: {ours})",
    )


@pytest.mark.parametrize(
    "theirs",
    [[slurm_node("cpu-1")], [record(1, stamp=OTHER_STAMP)]],
    ids=["a static node", "a record of another NodeSet"],
)
@pytest.mark.parametrize("pod", [[], [set_pod(1)]], ids=["before the Pod is made", "with a Pod"])
def test_a_node_of_somebody_else_in_slurm_is_respected_and_said_N22(
    theirs: list[Any], pod: list[Any]
) -> None:
    core = Core(node_set(2), *members(0), *pod, *theirs)
    told = condition(core, "Progressing")
    assert (told.status, told.reason, told.message) == (
        "False",
        "NameTaken",
        "cpu-1: Slurm has a node of this name of somebody else",
    )
    assert not wants(core, CreatePod)


def test_a_record_that_must_go_first_is_what_a_nodeset_waits_for_N4() -> None:
    old = record(1, "DOWN", node_set(registration=LARGER))
    told = condition(Core(node_set(2), *members(0), old), "Progressing")
    assert (told.reason, told.message) == (
        "Working",
        "1 Pod to make, 1 Pod whose older records in Slurm must go first (cpu-1)",
    )


NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node_name": "", "waiting": NO_ROOM}, f"no Node takes the Pod: {NO_ROOM}"),
        ({"node_name": ""}, "no Node takes the Pod"),
        ({"waiting": "ErrImagePull: not found"}, "ErrImagePull: not found"),
        ({}, "not ready on Node kcpu-1"),
    ],
    ids=["kube-scheduler says why", "nobody says why", "the kubelet says why", "it is not ready"],
)
def test_a_pod_that_does_not_become_ready_is_named_with_the_words_of_kubernetes_N13(
    fields: dict[str, Any], message: str
) -> None:
    core = Core(node_set(2), *members(0), set_pod(1, ready=False, **fields))
    core.wait(61.0)
    told = condition(core, "Progressing")
    assert (told.reason, told.message) == ("PodsNotReady", f"cpu-1: {message}")
    assert told.message in core.decided(KEY).because, "a stuck NodeSet is not in sync"


def test_the_decision_about_a_nodeset_is_in_sync_only_if_it_is_N2() -> None:
    core = Core(node_set(2), *members(0, 1))
    found = shown(core)
    core.see(
        node_set(
            2,
            counts=found.counts,
            conditions=found.conditions,
            observed_generation=1,
            shown_revision=found.revision,
        )
    )
    assert core.decided(KEY).because == "in sync"
    core.see(set_pod(1, ready=False))
    assert core.decided(KEY).because.startswith("1 Pod not registered in Slurm yet")
