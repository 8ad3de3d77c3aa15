"""The embedded Slurm: job arrays, updates of jobs, gates and simulated scripts."""

from typing import Any

import pytest

from sunk_sync.embedded.slurm.memory import Loss
from sunk_sync.embedded.slurm.model.array import ArrayError, read_tasks, spelled, state_ids, targets
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.embedded.slurm_kit import allocated, job_states, number, slurm_of, submitted


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
    slurm = slurm_of()
    assert submitted(slurm, array=(0, 1, 2)) == 1
    assert list(state_ids(slurm.jobs[1])) == ["1_0", "1_1", "1_2"]
    slurm.advance(1)
    found = sorted(name for job in slurm.jobs.values() for name in state_ids(job))
    assert found == ["1_2", "2_0", "3_1"]
    assert {job.array_id for job in slurm.jobs.values()} == {1}


def named(slurm: SlurmWorld, word: str) -> list[tuple[int, int | None]]:
    return [(target.job.job_id, target.task) for target in targets(slurm.jobs, word)]


def test_a_job_id_names_all_tasks_and_a_task_id_names_one() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, array=(0, 1, 2, 3), cpus=8)
    slurm.advance(1)
    assert named(slurm, "1_0") == [(2, None)]
    assert named(slurm, "1_3") == [(1, 3)]
    assert named(slurm, "1_[1-2]") == [(3, None), (1, 2)]
    assert named(slurm, "3") == [(3, None)]
    assert named(slurm, "1") == [(1, None), (3, None), (2, None)]
    assert not any(named(slurm, word) for word in ("2_0", "9", "x", "1_x"))


def test_a_cancelled_waiting_task_leaves_no_record_unless_it_is_the_last() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, array=(0, 1), priority=0)
    for task in (1, 0):
        (target,) = targets(slurm.jobs, f"1_{task}")
        assert slurm.cancel_target(target) is None
    assert (job_states(slurm), list(state_ids(slurm.jobs[1]))) == (["CANCELLED"], ["1_*"])


def test_an_update_changes_a_waiting_job() -> None:
    slurm = slurm_of()
    submitted(slurm, required_nodes=("n1",), priority=0)
    change = {"required_nodes": ("n2",), "admin_comment": "a", "hold": False}
    assert slurm.update_job(1, change, now_s=1) is None
    slurm.advance(3)
    assert (slurm.jobs[1].nodes, slurm.jobs[1].request.admin_comment) == (("n2",), "a")


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
    slurm = slurm_of()
    submitted(slurm, priority=0 if state == "PENDING" else 1)
    slurm.advance(1)
    if state == "CANCELLED":
        slurm.cancel(1, now_s=2)
    assert number(slurm.update_job(1, change, now_s=2)) == error
    assert slurm.jobs[1].state == state


def test_only_its_owner_and_operators_update_a_job() -> None:
    slurm = slurm_of()
    submitted(slurm, user="alice")
    assert number(slurm.update_job(1, {"extra": "x"}, now_s=1, user="bob")) == 2010
    assert number(slurm.update_job(1, {"admin_comment": "x"}, now_s=1, user="alice")) == 2002
    assert slurm.update_job(1, {"extra": "x"}, now_s=1, user="alice") is None
    assert number(slurm.update_job(9, {}, now_s=1)) == 2017


def calls(slurm: SlurmWorld) -> list[tuple[str, int]]:
    return [(call.kind, call.job.job_id) for call in slurm.take_calls()]


def test_a_job_waits_at_the_gate_until_it_is_released() -> None:
    slurm = slurm_of(prolog_slurmctld=True)
    submitted(slurm, acted=True)
    assert job_states(slurm, at=2) == ["RUNNING+CONFIGURING"]
    assert calls(slurm) == [("gate", 1)]
    slurm.exit_script(1, now_s=3)
    assert job_states(slurm) == ["RUNNING+CONFIGURING"]
    slurm.release_gate(1, now_s=9)
    assert (job_states(slurm), calls(slurm)) == (["RUNNING"], [("started", 1)])
    slurm.release_gate(1, now_s=10)
    assert calls(slurm) == []


