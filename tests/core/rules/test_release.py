"""What becomes of jobs: rows P12-P15, P17-P22, P29."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    LOOK_AGAIN_S,
    Bind,
    CancelJob,
    GetJob,
    GetObject,
    RecordEvent,
)
from sunk_sync.core.model.facts import BindTried, GetResult, Job, JobNotice, Observed, Pod
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.names import EVENT_BOUND_ELSEWHERE, EVENT_REPLACED
from sunk_sync.core.model.verdict import StandingVerdict
from tests.kit.build import (
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    running,
    slurm_node,
    slurmd_pod,
    two_hosts,
)


def orphan(core: Core, of: Job) -> StandingVerdict:
    return core.reconciler.standing[workload_key(of.identity.workload)]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_pod_deleted_before_it_was_bound_frees_its_job_at_once_P13(state: str) -> None:
    """The watch's word is enough."""
    one = pod()
    its = job(one, state=state, slurm_nodes=("n1",) if state == "RUNNING" else ())
    core = two_hosts(one, its)
    core.see(deleted("pods", one))
    (cancel,) = orphan(core, its).verdict.wants
    assert isinstance(cancel, CancelJob)
    assert (cancel.job_id, cancel.name, cancel.replaced) == ("7", its.name, False)


def test_what_the_watch_told_outlives_news_of_the_job_P13() -> None:
    """The job may start in the meantime."""
    one = pod()
    its = job(one)
    core = two_hosts(one, its)
    core.see(deleted("pods", one))
    started = running(one)
    core.see(started)
    assert [type(want) for want in orphan(core, started).verdict.wants] == [CancelJob]


def test_a_pod_that_leaves_unbound_needs_no_job_P13() -> None:
    """Finalizers may keep it for long."""
    one = pod(terminating=True)
    assert two_hosts(one, job(one)).cancels(one) == [("7", False)]


@pytest.mark.parametrize(
    ("fields", "over"),
    [
        ({"terminating": True}, False),
        ({"terminating": True, "ended": True}, True),
        ({"ended": True}, True),
        ({}, False),
    ],
)
def test_the_job_of_a_bound_pod_stays_until_its_containers_ended_P14_P15(
    fields: dict[str, Any], over: bool
) -> None:
    """Never earlier."""
    one = pod(node_name="kn1", job_id="7", **fields)
    assert two_hosts(one, running(one)).cancels(one) == ([("7", False)] if over else [])


def test_a_job_on_a_host_that_cannot_take_the_pod_is_replaced_P12() -> None:
    """An Event says so."""
    one = pod()
    core = two_hosts(one, running(one))
    core.see(node("kn1", ready="Unknown"))
    assert core.cancels(one) == [("7", True)]
    (event,) = core.workload_wants(one, RecordEvent)
    assert (event.reason, "Node kn1 is not ready" in event.message) == (EVENT_REPLACED, True)


def test_a_job_on_a_host_without_a_node_is_replaced_P12() -> None:
    """Unknown in Kubernetes; a job whose hosts were not read yet is left alone."""
    one = pod()
    assert two_hosts(one, running(one, at=("n9",))).cancels(one) == [("7", True)]
    assert two_hosts(one, running(one, at=())).cancels(one) == []


def test_a_job_on_a_host_that_yields_its_node_to_another_is_replaced_P12() -> None:
    """Its slurmd Pod is terminating, and another's stands on the Node: a Pod that was bound there
    would count as bound by somebody else.
    """
    one = pod()
    old = slurmd_pod("n1", node_name="kn1", terminating=True)
    core = two_hosts(one, running(one), old, slurm_node("n5"))
    assert core.cancels(one) == []
    core.see(slurmd_pod("n5", node_name="kn1"))
    assert core.cancels(one) == [("7", True)]


def test_a_job_suspended_before_its_pod_was_bound_is_replaced_P17() -> None:
    """It holds a host for nothing."""
    one = pod()
    its = job(one, state="SUSPENDED", slurm_nodes=("n1",))
    assert two_hosts(one, its).cancels(one) == [("7", True)]


@pytest.mark.parametrize("hint", ["", "7"])
def test_the_job_of_a_pod_that_somebody_else_bound_ends_P18(hint: str) -> None:
    """Though it waited so long that our hint stands on it."""
    one = pod(node_name="kn2", job_id=hint)
    core = two_hosts(one, running(one))
    assert core.cancels(one) == [("7", True)]
    (event,) = core.workload_wants(one, RecordEvent)
    assert event.reason == EVENT_BOUND_ELSEWHERE


