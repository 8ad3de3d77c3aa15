"""The embedded Slurm: job arrays, updates of jobs, gates and simulated scripts."""

from typing import Any

import pytest

from sunk_sync.embedded.slurm.memory import Loss
from sunk_sync.embedded.slurm.model.array import ArrayError, read_tasks, spelled, state_ids, targets
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.embedded.test_slurm_jobs import allocated, number, states, submitted, world_of


@pytest.mark.parametrize(
    ("text", "tasks", "again"),
    [
        ("0-3", (0, 1, 2, 3), "0-3"),
        ("1,3,7", (1, 3, 7), "1,3,7"),
        ("0-6:2", (0, 2, 4, 6), "0,2,4,6"),
        ("5", (5,), "5"),
        ("0-3%2", (0, 1, 2, 3), "0-3%2"),
    ],
)
def test_array_tasks_are_parsed_and_printed(text: str, tasks: tuple[int, ...], again: str) -> None:
    ids, most = read_tasks(text)
    assert ids == tasks
    assert spelled(ids, most) == again


@pytest.mark.parametrize("text", ["x", "3-1", "0-2000", "-1", "", "1%x", "0-9:0"])
def test_malformed_array_tasks_are_refused(text: str) -> None:
    with pytest.raises(ArrayError):
        read_tasks(text)


def test_a_task_gets_an_id_at_its_start_and_the_last_one_keeps_the_id_of_the_array() -> None:
    """/jobs/state/ names a task by the id of its own job."""
    world = world_of()
    assert submitted(world, array=(0, 1, 2)) == 1
    assert list(state_ids(world.jobs[1])) == ["1_0", "1_1", "1_2"]
    world.advance(1)
    found = sorted(name for job in world.jobs.values() for name in state_ids(job))
    assert found == ["1_2", "2_0", "3_1"]
    assert {job.array_id for job in world.jobs.values()} == {1}


def named(world: SlurmWorld, word: str) -> list[tuple[int, int | None]]:
    return [(target.job.job_id, target.task) for target in targets(world.jobs, word)]


def test_targets_of_job_and_task_ids() -> None:
    world = world_of(nodes=1)
    submitted(world, array=(0, 1, 2, 3), cpus=8)
    world.advance(1)
    assert named(world, "1_0") == [(2, None)]
    assert named(world, "1_3") == [(1, 3)]
    assert named(world, "1_[1-2]") == [(3, None), (1, 2)]
    assert named(world, "3") == [(3, None)]
    assert named(world, "1") == [(1, None), (3, None), (2, None)]
    assert (
        named(world, "2_0") == named(world, "9") == named(world, "x") == named(world, "1_x") == []
    )


def test_a_cancelled_waiting_task_leaves_no_record() -> None:
    """The last one leaves the record."""
    world = world_of(nodes=1)
    submitted(world, array=(0, 1), priority=0)
    for task in (1, 0):
        (target,) = targets(world.jobs, f"1_{task}")
        assert world.cancel_target(target) is None
    assert (states(world), list(state_ids(world.jobs[1]))) == (["CANCELLED"], ["1_*"])


def test_an_update_changes_a_waiting_job() -> None:
    world = world_of()
    submitted(world, required_nodes=("n1",), priority=0)
    change = {"required_nodes": ("n2",), "admin_comment": "a", "hold": False}
    assert world.update_job(1, change, now_s=1) is None
    world.advance(3)
    assert (world.jobs[1].nodes, world.jobs[1].request.admin_comment) == (("n2",), "a")


@pytest.mark.parametrize(
    ("state", "change", "error"),
    [
        ("PENDING", {"priority": 5}, 2042),
        ("PENDING", {"user_id": 5}, 2010),
        ("PENDING", {"excluded_nodes": ("n9",)}, 2018),
        ("PENDING", {"extra": "x" * 1025}, 2012),
        ("RUNNING", {"extra": "x", "priority": 5}, None),
        ("RUNNING", {"excluded_nodes": ("n2",)}, 2073),
        ("RUNNING", {"hold": True}, None),
        ("CANCELLED", {}, 2084),
    ],
)
def test_an_update_depends_on_the_state_of_the_job(
    state: str, change: Any, error: int | None
) -> None:
    """A waiting job can be held by an update."""
    world = world_of()
    submitted(world, priority=0 if state == "PENDING" else 1)
    world.advance(1)
    if state == "CANCELLED":
        world.cancel(1, now_s=2)
    assert number(world.update_job(1, change, now_s=2)) == error
    assert world.jobs[1].state == state