@pytest.mark.parametrize(
    ("fields", "after"),
    [({}, "PENDING"), ({"requeue": False}, "CANCELLED"), ({"kind": "external"}, "CANCELLED")],
)
def test_a_failed_gate_requeues_batch_jobs_and_ends_others(fields: Any, after: str) -> None:
    """PrologSlurmctld exits with an error."""
    slurm = slurm_of(prolog_slurmctld=True)
    submitted(slurm, **fields)
    slurm.advance(1)
    slurm.release_gate(1, now_s=2, passes=False)
    assert job_states(slurm, at=3) == [after]


def test_a_job_cancelled_at_the_gate_frees_its_node_and_ignores_its_gate() -> None:
    slurm = slurm_of(nodes=1, prolog_slurmctld=True, epilog_slurmctld=True)
    submitted(slurm, exclusive=True, acted=True)
    slurm.advance(1)
    slurm.cancel(1, now_s=2)
    assert allocated(slurm, exclusive=True, now_s=2) == 2
    slurm.release_gate(1, now_s=3)
    assert calls(slurm) == [("gate", 1), ("ended", 1), ("gate", 2)]
    assert job_states(slurm, at=5) == ["CANCELLED", "RUNNING+CONFIGURING"]


def test_a_restart_releases_every_gate() -> None:
    """slurmctld does not run the prolog again."""
    slurm = slurm_of(prolog_slurmctld=True)
    allocated(slurm)
    calls(slurm)
    slurm.restart(now_s=5)
    assert (job_states(slurm), calls(slurm)) == (["RUNNING"], [])


def test_a_stopping_script_keeps_its_node_until_it_exits_or_kill_wait() -> None:
    slurm = slurm_of(nodes=1)
    submitted(slurm, acted=True, exclusive=True)
    submitted(slurm, acted=True, exclusive=True)
    slurm.advance(2)
    slurm.cancel(1, now_s=3)
    assert calls(slurm) == [("started", 1), ("term", 1)]
    assert job_states(slurm, at=20) == ["CANCELLED+COMPLETING", "PENDING"]
    slurm.exit_script(1, now_s=21)
    assert job_states(slurm, at=23) == ["CANCELLED", "RUNNING"]
    slurm.cancel(2, now_s=24)
    assert job_states(slurm, at=53)[1] == "CANCELLED+COMPLETING"
    assert job_states(slurm, at=55)[1] == "CANCELLED"
    assert calls(slurm) == [("started", 2), ("term", 2), ("killed", 2)]


@pytest.mark.parametrize(("code", "after"), [(0, "COMPLETED"), (3, "FAILED")])
def test_a_script_can_exit_without_a_signal(code: int, after: str) -> None:
    slurm = slurm_of(epilog_slurmctld=True)
    submitted(slurm, acted=True)
    slurm.advance(2)
    slurm.exit_script(1, now_s=3, code=code)
    assert job_states(slurm) == [after]
    assert ("ended", 1) in calls(slurm)


@pytest.mark.parametrize(("loss", "left"), [("nothing", 1), ("recent", 0), ("everything", 0)])
def test_a_script_unknown_to_slurmctld_is_killed_and_its_id_reused(loss: Loss, left: int) -> None:
    slurm = slurm_of()
    slurm.advance(100)
    submitted(slurm, acted=True, now_s=100)
    slurm.advance(102)
    calls(slurm)
    slurm.restart(now_s=103, lose_state=loss)
    assert len(slurm.jobs) == left
    assert calls(slurm) == [("killed", 1)] * (1 - left)
    assert submitted(slurm, now_s=110) == 1 + left


def test_a_job_record_never_changes() -> None:
    slurm = slurm_of()
    submitted(slurm)
    before = slurm.jobs[1]
    slurm.advance(2)
    assert (before.state, slurm.jobs[1].state) == ("PENDING", "RUNNING")
