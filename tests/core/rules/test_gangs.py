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
from sunk_sync.core.model.facts import Attempt, BindRefused, GangSize, Job, Pod, Row
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.pod_spec import Gang
from tests.kit.build import (
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


def test_a_gang_is_one_job_with_a_node_for_each_G1() -> None:
    """Its id is that of its members."""
    (submit,) = two_hosts(A, B).workload_wants(A, SubmitJob)
    assert submit.identity.workload == workload_id([A.uid, B.uid])
    assert submit.identity.pods == ("ns/a/uid-a", "ns/b/uid-b")
    assert submit.description.slurm_nodes == 2


def test_it_waits_until_all_members_exist_G1() -> None:
    """And says so."""
    core = two_hosts(A)
    core.wait(1)
    assert said(core, A) == {"a": "1 of the 2 Pods of its gang exist"}
    assert not core.workload_wants(A, SubmitJob)


@pytest.mark.parametrize("fate", [{"gated": True}, {"terminating": True}, {"ended": True}])
def test_a_member_that_cannot_start_does_not_count_G1(fate: dict[str, Any]) -> None:
    """All or none."""
    assert not two_hosts(A, replace(B, **fate)).workload_wants(A, SubmitJob)


def grouped(name: str, **fields: Any) -> Pod:
    return pod(name, gang=Gang("group", "g"), **fields)


def test_an_unknown_size_is_asked_for_and_told_G1() -> None:
    """Once; what does not tell is asked again after a while."""
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
    assert core.workload_wants(one, SubmitJob)


def test_the_size_outlives_an_edit_of_the_only_member_G1() -> None:
    """Our own condition on it is one."""
    one = grouped("a")
    core = two_hosts(one)
    core.see(GangSize("group", "ns", "g", 2, "", core.now))
    core.see(replace(one, job_id="x"))
    assert not core.workload_wants(one, GetGang)


def test_the_size_of_a_gang_that_is_gone_is_forgotten_G1() -> None:
    """Memory is bounded by what exists."""
    one = grouped("a")
    core = two_hosts(one)
    core.see(deleted("pods", one), GangSize("group", "ns", "g", 2, "", core.now))
    assert not core.graph.workloads.memory.sizes


def test_a_recreated_member_is_another_workload_G1() -> None:
    """The job of the old one is given up, the new gang gets its own."""
    core = two_hosts(A, B, job(A, B))
    again = replace(B, uid="again")
    core.see(deleted("pods", B), again)
    (cancel,) = core.workload_wants(A, CancelJob)
    assert cancel.replaced
    core.see(job(A, B, state="CANCELLED", identity=identity(A, B, replaced=True)))
    (submit,) = core.workload_wants(A, SubmitJob)
    assert submit.identity.workload == workload_id([A.uid, "again"])


def test_one_wrong_member_refuses_the_gang_G2() -> None:
    """Each Pod says which and why."""
    wrong = replace(B, spec=replace(SMALL, grace_s=600))
    core = two_hosts(A, wrong)
    assert not core.workload_wants(A, SubmitJob)
    told = said(core, A)
    assert set(told) == {"a", "b"}
    assert all("ns/b" in message and "600" in message for message in told.values())


def bound(of: Pod, at: str) -> Pod:
    return replace(of, node_name=at, job_id="7")


def test_a_member_that_is_deleted_takes_the_others_along_G3() -> None:
    """The job ends once, after them."""
    a, b = bound(A, "kn1"), bound(B, "kn2")
    core = two_hosts(a, b, runs(a, b))
    core.see(replace(b, terminating=True))
    assert core.ends(a) == ["a"]
    assert not core.workload_wants(a, CancelJob)
    core.see(deleted("pods", b), replace(a, terminating=True))
    assert not core.workload_wants(a, CancelJob, EndPod)
    core.see(replace(a, terminating=True, ended=True))
    (cancel,) = core.workload_wants(a, CancelJob)
    assert not cancel.replaced


@pytest.mark.parametrize("ended", [False, True])
def test_a_member_that_has_ended_keeps_no_job_from_those_that_wait_G3(ended: bool) -> None:
    """Found by the simulator: one had failed, one was deleted, and the third waited for ever beside
    a job that ran (556129).
    """
    a, b, c = (gang_pod(name, size=3) for name in "abc")
    a = replace(bound(a, "kn1"), ended=ended)
    core = two_hosts(a, b, c, runs(a, b, c))
    core.see(deleted("pods", c))
    assert [cancel.replaced for cancel in core.workload_wants(a, CancelJob)] == [True] * ended
    assert bool(core.workload_wants(a, EndPod)) != ended


def test_all_members_end_with_their_job_G3() -> None:
    """Each with its own grace."""
    a, b = bound(A, "kn1"), bound(B, "kn2")
    core = two_hosts(a, b, runs(a, b, state="PREEMPTED"))
    assert core.ends(a) == ["a", "b"]


@pytest.mark.parametrize("kind", ["annotation", "group"])
def test_a_member_that_is_deleted_takes_the_others_along_when_their_job_is_lost_G3(
    kind: str,
) -> None:
    """Found by the simulator: half a gang lived on (71159). The whole one is kept (P30)."""
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


def test_a_gang_half_bound_whose_job_is_lost_is_not_bound_any_further_P30() -> None:
    """The host of the bound member is what the missing job concerns; the other has none."""
    core = two_hosts(bound(A, "kn1"), B)
    core.lose_jobs()
    assert not core.workload_wants(A, Bind)
    assert core.wants("n1", Drain)


def test_a_binding_that_cannot_be_rolls_everything_back_G4() -> None:
    """Bound members end, and the job after them (P14), as replaced."""
    a = bound(A, "kn1")
    core = two_hosts(a, B, runs(A, B))
    assert core.workload_wants(a, Bind)
    core.see(BindRefused(B.uid, "kn2", "no"))
    assert core.ends(a) == ["a"]
    core.see(replace(a, terminating=True))
    assert not core.workload_wants(a, CancelJob, Bind)
    core.see(deleted("pods", a))
    (cancel,) = core.workload_wants(B, CancelJob)
    assert cancel.replaced


def test_a_host_that_turned_unfit_ends_the_bound_members_before_their_job_G4() -> None:
    """Found by the simulator: the job went first, and its Pod lived on beside whom Slurm let in
    (569314).
    """
    a = bound(A, "kn1")
    core = two_hosts(a, B, runs(A, B))
    core.see(node("kn2", ready="Unknown"))
    (end,) = core.workload_wants(a, EndPod)
    assert (end.reference.name, "kn2 is not ready" in end.message) == ("a", True)
    assert not core.workload_wants(a, CancelJob, Bind)
    core.see(replace(a, terminating=True))
    assert not core.workload_wants(a, CancelJob)
    core.see(deleted("pods", a))
    assert [cancel.replaced for cancel in core.workload_wants(B, CancelJob)] == [True]


@pytest.mark.parametrize("bound_for", ["", "7"], ids=["by somebody else", "before a requeue"])
def test_a_member_that_stands_elsewhere_costs_those_on_the_jobs_hosts_first_P14(
    bound_for: str,
) -> None:
    """The job ends after them, whoever bound the one (P18, P19)."""
    a, b = bound(A, "kn1"), replace(bound(B, "kn3"), bound_for=bound_for)
    core = two_hosts(*room("n3"), a, b, runs(A, B))
    assert "a" in core.ends(a)
    assert not core.workload_wants(a, CancelJob)
    core.see(replace(a, ended=True))
    assert [cancel.replaced for cancel in core.workload_wants(a, CancelJob)] == [True]


def test_a_member_that_ended_by_itself_does_not_keep_such_a_job_G4() -> None:
    """Nobody stands on its hosts."""
    a = replace(bound(A, "kn1"), ended=True)
    core = two_hosts(a, B, runs(A, B))
    core.see(node("kn2", ready="Unknown"))
    assert not core.workload_wants(a, EndPod)
    assert [cancel.replaced for cancel in core.workload_wants(a, CancelJob)] == [True]


def test_the_host_of_a_bound_member_is_no_matter_of_the_others_G1() -> None:
    """Its Node is not ready any more: what becomes of it is Kubernetes' business."""
    a = bound(A, "kn1")
    core = two_hosts(a, B, runs(A, B))
    core.see(node("kn1", ready="Unknown"))
    assert [node for _, node in core.binds(a)] == ["kn2"]
    assert not core.workload_wants(a, CancelJob, EndPod)


def test_the_refusal_ends_with_its_job_G4() -> None:
    """The next one holds other hosts."""
    core = two_hosts(A, B, runs(A, B))
    core.see(BindRefused(B.uid, "kn2", "no"))
    core.see(runs(A, B, state="CANCELLED", identity=identity(A, B, replaced=True)))
    a = replace(A, node_name="kn1", job_id="8")
    core.see(runs(A, B, job_id="8", submitted_at=2), a)
    assert not core.workload_wants(a, EndPod, CancelJob)
    assert core.workload_wants(a, Bind)


def test_the_largest_shape_counts_on_every_node_G5() -> None:
    """Heterogeneous jobs wait for the backfill thread."""
    large = replace(B, spec=replace(SMALL, requests=(("cpu", 4000), ("memory", 1 << 30))))
    (submit,) = two_hosts(A, large).workload_wants(A, SubmitJob)
    assert submit.description.cpus == 4


def test_the_same_name_in_two_namespaces_is_two_gangs_G6() -> None:
    """Neither waits for the other."""
    other = replace(B, namespace="elsewhere")
    core = two_hosts(A, other)
    assert not core.workload_wants(A, SubmitJob)
    assert not core.workload_wants(other, SubmitJob)


@pytest.mark.parametrize("with_job", [False, True])
def test_the_surplus_waits_with_a_message_G7(with_job: bool) -> None:
    """The oldest are the gang."""
    late = gang_pod("aa", created_s=9)
    rows: list[Row] = [A, B, late, *([job(A, B)] if with_job else [])]
    core = two_hosts(*rows)
    core.wait(1)
    assert "as many Pods as its size" in said(core, A)["aa"]
    if not with_job:
        (submit,) = core.workload_wants(A, SubmitJob)
        assert submit.identity.workload == workload_id([A.uid, B.uid])


def test_the_surplus_of_a_gang_that_runs_says_so_too_G7() -> None:
    """Nobody waits in silence."""
    a, b = bound(A, "kn1"), bound(B, "kn2")
    late = gang_pod("c", created_s=9)
    core = two_hosts(a, b, runs(a, b), late)
    assert set(said(core, a)) == {"c"}


def test_a_gangs_submission_without_an_answer_is_looked_for_F2() -> None:
    """Under the id of its members."""
    core = two_hosts(A, B)
    sent_s = core.now
    core.see(Attempt(workload_id([A.uid, B.uid]), sent_s))
    assert not core.workload_wants(A, SubmitJob)
    core.see(*listing("jobs", begun_s=sent_s + 12))
    assert core.workload_wants(A, SubmitJob)


def test_a_gangs_place_in_the_queue_is_told_P26() -> None:
    """By the job, which is older than it."""
    one = pod()
    jobs = [job(one), job(A, B, job_id="9")]
    core = two_hosts(one, A, B, *jobs)
    core.see_listing("jobs", *jobs, after_s=61)
    assert "At least 1 other Pod waits" in said(core, A)["a"]
