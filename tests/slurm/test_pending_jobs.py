"""Waiting jobs are counted by what they ask for (N26)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.pending_jobs import Demand, PendingJobs, Waiting
from sunk_sync.slurm.decode.job_metrics import JobSums
from sunk_sync.slurm.decode.job_record import tasks_in
from sunk_sync.slurm.decode.pending_jobs import KINDS_MAX, OTHER

GPU = Demand("gpu", "", "", waits_for_nodes=True)


def record(**fields: Any) -> Mapping[str, Any]:
    return {"job_state": ["PENDING"], "partition": "gpu", "state_reason": "Resources", **fields}


def counted(*records: Any, partitions: Sequence[str] = ()) -> PendingJobs:
    sums = JobSums(partitions, rows=False)
    for one in records:
        sums.add(msgspec.json.encode(one))
    return sums.result().pending


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("", 1), ("4", 1), ("0-9", 10), ("0-9%2", 10), ("1,3,5", 3), ("0-10:5", 3), ("2-3,7", 3),
     ("0-99,...", 100), ("nonsense", 1), ("9-0", 1)],
)  # fmt: skip
def test_each_waiting_task_of_an_array_counts(text: str, tasks: int) -> None:
    assert tasks_in(text) == tasks


def test_jobs_that_ask_for_the_same_are_counted_together() -> None:
    two = {"set": True, "infinite": False, "number": 2}
    counts = counted(record(), record(node_count=two), record(array_task_string="0-2"))
    assert counts == {GPU: Waiting(jobs=5, nodes=6)}


@pytest.mark.parametrize(
    ("reason", "for_nodes"),
    [("Resources", True), ("Priority", True), ("None", True), ("PartitionConfig", True),
     ("ReqNodeNotAvail, UnavailableNodes:n1", True), ("JobHeldUser", False),
     ("Dependency", False), ("BeginTime", False), ("QOSMaxCpuPerUserLimit", False)],
)  # fmt: skip
def test_a_job_that_more_nodes_would_not_start_is_counted_by_itself(
    reason: str, for_nodes: bool
) -> None:
    (demand,) = counted(record(state_reason=reason))
    assert demand.waits_for_nodes == for_nodes


@pytest.mark.parametrize(
    ("asked", "gres"),
    [({"tres_per_node": "gres/gpu:2"}, "gpu"), ({"tres_per_node": "gres/gpu:h100:4"}, "gpu:h100"),
     ({"tres_per_job": "gres:gpu:1"}, "gpu"), ({"tres_per_task": "cpu=2,gres/gpu=1"}, "gpu"),
     ({"tres_per_socket": "gres/gpu"}, "gpu"), ({"tres_per_task": "cpu:4"}, ""),
     ({"tres_per_node": "gres/gpu:h100=2,gres/nic:1,gres/gpu:h100:1"}, "gpu:h100,nic"),
     ({"tres_per_node": "gres/gpu:8,gres/shard:4"}, "gpu,shard"), ({"tres_per_node": None}, "")],
)  # fmt: skip
def test_jobs_are_counted_by_the_gres_that_they_ask_for(
    asked: Mapping[str, str | None], gres: str
) -> None:
    (demand,) = counted(record(**asked))
    assert demand.gres == gres


def test_a_job_in_two_partitions_counts_in_both() -> None:
    assert {one.partition for one in counted(record(partition="cpu,gpu"))} == {"cpu", "gpu"}


def test_a_partition_without_waiting_jobs_has_a_zero() -> None:
    assert counted(record(job_state=["RUNNING"]), partitions=["gpu"]) == {GPU: Waiting(0, 0)}


def test_an_unreadable_job_is_left_out() -> None:
    assert counted({"job_state": 7}, record()) == {GPU: Waiting(1, 1)}


def test_beyond_a_limit_jobs_are_counted_together() -> None:
    counts = counted(*(record(features=f"f{number}") for number in range(KINDS_MAX + 5)))
    assert len(counts) == KINDS_MAX + 1
    assert counts[Demand(OTHER, OTHER, OTHER, waits_for_nodes=True)] == Waiting(5, 5)