def test_only_its_owner_and_operators_update_a_job() -> None:
    """Only operators change an admin_comment."""
    world = world_of()
    submitted(world, user="alice")
    assert number(world.update_job(1, {"extra": "x"}, now_s=1, user="bob")) == 2010
    assert number(world.update_job(1, {"admin_comment": "x"}, now_s=1, user="alice")) == 2002
    assert world.update_job(1, {"extra": "x"}, now_s=1, user="alice") is None
    assert number(world.update_job(9, {}, now_s=1)) == 2017


def told(world: SlurmWorld) -> list[tuple[str, int]]:
    return [(call.kind, call.job.job_id) for call in world.take_calls()]


def test_a_job_waits_at_the_gate_until_it_is_released() -> None:
    """It is RUNNING+CONFIGURING; its script starts afterwards."""
    world = world_of(prolog_slurmctld=True)
    submitted(world, acted=True)
    assert states(world, at=2) == ["RUNNING+CONFIGURING"]
    assert told(world) == [("gate", 1)]
    world.exit_script(1, now_s=3)
    assert states(world) == ["RUNNING+CONFIGURING"]
    world.release_gate(1, now_s=9)
    assert (states(world), told(world)) == (["RUNNING"], [("started", 1)])
    world.release_gate(1, now_s=10)
    assert told(world) == []


@pytest.mark.parametrize(
    ("fields", "after"),
    [({}, "PENDING"), ({"requeue": False}, "CANCELLED"), ({"kind": "external"}, "CANCELLED")],
)
def test_a_failed_gate_requeues_batch_jobs_and_ends_others(fields: Any, after: str) -> None:
    """As a PrologSlurmctld with an exit code."""
    world = world_of(prolog_slurmctld=True)
    submitted(world, **fields)
    world.advance(1)
    world.release_gate(1, now_s=2, passes=False)
    assert states(world, at=3) == [after]


def test_a_job_cancelled_at_the_gate_frees_its_node_at_once() -> None:
    """A late answer of its gate has no effect."""
    world = world_of(nodes=1, prolog_slurmctld=True, epilog_slurmctld=True)
    submitted(world, exclusive=True, acted=True)
    world.advance(1)
    world.cancel(1, now_s=2)
    assert allocated(world, exclusive=True, now_s=2) == 2
    world.release_gate(1, now_s=3)
    assert told(world) == [("gate", 1), ("ended", 1), ("gate", 2)]
    assert states(world, at=5) == ["CANCELLED", "RUNNING+CONFIGURING"]


def test_a_restart_releases_every_gate() -> None:
    """As the real slurmctld, which does not run the prolog again."""
    world = world_of(prolog_slurmctld=True)
    allocated(world)
    told(world)
    world.restart(now_s=5)
    assert (states(world), told(world)) == (["RUNNING"], [])


def test_a_stopping_script_keeps_its_node_until_it_exits() -> None:
    """After KillWait it is killed."""
    world = world_of(nodes=1)
    submitted(world, acted=True, exclusive=True)
    submitted(world, acted=True, exclusive=True)
    world.advance(2)
    world.cancel(1, now_s=3)
    assert told(world) == [("started", 1), ("term", 1)]
    assert states(world, at=20) == ["CANCELLED+COMPLETING", "PENDING"]
    world.exit_script(1, now_s=21)
    assert states(world, at=23) == ["CANCELLED", "RUNNING"]
    world.cancel(2, now_s=24)
    assert states(world, at=53)[1] == "CANCELLED+COMPLETING"
    assert states(world, at=55)[1] == "CANCELLED"
    assert told(world) == [("started", 2), ("term", 2), ("killed", 2)]


@pytest.mark.parametrize(("code", "after"), [(0, "COMPLETED"), (3, "FAILED")])
def test_a_script_can_exit_without_a_signal(code: int, after: str) -> None:
    world = world_of(epilog_slurmctld=True)
    submitted(world, acted=True)
    world.advance(2)
    world.exit_script(1, now_s=3, code=code)
    assert states(world) == [after]
    assert ("ended", 1) in told(world)


@pytest.mark.parametrize(("loss", "left"), [("nothing", 1), ("recent", 0), ("everything", 0)])
def test_a_script_unknown_to_slurmctld_is_killed(loss: Loss, left: int) -> None:
    """Its id is used again."""
    world = world_of()
    world.advance(100)
    submitted(world, acted=True, now_s=100)
    world.advance(102)
    told(world)
    world.restart(now_s=103, lose_state=loss)
    assert len(world.jobs) == left
    assert told(world) == [("killed", 1)] * (1 - left)
    assert submitted(world, now_s=110) == 1 + left


def test_a_job_is_a_value() -> None:
    world = world_of()
    submitted(world)
    before: Job = world.jobs[1]
    world.advance(2)
    assert (before.state, world.jobs[1].state) == ("PENDING", "RUNNING")
