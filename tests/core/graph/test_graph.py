"""The graph: which facts are changes, what is remembered, and which keys a change marks."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Drain, GetObject, RecordEvent, SetMetadata
from sunk_sync.core.model.calls import StopCall
from sunk_sync.core.model.facts import (
    Attempt,
    Confirmed,
    Deleted,
    GetResult,
    ListingEnded,
    ListingStarted,
    Lost,
    Reference,
    Row,
    reference_of,
)
from sunk_sync.core.model.keys import CLUSTER, host_key, workload_key
from sunk_sync.core.model.names import MANAGER_MIRROR
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.workloads.unanswered import KEPT_S
from tests.core.checks import check_oracle
from tests.kit.build import (
    POD,
    WORKLOAD,
    Core,
    deleted,
    listing,
    marked,
    node,
    observed,
    pod,
    room,
    slurm_node,
    slurmd_pod,
)

CLUSTER_EDGE = "_claims_changed:self.keys.mark(CLUSTER)"


def test_a_listed_pod_does_not_count_as_missed_by_the_selector_S20() -> None:
    """A Pod of the old name claims another Slurm node, is read by name, and is then deleted."""
    old = slurmd_pod("n1", uid="old")
    new = slurmd_pod("n2", name=old.name, uid="new", node_name="kn2")
    core = Core(old, slurm_node("n1", comment=marked(uid="old")), slurm_node("n2"))
    core.see(deleted("slurmd_pods", old))
    core.see(new)
    core.now += 1
    core.answer(new, "yes")
    assert not core.graph.cluster().unselected
    core.see(deleted("slurmd_pods", new))
    check_oracle(core.reconciler, core.now)
    assert core.graph.cluster().unselected == 1


def test_a_pod_that_claims_another_slurm_node_now_is_not_missing_S7() -> None:
    pod = slurmd_pod("n1")
    drained = slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod cordoned")
    core = Core(node(), pod, drained, slurm_node("n2"))
    core.see(replace(pod, slurm_node="n2"))
    assert not core.wants("n1", GetObject, Drain)
    assert core.verdict("n1").because.startswith("undrained")


def test_a_read_from_before_the_pod_was_last_seen_proves_nothing_S7() -> None:
    """The Pod is read by name, is created again before the answer comes, and is deleted again."""
    pod = slurmd_pod()
    core = Core(node(), pod, slurm_node())
    core.see(deleted("slurmd_pods", pod))
    asked_s = core.now
    core.now += 1
    core.see(pod)
    core.now += 1
    core.see(deleted("slurmd_pods", pod))
    core.see(GetResult("Pod", pod.namespace, pod.name, "no", "", asked_s))
    assert not core.wants("n1", Drain)
    core.wait(40)
    (look,) = core.wants("n1", GetObject)
    assert look.after_s == asked_s
    core.answer(pod, "no")
    assert core.wants("n1", Drain)


def test_the_remaining_pod_is_remembered_when_its_rival_goes_S8() -> None:
    stays, goes = slurmd_pod(), slurmd_pod(name="other", uid="other", node_name="k2")
    core = Core(stays, goes, node("k2"), slurm_node())
    core.see(deleted("slurmd_pods", goes))
    assert core.wants("n1", GetObject) == [GetObject("Node", "", "kn1", 0.0)]
    core.answer(node(), "no")
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: node gone", absence=True)]


@pytest.mark.parametrize("last", ["neighbour", "annotated"])
def test_the_remaining_pod_is_remembered_whichever_claim_ends_last(last: str) -> None:
    """Two Pods claim n1. A neighbour on the first one's Node, or a Node, disputes it longer."""
    first = slurmd_pod("n1", name="first", uid="1", node_name="k1")
    second = slurmd_pod("n1", name="second", uid="2", node_name="k2")
    neighbour = slurmd_pod("n9", name="neighbour", uid="3", node_name="k1")
    annotated = node("k3", slurm_node="n1")
    core = Core(slurm_node("n1"), slurm_node("n9"), node("k1"), node("k2"), node("k3"))
    core.see(first, second, neighbour if last == "neighbour" else annotated)
    core.see(deleted("slurmd_pods", second))
    core.see(deleted("slurmd_pods", neighbour) if last == "neighbour" else node("k3"))
    core.see(deleted("nodes", node("k1")))
    assert core.wants("n1", GetObject) == [GetObject("Node", "", "k1", 0.0)]


def test_a_terminating_pod_is_remembered_when_its_successor_goes_first() -> None:
    """Simulator, seed 20413: then its Node is the one that counts."""
    core = Core(slurm_node("n1"), node("k1"), node("k2"))
    ending = slurmd_pod("n1", name="old", uid="1", node_name="k1", terminating=True)
    successor = slurmd_pod("n1", name="new", uid="2", node_name="k2")
    core.see(successor, ending)
    core.see(deleted("slurmd_pods", successor))
    core.see(deleted("nodes", node("k1")))
    assert core.wants("n1", GetObject) == [GetObject("Node", "", "k1", 0.0)]


def test_the_verdict_for_two_finished_pods_does_not_depend_on_the_order_of_a_set() -> None:
    pods = [slurmd_pod(name=f"p{i}", uid=f"u{i}", finished=True) for i in range(9)]
    core = Core(*pods, slurm_node(comment=marked()))
    core.wait(6)
    assert "slurm/p0" in core.verdict().because


def test_equal_facts_mark_no_key_M5() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    core.graph.observe([observed(node()), observed(slurmd_pod()), observed(slurm_node())], now=1)
    assert not core.graph.keys.dirty


