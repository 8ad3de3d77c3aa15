"""Bound Pods end when their job has: rows P16, P18, P19, P30, P31."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import EndPod, RecordEvent, Relist
from sunk_sync.core.model.facts import Attempt, Holding, Job, Node, Pod, reference_of
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.names import EVENT_END_HELD, EVENT_LOST_JOB
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.policy import HELD_EVENTS_PER_MINUTE
from tests.kit.build import (
    BOUND,
    Core,
    deleted,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    source_of,
    two_hosts,
)


def ended(state: str, *pods: Pod, **fields: Any) -> Job:
    return job(*(pods or (BOUND,)), state=state, **{"slurm_nodes": ("n1",), **fields})


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("PREEMPTED", "PreemptionByScheduler"),
        ("CANCELLED+COMPLETING", "SlurmJobCancelled"),
        ("TIMEOUT", "SlurmTimeLimit"),
        ("DEADLINE", "SlurmTimeLimit"),
        ("NODE_FAIL", "SlurmNodeFail"),
        ("BOOT_FAIL", "SlurmNodeFail"),
        ("SUSPENDED", "SlurmSuspended"),
        ("COMPLETED", "SlurmJobEnded"),
        ("FAILED", "SlurmJobEnded"),
        ("OUT_OF_MEMORY", "SlurmJobEnded"),
        ("PENDING+COMPLETING", "SlurmJobEnded"),
    ],
)
def test_a_bound_pod_ends_with_its_job_P16_P19(state: str, reason: str) -> None:
    """The condition names why, the message the job."""
    (end,) = two_hosts(BOUND, ended(state)).workload_wants(BOUND, EndPod)
    assert (end.reference, end.reason) == (reference_of(BOUND), reason)
    assert "Slurm job 7" in end.message


def test_a_late_binding_ends_with_the_job_that_it_names_P16() -> None:
    """Found by the simulator: another job had come and gone before it arrived (60123)."""
    next_job = ended("CANCELLED", job_id="9", submitted_at=2, slurm_nodes=())
    given_up = replace(next_job, identity=identity(BOUND, replaced=True))
    (end,) = two_hosts(BOUND, ended("NODE_FAIL"), given_up).workload_wants(BOUND, EndPod)
    assert (end.reason, "Slurm job 7" in end.message) == ("SlurmNodeFail", True)


def test_what_an_end_asks_for_is_owed_also_when_slurm_has_forgotten_the_job_P16() -> None:
    """Found by the simulator: the API server was away for longer than MinJobAge (60998)."""
    core = two_hosts(BOUND, ended("CANCELLED"))
    wanted = core.workload_wants(BOUND, EndPod)
    core.see_listing("jobs")
    assert core.workload_wants(BOUND, EndPod) == wanted
    core.see(deleted("pods", BOUND))
    assert not core.reconciler.graph.workloads.memory.ends


def test_what_an_end_asks_for_is_owed_also_when_its_id_went_to_another_job_P16_P23() -> None:
    """Found by the simulator: slurmctld lost its state and counted from 1 again (7810082)."""
    core = two_hosts(BOUND, ended("TIMEOUT"))
    wanted = core.workload_wants(BOUND, EndPod)
    assert wanted
    other = pod("p2")
    core.see(other, job(other, state="PENDING", job_id="7", submitted_at=99))
    assert core.workload_wants(BOUND, EndPod) == wanted


@pytest.mark.parametrize("there", [BOUND, replace(BOUND, job_id="9"), None])
def test_a_forgotten_end_is_owed_to_a_pod_that_is_listed_later_P16(there: Pod | None) -> None:
    """Found by the simulator: we began while the API server was away (71391)."""
    core = Core(ended("CANCELLED"), *room("n1"), listed=False)
    core.see_listing("jobs")
    assert core.graph.workloads.memory.ends
    core.see(*listing("pods", *([there] if there else [])))
    for row in room("n1"):
        core.see(*listing(source_of(row), row))
    wanted = core.workload_wants(there, EndPod) if there else []
    assert len(wanted) == (there == BOUND)
    assert len(core.graph.workloads.memory.ends) == bool(there)


def test_slurms_own_reason_is_told_P16() -> None:
    """`None` says nothing."""
    told = two_hosts(BOUND, ended("TIMEOUT", reason="TimeLimit")).workload_wants(BOUND, EndPod)
    silent = two_hosts(BOUND, ended("TIMEOUT", reason="None")).workload_wants(BOUND, EndPod)
    assert (told[0].message, silent[0].message) == (
        "Slurm job 7 ended: TIMEOUT (TimeLimit)",
        "Slurm job 7 ended: TIMEOUT",
    )


@pytest.mark.parametrize(
    "fields", [{"terminating": True}, {"ended": True}, {"node_name": ""}], ids=str
)
def test_who_ends_already_or_was_never_bound_is_left_alone_P16(fields: dict[str, Any]) -> None:
    """Its own grace runs, or it gets another job."""
    one = pod(**{"node_name": "kn1", "job_id": "7", **fields})
    assert not two_hosts(one, ended("PREEMPTED", one)).workload_wants(one, EndPod)


@pytest.mark.parametrize("state", ["RUNNING", "RUNNING+COMPLETING"])
def test_a_pod_whose_job_runs_is_left_alone_P16(state: str) -> None:
    """Nothing to do."""
    assert not two_hosts(BOUND, ended(state)).workload_wants(BOUND)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_who_was_bound_by_somebody_else_does_not_end_with_our_job_P18(state: str) -> None:
    """Only the job does."""
    one = pod(node_name="kn2")
    assert not two_hosts(one, ended(state, one)).workload_wants(one, EndPod)


def test_nor_by_an_ended_job_that_is_not_the_one_on_it_P18() -> None:
    """The annotation of the binding says which."""
    one = pod(node_name="kn1", job_id="9")
    assert not two_hosts(one, ended("CANCELLED", one)).workload_wants(one, EndPod)


def test_a_pod_ends_with_the_job_that_we_gave_up_on_its_host_P19() -> None:
    """Elsewhere it was bound by somebody else."""
    gone = ended("CANCELLED", identity=identity(BOUND, replaced=True))
    assert two_hosts(BOUND, gone).workload_wants(BOUND, EndPod)
    elsewhere = replace(BOUND, node_name="kn2")
    assert not two_hosts(elsewhere, gone).workload_wants(elsewhere, EndPod)


def test_an_attempt_that_a_listing_has_settled_does_not_keep_it_P19() -> None:
    """The job that we gave up came of it (547316)."""
    given_up = ended("CANCELLED", identity=identity(BOUND, replaced=True))
    core = two_hosts(BOUND, given_up)
    core.see(Attempt(workload_id([BOUND.uid]), core.now))
    assert not core.workload_wants(BOUND, EndPod)
    core.see_listing("jobs", given_up, after_s=core.graph.configuration.settle_s)
    assert core.workload_wants(BOUND, EndPod)


def lose(core: Core, *seconds: float) -> None:
    """Complete listings without the job, so long after the start."""
    for begun_s in seconds:
        core.now = 1000.0 + begun_s
        core.see_listing("jobs")


@pytest.mark.parametrize("policy", ["keep", "readopt", "end"])
def test_a_pod_without_job_is_not_lost_before_two_listings_a_minute_apart_P30(policy: str) -> None:
    """slurmctld's first minute counts for nothing."""
    core = two_hosts(BOUND, lost_job=policy)
    lose(core, 1.0, 31.0, 60.0)
    assert not core.workload_wants(BOUND)


