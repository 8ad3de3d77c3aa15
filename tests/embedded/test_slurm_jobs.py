"""The embedded Slurm: where jobs start, preemption, and how jobs end."""

from collections.abc import Sequence
from typing import Any

import pytest

from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.gres import GresError, asked, configured, picked
from sunk_sync.embedded.slurm.model.job import JobRequest, states_of
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import SlurmError
from sunk_sync.embedded.slurm.slurm import SlurmWorld

PARTITIONS = (
    Partition(name="main", default=True, tier=5),
    Partition(name="low", preempt_mode="CANCEL"),
    Partition(name="graced", preempt_mode="CANCEL", grace_s=40),
    Partition(name="again", preempt_mode="REQUEUE"),
    Partition(name="high", tier=10),
)


def world_of(*, nodes: int = 3, gres: str = "gpu:4", **knobs: Any) -> SlurmWorld:
    setup = Setup(
        nodes=[NodeSpec(name=f"n{number}", gres=gres) for number in range(1, nodes + 1)],
        partitions=PARTITIONS,
        knobs=Knobs(**{"kill_wait_s": 30, **knobs}),
    )
    return SlurmWorld(setup)


def asking(**fields: Any) -> JobRequest:
    return JobRequest(**{"memory_mb": 1000, "duration_s": None, **fields})


def submitted(world: SlurmWorld, *, now_s: float = 0.0, **fields: Any) -> int:
    job_id = world.submit(asking(**fields), now_s=now_s)
    assert isinstance(job_id, int)
    return job_id


def allocated(world: SlurmWorld, *, now_s: float = 0.0, **fields: Any) -> int | SlurmError:
    return world.allocate(asking(kind="allocation", **fields), now_s=now_s)


def states(world: SlurmWorld, *, at: float | None = None) -> Sequence[str]:
    world.advance(world.now_s if at is None else at)
    return ["+".join(states_of(job)) for job in world.jobs.values()]


def number(error: object) -> int | None:
    return error.number if isinstance(error, SlurmError) else None


def test_a_job_does_not_start_on_an_excluded_node() -> None:
    world = world_of()
    submitted(world, excluded_nodes=("n1", "n2"))
    world.advance(1)
    assert world.jobs[1].nodes == ("n3",)


@pytest.mark.parametrize(("any_of", "after"), [(True, ("n2",)), (False, ())])
def test_any_of_the_required_nodes_suffice_if_fewer_are_requested(any_of: bool, after: Any) -> None:
    """Only if a number of nodes is given."""
    world = world_of()
    world.drain("n1", reason="x", now_s=0)
    submitted(world, required_nodes=("n1", "n2"), any_of=any_of)
    world.advance(2)
    assert world.jobs[1].nodes == after


def test_gpus_are_counted() -> None:
    """Two jobs of two GPUs fill a node of four; the third uses the next; a fifth waits."""
    world = world_of(nodes=2)
    for _ in range(5):
        submitted(world, tres_per_node="gres/gpu:2")
    world.advance(1)
    assert [job.nodes for job in world.jobs.values()] == [("n1",), ("n1",), ("n2",), ("n2",), ()]
    assert world.nodes["n1"].gres_used == (("gpu", 4),)
    world.cancel(1, now_s=2)
    world.advance(4)
    assert world.jobs[5].nodes == ("n1",)


def test_an_exclusive_job_has_all_gpus() -> None:
    """It did not request any."""
    world = world_of(nodes=1)
    submitted(world, exclusive=True)
    world.advance(1)
    assert world.jobs[1].gres == ((("gpu", 4),),)
    world.cancel(1, now_s=2)
    world.advance(3)
    assert world.nodes["n1"].gres_used == ()


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
def test_gres_with_and_without_a_type(has: str, wants: str, gets: object) -> None:
    assert picked(dict(configured(has)), asked(wants)) == gets


@pytest.mark.parametrize("text", ["gpu:1", "gres/gpu:x:y:1", "gres/", "2"])
def test_other_spellings_of_gres_are_refused(text: str) -> None:
    with pytest.raises(GresError):
        asked(text)
    assert number(world_of().submit(asking(tres_per_node=text), now_s=0)) == 2115


