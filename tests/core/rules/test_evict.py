"""Bound Pods end when their job has ended: rows P16, P18, P19, P30, P31."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import EndPod, RecordEvent, Relist
from sunk_sync.core.model.event_kinds import EVENT_END_HELD, EVENT_LOST_JOB
from sunk_sync.core.model.facts import Attempt, Job, Pod, reference_of
from sunk_sync.core.model.keys import CLUSTER
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.policy import HELD_EVENTS_PER_MINUTE
from tests.kit.build import (
    BOUND,
    WORKLOAD,
    Core,
    deleted,
    identity,
    job,
    listing,
    pod,
    room,
    source_of,
    two_hosts,
)


def ended(state: str, *pods: Pod, **fields: Any) -> Job:
    return job(*(pods or (BOUND,)), state=state, **{"slurm_nodes": ("n1",), **fields})


@pytest.mark.parametrize(
    ("state", "reason", "weak"),
    [
        ("PREEMPTED", "PreemptionByScheduler", False),
        ("CANCELLED", "SlurmJobCancelled", False),
        ("CANCELLED+COMPLETING", "SlurmJobCancelled", False),
        ("TIMEOUT", "SlurmTimeLimit", False),
        ("DEADLINE", "SlurmTimeLimit", False),
        ("NODE_FAIL", "SlurmNodeFail", True),
        ("BOOT_FAIL", "SlurmNodeFail", True),
        ("SUSPENDED", "SlurmSuspended", False),
        ("COMPLETED", "SlurmJobEnded", False),
        ("FAILED", "SlurmJobEnded", False),
        ("OUT_OF_MEMORY", "SlurmJobEnded", False),
        ("PENDING+COMPLETING", "SlurmJobEnded", False),
    ],
)
def test_a_bound_pod_ends_with_its_job_P16_P19_P31(state: str, reason: str, weak: bool) -> None:
    """Only an end after a failed node counts for the limit."""
    (end,) = two_hosts(BOUND, ended(state)).workload_wants(BOUND, EndPod)
    assert (end.reference, end.reason, end.weak) == (reference_of(BOUND), reason, weak)
    assert "Slurm job 7" in end.message


def test_a_pod_ends_with_the_job_that_its_binding_names_P16() -> None:
    """Simulator, seed 60123: another job had come and gone before the binding arrived."""
    next_job = ended("CANCELLED", job_id="9", submitted_at=2, slurm_nodes=())
    given_up = replace(next_job, identity=identity(BOUND, replaced=True))
    (end,) = two_hosts(BOUND, ended("NODE_FAIL"), given_up).workload_wants(BOUND, EndPod)
    assert (end.reason, "Slurm job 7" in end.message) == ("SlurmNodeFail", True)


def test_a_pod_ends_with_its_job_after_slurm_forgot_the_job_P16() -> None:
    """Simulator, seed 60998: the API server was away for longer than MinJobAge."""
    core = two_hosts(BOUND, ended("CANCELLED"))
    wanted = core.workload_wants(BOUND, EndPod)
    core.see_listing("jobs")
    assert core.workload_wants(BOUND, EndPod) == wanted
    core.see(deleted("pods", BOUND))
    assert not core.graph.workloads.memory.ends


def test_a_pod_ends_with_its_job_after_the_id_went_to_another_job_P16_P23() -> None:
    """Simulator, seed 7810082: slurmctld lost its state and counted from 1 again."""
    core = two_hosts(BOUND, ended("TIMEOUT"))
    wanted = core.workload_wants(BOUND, EndPod)
    assert wanted
    other = pod("p2")
    core.see(other, job(other, state="PENDING", job_id="7", submitted_at=99))
    assert core.workload_wants(BOUND, EndPod) == wanted


def test_a_pod_ends_with_its_job_although_a_listing_of_states_shows_the_id_first_P16_P23() -> None:
    """Simulator, seed 9427373: a listing of states has no identity, and the job was read later."""
    core = two_hosts(BOUND, ended("CANCELLED"))
    wanted = core.workload_wants(BOUND, EndPod)
    other = pod("p2")
    core.see(replace(ended("CANCELLED"), state=frozenset({"PENDING"}), slurm_nodes=()))
    core.see(other, job(other, state="PENDING", job_id="7", submitted_at=99))
    core.see_listing("jobs")
    assert core.workload_wants(BOUND, EndPod) == wanted


@pytest.mark.parametrize("there", [BOUND, replace(BOUND, job_id="9"), None])
def test_a_pod_that_is_listed_later_ends_with_its_forgotten_job_P16(there: Pod | None) -> None:
    """Simulator, seed 71391: sunk-sync started while the API server was away."""
    core = Core(ended("CANCELLED"), *room("n1"), listed=False)
    core.see_listing("jobs")
    assert core.graph.workloads.memory.ends
    core.see(*listing("pods", *([there] if there else [])))
    for row in room("n1"):
        core.see(*listing(source_of(row), row))
    wanted = core.workload_wants(there, EndPod) if there else []
    assert len(wanted) == (there == BOUND)
    assert len(core.graph.workloads.memory.ends) == bool(there)


def test_slurms_reason_is_in_the_message_P16() -> None:
    for reason, words in (("TimeLimit", "TIMEOUT (TimeLimit)"), ("None", "TIMEOUT")):
        core = two_hosts(BOUND, ended("TIMEOUT", reason=reason))
        (end,) = core.workload_wants(BOUND, EndPod)
        assert end.message == f"Slurm job 7 ended: {words}"


@pytest.mark.parametrize("state", ["RUNNING", "RUNNING+COMPLETING"])
def test_a_pod_whose_job_runs_is_left_alone_P16(state: str) -> None:
    assert not two_hosts(BOUND, ended(state)).workload_wants(BOUND)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"terminating": True}, "PREEMPTED"),
        ({"ended": True}, "PREEMPTED"),
        ({"node_name": ""}, "PREEMPTED"),
        ({"node_name": "kn2", "job_id": ""}, "RUNNING"),
        ({"node_name": "kn2", "job_id": ""}, "SUSPENDED"),
        ({"job_id": "9"}, "CANCELLED"),
    ],
)
def test_other_pods_do_not_end_with_a_job_P16_P18(fields: dict[str, Any], state: str) -> None:
    one = pod(**{"node_name": "kn1", "job_id": "7", **fields})
    assert not two_hosts(one, ended(state, one)).ends(one)


def test_a_pod_ends_with_the_job_that_was_replaced_on_its_host_P19() -> None:
    gone = ended("CANCELLED", identity=identity(BOUND, replaced=True))
    assert two_hosts(BOUND, gone).workload_wants(BOUND, EndPod)
    elsewhere = replace(BOUND, node_name="kn2")
    assert not two_hosts(elsewhere, gone).workload_wants(elsewhere, EndPod)


@pytest.mark.parametrize("turns", [1, 2], ids=["requeued once", "requeued twice"])
def test_a_pod_ends_with_a_replaced_job_that_left_its_host_and_is_forgotten_P19(turns: int) -> None:
    """Simulator, Pods' seed 14: the API server was away, and slurmctld lost all jobs."""
    core = two_hosts(BOUND, ended("RUNNING"))
    for _ in range(turns):
        core.see(ended("PENDING", slurm_nodes=(), requeued=True))
        core.see(ended("RUNNING", slurm_nodes=("n2",), requeued=True))
    given_up = identity(BOUND, replaced=True)
    core.see(ended("CANCELLED", slurm_nodes=("n2",), requeued=True, identity=given_up))
    assert core.ends(BOUND)
    core.see_listing("jobs", after_s=1.0)
    assert core.ends(BOUND)