def test_a_job_of_which_nobody_has_read_where_it_runs_stays_P18() -> None:
    """Found by the simulator: its record could not be read, and it ended under its Pod (71372)."""
    one = pod(node_name="kn1", job_id="7")
    assert not two_hosts(one, running(one, at=())).cancels(one)


def test_a_node_whose_slurmd_pod_is_replaced_stands_for_nobody_meanwhile_P18() -> None:
    """Its own name is no Slurm node: the job of the Pod there goes on."""
    one = pod(node_name="kn1", job_id="7")
    core = two_hosts(one, running(one))
    core.see(deleted("slurmd_pods", room("n1")[1]))
    assert not core.workload_wants(one)


def test_a_job_is_not_given_up_while_its_pod_may_be_bound_P14() -> None:
    """Found by the simulator: a binding had no answer, and its watch stood still (72731)."""
    one = pod()
    core = two_hosts(one, running(one))
    core.see(BindTried(one.uid, "7", core.now), node("kn1", ready="False"))
    (want,) = core.workload_wants(one)
    assert want == GetObject("Pod", "ns", "p1", core.now)
    core.see_listing("pods", one)
    assert not core.cancels(one)
    core.see(*listing("pods", one, begun_s=core.now + 1))
    assert core.cancels(one) == [("7", True)]
    assert not core.graph.workloads.memory.binds_tried


@pytest.mark.parametrize(("found", "uid"), [("yes", "uid-p1"), ("yes", "another"), ("no", "")])
def test_a_pod_that_was_read_unbound_after_the_binding_was_given_up_lets_its_job_go_P14(
    found: Any, uid: str
) -> None:
    """A question asked before, or without an answer, proves nothing: it is asked again soon."""
    one = pod()
    core = two_hosts(one, running(one))
    tried_s = core.now
    core.see(BindTried(one.uid, "7", tried_s), node("kn1", ready="False"))
    core.see(GetResult("Pod", "ns", "p1", found, uid, tried_s))
    assert not core.workload_wants(one)
    core.wait(2)
    assert core.workload_wants(one) == [GetObject("Pod", "ns", "p1", tried_s)]
    core.see(GetResult("Pod", "ns", "p1", "unknown", "", core.now))
    assert not core.workload_wants(one)
    core.wait(2)
    core.see(GetResult("Pod", "ns", "p1", found, uid, core.now))
    assert core.cancels(one) == [("7", True)]


def test_a_pod_that_may_be_bound_and_is_gone_frees_its_job_at_once_P13() -> None:
    """Nothing is left to be bound."""
    one = pod()
    core = two_hosts(one, running(one))
    core.see(BindTried(one.uid, "7", core.now), deleted("pods", one))
    assert not core.graph.workloads.memory.binds_tried
    assert [type(want) for want in orphan(core, running(one)).verdict.wants] == [CancelJob]


def test_a_requeued_job_of_a_bound_pod_is_replaced_P19() -> None:
    """A Pod is never moved. Where the job begins on its host before that, it stays with it."""
    one = pod(node_name="kn1", job_id="7")
    core = two_hosts(one, job(one))
    assert core.cancels(one) == [("7", True)]
    assert [want.waiting for want in core.workload_wants(one, CancelJob)] == [True]


def test_a_job_that_runs_elsewhere_is_replaced_whatever_it_does_P19() -> None:
    """It is not where its Pod is, and never will be."""
    one = pod(node_name="kn2", job_id="7")
    (want,) = two_hosts(one, running(one)).workload_wants(one, CancelJob)
    assert not want.waiting


def test_an_orphan_is_asked_for_by_name_before_its_job_ends_P21() -> None:
    """After a restart the listing alone proves nothing."""
    one = pod()
    its = running(one)
    core = two_hosts(its)
    (look,) = orphan(core, its).verdict.wants
    assert isinstance(look, GetObject)
    assert (look.kind, look.namespace, look.name) == ("Pod", "ns", "p1")


@pytest.mark.parametrize(
    ("found", "uid", "ends"),
    [
        ("no", "", True),
        ("yes", "another", True),
        ("yes", "uid-p1", False),
        ("unknown", "", False),
    ],
)
def test_only_a_404_or_another_uid_ends_an_orphan_P21(found: str, uid: str, ends: bool) -> None:
    """403 and an unwatched namespace are unknown: kept, and asked again after a while."""
    one = pod()
    its = running(one)
    core = two_hosts(its)
    core.now += 1
    core.see(GetResult("Pod", "ns", "p1", found, uid, core.now))  # type: ignore[arg-type]
    wants = orphan(core, its).verdict.wants
    assert [type(want) for want in wants] == ([CancelJob] if ends else [])
    core.wait(30)
    assert [type(want) for want in orphan(core, its).verdict.wants] == [
        CancelJob if ends else GetObject
    ]


