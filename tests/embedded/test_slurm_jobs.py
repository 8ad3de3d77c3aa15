"""The embedded Slurm: where jobs start, preemption, and how jobs end."""

from typing import Any

import pytest

from sunk_sync.embedded.slurm.model.gres import GresError, asked, configured, picked
from sunk_sync.embedded.slurm.model.node import state_of
from tests.embedded.slurm_kit import allocated, asking, job_states, number, slurm_of, submitted


def test_a_job_does_not_start_on_an_excluded_node() -> None:
    slurm = slurm_of()
    submitted(slurm, excluded_nodes=("n1", "n2"))
    slurm.advance(1)
    assert slurm.jobs[1].nodes == ("n3",)


@pytest.mark.parametrize(("any_of", "after"), [(True, ("n2",)), (False, ())])
def test_any_required_nodes_suffice_only_if_a_number_is_given(any_of: bool, after: Any) -> None:
    slurm = slurm_of()
    slurm.drain("n1", reason="x", now_s=0)
    submitted(slurm, required_nodes=("n1", "n2"), any_of=any_of)
    slurm.advance(2)
    assert slurm.jobs[1].nodes == after


def test_gpus_are_counted() -> None:
    slurm = slurm_of(nodes=2)
    for _ in range(5):
        submitted(slurm, tres_per_node="gres/gpu:2")
    slurm.advance(1)
    assert [job.nodes for job in slurm.jobs.values()] == [("n1",), ("n1",), ("n2",), ("n2",), ()]
    assert slurm.nodes["n1"].gres_used == (("gpu", 4),)
    slurm.cancel(1, now_s=2)
    slurm.advance(4)
    assert slurm.jobs[5].nodes == ("n1",)


def test_an_exclusive_job_has_all_gpus_without_a_request() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, exclusive=True)
    slurm.advance(1)
    assert slurm.jobs[1].gres == ((("gpu", 4),),)
    slurm.cancel(1, now_s=2)
    slurm.advance(3)
    assert slurm.nodes["n1"].gres_used == ()


@pytest.mark.parametrize(
    ("has", "wants", "gets"),
    [
        ("gpu:4", "gres/gpu:2", (("gpu", 2),)),
        ("gpu:4", "gres/gpu=2", (("gpu", 2),)),
        ("gpu:4", "gres:gpu", (("gpu", 1),)),
        ("gpu:a100:2,gpu:h100:2", "gres/gpu:3", (("gpu:a100", 2), ("gpu:h100", 1))),
        ("gpu:a100:2,gpu:h100:2", "gres/gpu:h100:2", (("gpu:h100", 2),)),
        ("gpu:a100:2(S:0)", "gres/gpu:a100:3", None),
        ("gpu:4", "gres/gpu:a100:1", None),
        ("gpu:4", "", ()),
    ],
)
def test_a_request_without_a_type_gets_gres_of_any_type(has: str, wants: str, gets: object) -> None:
    assert picked(dict(configured(has)), asked(wants)) == gets


@pytest.mark.parametrize("text", ["gpu:1", "gres/gpu:x:y:1", "gres/", "2"])
def test_other_spellings_of_gres_are_refused(text: str) -> None:
    with pytest.raises(GresError):
        asked(text)
    assert number(slurm_of().submit(asking(tres_per_node=text), now_s=0)) == 2115


def test_a_waiting_job_blocks_its_partition_until_the_backfill() -> None:
    slurm = slurm_of(backfill_every_s=30)
    submitted(slurm, required_nodes=("n1",), exclusive=True)
    slurm.advance(1)
    big = submitted(slurm, nodes=3, exclusive=True, now_s=2)
    small = submitted(slurm, now_s=2)
    slurm.advance(29)
    assert [slurm.jobs[job].state_reason for job in (big, small)] == ["Resources", "Priority"]
    assert job_states(slurm, at=31) == ["RUNNING", "PENDING", "RUNNING"]


def test_a_job_waiting_for_one_node_blocks_only_that_node() -> None:
    slurm = slurm_of()
    submitted(slurm, required_nodes=("n1",), exclusive=True)
    slurm.advance(1)
    submitted(slurm, required_nodes=("n1",), now_s=2)
    submitted(slurm, now_s=2)
    assert job_states(slurm, at=4) == ["RUNNING", "PENDING", "RUNNING"]


