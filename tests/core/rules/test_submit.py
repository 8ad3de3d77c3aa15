"""A workload without a job gets one: rows P1, P7, P10, P11a, P12, P17, P30 and F2."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, SubmitJob
from sunk_sync.core.model.facts import Attempt, Confirmed, Lost, Pod, Row, SubmitRefused
from sunk_sync.core.model.job_identity import job_name, workload_id
from sunk_sync.core.model.keys import workload_key, workload_key_of
from sunk_sync.core.model.pod_spec import Gang, PodSpec
from tests.kit.build import (
    SMALL,
    Core,
    deleted,
    identity,
    job,
    listing,
    node,
    pod,
    slurm_node,
    two_hosts,
)

ELSEWHERE = PodSpec(requests=SMALL.requests, grace_s=5, node_selector=(("zone", "x"),))


def submitted(core: Core, of: Pod) -> SubmitJob | None:
    wants = core.workload_wants(of, SubmitJob)
    assert len(wants) < 2
    return wants[0] if wants else None


def ended(of: Pod, state: str, **fields: Any) -> Row:
    return job(of, state=state, **{"slurm_nodes": ("n1",), **fields})


def test_a_pod_that_waits_gets_one_job_under_its_identity_P1() -> None:
    """Name and identity tell for whom it is."""
    only = pod()
    action = submitted(two_hosts(only), only)
    assert action is not None
    assert action.name == job_name("ns", "p1", workload=workload_id(["uid-p1"]))
    assert replace(action.identity, digest="", hosts="") == identity(only)
    assert action.kind == "script"
    assert not action.excluded


def test_nothing_is_submitted_while_jobs_cannot_be_read_F2() -> None:
    """Such a submission would leave a doubt that lasts longer than the outage."""
    only = pod()
    core = two_hosts(only)

    def kept() -> list[Action]:
        return [
            one.action for one in core.reconciler.standing[workload_key(workload_key_of(only))].kept
        ]

    assert not kept()
    core.see(Lost("jobs", "away"))
    assert kept() == [submitted(core, only)]
    core.see(Confirmed("jobs", core.now))
    assert not kept()


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
def test_nothing_is_submitted_for_P1_P2_P3_P4_P7(change: dict[str, Any]) -> None:
    """Gates, an end, a Node, a wrong request, a long grace, a wrong word, no host, no gang."""
    one = pod(**change)
    assert submitted(two_hosts(one), one) is None


def test_hosts_that_cannot_take_it_are_excluded_P7() -> None:
    """Those without a Node too."""
    one = pod()
    core = two_hosts(one, slurm_node("n3"), node("kn4", slurm_node="n4"), slurm_node("n4"))
    action = submitted(core, one)
    assert action is not None
    assert action.excluded == ("n3", "n4")


@pytest.mark.parametrize("placeholder", ["script", "external"])
def test_what_slurm_refused_is_asked_again_after_five_minutes_P10(placeholder: str) -> None:
    """Or as soon as the Pod asks for something else."""
    one = pod()
    core = two_hosts(one, placeholder=placeholder)
    digest = submitted(core, one).identity.digest  # type: ignore[union-attr]
    workload = workload_id([one.uid])
    core.see(SubmitRefused(workload, 2045, "Invalid account", placeholder, digest))
    assert submitted(core, one) is None
    assert core.workload_verdict(one).because.startswith("Slurm refused the job: Invalid account")
    core.wait(299)
    assert submitted(core, one) is None
    core.wait(1)
    assert submitted(core, one) is not None


def test_an_edit_ends_the_wait_P10() -> None:
    """The refusal was of another description."""
    one = pod()
    core = two_hosts(one)
    digest = submitted(core, one).identity.digest  # type: ignore[union-attr]
    core.see(SubmitRefused(workload_id([one.uid]), 2045, "no", "script", digest))
    edited = replace(one, settings=(("account", "other"),))
    core.see(edited)
    action = submitted(core, edited)
    assert action is not None
    assert action.description.account == "other"


def test_what_slurm_refused_as_a_script_is_not_allocated_when_it_is_asked_again_P11a() -> None:
    """Once for one Pod; else its word that it was refused is taken back each time."""
    one = pod()
    core = two_hosts(one, gate="on")
    first = submitted(core, one)
    assert first is not None
    for kind in ("allocation", "script"):
        core.see(SubmitRefused(workload_id([one.uid]), 2000, "no", kind, first.identity.digest))
    core.wait(300)
    again = submitted(core, one)
    assert again is not None
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
def test_it_is_allocated_at_once_where_that_can_be_P11a(
    chosen: dict[str, Any], more: tuple[Row, ...], kind: str
) -> None:
    """With the gate, where room is seen, nothing of ours waits and it was not tried before."""
    one = pod()
    action = submitted(two_hosts(one, *more, **chosen), one)
    assert action is not None
    assert action.kind == kind


def test_no_room_is_seen_on_drained_hosts_P11a() -> None:
    """A busy refusal would leave a record in Slurm for nothing."""
    one = pod()
    core = two_hosts(one, gate="on")
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="x"), slurm_node("n2", "ALLOCATED"))
    action = submitted(core, one)
    assert action is not None
    assert action.kind == "script"
    core.see(slurm_node("n2", "MIXED"))
    assert submitted(core, one).kind == "allocation"  # type: ignore[union-attr]


def test_only_external_nodes_take_an_external_placeholder_P11a() -> None:
    """No slurmd would run a script there."""
    one = pod()
    core = two_hosts(one)
    core.see(slurm_node("n1", "IDLE+EXTERNAL"), slurm_node("n2", "IDLE+EXTERNAL"))
    assert submitted(core, one).kind == "external"  # type: ignore[union-attr]


def test_the_host_of_a_job_that_was_given_up_is_excluded_P12() -> None:
    """Our own replacing cancel is nobody's word against a new job (P17)."""
    one = pod()
    given_up = job(
        one, state="CANCELLED", slurm_nodes=("n1",), identity=identity(one, replaced=True)
    )
    action = submitted(two_hosts(one, given_up), one)
    assert action is not None
    assert action.excluded == ("n1",)