def test_each_of_several_missing_pods_is_asked_for_again_in_its_own_time_P21() -> None:
    """Whatever the order of the answers."""
    its = running(gang_pod("p1"), gang_pod("p2"), gang_pod("p3"), at=("n1", "n2", "n3"))
    core = two_hosts(its)
    for after_s, name in ((1, "p2"), (2, "p1"), (1, "p3")):
        core.now += after_s
        core.see(GetResult("Pod", "ns", name, "unknown", "", core.now))
    assert orphan(core, its).look_again_s == core.now - 3 + LOOK_AGAIN_S


def test_an_answer_from_before_the_job_was_seen_proves_nothing_P21() -> None:
    """The Pod may have come since."""
    one = pod()
    its = running(one)
    core = two_hosts(its)
    core.see(GetResult("Pod", "ns", "p1", "no", "", core.now - 1))
    assert [type(want) for want in orphan(core, its).verdict.wants] == [GetObject]


def test_a_pod_that_comes_back_to_the_picture_keeps_its_job_P21() -> None:
    """The listing was behind."""
    one = pod(node_name="kn1", job_id="7")
    its = running(one)
    core = two_hosts(its)
    core.see(one)
    assert not core.workload_wants(one)


def test_of_two_live_jobs_the_one_where_the_pod_stands_stays_P29() -> None:
    """Whatever its number."""
    one = pod(node_name="kn2", job_id="9")
    rows = [running(one), running(one, at=("n2",), job_id="9")]
    assert two_hosts(one, *rows).cancels(one) == [("7", True)]


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [("PENDING", "RUNNING", "7"), ("RUNNING", "PENDING", "9"), ("PENDING", "PENDING", "9")],
)
def test_else_the_running_one_else_the_first_P29(first: str, second: str, goes: str) -> None:
    """Ids are compared as numbers."""
    one = pod()
    rows = [
        job(one, state=state, job_id=job_id, slurm_nodes=("n1",) if state == "RUNNING" else ())
        for state, job_id in ((first, "7"), (second, "9"))
    ]
    assert two_hosts(one, *rows).cancels(one) == [(goes, True)]


def twins(*, tried: str) -> tuple[Core, Pod]:
    """Jobs 7 and 9 of one unbound Pod run; a binding to the host of one had no answer."""
    one = pod()
    core = two_hosts(one, running(one), running(one, at=("n2",), job_id="9"))
    core.see(BindTried(one.uid, tried, core.now))
    return core, one


def test_the_one_to_which_the_pod_may_be_bound_stays_until_the_pod_was_read_P29() -> None:
    """Whoever is the first by number; then the other goes, at once."""
    core, one = twins(tried="9")
    assert core.workload_wants(one) == [GetObject("Pod", "ns", "p1", core.now)]
    assert "may be bound" in core.workload_verdict(one).because
    core.now += 1
    core.see(GetResult("Pod", "ns", "p1", "yes", one.uid, core.now, "kn2", 1e6))
    assert core.cancels(one) == [("7", True)]
    assert core.graph.pods.get("ns/p1") == replace(one, node_name="kn2", job_id="9")


def test_once_the_pod_was_read_unbound_the_first_stays_P29() -> None:
    """Nothing is left of the doubt."""
    core, one = twins(tried="9")
    core.now += 1
    core.see(GetResult("Pod", "ns", "p1", "yes", one.uid, core.now))
    assert core.cancels(one) == [("9", True)]


def test_a_late_one_to_which_nothing_can_be_bound_goes_at_once_P29() -> None:
    """Though nobody knows of the binding to the other."""
    core, one = twins(tried="7")
    assert core.cancels(one) == [("9", True)]


def test_of_three_only_those_in_doubt_stay_P29() -> None:
    """A second binding without an answer does not end the doubt about the first."""
    core, one = twins(tried="9")
    core.see(BindTried(one.uid, "11", core.now))
    for number in ("11", "12"):
        core.see(running(one, at=(f"n{number}",), job_id=number))
    assert core.cancels(one) == [("12", True)]


