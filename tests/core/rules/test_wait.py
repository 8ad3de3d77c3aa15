"""What a Pod that waits says of itself: rows P1, P2, P8, P10, P17, P20, P26, P27, G7."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent, SetMetadata, SetScheduled
from sunk_sync.core.model.facts import Attempt, Condition, Job, Pod, SubmitRefused, reference_of
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.names import (
    CANCELLED,
    EVENT_CANCELLED,
    EVENT_INVALID,
    EVENT_REFUSED,
    EVENT_STATIC_CPU,
    EVENT_TOO_LATE,
    EVENT_UNSUPPORTED,
    JOB_ID,
    MANAGER_SUBMIT,
    SCHEDULED_CONDITION,
)
from sunk_sync.core.model.pod_spec import PodSpec
from tests.kit.build import POD, SMALL, Core, identity, job, pod, room, running, two_hosts

NOWHERE = replace(SMALL, node_selector=(("zone", "x"),))


def said(core: Core, of: Pod) -> list[tuple[str, str]]:
    """Reason and message of its condition."""
    return [(want.reason, want.message) for want in core.workload_wants(of, SetScheduled)]


def told(core: Core, of: Pod) -> Pod:
    """The Pod once its condition is written: only then it gets the Event."""
    (desired,) = core.workload_wants(of, SetScheduled)
    assert not [
        want for want in core.workload_wants(of, RecordEvent) if want.message == desired.message
    ]
    stands = Condition(SCHEDULED_CONDITION, "False", desired.reason, desired.message)
    after = replace(of, conditions=(stands,))
    core.see(after)
    assert not said(core, after)
    return after


def events(core: Core, of: Pod) -> list[str]:
    return [want.reason for want in core.workload_wants(of, RecordEvent)]


def notes(core: Core, of: Pod) -> list[dict[str, str]]:
    wants = core.workload_wants(of, SetMetadata)
    assert all(want.manager == MANAGER_SUBMIT for want in wants)
    return [dict(want.annotations) for want in wants]


def test_a_pod_that_is_placed_within_a_second_costs_the_binding_alone_P1() -> None:
    """Then condition, Event and the job's id."""
    core = two_hosts(POD, job(POD, reason="Resources"))
    assert not core.workload_wants(POD)
    core.wait(1)
    ((reason, message),) = said(core, POD)
    assert reason == "Unschedulable"
    assert message.startswith("Slurm job 7 waits:")
    assert "Resources" in message
    assert not notes(core, POD), "of two writes at once the API server refuses one"
    after = told(core, POD)
    assert events(core, after) == ["FailedScheduling"]
    assert notes(core, after) == [{JOB_ID: "7"}]


def test_the_log_line_of_that_word_has_its_cause_P26() -> None:
    """The job that waits, and Slurm's reason as Slurm spells it."""
    core = two_hosts(POD, job(POD, reason="Resources"))
    core.wait(1)
    assert core.workload_verdict(POD).because == "job 7 waits in Slurm (Resources)"


def test_slurm_may_take_a_moment_to_say_why_a_job_waits_P1() -> None:
    """The next word comes a minute later."""
    core = two_hosts(POD, job(POD, reason="None"))
    core.wait(2.9)
    assert not core.workload_wants(POD)
    core.wait(0.1)
    assert said(core, POD)


def test_what_is_said_already_is_not_said_again_P1() -> None:
    """M5 for workload Pods."""
    core = two_hosts(POD, job(POD, reason="Resources"))
    core.wait(1)
    after = replace(told(core, POD), job_id="7")
    core.see(after)
    event = core.workload_wants(after)
    assert [type(want) for want in event] == [RecordEvent]
    core.wait(3600)
    assert core.workload_wants(after) == event


@pytest.mark.parametrize(
    ("fields", "event", "words"),
    [
        ({"spec": PodSpec(requests=(("cpu", 1000),), grace_s=5)}, EVENT_INVALID, "memory"),
        ({"spec": replace(SMALL, grace_s=25)}, EVENT_INVALID, "at most 24"),
        ({"settings": (("timeout", "soon"),)}, EVENT_INVALID, "timeout"),
        ({"spec": replace(SMALL, claims=True)}, EVENT_INVALID, "resourceClaims"),
        ({"spec": NOWHERE}, "FailedScheduling", "0/2 nodes are available"),
    ],
)
def test_what_is_wrong_with_a_pod_is_said_at_once_P2_P3_P4_P7_P8(
    fields: dict[str, Any], event: str, words: str
) -> None:
    """With the numbers; nothing else happens to it."""
    one = pod(**fields)
    core = two_hosts(one)
    ((_, message),) = said(core, one)
    assert words in message
    assert events(core, told(core, one)) == [event]


@pytest.mark.parametrize("fields", [{"gated": True}, {"terminating": True}, {"ended": True}])
def test_who_does_not_wait_for_us_says_nothing_P1(fields: dict[str, Any]) -> None:
    """Gates are Kubernetes' own word."""
    one = pod(spec=NOWHERE, **fields)
    core = two_hosts(one)
    core.wait(5)
    assert not said(core, one)


def test_slurms_refusal_is_told_with_its_number_P10() -> None:
    """In plain words."""
    core = two_hosts(POD)
    (submit,) = core.workload_wants(POD)
    core.see(SubmitRefused(workload_id([POD.uid]), 2045, "no", "script", submit.identity.digest))
    core.wait(1)
    ((_, message),) = said(core, POD)
    assert "2045" in message
    assert events(core, told(core, POD)) == [EVENT_REFUSED]