def test_an_allocation_runs_at_once_and_its_end_frees_the_node_at_once() -> None:
    slurm = slurm_of()
    assert allocated(slurm, exclusive=True, now_s=0.3) == 1
    assert (slurm.jobs[1].state, slurm.jobs[1].nodes) == ("RUNNING", ("n1",))
    slurm.cancel(1, now_s=0.4)
    assert allocated(slurm, exclusive=True, required_nodes=("n1",), now_s=0.4) == 2


@pytest.mark.parametrize(
    ("fields", "error", "recorded"),
    [
        ({"required_nodes": ("n1",)}, 2016, True),
        ({"required_nodes": ("n2",)}, 2068, True),
        ({"nodes": 4}, 2015, True),
        ({"cpus": 17}, 2014, True),
        ({"memory_mb": 64_001}, 2014, True),
        ({"tres_per_node": "gres/gpu:5"}, 2014, True),
        ({"excluded_nodes": ("n1", "n2", "n3")}, 2014, True),
        ({"priority": 0}, 2038, True),
        ({"required_nodes": ("n9",)}, 2018, False),
        ({"required_nodes": ("n3",), "excluded_nodes": ("n3",)}, 2018, False),
        ({"partition": "nosuch"}, 2000, False),
        ({"features": ("nosuch",)}, 2029, False),
    ],
)
def test_an_allocation_that_cannot_start_is_refused(
    fields: Any, error: int, *, recorded: bool
) -> None:
    """n1 is busy, n2 drained. Most refusals leave a FAILED record."""
    slurm = slurm_of()
    submitted(slurm, required_nodes=("n1",), exclusive=True)
    slurm.advance(1)
    slurm.drain("n2", reason="x", now_s=1)
    assert number(allocated(slurm, now_s=2, **fields)) == error
    assert job_states(slurm) == ["RUNNING"] + ["FAILED"] * recorded


def test_an_allocation_overtakes_only_jobs_of_lower_priority_or_that_cannot_start() -> None:
    """The first job waits for a drained node; the second is held."""
    slurm = slurm_of()
    slurm.drain("n3", reason="x", now_s=0)
    submitted(slurm, required_nodes=("n3",))
    submitted(slurm, priority=0)
    assert allocated(slurm, now_s=0) == 3
    submitted(slurm, nodes=2, exclusive=True)
    assert number(allocated(slurm, required_nodes=("n2",), now_s=2)) == 2013
    assert allocated(slurm, required_nodes=("n2",), priority=2, now_s=2) == 6


@pytest.mark.parametrize(("kind", "at"), [("allocation", 4), ("batch", 4), ("external", 31)])
def test_only_the_backfill_sees_that_an_external_job_has_ended(kind: Any, at: float) -> None:
    slurm = slurm_of(nodes=1, backfill_every_s=30)
    submitted(slurm, exclusive=True, kind=kind)
    submitted(slurm, exclusive=True)
    slurm.advance(2)
    slurm.cancel(1, now_s=2.5)
    assert job_states(slurm, at=at - 1.5)[1] == "PENDING"
    assert job_states(slurm, at=at)[1] == "RUNNING"


def test_a_higher_tier_preempts_only_the_jobs_that_it_needs() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, partition="low", cpus=8)
    submitted(slurm, partition="low", cpus=8)
    slurm.advance(1)
    submitted(slurm, partition="high", cpus=8, now_s=2)
    assert job_states(slurm, at=5) == ["PREEMPTED", "RUNNING", "RUNNING"]
    assert slurm.jobs[1].preempted_s is not None


def test_a_preempted_job_runs_until_the_first_check_after_its_grace_time() -> None:
    """slurmctld checks grace times every 30 s."""
    slurm = slurm_of(nodes=1)
    submitted(slurm, partition="graced", exclusive=True)
    slurm.advance(1)
    submitted(slurm, partition="high", exclusive=True, now_s=2)
    slurm.advance(4)
    warned = slurm.jobs[1]
    assert (warned.state, warned.preempted_s, warned.ends_by_s) == ("RUNNING", 3, 43)
    submitted(slurm, partition="high", priority=0, now_s=10)
    slurm.requeue_job(2, now_s=11)
    submitted(slurm, now_s=12)
    slurm.advance(14)
    assert slurm.jobs[1].ends_by_s == 43
    assert job_states(slurm, at=59)[:2] == ["RUNNING", "PENDING"]
    assert job_states(slurm, at=62)[:2] == ["PREEMPTED", "RUNNING"]


