"""A workload without a job gets one: rows P1, P7, P10, P11a, P12, P17, P30 and F2."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetMetadata
from sunk_sync.core.model.facts import Attempt, Confirmed, Job, Lost, Pod, Row, SubmitRefused, Taken
from sunk_sync.core.model.job_identity import job_name
from sunk_sync.core.model.names import CANCELLED
from sunk_sync.core.model.placeholder import PlaceholderKind
from sunk_sync.core.model.pod_spec import Gang, PodSpec
from tests.kit.build import (
    BOUND,
    OFFER,
    POD,
    SMALL,
    WORKLOAD,
    Core,
    deleted,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    slurm_node,
    source_of,
    two_hosts,
)

ELSEWHERE = PodSpec(requests=SMALL.requests, grace_s=5, node_selector=(("zone", "x"),))

LABELLED = node("kn1", offer=replace(OFFER, labels=(("zone", "x"),)))


def ended(of: Pod, state: str, **fields: Any) -> Job:
    return job(of, state=state, **{"slurm_nodes": ("n1",), **fields})


def test_a_waiting_pod_gets_one_job_with_its_identity_P1() -> None:
    action = two_hosts(POD).submission(POD)
    assert action.name == job_name("ns", "p1", workload=WORKLOAD)
    assert replace(action.identity, digest="", hosts="") == identity(POD, name=action.name)
    assert action.kind == "script"
    assert not action.excluded


def test_nothing_is_submitted_while_jobs_cannot_be_read_F2() -> None:
    """Such a submission would leave a doubt that lasts longer than the outage."""
    core = two_hosts(POD)
    assert not core.workload_kept(POD)
    core.see(Lost("jobs", "away"))
    assert core.workload_kept(POD) == [core.submission(POD)]
    core.see(Confirmed("jobs", core.now))
    assert not core.workload_kept(POD)


@pytest.mark.parametrize(
    "change",
    [
        {"gated": True},
        {"terminating": True},
        {"ended": True},
        {"node_name": "kn1"},
        {"spec": PodSpec(requests=(("cpu", 1000),), grace_s=5)},
        {"spec": replace(SMALL, grace_s=25)},
        {"settings": (("timeout", "soon"),)},
        {"spec": ELSEWHERE},
        {"gang": Gang("annotation", "g", 2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_job_is_submitted_for_such_a_pod_P1_P2_P3_P4_P7(change: dict[str, Any]) -> None:
    one = pod(**change)
    assert two_hosts(one).submission(one) is None


def test_hosts_that_cannot_take_the_pod_or_have_no_node_are_excluded_P7() -> None:
    core = two_hosts(POD, slurm_node("n3"), node("kn4", slurm_node="n4"), slurm_node("n4"))
    assert core.submission(POD).excluded == ("n3", "n4")


@pytest.mark.parametrize("placeholder", ["script", "external"])
def test_a_refused_job_is_submitted_again_after_five_minutes_P10(
    placeholder: PlaceholderKind,
) -> None:
    core = two_hosts(POD, placeholder=placeholder)
    digest = core.submission(POD).identity.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "Invalid account", placeholder, digest))
    assert core.submission(POD) is None
    assert core.workload_verdict(POD).because.startswith("Slurm refused the job: Invalid account")
    core.wait(299)
    assert core.submission(POD) is None
    core.wait(1)
    assert core.submission(POD) is not None


@pytest.mark.parametrize("number", [-1, 11, 7777, 2007, 7405, 2014])
def test_a_refusal_that_no_edit_cures_is_tried_again_ever_more_rarely_P10(number: int) -> None:
    core = two_hosts(POD)
    digest = core.submission(POD).identity.digest
    for pause_s in (10, 20, 40, 80, 160, 300, 300):
        core.see(SubmitRefused(WORKLOAD, number, "no", "script", digest))
        core.wait(pause_s - 1)
        assert core.submission(POD) is None
        core.wait(1)
        assert core.submission(POD) is not None


@pytest.mark.parametrize(("number", "after_s"), [(2014, 60), (2029, 60), (2045, 300), (-1, 300)])
@pytest.mark.parametrize("change", [room("n3"), [LABELLED]], ids=["another host", "a label"])
def test_a_refusal_that_more_nodes_cure_is_tried_within_a_minute_once_a_host_changed_P10_P33(
    change: list[Row], number: int, after_s: int
) -> None:
    """An autoscaler added a Node for the Pod, which waits in pauses of five minutes by then."""
    core = two_hosts(POD)
    digest = core.submission(POD).identity.digest
    for _ in range(7):
        core.see(SubmitRefused(WORKLOAD, number, "no", "script", digest))
        core.wait(300)
    core.see(SubmitRefused(WORKLOAD, number, "no", "script", digest))
    core.see(*change)
    core.wait(after_s - 1)
    assert core.submission(POD) is None
    core.wait(1)
    assert core.submission(POD) is not None


def test_hosts_that_come_and_go_shorten_no_first_pause_P10() -> None:
    core = two_hosts(POD)
    core.see(SubmitRefused(WORKLOAD, 2014, "no", "script", core.submission(POD).identity.digest))
    core.see(*room("n3"))
    core.wait(9)
    assert core.submission(POD) is None


def test_pods_of_others_on_a_host_shorten_no_pause_P10_P28() -> None:
    """They come and go all the time, and Slurm knows nothing of them."""
    core = two_hosts(POD, watch_all_pods=True)
    digest = core.submission(POD).identity.digest
    for _ in range(8):
        core.see(SubmitRefused(WORKLOAD, 2014, "no", "script", digest))
        core.wait(60)
    core.see(Taken("kn1", (("cpu", 1000),)))
    core.wait(200)
    assert core.submission(POD) is None


def test_the_pauses_of_another_request_begin_anew_P10() -> None:
    core = two_hosts(POD)
    for _ in range(4):
        core.see(SubmitRefused(WORKLOAD, -1, "no", "script", core.submission(POD).identity.digest))
        core.wait(300)
    edited = replace(POD, settings=(("account", "other"),))
    core.see(edited)
    digest = core.submission(edited).identity.digest
    core.see(SubmitRefused(WORKLOAD, -1, "no", "script", digest))
    core.wait(10)
    assert core.submission(edited) is not None


def test_an_edited_pod_is_submitted_again_at_once_after_a_refusal_P10() -> None:
    core = two_hosts(POD)
    digest = core.submission(POD).identity.digest
    core.see(SubmitRefused(WORKLOAD, 2045, "no", "script", digest))
    edited = replace(POD, settings=(("account", "other"),))
    core.see(edited)
    assert core.submission(edited).description.account == "other"


def test_a_job_refused_as_a_script_is_not_tried_as_an_allocation_again_P11a() -> None:
    core = two_hosts(POD, gate="on")
    first = core.submission(POD)
    for kind in ("allocation", "script"):
        core.see(SubmitRefused(WORKLOAD, 2000, "no", kind, first.identity.digest))
    core.wait(300)
    again = core.submission(POD)
    assert (first.kind, again.kind) == ("allocation", "script")


@pytest.mark.parametrize(
    ("chosen", "more", "kind"),
    [
        ({"gate": "on"}, (), "allocation"),
        ({"gate": "off"}, (), "script"),
        ({"gate": "auto"}, (), "script"),
        ({"placeholder": "allocation"}, (), "allocation"),
        ({"placeholder": "script", "gate": "on"}, (), "script"),
        ({"placeholder": "external", "gate": "on"}, (), "external"),
        ({"gate": "on"}, (job(pod("p2"), job_id="8"),), "script"),
        ({"gate": "on"}, tuple(pod(f"q{i}", spec=SMALL) for i in range(4)), "script"),
        ({"gate": "on"}, (job(pod(), state="FAILED", script=False),), "script"),
    ],
)
def test_an_allocation_is_tried_if_it_can_start_P11a(
    chosen: dict[str, Any], more: tuple[Job, ...], kind: str
) -> None:
    """With the gate, when a host is free, no job of sunk-sync waits and none was tried before."""
    assert two_hosts(POD, *more, **chosen).submission(POD).kind == kind


def test_drained_and_full_hosts_are_no_reason_to_try_an_allocation_P11a() -> None:
    """A refusal because all nodes are busy would leave a record in Slurm."""
    core = two_hosts(POD, gate="on")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="x"), slurm_node("n2", "ALLOCATED"))
    assert core.submission(POD).kind == "script"
    core.see(slurm_node("n2", "MIXED"))
    assert core.submission(POD).kind == "allocation"


def test_on_external_nodes_the_placeholder_is_external_P11a() -> None:
    """No slurmd would run a script there."""
    core = two_hosts(POD)
    core.see(slurm_node("n1", "IDLE+EXTERNAL"), slurm_node("n2", "IDLE+EXTERNAL"))
    assert core.submission(POD).kind == "external"


def test_the_host_of_a_replaced_job_is_excluded_P12() -> None:
    given_up = ended(POD, "CANCELLED", identity=identity(POD, replaced=True))
    assert two_hosts(POD, given_up).submission(POD).excluded == ("n1",)


def test_an_excluded_host_is_tried_again_when_slurm_has_no_other_P12() -> None:
    """Simulator, seed 60338: on a cluster of one host the Pod waited for ever."""
    mine = identity(POD, replaced=True)
    core = two_hosts(POD, ended(POD, "CANCELLED", slurm_nodes=("n1", "n2"), identity=mine))
    digest = core.submission(POD).identity.digest
    core.see(SubmitRefused(WORKLOAD, 2014, "no", "script", digest))
    core.wait(300)
    assert core.submission(POD).excluded == ()


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_an_unbound_pod_whose_job_slurm_ended_gets_another_at_once_P17(state: str) -> None:
    assert two_hosts(POD, ended(POD, state)).submission(POD) is not None


@pytest.mark.parametrize(
    ("fields", "resubmit_cancelled", "again"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"cancelled": "7/"}, False, False),
        ({"cancelled": "7/", "resubmit": "1"}, False, True),
        ({"cancelled": "7/1", "resubmit": "1"}, False, False),
        ({"cancelled": "6/", "resubmit": "1"}, False, False),
    ],
)
def test_after_a_humans_cancel_only_resubmit_or_the_setting_makes_a_new_job_P17(
    fields: dict[str, str], resubmit_cancelled: bool, again: bool
) -> None:
    one = pod(**fields)
    core = two_hosts(one, ended(one, "CANCELLED"), resubmit_cancelled=resubmit_cancelled)
    core.wait(10)
    assert (core.submission(one) is not None) is again


def test_a_humans_cancel_counts_after_slurm_forgot_the_job_P17() -> None:
    one = pod(cancelled="7/")
    assert two_hosts(one).submission(one) is None


FORGOTTEN = ended(POD, "CANCELLED", slurm_nodes=())


@pytest.mark.parametrize(
    ("fields", "forgotten", "blocked"),
    [
        ({}, FORGOTTEN, True),
        ({}, ended(POD, "CANCELLED"), True),
        ({"resubmit": "1"}, FORGOTTEN, True),
        ({"cancelled": "6/", "resubmit": "1"}, FORGOTTEN, True),
        ({"cancelled": "7/", "resubmit": "1"}, FORGOTTEN, False),
        ({}, replace(FORGOTTEN, identity=identity(POD, replaced=True)), False),
        ({}, ended(POD, "FAILED"), False),
    ],
)
def test_a_humans_cancel_counts_although_slurm_forgot_the_job_before_the_pod_told_P17(
    fields: dict[str, str], forgotten: Job, blocked: bool
) -> None:
    """Simulator, seed 9523654: the API server was away for longer than MinJobAge."""
    one = pod(**fields)
    core = two_hosts(one, forgotten)
    core.see_listing("jobs", after_s=10.0)
    assert (core.submission(one) is None) is blocked
    noted = [dict(action.annotations) for action in core.workload_wants(one, SetMetadata)]
    assert any(one.get(CANCELLED, "").startswith("7/") for one in noted) is blocked


def test_a_forgotten_cancel_no_longer_counts_after_another_job_P17() -> None:
    one = pod()
    core = two_hosts(one, FORGOTTEN, resubmit_cancelled=True)
    core.see_listing("jobs", after_s=10.0)
    assert core.submission(one) is not None
    core.see(ended(one, "FAILED", job_id="8", submitted_at=2))
    core.see_listing("jobs", after_s=10.0)
    assert not core.graph.workloads.memory.ends


def test_a_forgotten_cancel_is_noted_on_a_pod_that_is_listed_later_P17() -> None:
    core = Core(FORGOTTEN, *room("n1"), listed=False)
    core.see_listing("jobs")
    core.see(*listing("pods", POD))
    for row in room("n1"):
        core.see(*listing(source_of(row), row))
    assert core.submission(POD) is None
    core.see(deleted("pods", POD))
    assert not core.graph.workloads.memory.ends


def test_after_jobs_that_end_by_themselves_the_next_one_waits_longer_each_time_P17() -> None:
    core = two_hosts(POD, ended(POD, "FAILED"))
    assert core.submission(POD) is None
    core.wait(5)
    assert core.submission(POD) is not None
    core.see(ended(POD, "TIMEOUT", job_id="8", submitted_at=2))
    core.wait(9)
    assert core.submission(POD) is None
    core.wait(1)
    assert core.submission(POD) is not None


def test_after_a_submission_without_an_answer_a_listing_comes_first_F2() -> None:
    """It must begin long enough after the last byte was sent."""
    core = two_hosts(POD)
    sent_s = core.now
    core.see(Attempt(WORKLOAD, sent_s))
    assert core.submission(POD) is None
    for late_s, again in ((11.9, False), (12.0, True)):
        core.see(*listing("jobs", begun_s=sent_s + late_s))
        assert (core.submission(POD) is not None) is again


def test_a_job_of_a_submission_without_an_answer_is_adopted_F2() -> None:
    core = two_hosts(POD)
    core.see(Attempt(WORKLOAD, core.now))
    core.see(*listing("jobs", job(POD), begun_s=core.now + 20))
    assert core.submission(POD) is None


def test_a_pod_without_job_is_readopted_once_on_its_own_host_P30() -> None:
    core = two_hosts(BOUND, lost_job="readopt")
    for after_s in (1.0, 60.0):
        assert core.submission(BOUND) is None
        core.see_listing("jobs", after_s=after_s)
    action = core.submission(BOUND)
    assert (action.kind, action.description.required_nodes) == ("allocation", "n1")
    assert action.identity.hosts == ""
    core.see(SubmitRefused(WORKLOAD, 2016, "busy", "allocation", ""))
    assert core.submission(BOUND) is None


def test_a_readoption_without_an_answer_is_looked_for_before_the_next_F2() -> None:
    """History 6577: each answer that was lost made another job."""
    core = two_hosts(BOUND, lost_job="readopt")
    core.lose_jobs()
    core.see(Attempt(WORKLOAD, core.now))
    assert core.submission(BOUND) is None
    core.see_listing("jobs", after_s=core.graph.configuration.settle_s)
    assert core.submission(BOUND) is not None


def test_a_terminating_pod_is_not_readopted_P30() -> None:
    one = pod(node_name="kn1", job_id="7", terminating=True)
    core = two_hosts(one, lost_job="readopt")
    core.lose_jobs()
    assert core.submission(one) is None


def test_a_deleted_pod_gets_no_job_P13() -> None:
    core = two_hosts(POD)
    core.see(deleted("pods", POD))
    assert core.submission(POD) is None
