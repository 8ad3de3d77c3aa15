"""When placeholder jobs are cancelled, replaced or read: rows P11-P15, P17-P22, P29."""

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
from sunk_sync.core.model.calls import JobNotice
from sunk_sync.core.model.event_kinds import EVENT_REPLACED
from sunk_sync.core.model.facts import (
    BindTried,
    GetResult,
    Job,
    ListingStarted,
    Observed,
    Placed,
    Pod,
    reference_of,
)
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.model.verdict import Verdict
from tests.kit.build import (
    BOUND,
    POD,
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


def orphan(core: Core, of: Job) -> Verdict:
    return core.decided(workload_key(of.identity.workload))


def kinds(core: Core, of: Job) -> list[type]:
    return [type(want) for want in orphan(core, of).wants]


@pytest.mark.parametrize("its", [job(POD), running(POD)], ids=["waits", "runs"])
def test_the_job_of_an_unbound_pod_is_cancelled_when_the_pod_is_deleted_P13(its: Job) -> None:
    """Also if it starts afterwards."""
    core = two_hosts(POD, its)
    core.see(deleted("pods", POD))
    (cancel,) = orphan(core, its).wants
    assert isinstance(cancel, CancelJob)
    assert (cancel.job_id, cancel.name, cancel.replaced) == ("7", its.name, False)
    core.see(running(POD))
    assert kinds(core, its) == [CancelJob]


def test_the_job_of_an_unbound_terminating_pod_is_cancelled_P13() -> None:
    """Finalizers may keep such a Pod for a long time."""
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
def test_a_job_stays_until_the_containers_ended_P14_P15(fields: dict[str, Any], over: bool) -> None:
    one = pod(node_name="kn1", job_id="7", **fields)
    assert two_hosts(one, running(one)).cancels(one) == ([("7", False)] if over else [])


def test_a_job_on_a_host_that_cannot_take_the_pod_is_replaced_with_an_event_P12() -> None:
    core = two_hosts(POD, running(POD))
    core.see(node("kn1", ready="Unknown"))
    assert core.cancels(POD) == [("7", True)]
    (event,) = core.workload_wants(POD, RecordEvent)
    assert (event.event, "Node kn1 is not ready" in event.message) == (EVENT_REPLACED, True)


def test_a_job_on_a_host_without_a_node_is_replaced_P12() -> None:
    assert two_hosts(POD, running(POD, at=("n9",))).cancels(POD) == [("7", True)]


@pytest.mark.parametrize("one", [POD, BOUND], ids=["unbound", "bound"])
def test_a_running_job_whose_hosts_were_not_read_stays_P12_P18(one: Pod) -> None:
    """Simulator, seed 71372: the record of a job could not be read, and the job was ended."""
    assert not two_hosts(one, running(one, at=())).workload_wants(one, Bind, CancelJob)


def test_a_job_on_a_host_that_yields_its_node_to_another_is_replaced_P12() -> None:
    """The slurmd Pod there terminates and another host's slurmd Pod is on the Node: a Pod bound to
    this Node would count as bound by somebody else.
    """
    old = slurmd_pod("n1", node_name="kn1", terminating=True)
    core = two_hosts(POD, running(POD), old, slurm_node("n5"))
    assert core.cancels(POD) == []
    core.see(slurmd_pod("n5", node_name="kn1"))
    assert core.cancels(POD) == [("7", True)]


def test_a_job_suspended_before_its_pod_was_bound_is_replaced_P17() -> None:
    its = job(POD, state="SUSPENDED", slurm_nodes=("n1",))
    assert two_hosts(POD, its).cancels(POD) == [("7", True)]


def test_a_pod_keeps_its_job_while_the_slurmd_pod_of_its_node_is_replaced_P18() -> None:
    core = two_hosts(BOUND, running(BOUND))
    core.see(deleted("slurmd_pods", room("n1")[1]))
    assert not core.workload_wants(BOUND)


def test_a_job_is_not_replaced_while_its_pod_may_be_bound_P14() -> None:
    """Simulator, seed 72731: a binding had no answer, and the watch stood still."""
    core = two_hosts(POD, running(POD))
    core.see(BindTried(POD.uid, "7", core.now), node("kn1", ready="False"))
    (want,) = core.workload_wants(POD)
    assert want == GetObject("Pod", "ns", "p1", core.now)
    core.see_listing("pods", POD)
    assert not core.cancels(POD)
    core.see(*listing("pods", POD, begun_s=core.now + BINDING_S))
    assert not core.cancels(POD)
    core.see(*listing("pods", POD, begun_s=core.now + BINDING_S + 1))
    assert core.cancels(POD) == [("7", True)]
    assert not core.graph.workloads.memory.binds_tried


def test_a_new_leader_reads_a_pod_by_name_before_it_gives_up_its_job_P14() -> None:
    """Simulator with replicas, seed 9482136: the last leader had bound it, and the watch stood."""
    core = two_hosts(POD, running(POD))
    core.see(*core.graph.workloads.bindings_of_others(core.now), node("kn1", ready="False"))
    assert core.workload_wants(POD) == [GetObject("Pod", "ns", "p1", core.now)]
    core.see(replace(POD, node_name="kn1", job_id="7"))
    assert not core.cancels(POD)
    assert not core.graph.workloads.bindings_of_others(core.now)


def test_a_binding_without_an_answer_can_arrive_after_the_pod_was_read_unbound_P14() -> None:
    """Simulator, seed 9430985: the job was cancelled, and then the Pod was bound to its host."""
    core = two_hosts(POD, running(POD))
    core.see(BindTried(POD.uid, "7", core.now), node("kn1", ready="False"))
    core.wait(BINDING_S - 1)
    core.answer(POD, "yes", POD.uid)
    core.wait(1)
    assert core.workload_wants(POD) == []
    core.wait(1)
    assert kinds(core, running(POD)) == [GetObject]
    core.answer(POD, "yes", POD.uid)
    assert core.cancels(POD) == [("7", True)]


@pytest.mark.parametrize(("found", "uid"), [("yes", "another"), ("no", "")])
def test_the_job_of_a_pod_that_is_gone_is_replaced_P14(found: Any, uid: str) -> None:
    """A read that was asked for earlier, or that failed, proves nothing: sunk-sync reads again."""
    core = two_hosts(POD, running(POD))
    tried_s = core.now
    core.see(BindTried(POD.uid, "7", tried_s), node("kn1", ready="False"))
    core.see(GetResult("Pod", "ns", "p1", found, uid, tried_s))
    assert not core.workload_wants(POD)
    core.wait(2)
    assert core.workload_wants(POD) == [GetObject("Pod", "ns", "p1", tried_s)]
    core.answer(POD, "unknown")
    assert not core.workload_wants(POD)
    core.wait(2)
    core.answer(POD, found, uid)
    assert core.cancels(POD) == [("7", True)]


def test_a_binding_answered_during_a_listing_is_read_before_the_job_is_replaced_P14() -> None:
    """Simulator, seed 9502419: the job ended under the Pod that was just bound."""
    core = two_hosts(POD, running(POD))
    asked_s = core.now
    core.wait(1)
    core.see(ListingStarted("pods", core.now, 10.0), Observed(POD, 9.0))
    placed = Placed(reference_of(POD), "kn1", "7", "n1", asked_s)
    core.see(placed, node("kn1", ready="False"))
    assert core.workload_wants(POD) == [GetObject("Pod", "ns", "p1", core.now)]
    core.see(BOUND)
    assert not core.cancels(POD)


def test_the_job_of_a_deleted_pod_ends_although_a_binding_had_no_answer_P13() -> None:
    core = two_hosts(POD, running(POD))
    core.see(BindTried(POD.uid, "7", core.now), deleted("pods", POD))
    assert not core.graph.workloads.memory.binds_tried
    assert kinds(core, running(POD)) == [CancelJob]


def test_a_requeued_job_of_a_bound_pod_is_replaced_unless_it_starts_on_the_pods_host_P19() -> None:
    core = two_hosts(BOUND, job(BOUND))
    (cancel,) = core.workload_wants(BOUND, CancelJob)
    assert (cancel.job_id, cancel.replaced, cancel.waiting) == ("7", True, True)
    elsewhere = two_hosts(BOUND, running(BOUND, at=("n2",)))
    assert [want.waiting for want in elsewhere.workload_wants(BOUND, CancelJob)] == [False]


def test_the_pod_of_an_orphan_is_read_by_name_before_its_job_ends_P21() -> None:
    """After a restart a listing alone is no evidence."""
    its = running(POD)
    assert orphan(two_hosts(its), its).wants == (GetObject("Pod", "ns", "p1", 1000.0),)


@pytest.mark.parametrize(
    ("found", "uid", "ends"),
    [("no", "", True), ("yes", "another", True), ("yes", "uid-p1", False), ("unknown", "", False)],
)
def test_only_a_404_or_another_uid_ends_an_orphan_P21(found: Any, uid: str, ends: bool) -> None:
    """403 and a namespace that is not watched are unknown: the Pod is read again later."""
    its = running(POD)
    core = two_hosts(its)
    core.now += 1
    core.answer(POD, found, uid)
    assert kinds(core, its) == ([CancelJob] if ends else [])
    core.wait(30)
    assert kinds(core, its) == [CancelJob if ends else GetObject]


def test_each_missing_pod_is_read_again_after_its_own_last_answer_P21() -> None:
    its = running(gang_pod("p1"), gang_pod("p2"), gang_pod("p3"), at=("n1", "n2", "n3"))
    core = two_hosts(its)
    for after_s, name in ((1, "p2"), (2, "p1"), (1, "p3")):
        core.now += after_s
        core.answer(pod(name), "unknown")
    assert orphan(core, its).look_again_s == core.now - 3 + LOOK_AGAIN_S


def test_a_read_from_before_the_job_was_seen_proves_nothing_P21() -> None:
    its = running(POD)
    core = two_hosts(its)
    core.see(GetResult("Pod", "ns", "p1", "no", "", core.now - 1))
    assert kinds(core, its) == [GetObject]


def test_a_pod_that_is_listed_later_keeps_its_job_P21() -> None:
    its = running(BOUND)
    core = two_hosts(its)
    core.see(BOUND)
    assert not core.workload_wants(BOUND)


def test_of_two_live_jobs_the_one_on_the_pods_host_stays_P29() -> None:
    one = pod(node_name="kn2", job_id="9")
    rows = [running(one), running(one, at=("n2",), job_id="9")]
    assert two_hosts(one, *rows).cancels(one) == [("7", True)]


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [("PENDING", "RUNNING", "7"), ("RUNNING", "PENDING", "9"), ("PENDING", "PENDING", "9")],
)
def test_of_two_jobs_the_running_one_stays_else_the_first_P29(
    first: str, second: str, goes: str
) -> None:
    rows = [
        job(POD, state=state, job_id=job_id, slurm_nodes=("n1",) if state == "RUNNING" else ())
        for state, job_id in ((first, "7"), (second, "9"))
    ]
    assert two_hosts(POD, *rows).cancels(POD) == [(goes, True)]