def test_a_waiting_job_blocks_its_partition_until_the_backfill() -> None:
    """A job behind it has reason Priority; the backfill starts it."""
    world = world_of(backfill_every_s=30)
    submitted(world, required_nodes=("n1",), exclusive=True)
    world.advance(1)
    big = submitted(world, nodes=3, exclusive=True, now_s=2)
    small = submitted(world, now_s=2)
    world.advance(29)
    assert [world.jobs[job].state_reason for job in (big, small)] == ["Resources", "Priority"]
    assert states(world, at=31) == ["RUNNING", "PENDING", "RUNNING"]


def test_a_job_waiting_for_one_node_blocks_only_that_node() -> None:
    world = world_of()
    submitted(world, required_nodes=("n1",), exclusive=True)
    world.advance(1)
    submitted(world, required_nodes=("n1",), now_s=2)
    submitted(world, now_s=2)
    assert states(world, at=4) == ["RUNNING", "PENDING", "RUNNING"]


def test_an_allocation_runs_at_once_and_its_end_frees_the_node_at_once() -> None:
    """Without a tick and without a process."""
    world = world_of()
    assert allocated(world, exclusive=True, now_s=0.3) == 1
    assert (world.jobs[1].state, world.jobs[1].nodes) == ("RUNNING", ("n1",))
    world.cancel(1, now_s=0.4)
    assert allocated(world, exclusive=True, required_nodes=("n1",), now_s=0.4) == 2


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
def test_errors_of_allocations_that_cannot_start(
    fields: Any, error: int, *, recorded: bool
) -> None:
    """Most refusals leave a FAILED record; n1 is busy, n2 drained."""
    world = world_of()
    submitted(world, required_nodes=("n1",), exclusive=True)
    world.advance(1)
    world.drain("n2", reason="x", now_s=1)
    assert number(allocated(world, now_s=2, **fields)) == error
    assert states(world) == ["RUNNING"] + ["FAILED"] * recorded


def test_an_allocation_does_not_overtake_a_waiting_job() -> None:
    """Except by priority, or if the other job is held or waits for a drained node."""
    world = world_of()
    world.drain("n3", reason="x", now_s=0)
    submitted(world, required_nodes=("n3",))
    submitted(world, priority=0)
    assert allocated(world, now_s=0) == 3
    submitted(world, nodes=2, exclusive=True)
    assert number(allocated(world, required_nodes=("n2",), now_s=2)) == 2013
    assert allocated(world, required_nodes=("n2",), priority=2, now_s=2) == 6


@pytest.mark.parametrize(("kind", "at"), [("allocation", 4), ("batch", 4), ("external", 31)])
def test_only_the_backfill_sees_that_an_external_job_has_ended(kind: Any, at: float) -> None:
    """Jobs for its node wait until then."""
    world = world_of(nodes=1, backfill_every_s=30)
    submitted(world, exclusive=True, kind=kind)
    submitted(world, exclusive=True)
    world.advance(2)
    world.cancel(1, now_s=2.5)
    assert states(world, at=at - 1.5)[1] == "PENDING"
    assert states(world, at=at)[1] == "RUNNING"


def test_a_higher_tier_preempts_only_the_jobs_that_it_needs() -> None:
    """The job is PREEMPTED, with its preemption time, and the other job gets the node."""
    world = world_of(nodes=1)
    submitted(world, partition="low", cpus=8)
    submitted(world, partition="low", cpus=8)
    world.advance(1)
    submitted(world, partition="high", cpus=8, now_s=2)
    assert states(world, at=5) == ["PREEMPTED", "RUNNING", "RUNNING"]
    assert world.jobs[1].preempted_s is not None


def test_a_preempted_job_runs_until_the_first_check_after_its_grace_time() -> None:
    """slurmctld checks limits every 30 s."""
    world = world_of(nodes=1)
    submitted(world, partition="graced", exclusive=True)
    world.advance(1)
    submitted(world, partition="high", exclusive=True, now_s=2)
    world.advance(4)
    warned = world.jobs[1]
    assert (warned.state, warned.preempted_s, warned.ends_by_s) == ("RUNNING", 3, 43)
    submitted(world, partition="high", priority=0, now_s=10)
    world.requeue_job(2, now_s=11)
    submitted(world, now_s=12)
    world.advance(14)
    assert world.jobs[1].ends_by_s == 43
    assert states(world, at=59)[:2] == ["RUNNING", "PENDING"]
    assert states(world, at=62)[:2] == ["PREEMPTED", "RUNNING"]


