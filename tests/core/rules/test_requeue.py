"""Row N28: jobs that are requeued, instead of waiting for their end."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.event_kinds import EVENT_NOT_REQUEUED, EVENT_REQUEUED
from sunk_sync.core.model.node_set import Requeueing
from sunk_sync.core.model.node_set_actions import RequeueJobs
from sunk_sync.core.model.node_set_answers import RequeueTried
from sunk_sync.core.rules.host.requeue import AGAIN_S
from tests.kit.build import Core
from tests.kit.node_sets import node_set, record, set_pod

AT_ONCE = Requeueing("partition", ("spare",))
LATER = Requeueing("time", after_s=600.0)
TIMED = Requeueing("time", after_s=600.0, scale_in_after_s=60.0)
BUSY = "MIXED+DRAIN"
UPDATE = "update of NodeSet cpu"
IN = "scale-in of NodeSet cpu"


def core_of(which: Requeueing, *, state: str = BUSY, **pod: Any) -> Core:
    spec = node_set(1, requeueing=which)
    standard = {"pending_deletion": UPDATE}
    reason = f"k8s: pod pending deletion: {pod.get('pending_deletion', UPDATE)}"
    return Core(
        spec,
        set_pod(0, spec, **{**standard, **pod}),
        record(0, state, spec, reason=reason),
    )


def requeues(core: Core) -> bool:
    return bool(core.wants("cpu-0", RequeueJobs))


@pytest.mark.parametrize(
    ("which", "pod", "state", "now", "later"),
    [
        (Requeueing(), {}, BUSY, False, False),
        (AT_ONCE, {}, BUSY, True, True),
        (LATER, {}, BUSY, False, True),
        (AT_ONCE, {"pending_deletion": "registration of NodeSet cpu"}, BUSY, True, True),
        (AT_ONCE, {"pending_deletion": IN}, BUSY, False, False),
        (TIMED, {"pending_deletion": IN}, BUSY, False, True),
        (TIMED, {"pending_deletion": "deletion of NodeSet cpu"}, BUSY, False, True),
        (AT_ONCE, {"pending_deletion": None}, BUSY, False, False),
        (AT_ONCE, {"pending_deletion": "by hand"}, BUSY, False, False),
        (AT_ONCE, {"terminating": True}, BUSY, False, False),
        (AT_ONCE, {}, "MIXED", False, False),
        (AT_ONCE, {}, "IDLE+DRAIN", False, False),
        (AT_ONCE, {}, "IDLE+DRAIN+COMPLETING", True, True),
    ],
    ids=[
        "nothing asked for",
        "update, at once",
        "update, later",
        "registration",
        "scale-in waits",
        "scale-in with a limit",
        "deletion with a limit",
        "not condemned",
        "condemned by a user",
        "ends already",
        "not drained yet",
        "no job",
        "a job ends",
    ],
)
def test_jobs_are_requeued_once_the_node_is_drained_and_it_is_time_N28(
    which: Requeueing, pod: dict[str, Any], state: str, now: bool, later: bool
) -> None:
    core = core_of(which, state=state, **pod)
    assert requeues(core) == now
    core.wait(601)
    assert requeues(core) == later


def test_the_time_counts_from_the_drain_N28() -> None:
    core = core_of(LATER, state="MIXED")
    core.wait(3600)
    core.see(record(0, BUSY, node_set(1), reason=f"k8s: pod pending deletion: {UPDATE}"))
    assert not requeues(core)
    core.wait(599)
    assert not requeues(core)
    core.wait(2)
    assert requeues(core)


def test_a_try_is_repeated_after_a_minute_while_jobs_run_N28() -> None:
    core = core_of(AT_ONCE)
    core.see(RequeueTried("cpu-0", core.now, 2, "job 7 is in partition main"))
    assert not requeues(core)
    core.wait(AGAIN_S - 1)
    assert not requeues(core)
    core.wait(2)
    assert requeues(core)


@pytest.mark.parametrize(
    ("requeued", "left", "events"),
    [
        (1, "", [(EVENT_REQUEUED, f"Slurm requeued 1 job, because the Pod must go: {UPDATE}")]),
        (
            2,
            "job 7 is no batch job",
            [
                (EVENT_REQUEUED, f"Slurm requeued 2 jobs, because the Pod must go: {UPDATE}"),
                (EVENT_NOT_REQUEUED, "the Pod must go and waits for jobs: job 7 is no batch job"),
            ],
        ),
    ],
    ids=["all", "some"],
)
def test_events_of_the_pod_say_what_became_of_the_jobs_N28(
    requeued: int, left: str, events: list[tuple[str, str]]
) -> None:
    core = core_of(AT_ONCE)
    core.see(RequeueTried("cpu-0", core.now, requeued, left))
    assert [(one.event, one.message) for one in core.wants("cpu-0", RecordEvent)] == events


def test_a_try_is_forgotten_with_the_drain_N28() -> None:
    """Another drain begins anew; the answer to a late try does not count."""
    core = core_of(AT_ONCE)
    core.see(RequeueTried("cpu-0", core.now, 1))
    core.see(record(0, "MIXED", node_set(1)))
    core.see(RequeueTried("cpu-0", core.now, 1))
    assert not core.graph.node_sets.memory.requeued
    core.see(record(0, BUSY, node_set(1), reason=f"k8s: pod pending deletion: {UPDATE}"))
    assert requeues(core)