def twins(*, tried: str) -> Core:
    """Jobs 7 and 9 of one unbound Pod run; a binding to the host of one had no answer."""
    core = two_hosts(POD, running(POD), running(POD, at=("n2",), job_id="9"))
    core.see(BindTried(POD.uid, tried, core.now))
    return core


def test_the_job_to_which_the_pod_may_be_bound_stays_until_the_pod_was_read_P29() -> None:
    core = twins(tried="9")
    assert core.workload_wants(POD) == [GetObject("Pod", "ns", "p1", core.now)]
    assert "may be bound" in core.workload_verdict(POD).because
    core.now += 1
    core.see(GetResult("Pod", "ns", "p1", "yes", POD.uid, core.now, "kn2", 1e6))
    assert core.cancels(POD) == [("7", True)]
    assert core.graph.pods.get("ns/p1") == replace(POD, node_name="kn2", job_id="9")


def test_of_two_running_jobs_the_first_stays_once_the_pod_was_read_unbound_P29() -> None:
    core = twins(tried="9")
    core.now += BINDING_S
    core.answer(POD, "yes")
    assert core.cancels(POD) == [("9", True)]


def test_of_two_running_jobs_one_without_a_binding_goes_at_once_P29() -> None:
    core = twins(tried="7")
    assert core.cancels(POD) == [("9", True)]


