"""Rows N8, N10, N11, N21, N23, N27: the ends of Pods and records."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import LOOK_AGAIN_S, Drain, GetObject, SetMetadata
from sunk_sync.core.model.facts import Confirmed, GetResult, Lost
from sunk_sync.core.model.names import LABEL_BUSY, MANAGER_BUSY
from sunk_sync.core.model.node_set_actions import (
    ClearPod,
    DeleteNode,
    DeletePod,
    SetFinalizer,
)
from tests.kit.build import Core, deleted, node, slurm_node
from tests.kit.node_sets import (
    LARGER,
    OTHER_STAMP,
    forgotten,
    members,
    node_set,
    parted,
    record,
    set_pod,
    wants,
)

IN = "scale-in of NodeSet cpu"
OURS: dict[str, Any] = {"reason": f"k8s: pod pending deletion: {IN}"}
DRAINED: dict[str, Any] = {"pending_deletion": IN, "drained": True}


@pytest.mark.parametrize(
    ("pod", "state", "goes", "why"),
    [
        (DRAINED, "IDLE+DRAIN", True, "drained and idle"),
        (DRAINED, "DOWN+DRAIN", True, "drained and down"),
        (DRAINED, "MIXED+DRAIN", False, "a job runs"),
        (DRAINED, "IDLE+DRAIN+COMPLETING", False, "a job ends"),
        (DRAINED, "UNKNOWN+DRAIN", False, "slurmctld does not say yet whether jobs run"),
        (DRAINED, "IDLE", False, "not drained any more"),
        ({"pending_deletion": IN}, "IDLE+DRAIN", False, "no read after the drain yet"),
        ({"pending_deletion": "mine", "drained": True}, "IDLE+DRAIN", False, "a user asked"),
        ({"drained": True}, "IDLE+DRAIN", False, "nobody asked"),
        ({**DRAINED, "owner": ""}, "IDLE+DRAIN", False, "no Pod of a NodeSet"),
        ({**DRAINED, "terminating": True}, "IDLE+DRAIN", False, "it ends already"),
    ],
    ids=lambda one: one if isinstance(one, str) and " " in one else "",
)
def test_a_condemned_pod_ends_once_it_is_drained_and_idle_N8(
    pod: dict[str, Any], state: str, goes: bool, why: str
) -> None:
    core = Core(node_set(0), set_pod(0, **pod), record(0, state, **OURS))
    assert parted(core, "cpu-0") == (
        [DeletePod(core.graph.reference(("host", "cpu-0")), IN, drained=True)] if goes else []
    ), why


def test_a_drain_of_an_administrator_counts_as_drained_N11() -> None:
    core = Core(node_set(0), set_pod(0, **DRAINED), record(0, "IDLE+DRAIN", reason="fan broken"))
    assert len(parted(core, "cpu-0")) == 1


@pytest.mark.parametrize("blind", [False, True])
def test_no_pod_ends_while_slurm_cannot_be_read_N8_N24(blind: bool) -> None:
    core = Core(node_set(0), set_pod(0, **DRAINED), record(0, "IDLE+DRAIN", **OURS))
    core.see(Lost("slurm_nodes", "down", blind=blind))
    assert not core.allowed("cpu-0", DeletePod)


@pytest.mark.parametrize(
    ("reason", "goes"),
    [
        (f"k8s: pod pending deletion: {IN}", True),
        ("k8s: node gone", True),
        ("k8s: node not ready", True),
        ("k8s: pod terminating", False),
        ("fan broken", True),
        ("k8s: pod pending deletion: update", False),
        ("k8s: node cordoned: disk", False),
        ("k8s: pod not ready", False),
    ],
)
def test_a_drain_from_before_whose_lift_may_be_on_its_way_proves_nothing_N7(
    reason: str, goes: bool
) -> None:
    core = Core(node_set(0), set_pod(0, **DRAINED), record(0, "IDLE+DRAIN", reason=reason))
    assert bool(parted(core, "cpu-0")) is goes


def test_a_read_from_before_the_drain_proves_nothing_N8() -> None:
    assumed = record(0, "IDLE+DRAIN", assumed=True, **OURS)
    assert not parted(Core(node_set(0), set_pod(0, **DRAINED), assumed), "cpu-0")


def test_a_pod_that_never_registered_ends_after_a_later_listing_N8() -> None:
    core = Core(node_set(0), set_pod(0, pending_deletion=IN, ready=False))
    assert not parted(core, "cpu-0")
    core.now += 1.0
    core.see(Confirmed("slurm_nodes", core.now))
    core.wait(1.0)
    assert [one.drained for one in parted(core, "cpu-0")] == [False]


@pytest.mark.parametrize("state", ["DOWN", "UNKNOWN+NOT_RESPONDING", "IDLE"])
def test_a_pod_on_no_node_ends_whatever_is_left_of_an_older_one_N8_S13(state: str) -> None:
    """A record that is DOWN cannot be drained, so the Pod would wait for ever."""
    core = Core(node_set(0), set_pod(0, pending_deletion=IN, ready=False, node_name=""),
                record(0, state))  # fmt: skip
    assert [(one.drained, one.unbound) for one in parted(core, "cpu-0")] == [(False, True)]


def test_a_pod_that_has_ended_is_removed_N21() -> None:
    failed = set_pod(0, finished=True, ready=False, failed="OutOfcpu")
    assert len(wants(Core(node_set(1), failed), ClearPod)) == 1
    assert not wants(Core(node_set(1), set_pod(0, finished=True, owner="")), ClearPod)


def gone(spec: Any, left: Any, *others: Any) -> Core:
    """The Pod of slot 0 is deleted, and a read by name does not find it."""
    pod = set_pod(0)
    core = Core(spec, pod, left, *others)
    core.see(deleted("slurmd_pods", pod))
    core.answer(pod, "no")
    return core


@pytest.mark.parametrize(
    ("spec", "left", "goes", "why"),
    [
        (node_set(0), record(0, "IDLE+DRAIN"), True, "no Pod is wanted"),
        (node_set(0), record(0, "DOWN"), True, "a node that is down"),
        (node_set(0), record(0, "IDLE+DRAIN", reason="fan broken"), True, "drained by somebody"),
        (node_set(0), record(0, "MIXED"), False, "a job runs"),
        (node_set(0), record(0, "IDLE+COMPLETING"), False, "a job ends"),
        (node_set(0), record(0, "UNKNOWN+DRAIN"), True, "no slurmd is left that could say more"),
        (node_set(0), record(0, stamp=OTHER_STAMP), False, "a record of another NodeSet"),
        (node_set(0), slurm_node("cpu-0", comment=record(0).comment), False, "a static node"),
        (node_set(1), record(0, "IDLE+DRAIN"), False, "the next Pod uses it"),
        (node_set(1, registration=LARGER), record(0), True, "an older shape"),
        (
            node_set(1, registration=LARGER),
            record(0, "IDLE+DRAIN", reason="fan broken"),
            False,
            "an older shape that somebody drained",
        ),
        (node_set(1, deleting=True), record(0), True, "the NodeSet goes"),
    ],
    ids=lambda one: one if isinstance(one, str) and " " in one else "",
)
def test_a_record_goes_when_its_pod_is_gone_for_good_N10_N4_N11(
    spec: Any, left: Any, goes: bool, why: str
) -> None:
    core = gone(spec, left)
    expected = [DeleteNode("cpu-0", left.stamp)] if goes else []
    assert forgotten(core, "cpu-0") == expected, why


@pytest.mark.parametrize(
    ("spec", "left", "expected"),
    [
        (node_set(0), record(0, "IDLE+DRAIN", **OURS), []),
        (node_set(1, registration=LARGER), record(0, "IDLE+DRAIN", **OURS), []),
        (node_set(1), record(0, "IDLE+DRAIN", **OURS), ["k8s: pod terminated"]),
        (node_set(0), record(0, "IDLE"), ["k8s: pod terminated"]),
        (node_set(0), record(0, "IDLE+DRAIN", reason="fan broken"), []),
    ],
    ids=[
        "it goes",
        "it goes before the next Pod",
        "it stays for the next Pod",
        "it is not drained",
        "somebody drained it",
    ],
)
def test_our_drain_of_a_record_that_goes_gets_no_new_reason_N10_S9(
    spec: Any, left: Any, expected: list[str]
) -> None:
    """Slurm would refuse it, because the node is gone by then."""
    core = gone(spec, left, node("kcpu-0"))
    assert [want.reason for want in core.wants("cpu-0", Drain)] == expected


@pytest.mark.parametrize("found", ["yes", "unknown"])
def test_a_record_stays_without_the_proof_that_its_pod_is_gone_N10(found: Any) -> None:
    pod = set_pod(0)
    core = Core(node_set(0), pod, record(0))
    assert not forgotten(core, "cpu-0")
    core.see(deleted("slurmd_pods", pod))
    assert not forgotten(core, "cpu-0")
    core.answer(pod, found)
    assert not forgotten(core, "cpu-0")


def test_a_record_stays_if_its_pod_may_have_been_made_since_the_proof_N10() -> None:
    """A request to make the Pod got no answer, and the watch may be late."""
    pod = set_pod(0)
    core = gone(node_set(0), record(0))
    assert forgotten(core, "cpu-0")
    core.see(GetResult("Pod", pod.namespace, pod.name, "unknown", "", core.now + 1))
    assert not forgotten(core, "cpu-0")


def test_a_nodeset_is_freed_after_a_listing_that_is_younger_than_its_last_pod_N23() -> None:
    """The Pod may have registered since the last listing: its record would stay for ever."""
    pod = set_pod(0)
    core = Core(node_set(deleting=True), pod)
    core.wait(1.0)
    core.see(deleted("slurmd_pods", pod))
    assert not wants(core, SetFinalizer)
    core.see_listing("slurm_nodes", after_s=1.0)
    assert [one.held for one in wants(core, SetFinalizer)] == [False]


def test_a_record_goes_although_another_pod_had_its_name_for_a_while_N10() -> None:
    """No listing showed that Pod. For the drain it proves that the first one is gone."""
    pod = set_pod(0)
    core = Core(node_set(0), pod, record(0))
    core.see(deleted("slurmd_pods", pod))
    core.answer(pod, "yes", uid="another")
    assert not forgotten(core, "cpu-0")
    core.wait(LOOK_AGAIN_S)
    assert core.wants("cpu-0", GetObject)
    core.answer(pod, "no")
    assert forgotten(core, "cpu-0")


def test_a_record_stays_while_slurm_cannot_be_read_N10_N24() -> None:
    core = gone(node_set(0), record(0))
    core.see(Lost("slurm_nodes", "down"))
    assert not core.allowed("cpu-0", DeleteNode)


def test_a_nodeset_is_held_before_its_first_pod_and_freed_after_its_last_record_N23() -> None:
    assert [one.held for one in wants(Core(node_set(held=False)), SetFinalizer)] == [True]
    assert not wants(Core(node_set()), SetFinalizer)
    leaving = node_set(deleting=True)
    assert not wants(Core(leaving, *members(0)), SetFinalizer)
    assert not wants(Core(leaving, record(0)), SetFinalizer), "a record is left"
    assert [one.held for one in wants(Core(leaving), SetFinalizer)] == [False]
    orphan = node_set(deleting=True, orphan=True)
    assert [one.held for one in wants(Core(orphan, *members(0)), SetFinalizer)] == [False]


@pytest.mark.parametrize(
    ("state", "labelled", "change"),
    [
        ("MIXED", False, [((LABEL_BUSY, "true"),)]),
        ("ALLOCATED", True, []),
        ("IDLE+COMPLETING", False, [((LABEL_BUSY, "true"),)]),
        ("IDLE", True, [()]),
        ("IDLE", False, []),
        ("UNKNOWN", True, []),
        ("UNKNOWN", False, []),
    ],
)
def test_the_busy_label_stands_exactly_while_jobs_run_N27(
    state: str, labelled: bool, change: list[object]
) -> None:
    core = Core(node_set(1), set_pod(0, busy=labelled), record(0, state))
    found = [want for want in core.wants("cpu-0", SetMetadata) if want.manager == MANAGER_BUSY]
    assert [want.labels for want in found] == change
