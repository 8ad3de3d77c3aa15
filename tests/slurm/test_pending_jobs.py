"""Waiting jobs are counted by what they ask for (N26)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.pending_jobs import Demand, PendingJobs, Waiting
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.decode.pending_jobs import KINDS_MAX, OTHER, PendingSums, tasks_in
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.slurm.read.pending_jobs import TOO_OLD_S, PendingJobsPoll
from tests.kit.clock import run
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes

CPU = Demand("cpu", "", waits_for_nodes=True)
GPU = Demand("gpu", "", waits_for_nodes=True)


def record(**fields: Any) -> Mapping[str, Any]:
    return {"job_state": ["PENDING"], "partition": "gpu", "state_reason": "Resources", **fields}


def counted(*records: Any, partitions: Sequence[str] = ()) -> PendingJobs:
    sums = PendingSums(partitions)
    for one in records:
        sums.add(msgspec.json.encode(one))
    return sums.result()


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


def test_a_job_in_two_partitions_counts_in_both() -> None:
    assert {one.partition for one in counted(record(partition="cpu,gpu"))} == {"cpu", "gpu"}


def test_a_partition_without_waiting_jobs_has_a_zero() -> None:
    assert counted(record(job_state=["RUNNING"]), partitions=["gpu"]) == {GPU: Waiting(0, 0)}


def test_an_unreadable_job_is_left_out() -> None:
    assert counted({"job_state": 7}, record()) == {GPU: Waiting(1, 1)}


def test_beyond_a_limit_jobs_are_counted_together() -> None:
    counts = counted(*(record(features=f"f{number}") for number in range(KINDS_MAX + 5)))
    assert len(counts) == KINDS_MAX + 1
    assert counts[Demand(OTHER, OTHER, waits_for_nodes=True)] == Waiting(5, 5)


class Slurm(SlurmNodes):
    """With one partition and one waiting job."""

    down = False

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        assert call.path == "partitions/"
        return self._answer(self.now_s, {"partitions": [{"name": "gpu"}, {"name": "cpu"}]})

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        assert (call.path, key) == ("jobs/", "jobs")
        self._ask(call)
        if self.down:
            return DOWN
        await take([msgspec.json.encode(record())], self.now_s)
        return self._answer(self.now_s, {})


class Bench:
    def __init__(self, *, tick_s: float = 0.1) -> None:
        self.slurm = Slurm(tick_s=tick_s)
        self.shown: list[PendingJobs] = []
        self.pauses: list[float] = []
        time = Time(clock=self.slurm.clock, sleep=self.sleep, random=lambda: 0.0)
        self.poll = PendingJobsPoll(self.slurm, self.shown.append, interval_s=15.0, time=time)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.slurm.now_s += seconds
        if len(self.pauses) == 3:
            raise StopAsyncIteration

    def runs(self) -> None:
        with pytest.raises((StopAsyncIteration, RuntimeError)):
            run(self.poll.run())


def test_all_jobs_are_listed_once_in_an_interval() -> None:
    bench = Bench()
    bench.runs()
    assert (
        bench.shown
        == [{GPU: Waiting(1, 1), Demand("cpu", "", waits_for_nodes=True): Waiting(0, 0)}] * 3
    )
    assert bench.pauses == [15.0] * 3


def test_a_listing_takes_at_most_a_twentieth_of_the_time() -> None:
    bench = Bench(tick_s=5.0)
    bench.runs()
    assert bench.pauses == [100.0] * 3


def test_slow_failures_do_not_end_the_listings_for_long() -> None:
    bench = Bench(tick_s=40.0)
    bench.slurm.down = True
    bench.runs()
    assert bench.pauses == [40.0] * 3


def test_without_answers_the_numbers_stay_for_two_minutes_and_then_go() -> None:
    bench = Bench()
    run(bench.poll.poll())
    bench.slurm.down = True
    bench.slurm.now_s += TOO_OLD_S / 2
    run(bench.poll.poll())
    assert len(bench.shown) == 1
    bench.slurm.now_s += TOO_OLD_S / 2
    run(bench.poll.poll())
    assert bench.shown[1:] == [{}]