def test_of_three_running_jobs_those_with_an_unanswered_binding_stay_P29() -> None:
    core = twins(tried="9")
    core.see(BindTried(POD.uid, "11", core.now))
    for number in ("11", "12"):
        core.see(running(POD, at=(f"n{number}",), job_id=number))
    assert core.cancels(POD) == [("12", True)]


def test_a_job_that_slurm_notifies_of_is_read_now_L8() -> None:
    its = job(POD)
    core = two_hosts(POD, its)
    core.now += 1
    core.see(JobNotice("7", "starting", core.now))
    assert core.workload_wants(POD, GetJob) == [GetJob("7", core.now)]
    core.see_listing("jobs", its)
    assert core.workload_wants(POD, GetJob) == [GetJob("7", core.now)]
    core.now += 1
    core.see(Observed(its, core.now))
    assert not core.workload_wants(POD, GetJob)


def test_a_script_that_starts_on_hosts_that_were_read_needs_no_other_read_L6() -> None:
    """A second notice means that it started again."""
    its = running(POD, started=False)
    core = two_hosts(POD, its)
    for looks in ([], [GetJob("7", core.now + 2)]):
        core.now += 1
        core.see(JobNotice("7", "started", core.now))
        assert core.workload_wants(POD, GetJob) == looks


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_script_that_starts_on_hosts_that_were_not_read_is_read_L6(state: str) -> None:
    """A read that was under way when the notice came is enough if it shows the hosts."""
    its = job(POD, state=state, started=False)
    core = two_hosts(POD, its)
    core.see(Observed(its, core.now))
    reads = [GetJob("7", core.now + 1, core.now)]
    core.now += 1
    core.see(JobNotice("7", "started", core.now))
    assert core.workload_wants(POD, GetJob) == reads
    for row, age_s in ((its, 0.8), (replace(job(POD), started=False, reason="x"), 0.6)):
        core.see(Observed(row, core.now - age_s))
        assert core.workload_wants(POD, GetJob) == reads
    core.see(Observed(running(POD, started=False), core.now - 0.5))
    assert core.workload_wants(POD, GetJob) == []
    assert core.binds(POD)