def test_workload_pods_are_kept_and_mark_no_host() -> None:
    core = Core(slurm_node(), scheduler="")
    core.graph.observe([observed(POD)], now=1)
    assert core.graph.pods.get("ns/p1") == POD
    core.graph.observe([deleted("pods", POD)], now=1)
    assert not core.graph.pods.entries
    assert not core.graph.keys.dirty


def test_a_source_that_becomes_listed_or_blind_marks_every_key() -> None:
    core = Core(slurm_node(), slurm_node("n2"))
    for news in ([Lost("slurm_nodes", "x", blind=True)], listing("slurm_nodes", slurm_node())):
        core.graph.observe(news, now=core.now)
        assert {CLUSTER, host_key("n1")} <= set(core.graph.keys.dirty)
        core.graph.keys.dirty.clear()
    core.graph.observe([Lost("nodes", "x"), Confirmed("nodes", 1)], now=core.now)
    assert not core.graph.keys.dirty


def test_a_host_that_neither_side_knows_is_forgotten() -> None:
    pod, slurm = slurmd_pod(), slurm_node()
    core = Core(pod, slurm)
    core.see(deleted("slurmd_pods", pod))
    assert core.graph.keys.knows(host_key("n1"))
    core.see(Deleted("slurm_nodes", "", "n1", "", core.now + 1e9))
    assert not core.graph.keys.knows(host_key("n1"))
    assert host_key("n1") not in core.reconciler.standing


def test_a_read_of_an_unknown_object_or_an_older_read_changes_nothing() -> None:
    pod = slurmd_pod()
    core = Core(slurm_node(comment=marked()), now=1000)
    core.see(GetResult("Pod", "ns", "other", "no", "", 1000))
    core.see(GetResult("Pod", pod.namespace, pod.name, "yes", pod.uid, 1001))
    core.see(GetResult("Pod", pod.namespace, pod.name, "no", "", 1000))
    assert not core.wants("n1", Drain)


@pytest.mark.parametrize(
    ("rows", "kind", "name"),
    [
        ((node(), slurmd_pod(), slurm_node()), "Pod", "slurmd-n1"),
        ((node("n1"), slurm_node()), "Node", "n1"),
        ((slurm_node(),), "Namespace", "default"),
    ],
    ids=["a Pod", "a Node alone", "neither"],
)
def test_an_event_is_about_pod_node_or_namespace(
    rows: tuple[Row, ...], kind: str, name: str
) -> None:
    core = Core(*rows)
    reference = core.graph.reference(host_key("n1"))
    assert (reference.kind, reference.name) == (kind, name)
    assert core.graph.reference(CLUSTER) == Reference("Namespace", "", "default", "")


def test_an_event_about_a_workload_is_about_its_first_pod_else_our_namespace() -> None:
    core = Core(*room(), POD)
    key = workload_key(WORKLOAD)
    assert core.graph.reference(key) == reference_of(POD)
    core.see(deleted("pods", POD))
    assert core.graph.reference(key) == Reference("Namespace", "", "default", "")


def test_a_call_about_an_unknown_job_marks_no_workload_L6() -> None:
    """The next listing shows the job, and the script asks again."""
    core = Core(*room(), pod())
    assert not core.see(StopCall(1, "99", core.now, core.now + 30))


def test_an_old_submission_without_an_answer_is_forgotten_with_the_next_one_F2() -> None:
    core = Core(*room(), pod())
    attempts = core.graph.workloads.memory.unanswered.attempts
    core.see(Attempt("old", core.now))
    core.wait(KEPT_S)
    core.see(Attempt("next", core.now))
    assert list(attempts) == ["old", "next"]
    core.wait(1)
    core.see(Attempt("last", core.now))
    assert list(attempts) == ["next", "last"]


def test_an_unfinished_listing_proves_nothing_F3() -> None:
    core = Core(node(), slurmd_pod(), slurm_node())
    core.see(ListingStarted("nodes", core.now, 1e9), Lost("nodes", "cut"), ListingEnded("nodes"))
    assert core.graph.nodes.get("kn1") is not None
    assert not core.graph.nodes.live


def test_a_namesake_is_cleaned_when_another_node_claims_the_slurm_node_M6() -> None:
    named = node("n1", labels=("slurm", None, None, None))
    core = Core(named, node("kn1", slurm_node="n1"), slurm_node())
    cleaned = SetMetadata(reference_of(named), MANAGER_MIRROR, (), ())
    assert cleaned in core.wants()


def test_hosts_with_two_claims_are_counted_S16() -> None:
    core = Core(slurmd_pod(), slurmd_pod(name="b", uid="b"), slurm_node(), slurm_node("n2"))
    assert core.reconciler.contested() == 1
    assert core.wants("n1", RecordEvent)


def test_the_cluster_is_decided_again_only_when_what_is_held_changes_S19() -> None:
    core = Core(slurm_node())
    for _ in range(2):
        core.graph.keys.dirty.clear()
        core.graph.observe([Holding(3, 5.0)], now=core.now)
    assert not core.graph.keys.dirty
    core.graph.observe([Holding(0, 0.0)], now=core.now)
    assert core.graph.holding is None
    assert set(core.graph.keys.dirty) == {CLUSTER}


def test_pods_without_a_slurm_node_are_no_rivals_S16() -> None:
    pods = [slurmd_pod("", name=name, uid=name, node_name="") for name in "ab"]
    core = Core(*pods, slurm_node(), node())
    assert not core.reconciler.contested()
    assert not core.verdict("").wants
