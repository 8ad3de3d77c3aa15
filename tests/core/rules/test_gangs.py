"""Gangs: rows G1-G7."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Bind,
    CancelJob,
    Drain,
    EndPod,
    GetGang,
    SetScheduled,
    SubmitJob,
)
from sunk_sync.core.model.facts import Attempt, BindRefused, Job, News, Node, Pod, Row
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.pod_spec import Gang, GangKind
from tests.kit.build import (
    POD,
    SMALL,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    two_hosts,
)

A, B = gang_pod("a"), gang_pod("b")


def runs(*pods: Pod, **fields: Any) -> Job:
    return job(*pods, **{"state": "RUNNING", "slurm_nodes": ("n1", "n2"), **fields})


def said(core: Core, of: Pod) -> dict[str, str]:
    """Pod and the message of its condition."""
    wants = core.workload_wants(of, SetScheduled)
    return {want.reference.name: want.message for want in wants}


def test_a_gang_is_one_job_with_a_node_for_each_member_G1() -> None:
    submit = two_hosts(A, B).submission(A)
    assert submit.identity.workload == workload_id([A.uid, B.uid])
    assert submit.identity.pods == ("ns/a/uid-a", "ns/b/uid-b")
    assert submit.description.slurm_nodes == 2


def test_a_gang_waits_until_all_its_members_exist_G1() -> None:
    core = two_hosts(A)
    core.wait(1)
    assert said(core, A) == {"a": "1 of the 2 Pods of its gang exist"}
    assert not core.submission(A)


@pytest.mark.parametrize("fate", [{"gated": True}, {"terminating": True}, {"ended": True}])
def test_a_member_that_cannot_start_does_not_count_G1(fate: dict[str, Any]) -> None:
    assert not two_hosts(A, replace(B, **fate)).workload_wants(A, SubmitJob)


def grouped(name: str, **fields: Any) -> Pod:
    return pod(name, gang=Gang("group", "g"), **fields)


def test_an_unknown_size_is_read_again_after_a_while_and_shown_G1() -> None:
    one = grouped("a")
    core = two_hosts(one, grouped("b"))
    assert core.workload_wants(one, GetGang) == [GetGang("group", "ns", "g", 0.0)]
    core.wait(1)
    assert "the size of its gang is not known" in said(core, one)["a"]
    asked_s = core.now
    core.see(GangSize("group", "ns", "g", 0, "no such PodGroup", asked_s))
    assert "no such PodGroup" in said(core, one)["a"]
    assert not core.workload_wants(one, GetGang)
    core.wait(30)
    assert core.workload_wants(one, GetGang) == [GetGang("group", "ns", "g", asked_s)]
    core.see(GangSize("group", "ns", "g", 2, "", core.now))
    assert core.submission(one)


def test_the_size_is_kept_when_the_only_member_changes_G1() -> None:
    """The condition that sunk-sync writes is such a change."""
    one = grouped("a")
    core = two_hosts(one)
    core.see(GangSize("group", "ns", "g", 2, "", core.now))
    core.see(replace(one, job_id="x"))
    assert not core.workload_wants(one, GetGang)


def test_the_size_of_a_deleted_gang_is_forgotten_G1() -> None:
    one = grouped("a")
    core = two_hosts(one)
    core.see(deleted("pods", one), GangSize("group", "ns", "g", 2, "", core.now))
    assert not core.graph.workloads.memory.sizes


def test_a_gang_with_a_recreated_member_is_another_workload_G1() -> None:
    core = two_hosts(A, B, job(A, B))
    again = replace(B, uid="again")
    core.see(deleted("pods", B), again)
    assert core.cancels(A) == [("7", True)]
    core.see(job(A, B, state="CANCELLED", identity=identity(A, B, replaced=True)))
    assert core.submission(A).identity.workload == workload_id([A.uid, "again"])


def test_one_invalid_member_refuses_the_gang_and_each_pod_says_why_G2() -> None:
    core = two_hosts(A, replace(B, spec=replace(SMALL, grace_s=600)))
    assert not core.submission(A)
    messages = said(core, A)
    assert set(messages) == {"a", "b"}
    assert all("ns/b" in message and "600" in message for message in messages.values())


def bound(of: Pod, at: str) -> Pod:
    return replace(of, node_name=at, job_id="7")


def test_a_deleted_member_ends_the_others_and_then_the_job_G3() -> None:
    a, b = bound(A, "kn1"), bound(B, "kn2")
    core = two_hosts(a, b, runs(a, b))
    core.see(replace(b, terminating=True))
    assert core.ends(a) == ["a"]
    assert not core.workload_wants(a, CancelJob)
    core.see(deleted("pods", b), replace(a, terminating=True))
    assert not core.workload_wants(a, CancelJob, EndPod)
    core.see(replace(a, terminating=True, ended=True))
    assert core.cancels(a) == [("7", False)]


@pytest.mark.parametrize("ended", [False, True])
def test_an_ended_member_does_not_keep_the_job_of_a_broken_gang_G3(ended: bool) -> None:
    """Simulator, seed 556129: one failed, one was deleted, and the third waited for ever."""
    a, b, c = (gang_pod(name, size=3) for name in "abc")
    a = replace(bound(a, "kn1"), ended=ended)
    core = two_hosts(a, b, c, runs(a, b, c))
    core.see(deleted("pods", c))
    assert core.cancels(a) == [("7", True)] * ended
    assert bool(core.workload_wants(a, EndPod)) != ended


def test_all_members_end_with_their_job_G3() -> None:
    a, b = bound(A, "kn1"), bound(B, "kn2")
    core = two_hosts(a, b, runs(a, b, state="PREEMPTED"))
    assert core.ends(a) == ["a", "b"]


@pytest.mark.parametrize("kind", ["annotation", "group"])
def test_a_deleted_member_ends_the_others_also_when_their_job_is_lost_G3(kind: GangKind) -> None:
    """Simulator, seed 71159: half a gang lived on. A complete gang is kept (P30)."""
    gang = Gang(kind, "g", size=2 if kind == "annotation" else 0)
    a, b = (replace(one, gang=gang) for one in (bound(A, "kn1"), bound(B, "kn2")))
    core = two_hosts(a, b)
    if kind == "group":
        core.see(GangSize("group", "ns", "g", 2, "", core.now))
    core.lose_jobs()
    assert not core.workload_wants(a, EndPod)
    core.see(replace(b, terminating=True))
    assert core.ends(a) == ["a"]
    core.see(deleted("pods", b), replace(b, uid="again", node_name="", job_id=""))
    assert core.ends(a) == ["a"]


def test_a_half_bound_gang_whose_job_is_lost_is_not_bound_further_P30() -> None:
    core = two_hosts(bound(A, "kn1"), B)
    core.lose_jobs()
    assert not core.workload_wants(A, Bind)
    assert core.wants("n1", Drain)


@pytest.mark.parametrize(
    "cause",
    [BindRefused(B.uid, "kn2", "no"), node("kn2", ready="Unknown")],
    ids=["refused", "unfit"],
)
def test_a_member_that_cannot_be_bound_ends_the_others_first_G4(cause: News | Node) -> None:
    """Simulator, seed 569314: the job ended first, and its Pod lived beside the next job there."""
    a = bound(A, "kn1")
    core = two_hosts(a, B, runs(A, B))
    assert core.binds(a)
    core.see(cause)
    (end,) = core.workload_wants(a, EndPod)
    assert end.reference.name == "a"
    assert ("kn2 is not ready" in end.message) is isinstance(cause, Node)
    assert not core.cancels(a)
    assert bool(core.binds(a)) is not isinstance(cause, Node)
    core.see(replace(a, terminating=True))
    assert not core.workload_wants(a, CancelJob, Bind)
    core.see(deleted("pods", a))
    assert core.cancels(B) == [("7", True)]


@pytest.mark.parametrize("bound_for", ["", "7"], ids=["by somebody else", "before a requeue"])
def test_a_member_on_another_host_ends_the_others_and_then_the_job_P14(bound_for: str) -> None:
    a, b = bound(A, "kn1"), replace(bound(B, "kn3"), bound_for=bound_for)
    core = two_hosts(*room("n3"), a, b, runs(A, B))
    assert "a" in core.ends(a)
    assert not core.workload_wants(a, CancelJob)
    core.see(replace(a, ended=True))
    assert core.cancels(a) == [("7", True)]


def test_a_job_is_replaced_at_once_when_its_only_bound_member_has_ended_G4() -> None:
    a = replace(bound(A, "kn1"), ended=True)
    core = two_hosts(a, B, runs(A, B))
    core.see(node("kn2", ready="Unknown"))
    assert not core.workload_wants(a, EndPod)
    assert core.cancels(a) == [("7", True)]


def test_a_member_is_bound_although_another_has_ended_already_G4() -> None:
    """Simulator, seed 9503580: its binding was lost, and the first member took three seconds."""
    a = replace(bound(A, "kn1"), ended=True)
    assert two_hosts(a, B, runs(A, B)).binds(a) == [("b", "kn2")]


def test_a_node_of_a_bound_member_that_is_not_ready_does_not_stop_the_others_G1() -> None:
    a = bound(A, "kn1")
    core = two_hosts(a, B, runs(A, B))
    core.see(node("kn1", ready="Unknown"))
    assert [node for _, node in core.binds(a)] == ["kn2"]
    assert not core.workload_wants(a, CancelJob, EndPod)


def test_a_refused_binding_is_forgotten_with_its_job_G4() -> None:
    core = two_hosts(A, B, runs(A, B))
    core.see(BindRefused(B.uid, "kn2", "no"))
    core.see(runs(A, B, state="CANCELLED", identity=identity(A, B, replaced=True)))
    a = replace(A, node_name="kn1", job_id="8")
    core.see(runs(A, B, job_id="8", submitted_at=2), a)
    assert not core.workload_wants(a, EndPod, CancelJob)
    assert core.workload_wants(a, Bind)


def test_the_same_name_in_two_namespaces_is_two_gangs_G6() -> None:
    other = replace(B, namespace="elsewhere")
    core = two_hosts(A, other)
    assert not core.submission(A)
    assert not core.submission(other)


@pytest.mark.parametrize("with_job", [False, True])
def test_members_beyond_the_size_wait_with_a_message_G7(with_job: bool) -> None:
    """The oldest Pods are the gang."""
    late = gang_pod("aa", created_s=9)
    rows: list[Row] = [A, B, late, *([job(A, B)] if with_job else [])]
    core = two_hosts(*rows)
    core.wait(1)
    assert "as many Pods as its size" in said(core, A)["aa"]
    if not with_job:
        assert core.submission(A).identity.workload == workload_id([A.uid, B.uid])


def test_a_member_beyond_the_size_of_a_running_gang_has_a_message_too_G7() -> None:
    a, b = bound(A, "kn1"), bound(B, "kn2")
    late = gang_pod("c", created_s=9)
    core = two_hosts(a, b, runs(a, b), late)
    assert set(said(core, a)) == {"c"}


def test_a_gangs_submission_without_an_answer_is_looked_for_by_the_id_of_its_members_F2() -> None:
    core = two_hosts(A, B)
    sent_s = core.now
    core.see(Attempt(workload_id([A.uid, B.uid]), sent_s))
    assert not core.submission(A)
    core.see(*listing("jobs", begun_s=sent_s + 12))
    assert core.submission(A)


def test_the_queue_position_of_a_gang_is_shown_P26() -> None:
    jobs = [job(POD), job(A, B, job_id="9")]
    core = two_hosts(POD, A, B, *jobs)
    core.see_listing("jobs", *jobs, after_s=61)
    assert "At least 1 other Pod waits" in said(core, A)["a"]