def test_a_pod_that_was_bound_for_a_replaced_job_ends_wherever_the_job_was_P19() -> None:
    """After a restart sunk-sync does not know where the job was before."""
    bound = replace(BOUND, bound_for="7")
    gone = ended("CANCELLED", identity=identity(BOUND, replaced=True), slurm_nodes=("n2",))
    assert two_hosts(bound, gone).ends(bound)


def test_a_pod_ends_once_a_listing_settled_the_submission_without_an_answer_P19() -> None:
    """Simulator, seed 547316: the replaced job came from that submission."""
    given_up = ended("CANCELLED", identity=identity(BOUND, replaced=True))
    core = two_hosts(BOUND, given_up)
    core.see(Attempt(WORKLOAD, core.now))
    assert not core.workload_wants(BOUND, EndPod)
    core.see_listing("jobs", given_up, after_s=core.graph.configuration.settle_s)
    assert core.ends(BOUND)


@pytest.mark.parametrize("policy", ["keep", "readopt", "end"])
def test_a_job_is_lost_only_after_two_listings_a_minute_apart_P30(policy: str) -> None:
    """In its first minute slurmctld may not list all jobs."""
    core = two_hosts(BOUND, lost_job=policy)
    for after_s in (1.0, 30.0, 29.0):
        core.see_listing("jobs", after_s=after_s)
    assert not core.workload_wants(BOUND)


def test_with_keep_a_pod_without_job_gets_an_event_and_stays_P30() -> None:
    core = two_hosts(BOUND)
    core.lose_jobs()
    assert core.events(BOUND) == [EVENT_LOST_JOB]
    assert len(core.workload_wants(BOUND)) == 1


