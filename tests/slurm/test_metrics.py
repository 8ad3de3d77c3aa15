"""Records of jobs, nodes and statistics in, numbers for dashboards out."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.slurm_metrics import (
    Amount,
    Calls,
    JobNumbers,
    JobSet,
    NodeNumbers,
    QueuedJob,
    SchedulerNumbers,
)
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.decode import job_metrics, node_metrics
from sunk_sync.slurm.decode.diag import read_diag
from sunk_sync.slurm.decode.job_metrics import OTHER, SETS_MAX, STATES, JobSums
from sunk_sync.slurm.decode.node_metrics import NodeSums
from sunk_sync.slurm.decode.wire_node import gpus_in
from tests.slurm.recorded import recorded

ALICE = JobSet("gpu", "games", "alice")


def job(*state: str, **fields: Any) -> Mapping[str, Any]:
    whose = {"partition": "gpu", "account": "games", "user_name": "alice"}
    return {"job_id": 7, "job_state": state or ("RUNNING",), **whose, **fields}


def number(value: float) -> Mapping[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def counted(*records: Any, rows: bool = False) -> JobNumbers:
    sums = JobSums((), rows=rows)
    for one in records:
        sums.add(msgspec.json.encode(one))
    return sums.result()


def states(*records: Any) -> dict[str, int]:
    """Return the states with jobs."""
    return {state: count for state, count in counted(*records).states.items() if count}


@pytest.mark.parametrize(
    ("flags", "state"),
    [
        (("PENDING",), "pending"), (("RUNNING",), "running"), (("SUSPENDED",), "suspended"),
        (("RUNNING", "CONFIGURING"), "configuring"), (("RUNNING", "RESIZING"), "running"),
        (("COMPLETED", "COMPLETING"), "completing"), (("CANCELLED", "COMPLETING"), "completing"),
        (("PENDING", "REQUEUED"), "pending"), (("PENDING", "COMPLETING"), "completing"),
        (("COMPLETED",), "completed"), (("CANCELLED",), "canceled"), (("FAILED",), "failed"),
        (("OUT_OF_MEMORY",), "failed"), (("BOOT_FAIL",), "failed"), (("DEADLINE",), "failed"),
        (("TIMEOUT",), "timeout"), (("NODE_FAIL",), "node_fail"), (("PREEMPTED",), "preempted"),
    ],
)  # fmt: skip
def test_a_job_counts_in_the_one_state_that_squeue_shows(
    flags: tuple[str, ...], state: str
) -> None:
    assert states(job(*flags)) == {state: 1}


def test_every_state_has_a_number() -> None:
    assert set(counted().states) == set(STATES)
    assert len(STATES) + 1 == 12  # and pending_dependency


def test_each_waiting_task_of_an_array_counts() -> None:
    waiting = job("PENDING", array_task_string="3-9%2")
    numbers = counted(waiting, job("RUNNING", array_task_string=""), job())
    assert (numbers.states["pending"], numbers.states["running"]) == (7, 2)
    assert numbers.sets == {"running": {ALICE: 2}, "pending": {ALICE: 7}}


def test_pending_jobs_are_kept_with_priority_and_expected_start() -> None:
    when = {"priority": number(5), "start_time": number(1_900_000_000)}
    array = {"array_job_id": number(4), "array_task_string": "0-2", "start_time": number(0)}
    queue = counted(job("PENDING", partition="a,b", **when), job("PENDING", **array), job()).queue
    assert queue == [
        QueuedJob(job_id=7, partitions=("a", "b"), priority=5, starts_s=1_900_000_000),
        QueuedJob(job_id=4, partitions=("gpu",), priority=0, tasks=3),
    ]


def test_a_job_that_waits_for_another_counts_as_pending_too() -> None:
    numbers = counted(job("PENDING", state_reason="Dependency"), job("PENDING"))
    assert (numbers.states["pending"], numbers.pending_dependency) == (2, 1)


@pytest.mark.parametrize("record", [{"job_state": 7}, {"job_state": ["NEW_WORD"]}, {}, [1]])
def test_a_record_that_is_unreadable_or_in_no_known_state_is_left_out(record: Any) -> None:
    assert states(record, job()) == {"running": 1}


def test_a_user_without_a_name_has_its_number() -> None:
    numbers = counted(job(user_name="", user_id=1001))
    assert numbers.sets["running"] == {JobSet("gpu", "games", "1001"): 1}


def test_labels_of_users_are_printable_and_bounded() -> None:
    (jobs,) = counted(job(account="a\nb" + "x" * 999)).sets["running"]
    assert jobs.account.startswith("a b")
    assert len(jobs.account) == 256


def test_beyond_a_limit_the_smallest_sets_are_summed_up() -> None:
    small = [job(account=f"a{number}") for number in range(SETS_MAX + 4)]
    large = [job(account="z")] * 3
    running = counted(*small, *large).sets["running"]
    assert len(running) == SETS_MAX + 1
    assert running[JobSet("gpu", "z", "alice")] == 3
    assert running[OTHER] == 5
    assert sum(running.values()) == SETS_MAX + 7


def test_sets_are_bounded_while_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_metrics, "SETS_KEPT", 2)
    running = counted(*(job(account=f"a{number}") for number in range(5))).sets["running"]
    assert sorted(running.values()) == [1, 1, 3]


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("", 0), ("gpu:4", 4), ("gpu:a100:4(S:0-1)", 4), ("gpu:a100:4(IDX:0,2-3),gpu:h100:2", 6),
     ("gpu:2(IDX:0-1)", 2), ("shard:8,gpu:1", 1), ("mygpu:3", 0), ("N/A", 0)],
)  # fmt: skip
def test_gpus_are_read_from_gres(gres: str, gpus: int) -> None:
    assert gpus_in(gres) == gpus


TWO_TASKS_ON_THREE_NODES = {"node_count": number(3), "tasks": number(2)}


@pytest.mark.parametrize(
    "how",
    [{"tres_alloc_str": "cpu=6,mem=1500M,gres/gpu=6,gres/gpu:a100=6", "tres_per_job": "gres/gpu:9"},
     {"tres_alloc_str": "cpu=6,mem=1500M,node=3", "tres_per_job": "gres/gpu:a100:6"},
     {"tres_per_node": "gres/gpu:2"}, {"tres_per_node": "gres:gpu=1,gres/gpu:h100:1"},
     {"tres_per_task": "cpu:2,gres/gpu:3"}],
)  # fmt: skip
def test_a_row_has_what_the_job_holds(how: Mapping[str, Any]) -> None:
    fields = {"cpus": number(6), "start_time": number(1000), **TWO_TASKS_ON_THREE_NODES, **how}
    (row,) = counted(job(**fields), rows=True).rows
    assert (row.job_id, row.jobs, row.state) == (7, ALICE, "running")
    assert (row.cpus, row.gpus, row.started_s) == (6, 6, 1000)


def test_a_row_of_a_job_that_holds_no_node_has_only_its_state() -> None:
    (row,) = counted(job("PENDING", cpus=number(6), name="train"), rows=True).rows
    assert (row.name, row.state, row.cpus, row.started_s) == ("train", "pending", 0, None)


def test_rows_are_kept_only_on_request_and_those_that_hold_nodes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_metrics, "ROWS_MAX", 2)
    records = [job("PENDING"), job("COMPLETED"), job("PENDING"), job(), job("FAILED")]
    assert counted(*records).rows == []
    assert [row.state for row in counted(*records, rows=True).rows] == ["running", "pending"]


def node(*state: str, **fields: Any) -> Mapping[str, Any]:
    has = {"cpus": 16, "effective_cpus": 14, "real_memory": 64000, "gres": "gpu:a100:4(S:0-1)"}
    uses = {"alloc_cpus": 6, "alloc_memory": 4000, "gres_used": "gpu:a100:1(IDX:0)"}
    named = {"name": "n1", "partitions": ["gpu"], "state": state or ("MIXED",)}
    return {**named, **has, **uses, **fields}


def summed(*records: Any, rows: bool = False) -> NodeNumbers:
    sums = NodeSums(("gpu", "cpu"), rows=rows)
    for one in records:
        sums.add(msgspec.json.encode(one))
    return sums.result()


def test_resources_of_nodes_are_summed_by_partition() -> None:
    gpu = summed(node(), node()).partitions["gpu"]
    assert gpu.cpu == Amount(alloc=12, idle=16, total=28)
    assert gpu.gpu == Amount(alloc=2, idle=6, total=8)
    assert gpu.mem == Amount(alloc=8000, idle=120000, total=128000)


@pytest.mark.parametrize("state", ["DRAIN", "DOWN", "FAIL"])
def test_nothing_is_idle_on_a_node_that_takes_no_job(state: str) -> None:
    gpu = summed(node("MIXED", state)).partitions["gpu"]
    assert (gpu.cpu.alloc, gpu.cpu.idle, gpu.cpu.total) == (6, 0, 14)


def test_a_node_counts_in_each_of_its_partitions_and_an_empty_partition_has_zeros() -> None:
    partitions = summed(node(), node(partitions=["gpu", "cpu", "hidden"])).partitions
    assert (partitions["gpu"].cpu.total, partitions["cpu"].cpu.total) == (28, 14)
    assert summed().partitions["gpu"].mem == Amount(0, 0, 0)
    assert set(partitions) == {"gpu", "cpu"}


def test_old_versions_join_partitions_with_commas() -> None:
    assert summed(node(partitions="gpu,cpu")).partitions["cpu"].cpu.total == 14


def test_an_unreadable_node_is_left_out() -> None:
    assert summed({"name": 7}, node()).partitions["gpu"].cpu.total == 14


def test_a_row_of_a_node_says_since_when_it_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "ROWS_MAX", 2)
    since = number(1000)
    records = (node("IDLE", "DRAIN", reason_changed_at=since), node(reason_changed_at=since))
    assert [row.drained_s for row in summed(*records, node(), rows=True).rows] == [1000, None]
    assert summed(*records).rows == []


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_the_statistics_are_read_from_real_answers(release: str) -> None:
    numbers = read_diag(recorded(release, "diag"))
    assert isinstance(numbers, SchedulerNumbers)
    assert len(numbers.values) == 19
    assert numbers.values["threads"] == 1
    assert numbers.calls["REQUEST_PING"].count > 0


def test_durations_are_seconds_and_a_missing_statistic_is_absent() -> None:
    calls = [{"message_type": "PING", "count": 3, "average_time": number(48)}]
    statistics = {"bf_cycle_last": 2_500_000, "rpcs_by_message_type": calls}
    numbers = read_diag(msgspec.json.encode({"statistics": statistics}))
    assert isinstance(numbers, SchedulerNumbers)
    assert numbers.values == {"backfill_cycle_last_seconds": 2.5}
    assert numbers.calls == {"PING": Calls(3, 48 * 1e-6)}


@pytest.mark.parametrize("body", [b"{}", b"x", b'{"statistics": {"jobs_failed": "x"}}'])
def test_unreadable_statistics_are_an_error(body: bytes) -> None:
    assert isinstance(read_diag(body), SlurmError)