def test_a_requeued_script_that_is_cancelled_while_ending_leaves_its_node() -> None:
    """In seed 210166 of the simulator the node stayed COMPLETING."""
    slurm = slurm_of(nodes=1)
    submitted(slurm, partition="again", exclusive=True)
    slurm.advance(1)
    submitted(slurm, partition="high", exclusive=True, now_s=2)
    slurm.advance(3)
    assert (slurm.jobs[1].state, slurm.jobs[1].ending) == ("PENDING", True)
    slurm.cancel(1, now_s=3.1)
    assert (slurm.jobs[1].state, slurm.jobs[1].ending) == ("CANCELLED", True)
    assert "COMPLETING" in state_of(slurm.nodes["n1"])
    assert job_states(slurm, at=5) == ["CANCELLED", "RUNNING"]
    assert (slurm.jobs[1].ending, slurm.nodes["n1"].ending) == (False, 0)


@pytest.mark.parametrize(
    ("kind", "after"), [("batch", ("PENDING", 1)), ("allocation", ("PREEMPTED", 0))]
)
def test_only_a_batch_job_is_requeued_and_starts_after_two_minutes(
    kind: str, after: tuple[str, int]
) -> None:
    slurm = slurm_of(nodes=1)
    request = asking(partition="again", exclusive=True, kind=kind)
    (slurm.submit if kind == "batch" else slurm.allocate)(request, now_s=0)
    slurm.advance(1)
    submitted(slurm, partition="high", exclusive=True, now_s=2)
    slurm.advance(8)
    assert (slurm.jobs[1].state, slurm.jobs[1].restarts) == after
    slurm.cancel(2, now_s=9)
    slurm.advance(60)
    assert slurm.jobs[1].state == after[0]
    slurm.advance(200)
    assert slurm.jobs[1].state == ("RUNNING" if kind == "batch" else "PREEMPTED")


def test_a_refused_allocation_preempts_a_job_for_the_next_one() -> None:
    slurm = slurm_of(nodes=1)
    allocated(slurm, partition="low", exclusive=True)
    assert number(allocated(slurm, partition="high", exclusive=True, now_s=1)) == 2016
    assert job_states(slurm) == ["PREEMPTED+COMPLETING", "FAILED"]
    assert allocated(slurm, partition="high", exclusive=True, now_s=2) == 3


def test_a_time_limit_is_enforced_at_the_next_check_also_a_changed_one() -> None:
    slurm = slurm_of()
    submitted(slurm, time_limit_min=1)
    allocated(slurm, time_limit_min=1, now_s=1)
    submitted(slurm, time_limit_min=1, now_s=1)
    slurm.advance(3)
    assert slurm.update_job(3, {"time_limit_min": 3}, now_s=4) is None
    assert job_states(slurm, at=89) == ["RUNNING"] * 3
    assert job_states(slurm, at=91) == ["TIMEOUT", "TIMEOUT", "RUNNING"]
    assert slurm.jobs[1].state_reason == "TimeLimit"
    assert job_states(slurm, at=212)[2] == "TIMEOUT"


def test_a_suspended_job_gives_its_cpus_to_others_but_keeps_its_gpus() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, cpus=16, tres_per_node="gres/gpu:4")
    slurm.advance(1)
    slurm.suspend_job(1, now_s=2)
    submitted(slurm, tres_per_node="gres/gpu:1", now_s=2)
    submitted(slurm, cpus=16, now_s=2)
    slurm.cancel(2, now_s=4)
    assert job_states(slurm, at=6) == ["SUSPENDED", "CANCELLED", "RUNNING"]
    slurm.cancel(1, now_s=7)
    slurm.advance(9)
    node = slurm.nodes["n1"]
    assert (node.cpus_used, node.memory_used_mb, node.gres_used) == (16, 1000, ())


def test_an_ended_job_is_forgotten_and_leaves_nothing_on_its_node() -> None:
    slurm = slurm_of(nodes=2)
    for fields in ({"duration_s": 1}, {"ending_s": 20}, {"nodes": 2}, {"kind": "external"}):
        submitted(slurm, tres_per_node="gres/gpu:1", **fields)
    allocated(slurm, tres_per_node="gres/gpu:1")
    slurm.advance(3)
    for job_id in (2, 3, 4):
        assert slurm.cancel(job_id, now_s=4) is None
    slurm.advance(500)
    assert not slurm.jobs
    left = [
        (n.running, n.ending, n.cpus_used, n.memory_used_mb, n.gres_used)
        for n in slurm.nodes.values()
    ]
    assert left == [(0, 0, 0, 0, ())] * 2