def test_where_slurm_had_no_other_host_for_it_the_excluded_one_is_taken_again_P12() -> None:
    """Found by the simulator: on a cluster of one host the Pod waited for ever (60338)."""
    one = pod()
    mine = identity(one, replaced=True)
    core = two_hosts(one, job(one, state="CANCELLED", slurm_nodes=("n1", "n2"), identity=mine))
    digest = submitted(core, one).identity.digest  # type: ignore[union-attr]
    core.see(SubmitRefused(workload_id([one.uid]), 2014, "no", "script", digest))
    core.wait(300)
    assert submitted(core, one).excluded == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_an_unbound_pod_whose_job_slurm_took_gets_another_at_once_P17(state: str) -> None:
    """Nobody meant the Pod."""
    one = pod()
    assert submitted(two_hosts(one, ended(one, state)), one) is not None


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({}, False),
        ({"cancelled": "7/"}, False),
        ({"cancelled": "7/", "resubmit": "1"}, True),
        ({"cancelled": "7/1", "resubmit": "1"}, False),
        ({"cancelled": "6/", "resubmit": "1"}, False),
    ],
)
def test_after_a_humans_cancel_only_the_owners_word_makes_a_new_job_P17(
    fields: dict[str, str], again: bool
) -> None:
    """While annotation cancelled equals the present resubmit, and before it is written."""
    one = pod(**fields)
    core = two_hosts(one, ended(one, "CANCELLED"))
    core.wait(10)
    assert (submitted(core, one) is not None) is again


def test_a_humans_cancel_outlives_the_record_of_the_job_P17() -> None:
    """Slurm forgets, the annotation does not."""
    one = pod(cancelled="7/")
    assert submitted(two_hosts(one), one) is None


def test_resubmit_cancelled_takes_no_cancel_for_an_answer_P17() -> None:
    """--resubmit-cancelled."""
    one = pod()
    core = two_hosts(one, ended(one, "CANCELLED"), resubmit_cancelled=True)
    core.wait(10)
    assert submitted(core, one) is not None


def test_a_job_that_ends_by_itself_is_not_repeated_at_once_P17() -> None:
    """Each time it takes longer."""
    one = pod()
    core = two_hosts(one, ended(one, "FAILED"))
    assert submitted(core, one) is None
    core.wait(5)
    assert submitted(core, one) is not None
    core.see(ended(one, "TIMEOUT", job_id="8", submitted_at=2))
    core.wait(9)
    assert submitted(core, one) is None
    core.wait(1)
    assert submitted(core, one) is not None


def test_after_a_submission_without_an_answer_slurm_is_read_first_F2() -> None:
    """By a listing begun long enough after the last byte was sent."""
    one = pod()
    core = two_hosts(one)
    sent_s = core.now
    core.see(Attempt(workload_id([one.uid]), sent_s))
    assert submitted(core, one) is None
    for late_s, again in ((11.9, False), (12.0, True)):
        core.see(*listing("jobs", begun_s=sent_s + late_s))
        assert (submitted(core, one) is not None) is again


def test_a_job_that_was_made_after_all_is_taken_for_its_own_F2() -> None:
    """Nothing twice."""
    one = pod()
    core = two_hosts(one)
    core.see(Attempt(workload_id([one.uid]), core.now))
    core.see(*listing("jobs", job(one), begun_s=core.now + 20))
    assert submitted(core, one) is None


def test_a_pod_without_job_is_readopted_on_its_own_host_P30() -> None:
    """At once or not at all, and only once."""
    one = pod(node_name="kn1", job_id="7")
    core = two_hosts(one, lost_job="readopt")
    for begun_s in (1001.0, 1061.0):
        assert submitted(core, one) is None
        core.now = begun_s
        core.see(*listing("jobs", begun_s=begun_s))
    action = submitted(core, one)
    assert action is not None
    assert (action.kind, action.description.required_nodes) == ("allocation", "n1")
    core.see(SubmitRefused(workload_id([one.uid]), 2016, "busy", "allocation", ""))
    assert submitted(core, one) is None


def test_a_job_for_a_pod_that_lives_without_one_is_looked_for_before_another_is_asked_for_F2() -> (
    None
):
    """Found by history 6577: each answer that was lost made another one."""
    one = pod(node_name="kn1", job_id="7")
    core = two_hosts(one, lost_job="readopt")
    core.lose_jobs()
    core.see(Attempt(workload_id([one.uid]), core.now))
    assert submitted(core, one) is None
    core.now = 1061.0 + core.graph.configuration.settle_s
    core.see_listing("jobs")
    assert submitted(core, one) is not None


def test_a_pod_that_ends_is_not_readopted_P30() -> None:
    """It needs no job any more."""
    one = pod(node_name="kn1", job_id="7", terminating=True)
    core = two_hosts(one, lost_job="readopt")
    core.lose_jobs()
    assert submitted(core, one) is None


def test_a_pod_that_is_gone_wants_nothing_P13() -> None:
    """Nor is it remembered."""
    one = pod()
    core = two_hosts(one)
    core.see(deleted("pods", one))
    assert submitted(core, one) is None