def test_keep_tells_and_ends_nothing_P30() -> None:
    """One Event."""
    core = two_hosts(BOUND)
    lose(core, 1.0, 61.0)
    (event,) = core.workload_wants(BOUND)
    assert isinstance(event, RecordEvent)
    assert event.reason == EVENT_LOST_JOB


def test_end_ends_it_and_counts_for_the_breaker_P30() -> None:
    """It rests on an absence."""
    core = two_hosts(BOUND, lost_job="end")
    lose(core, 1.0, 61.0)
    (end,) = core.workload_wants(BOUND, EndPod)
    assert end.weak


def test_a_job_that_comes_back_ends_the_count_P30() -> None:
    """It begins anew when the job is missing again."""
    core = two_hosts(BOUND, lost_job="end")
    lose(core, 1.0)
    core.see(ended("RUNNING"))
    lose(core, 61.0, 100.0)
    assert not core.workload_wants(BOUND)
    lose(core, 121.0)
    assert core.workload_wants(BOUND, EndPod)


@pytest.mark.parametrize(
    ("state", "weak"),
    [("NODE_FAIL", True), ("BOOT_FAIL", True), ("PREEMPTED", False), ("CANCELLED", False)],
)
def test_only_what_rests_on_a_failed_node_is_weak_P31(state: str, weak: bool) -> None:
    """What was read under its identity as cancelled, preempted or timed out is never held."""
    (end,) = two_hosts(BOUND, ended(state)).workload_wants(BOUND, EndPod)
    assert end.weak is weak