def test_a_job_that_slurm_speaks_of_is_looked_at_now_L8() -> None:
    """Once, until a read that began later."""
    one = pod()
    its = job(one)
    core = two_hosts(one, its)
    core.now += 1
    core.see(JobNotice("7", "starting", core.now))
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now)]
    core.see_listing("jobs", its)
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now)]
    core.now += 1
    core.see(Observed(its, core.now))
    assert not core.workload_wants(one, GetJob)


def test_a_script_that_starts_where_its_job_was_read_needs_no_other_read_L6() -> None:
    """Its first word was all that was missing; a second one means that it runs anew."""
    one = pod()
    its = running(one, started=False)
    core = two_hosts(one, its)
    for looks in ([], [GetJob("7", core.now + 2)]):
        core.now += 1
        core.see(JobNotice("7", "started", core.now))
        assert core.workload_wants(one, GetJob) == looks


@pytest.mark.parametrize(("state", "nodes"), [("PENDING", ()), ("RUNNING", ())])
def test_a_script_that_starts_where_nobody_read_is_looked_at_L6(
    state: str, nodes: tuple[str, ...]
) -> None:
    """It waited when it was last read, or its nodes could not be. A read that was under way when
    it spoke will do, if it shows where it runs.
    """
    one = pod()
    its = job(one, state=state, slurm_nodes=nodes, started=False)
    core = two_hosts(one, its)
    core.see(Observed(its, core.now))
    read_s = core.now
    core.now += 1
    core.see(JobNotice("7", "started", core.now))
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now, read_s)]
    core.see(Observed(its, core.now - 0.8))
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now, read_s)]
    core.see(Observed(replace(its, state=frozenset({"PENDING"}), reason="x"), core.now - 0.6))
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now, read_s)]
    core.see(Observed(running(one, started=False), core.now - 0.5))
    assert core.workload_wants(one, GetJob) == []
    assert core.workload_wants(one, Bind)


def test_with_another_word_the_first_one_of_a_script_is_no_more_than_that_L6() -> None:
    """What else was spoken of must be read since."""
    one = pod()
    core = two_hosts(one, job(one, started=False))
    for what in ("started", "ended"):
        core.now += 1
        core.see(JobNotice("7", what, core.now))
    core.see(Observed(running(one, started=False), core.now - 0.5))
    assert core.workload_wants(one, GetJob) == [GetJob("7", core.now)]


def test_a_script_whose_call_does_not_come_is_looked_at_ever_less_often_L6() -> None:
    """It wrote to `extra` that it started, and the hooks server may be out of its reach."""
    one = pod()
    its = running(one, started=False)
    core = two_hosts(one, its)
    began_s, asked_s = core.now, []
    while core.now < began_s + 299.5:
        core.wait(0.25)
        for look in core.workload_wants(one, GetJob):
            asked_s.append(look.after_s - began_s)
            assert core.now == look.after_s
            assert core.workload_verdict(one).because
            core.see(Observed(its, core.now))
    assert asked_s == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    core.see(Observed(running(one), core.now))
    assert core.workload_wants(one, Bind)


def test_no_other_key_looks_after_a_job_whose_pod_is_known_P22() -> None:
    """Slurm nodes that nobody knows change nothing of it."""
    one = pod(node_name="kn1", job_id="7")
    its = running(one)
    core = two_hosts(one, its)
    core.see(slurm_node("n5"))
    known = [key for key in core.graph.keys.all() if key[0] == "workload"]
    assert known == [workload_key(identity(one).workload)]


def test_a_script_that_never_starts_is_given_up_P11() -> None:
    """slurmctld 26.05 forgets to start one that was at the gate when it was stopped."""
    its = pod()
    held = job(its, state="RUNNING+CONFIGURING", slurm_nodes=("n1",), started=False)
    core = Core(*room(), its, held)
    core.wait(600.0)
    assert not core.workload_wants(its, CancelJob), "a prolog may take its time"
    core.see(replace(held, state=frozenset({"RUNNING"})))
    core.wait(299.0)
    assert not core.workload_wants(its, CancelJob)
    core.wait(1.0)
    (cancel,) = core.workload_wants(its, CancelJob)
    assert cancel.replaced


def test_orphans_of_a_workload_whose_pods_nobody_knows_are_named_by_it_P29() -> None:
    """Two jobs of one submission, and no Pod to name them by: all but the first end."""
    one = pod()
    twins = [running(one, job_id=job_id) for job_id in ("7", "8")]
    core = two_hosts(*twins)
    verdict = orphan(core, twins[0]).verdict
    assert f"1 live jobs too many for workload {twins[0].identity.workload}" in verdict.because
    assert [want.job_id for want in verdict.wants if isinstance(want, CancelJob)] == ["8"]