def test_after_another_notice_a_read_from_before_it_is_not_enough_L6() -> None:
    core = two_hosts(POD, job(POD, started=False))
    for what in ("started", "ended"):
        core.now += 1
        core.see(JobNotice("7", what, core.now))
    core.see(Observed(running(POD, started=False), core.now - 0.5))
    assert core.workload_wants(POD, GetJob) == [GetJob("7", core.now)]


def test_a_script_without_a_notice_is_read_at_growing_intervals_L6() -> None:
    """Its `extra` says that it started, but the hooks server may be unreachable for it."""
    its = running(POD, started=False)
    core = two_hosts(POD, its)
    began_s, asked_s = core.now, []
    while core.now < began_s + 299.5:
        core.wait(0.25)
        for look in core.workload_wants(POD, GetJob):
            asked_s.append(look.after_s - began_s)
            assert core.now == look.after_s
            assert core.workload_verdict(POD).because
            core.see(Observed(its, core.now))
    assert asked_s == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    core.see(Observed(running(POD), core.now))
    assert core.workload_wants(POD, Bind)


def test_a_job_of_a_known_pod_has_no_key_of_its_own_P22() -> None:
    its = running(BOUND)
    core = two_hosts(BOUND, its)
    core.see(slurm_node("n5"))
    known = [key for key in core.graph.keys.all() if key[0] == "workload"]
    assert known == [workload_key(identity(BOUND).workload)]


def test_a_job_whose_script_never_starts_is_replaced_after_five_minutes_P11() -> None:
    """slurmctld 26.05 forgets a script that was at the gate when slurmctld was stopped."""
    held = job(POD, state="RUNNING+CONFIGURING", slurm_nodes=("n1",), started=False)
    core = Core(*room(), POD, held)
    core.wait(600.0)
    assert not core.workload_wants(POD, CancelJob), "a prolog may take its time"
    core.see(replace(held, state=frozenset({"RUNNING"})))
    core.wait(299.0)
    assert not core.workload_wants(POD, CancelJob)
    core.wait(1.0)
    assert core.cancels(POD) == [("7", True)]


def test_of_several_jobs_of_one_unknown_workload_only_the_first_stays_P29() -> None:
    twins = [running(POD, job_id=job_id) for job_id in ("7", "8")]
    core = two_hosts(*twins)
    verdict = orphan(core, twins[0])
    assert f"1 live job too many for workload {twins[0].identity.workload}" in verdict.because
    assert [want.job_id for want in verdict.wants if isinstance(want, CancelJob)] == ["8"]
