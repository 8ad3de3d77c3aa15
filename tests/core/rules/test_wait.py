"""What Pods that wait are shown: rows P1-P4, P7, P8, P10, P16, P17, P20, P26, P27, P30."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent, SetMetadata, SetScheduled
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import (
    EVENT_CANCELLED,
    EVENT_INVALID,
    EVENT_REFUSED,
    EVENT_STATIC_CPU,
    EVENT_TOO_LATE,
    EVENT_UNSCHEDULABLE,
    EventKind,
)
from sunk_sync.core.model.facts import (
    Attempt,
    BindRefused,
    Pod,
    SubmitRefused,
    reference_of,
)
from sunk_sync.core.model.names import (
    CANCELLED,
    JOB_ID,
    MANAGER_SUBMIT,
    SCHEDULED_CONDITION,
)
from sunk_sync.core.model.pod_spec import PodSpec
from tests.kit.build import POD, SMALL, WORKLOAD, Core, identity, job, pod, running, two_hosts

NOWHERE = replace(SMALL, node_selector=(("zone", "x"),))


def said(core: Core, of: Pod) -> list[tuple[str, str]]:
    return [(want.reason, want.message) for want in core.workload_wants(of, SetScheduled)]


def with_condition(core: Core, of: Pod) -> Pod:
    """Write the condition of the Pod; the Event comes only then."""
    (desired,) = core.workload_wants(of, SetScheduled)
    assert not [
        want for want in core.workload_wants(of, RecordEvent) if want.message == desired.message
    ]
    stands = Condition(SCHEDULED_CONDITION, "False", desired.reason, desired.message)
    after = replace(of, conditions=(stands,))
    core.see(after)
    assert not said(core, after)
    return after


def annotations(core: Core, of: Pod) -> list[dict[str, str]]:
    wants = core.workload_wants(of, SetMetadata)
    assert all(want.manager == MANAGER_SUBMIT for want in wants)
    return [dict(want.annotations) for want in wants]


def test_a_waiting_pod_gets_condition_event_and_job_id_after_a_second_P1_P26() -> None:
    """A Pod that is bound within a second costs the binding alone."""
    core = two_hosts(POD, job(POD, reason="Resources"))
    assert not core.workload_wants(POD)
    core.wait(1)
    ((reason, message),) = said(core, POD)
    assert reason == "Unschedulable"
    assert message.startswith("Slurm job 7 waits:")
    assert "Resources" in message
    assert core.workload_verdict(POD).because == "job 7 waits in Slurm (Resources)"
    assert not annotations(core, POD), "of two writes at once the API server refuses one"
    after = with_condition(core, POD)
    assert core.events(after) == [EVENT_UNSCHEDULABLE]
    assert annotations(core, after) == [{JOB_ID: "7"}]


def test_a_job_without_a_reason_yet_is_shown_after_three_seconds_P1() -> None:
    """The next change of the message would come a minute later."""
    core = two_hosts(POD, job(POD, reason="None"))
    core.wait(2.9)
    assert not core.workload_wants(POD)
    core.wait(0.1)
    assert said(core, POD)


def test_a_condition_that_stands_is_not_written_again_P1() -> None:
    core = two_hosts(POD, job(POD, reason="Resources"))
    core.wait(1)
    after = replace(with_condition(core, POD), job_id="7")
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
        ({"spec": replace(SMALL, device_claims=True)}, EVENT_INVALID, "resourceClaims"),
        ({"spec": NOWHERE}, EVENT_UNSCHEDULABLE, "0/2 nodes are available"),
    ],
)
def test_an_invalid_pod_says_why_at_once_P2_P3_P4_P7_P8(
    fields: dict[str, Any], event: EventKind, words: str
) -> None:
    one = pod(**fields)
    core = two_hosts(one)
    ((_, message),) = said(core, one)
    assert words in message
    assert core.events(with_condition(core, one)) == [event]


@pytest.mark.parametrize("fields", [{"gated": True}, {"terminating": True}, {"ended": True}])
def test_a_pod_that_does_not_wait_for_slurm_gets_no_condition_P1(fields: dict[str, Any]) -> None:
    one = pod(spec=NOWHERE, **fields)
    core = two_hosts(one)
    core.wait(5)
    assert not said(core, one)


def test_a_refusal_by_slurm_is_shown_with_its_number_P10() -> None:
    core = two_hosts(POD)
    (submit,) = core.workload_wants(POD)
    core.see(SubmitRefused(WORKLOAD, 2045, "no", "script", submit.identity.digest))
    core.wait(1)
    ((_, message),) = said(core, POD)
    assert "2045" in message
    assert core.events(with_condition(core, POD)) == [EVENT_REFUSED]


def test_a_submission_without_an_answer_is_shown_until_there_is_one_F2() -> None:
    core = two_hosts(POD)
    core.see(Attempt(WORKLOAD, core.now))
    core.wait(1)
    assert said(core, POD) == [("SlurmUnreachable", "Slurm has not answered the submission yet")]
    core.see(SubmitRefused(WORKLOAD, 2000, "no", "allocation", ""))
    assert not said(core, POD)


def test_an_allocated_job_says_what_it_waits_for_P11() -> None:
    other = pod("other", node_name="kn1", job_id="8")
    for rows, what in (
        ((other, running(POD)), "waits for Pod ns/other to end"),
        ((running(POD, started=False),), "its script has not started yet"),
    ):
        core = two_hosts(POD, *rows)
        core.wait(1)
        assert said(core, POD) == [("SlurmJobAllocated", f"Slurm job 7 is allocated: {what}")]


def test_a_binding_that_kubernetes_refuses_is_shown_P11() -> None:
    core = two_hosts(POD, running(POD))
    core.see(BindRefused(POD.uid, "kn1", "pods is forbidden"))
    core.wait(1)
    text = "Kubernetes refuses to bind the Pod to kn1: pods is forbidden"
    assert said(core, POD) == [("SlurmJobAllocated", f"Slurm job 7 is allocated: {text}")]
    core.see(replace(POD, node_name="kn1", job_id="7"))
    assert not said(core, POD)


def test_a_humans_cancel_is_written_to_the_pod_and_shown_P17() -> None:
    one = pod(resubmit="2", job_id="7")
    core = two_hosts(one, job(one, state="CANCELLED"))
    core.wait(1)
    assert annotations(core, one) == [{JOB_ID: "7", CANCELLED: "7/2"}]
    ((reason, message),) = said(core, one)
    assert reason == EVENT_CANCELLED.reason
    assert "resubmit" in message
    assert core.events(with_condition(core, one)) == [EVENT_CANCELLED]


def test_an_earlier_cancel_annotation_is_written_together_with_the_job_id_P17() -> None:
    one = pod(cancelled="7/", resubmit="1", job_id="7")
    core = two_hosts(one, job(one, job_id="8"))
    core.wait(1)
    after = with_condition(core, one)
    core.see(after)
    assert annotations(core, after) == [{JOB_ID: "8", CANCELLED: "7/"}]


def test_a_job_that_sunk_sync_replaced_leaves_no_cancel_annotation_P17() -> None:
    core = two_hosts(POD, job(POD, state="CANCELLED", identity=identity(POD, replaced=True)))
    core.wait(1)
    assert not annotations(core, POD)


@pytest.mark.parametrize(
    ("spec", "chosen", "event"),
    [
        (replace(SMALL, static_cpu=True), {}, EVENT_STATIC_CPU),
        (replace(SMALL, static_cpu=True), {"refuse_static_cpu": True}, EVENT_INVALID),
    ],
)
def test_what_slurm_cannot_enforce_is_an_event_or_a_refusal_as_configured_P27(
    spec: PodSpec, chosen: dict[str, Any], event: EventKind
) -> None:
    one = pod(spec=spec)
    rows = [one] if event is EVENT_INVALID else [one, job(one, reason="Resources")]
    core = two_hosts(*rows, **chosen)
    core.wait(1)
    assert event in core.events(with_condition(core, one))


@pytest.mark.parametrize(
    ("spec", "event"),
    [
        (replace(SMALL, static_cpu=True), EVENT_STATIC_CPU),
    ],
)
def test_a_pod_that_is_bound_at_once_is_warned_too_P27(spec: PodSpec, event: EventKind) -> None:
    one = pod(spec=spec)
    assert two_hosts(one).events(one) == [event]
    assert two_hosts(one, running(one)).events(one) == [event]
    assert not two_hosts(replace(one, gated=True)).events(one)


def test_an_edit_after_the_binding_only_makes_an_event_P20() -> None:
    one = pod(node_name="kn1", job_id="7", settings=(("account", "other"),))
    runs = running(one, identity=identity(one, digest="00"))
    core = two_hosts(one, runs)
    (event,) = core.workload_wants(one)
    assert isinstance(event, RecordEvent)
    assert (event.reference, event.event) == (reference_of(one), EVENT_TOO_LATE)


def test_about_how_many_pods_wait_ahead_is_shown_P26() -> None:
    pods = [pod(f"p{i:02}") for i in range(12)]
    jobs = [job(one, job_id=str(i + 1)) for i, one in enumerate(pods)]
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
def test_a_bound_pod_gets_the_id_of_its_job_P16_P30(
    named: str, where: str, corrected: bool
) -> None:
    """Its annotation may be stale, or the job was readopted. Pods of others are not changed."""
    one = pod(node_name="kn1", job_id=named)
    core = two_hosts(one, running(one, at=(where,)))
    assert annotations(core, one) == ([{JOB_ID: "7"}] if corrected else [])