def test_a_submission_without_an_answer_is_told_F2() -> None:
    """Nobody wonders why there is no job."""
    core = two_hosts(POD)
    core.see(Attempt(workload_id([POD.uid]), core.now))
    core.wait(1)
    assert said(core, POD) == [("Unschedulable", "Slurm has not answered the submission yet")]


def test_a_later_refusal_is_an_answer_F2() -> None:
    """Asked again as a script, the Pod does not say that nobody answers."""
    core = two_hosts(POD)
    core.see(Attempt(workload_id([POD.uid]), core.now))
    core.wait(1)
    core.see(SubmitRefused(workload_id([POD.uid]), 2000, "no", "allocation", ""))
    assert not said(core, POD)


def test_an_allocated_job_tells_whom_it_waits_for_P11() -> None:
    """Another Pod, or its own script."""
    one, other = pod(), pod("other", node_name="kn1", job_id="8")
    runs = running(one)
    core = two_hosts(one, other, runs)
    core.wait(1)
    ((_, message),) = said(core, one)
    assert message == "Slurm job 7 is allocated: waits for Pod ns/other to end"
    core = two_hosts(one, replace(runs, started=False))
    core.wait(1)
    ((_, message),) = said(core, one)
    assert message == "Slurm job 7 is allocated: its script has not started yet"


def test_a_humans_cancel_is_left_on_the_pod_and_told_P17() -> None:
    """Before anything else happens."""
    one = pod(resubmit="2", job_id="7")
    core = two_hosts(one, job(one, state="CANCELLED"))
    core.wait(1)
    assert notes(core, one) == [{JOB_ID: "7", CANCELLED: "7/2"}]
    ((reason, message),) = said(core, one)
    assert reason == EVENT_CANCELLED
    assert "resubmit" in message
    assert events(core, told(core, one)) == [EVENT_CANCELLED]


def test_the_mark_of_an_earlier_cancel_stays_with_the_hint_P17() -> None:
    """The annotations of one writer go together."""
    one = pod(cancelled="7/", resubmit="1", job_id="7")
    core = two_hosts(one, job(one, job_id="8"))
    core.wait(1)
    after = told(core, one)
    core.see(after)
    assert notes(core, after) == [{JOB_ID: "8", CANCELLED: "7/"}]


def test_our_own_replacing_cancel_leaves_no_mark_P17() -> None:
    """Nobody asked for an end."""
    gone = job(POD, state="CANCELLED", identity=identity(POD, replaced=True))
    core = two_hosts(POD, gone)
    core.wait(1)
    assert not notes(core, POD)


@pytest.mark.parametrize(
    ("spec", "chosen", "event"),
    [
        (replace(SMALL, hard=("podAffinity",)), {}, EVENT_UNSUPPORTED),
        (replace(SMALL, hard=("podAffinity",)), {"unsupported": "refuse"}, EVENT_INVALID),
        (replace(SMALL, static_cpu=True), {}, EVENT_STATIC_CPU),
        (replace(SMALL, static_cpu=True), {"refuse_static_cpu": True}, EVENT_INVALID),
    ],
)
def test_what_slurm_cannot_keep_is_one_event_or_a_refusal_P8_P27(
    spec: PodSpec, chosen: dict[str, Any], event: str
) -> None:
    """As the operator chose."""
    one = pod(spec=spec)
    rows = [one] if event == EVENT_INVALID else [one, job(one, reason="Resources")]
    core = two_hosts(*rows, **chosen)
    core.wait(1)
    assert event in events(core, told(core, one))


def test_an_edit_after_the_binding_has_no_effect_but_an_event_P20() -> None:
    """The job stays as it is."""
    one = pod(node_name="kn1", job_id="7", settings=(("account", "other"),))
    runs = running(one, identity=identity(one, digest="00"))
    core = two_hosts(one, runs)
    (event,) = core.workload_wants(one)
    assert isinstance(event, RecordEvent)
    assert (event.reference, event.reason) == (reference_of(one), EVENT_TOO_LATE)


def test_it_is_told_about_how_many_wait_ahead_P26() -> None:
    """Rounded; looked at once a minute."""
    pods = [pod(f"p{i:02}") for i in range(12)]
    jobs: list[Job] = [job(one, job_id=str(i + 1)) for i, one in enumerate(pods)]
    core = two_hosts(*pods, *jobs)
    core.see_listing("jobs", *jobs, after_s=61)
    texts = [said(core, one)[0][1] for one in pods]
    assert "No other Pod waits ahead" in texts[0]
    assert "At least 1 other Pod waits" in texts[1]
    assert "At least 10 other Pods wait" in texts[11]


@pytest.mark.parametrize(
    ("named", "where", "corrected"),
    [("3", "n1", True), ("7", "n1", False), ("", "n1", False), ("3", "n2", False)],
)
def test_a_bound_pod_names_the_job_that_holds_its_host_P16_P30(
    named: str, where: str, corrected: bool
) -> None:
    """An older word that arrived late, or a job that was readopted; foreign bindings are left."""
    one = pod(node_name="kn1", job_id=named)
    runs = running(one, job_id="7", at=(where,))
    core = Core(*room("n1"), *room("n2"), one, runs)
    (told,) = [want.annotations for want in core.workload_wants(one, SetMetadata)] or [()]
    assert told == (((JOB_ID, "7"),) if corrected else ())