def test_with_end_a_pod_without_job_ends_and_counts_for_the_limit_P30() -> None:
    core = two_hosts(BOUND, lost_job="end")
    core.lose_jobs()
    (end,) = core.workload_wants(BOUND, EndPod)
    assert end.weak


def test_a_job_that_returns_restarts_the_minute_P30() -> None:
    core = two_hosts(BOUND, lost_job="end")
    core.see_listing("jobs", after_s=1.0)
    core.see(ended("RUNNING"))
    core.see_listing("jobs", after_s=60.0)
    core.see_listing("jobs", after_s=39.0)
    assert not core.workload_wants(BOUND)
    core.see_listing("jobs", after_s=21.0)
    assert core.ends(BOUND)


def may_end(core: Core, pods: list[Pod]) -> list[str]:
    """Return the names of the Pods whose end policy allows."""
    return [
        end.reference.name
        for one in pods
        for end in core.workload_wants(one, EndPod)
        if end not in core.workload_kept(one)
    ]


@pytest.mark.parametrize(
    ("state", "at_once", "holding", "relists"),
    [
        ("NODE_FAIL", 2, Holding(0, 0.0, ends=3, ends_since_s=1000.0), [Relist("nodes", 1000.0)]),
        ("PREEMPTED", 5, None, []),
    ],
)
def test_ends_beyond_the_limit_wait_until_the_nodes_were_listed_again_P31(
    state: str, at_once: int, holding: Holding | None, relists: list[Relist]
) -> None:
    pods = [pod(f"p{i}", node_name="kn1", job_id=str(i)) for i in range(5)]
    jobs = [ended(state, one, job_id=one.job_id) for one in pods]
    core = two_hosts(*pods, *jobs, max_pod_ends_per_minute=2)
    assert len(may_end(core, pods)) == at_once
    core.wait(59)
    assert len(may_end(core, pods)) == at_once
    core.wait(61)
    assert len(may_end(core, pods)) == at_once
    assert [want for want in core.decided(CLUSTER).wants if isinstance(want, Relist)] == relists
    assert core.graph.holding == holding
    core.see_listing("nodes", room("n1")[0], room("n2")[0])
    core.wait(61)
    assert len(may_end(core, pods)) > 2


def held(decisions: Sequence[Decision]) -> list[str]:
    """Return the names of the Pods with an allowed Event that says that their end is held."""
    return [
        action.reference.name
        for decision in decisions
        for action in decision.allowed
        if isinstance(action, RecordEvent) and action.event is EVENT_END_HELD
    ]


def failed_at_once(count: int) -> tuple[Core, list[Decision]]:
    """So many Pods whose node failed, of which one a minute may end; and the decisions."""
    pods = [pod(f"p{i:03}", node_name="kn1", job_id=str(i)) for i in range(count)]
    jobs = [ended("RUNNING", one, job_id=one.job_id) for one in pods]
    core = two_hosts(*pods, *jobs, max_pod_ends_per_minute=1)
    return core, core.see(*(ended("NODE_FAIL", one, job_id=one.job_id) for one in pods))


def test_each_pod_whose_end_is_held_gets_an_event_until_it_ends_P31() -> None:
    core, decisions = failed_at_once(3)
    assert held(decisions) == ["p001", "p002"]
    (event,) = core.workload_wants(pod("p001"), RecordEvent)
    assert "--max-pod-ends-per-minute" in event.message
    assert "NODE_FAIL" in event.message
    core.see_listing("nodes", room("n1")[0], room("n2")[0], after_s=1)
    (later,) = held(core.wait(60))
    assert {later, *may_end(core, [pod("p001"), pod("p002")])} == {"p001", "p002"}


def test_at_most_a_hundred_held_pods_a_minute_get_an_event_P31() -> None:
    """An Event that was allowed stays allowed, so that the outbox does not drop it."""
    core, decisions = failed_at_once(251)
    assert len(held(decisions)) == HELD_EVENTS_PER_MINUTE
    assert len(held(core.wait(60))) == 2 * HELD_EVENTS_PER_MINUTE
    assert len(held(core.wait(60))) == 250


def test_the_default_limit_is_20_ends_a_minute_P31() -> None:
    """The greater of 20 and a tenth of the bound workloads."""
    pods = [pod(f"p{i}", node_name="kn1", job_id=str(i)) for i in range(30)]
    jobs = [ended("NODE_FAIL", one, job_id=one.job_id) for one in pods]
    assert len(may_end(two_hosts(*pods, *jobs), pods)) == 20