def may_end(core: Core, pods: list[Pod]) -> list[str]:
    """Names of the Pods whose end policy lets through."""
    standing = core.reconciler.standing
    kept = {one.action for entry in standing.values() for one in entry.kept}
    wants = [end for one in pods for end in core.workload_wants(one, EndPod) if end not in kept]
    return [end.reference.name for end in wants]


@pytest.mark.parametrize(
    ("state", "at_once", "holding", "relists"),
    [
        ("NODE_FAIL", 2, Holding(0, 0.0, ends=3, ends_since_s=1000.0), [Relist("nodes", 1000.0)]),
        ("PREEMPTED", 5, None, []),
    ],
)
def test_many_weak_ends_are_held_until_the_nodes_were_read_again_P31(
    state: str, at_once: int, holding: Holding | None, relists: list[Relist]
) -> None:
    """At most so many a minute; the others wait for the Nodes' own word."""
    pods = [pod(f"p{i}", node_name="kn1", job_id=str(i)) for i in range(5)]
    jobs = [ended(state, one, job_id=one.job_id) for one in pods]
    core = two_hosts(*pods, *jobs, max_pod_ends_per_minute=2)
    assert len(may_end(core, pods)) == at_once
    core.wait(59)
    assert len(may_end(core, pods)) == at_once
    core.wait(61)
    assert len(may_end(core, pods)) == at_once
    asked = core.reconciler.standing[CLUSTER].verdict.wants
    assert [one for one in asked if isinstance(one, Relist)] == relists
    assert core.graph.holding == holding
    nodes = [node("kn1", offer=room()[0].offer), node("kn2")]  # type: ignore[union-attr]
    core.see_listing("nodes", *nodes)
    core.wait(61)
    assert len(may_end(core, pods)) > 2


def words(decisions: Sequence[Decision]) -> list[str]:
    """Names of the Pods of which an Event of ours may tell that its end is held."""
    allowed = [action for decision in decisions for action in decision.allowed]
    return [
        one.reference.name
        for one in allowed
        if isinstance(one, RecordEvent) and one.reason == EVENT_END_HELD
    ]


def failed_at_once(count: int) -> tuple[Core, list[Decision]]:
    """So many Pods whose node failed, of which one a minute may end; and what came of it."""
    pods = [pod(f"p{i:03}", node_name="kn1", job_id=str(i)) for i in range(count)]
    jobs = [ended("RUNNING", one, job_id=one.job_id) for one in pods]
    core = two_hosts(*pods, *jobs, max_pod_ends_per_minute=1)
    return core, core.see(*(ended("NODE_FAIL", one, job_id=one.job_id) for one in pods))


def test_an_event_tells_of_each_pod_whose_end_is_held_P31() -> None:
    """Not of the one that ends, and no more once it does."""
    core, decisions = failed_at_once(3)
    assert words(decisions) == ["p001", "p002"]
    (event,) = core.workload_wants(pod("p001"), RecordEvent)
    assert "--max-pod-ends-per-minute" in event.message
    assert "NODE_FAIL" in event.message
    core.now += 1
    nodes = [row for name in ("n1", "n2") for row in room(name) if isinstance(row, Node)]
    core.see_listing("nodes", *nodes)
    (held,) = words(core.wait(60))
    assert {held, *may_end(core, [pod("p001"), pod("p002")])} == {"p001", "p002"}


def test_of_thousands_that_are_held_a_hundred_a_minute_are_told_of_P31() -> None:
    """No flood; who was told of stays so, that the outbox does not drop it."""
    core, decisions = failed_at_once(251)
    assert len(words(decisions)) == HELD_EVENTS_PER_MINUTE
    assert len(words(core.wait(60))) == 2 * HELD_EVENTS_PER_MINUTE
    assert len(words(core.wait(60))) == 250


def test_the_default_is_the_greater_of_20_and_a_tenth_P31() -> None:
    """Of the bound workloads."""
    pods = [pod(f"p{i}", node_name="kn1", job_id=str(i)) for i in range(30)]
    jobs = [ended("NODE_FAIL", one, job_id=one.job_id) for one in pods]
    assert len(may_end(two_hosts(*pods, *jobs), pods)) == 20