def test_a_requeued_script_that_is_cancelled_while_ending_leaves_its_node() -> None:
    """Seed 210166 of the simulator: the node stayed COMPLETING."""
    world = world_of(nodes=1)
    submitted(world, partition="again", exclusive=True)
    world.advance(1)
    submitted(world, partition="high", exclusive=True, now_s=2)
    world.advance(3)
    assert (world.jobs[1].state, world.jobs[1].ending) == ("PENDING", True)
    world.cancel(1, now_s=3.1)
    assert (world.jobs[1].state, world.jobs[1].ending) == ("CANCELLED", True)
    assert "COMPLETING" in state_of(world.nodes["n1"])
    assert states(world, at=5) == ["CANCELLED", "RUNNING"]
    assert (world.jobs[1].ending, world.nodes["n1"].ending) == (False, 0)


@pytest.mark.parametrize(
    ("kind", "after"), [("batch", ("PENDING", 1)), ("allocation", ("PREEMPTED", 0))]
)
def test_only_a_batch_job_is_requeued(kind: str, after: tuple[str, int]) -> None:
    """It is not eligible for two minutes."""
    world = world_of(nodes=1)
    request = asking(partition="again", exclusive=True, kind=kind)
    (world.submit if kind == "batch" else world.allocate)(request, now_s=0)
    world.advance(1)
    submitted(world, partition="high", exclusive=True, now_s=2)
    world.advance(8)
    assert (world.jobs[1].state, world.jobs[1].restarts) == after
    world.cancel(2, now_s=9)
    world.advance(60)
    assert world.jobs[1].state == after[0]
    world.advance(200)
    assert world.jobs[1].state == ("RUNNING" if kind == "batch" else "PREEMPTED")


def test_a_refused_allocation_preempts_its_victim_all_the_same() -> None:
    """The next allocation gets its place."""
    world = world_of(nodes=1)
    allocated(world, partition="low", exclusive=True)
    assert number(allocated(world, partition="high", exclusive=True, now_s=1)) == 2016
    assert states(world) == ["PREEMPTED+COMPLETING", "FAILED"]
    assert allocated(world, partition="high", exclusive=True, now_s=2) == 3


def test_a_time_limit_is_enforced_at_the_next_check() -> None:
    """TIMEOUT; a limit that has changed applies."""
    world = world_of()
    submitted(world, time_limit_min=1)
    allocated(world, time_limit_min=1, now_s=1)
    submitted(world, time_limit_min=1, now_s=1)
    world.advance(3)
    assert world.update_job(3, {"time_limit_min": 3}, now_s=4) is None
    assert states(world, at=89) == ["RUNNING"] * 3
    assert states(world, at=91) == ["TIMEOUT", "TIMEOUT", "RUNNING"]
    assert world.jobs[1].state_reason == "TimeLimit"
    assert states(world, at=212)[2] == "TIMEOUT"


def test_a_suspended_job_gives_its_cpus_to_others() -> None:
    """It keeps its GPUs: two jobs are then on one node."""
    world = world_of(nodes=1)
    submitted(world, cpus=16, tres_per_node="gres/gpu:4")
    world.advance(1)
    world.suspend_job(1, now_s=2)
    submitted(world, tres_per_node="gres/gpu:1", now_s=2)
    submitted(world, cpus=16, now_s=2)
    world.cancel(2, now_s=4)
    assert states(world, at=6) == ["SUSPENDED", "CANCELLED", "RUNNING"]
    world.cancel(1, now_s=7)
    world.advance(9)
    node = world.nodes["n1"]
    assert (node.cpus_used, node.memory_used_mb, node.gres_used) == (16, 1000, ())


def test_an_ended_job_is_forgotten_and_leaves_nothing_on_its_node() -> None:
    """However it ended."""
    world = world_of(nodes=2)
    for fields in ({"duration_s": 1}, {"ending_s": 20}, {"nodes": 2}, {"kind": "external"}):
        submitted(world, tres_per_node="gres/gpu:1", **fields)
    allocated(world, tres_per_node="gres/gpu:1")
    world.advance(3)
    for job_id in (2, 3, 4):
        assert world.cancel(job_id, now_s=4) is None
    world.advance(500)
    assert not world.jobs
    left = [
        (n.running, n.ending, n.cpus_used, n.memory_used_mb, n.gres_used)
        for n in world.nodes.values()
    ]
    assert left == [(0, 0, 0, 0, ())] * 2
