"""One listing of jobs and one of nodes serve all metrics, at a bounded cost."""

from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.pending_jobs import Demand, Waiting
from sunk_sync.core.model.slurm_metrics import JobNumbers, NodeNumbers, SchedulerNumbers
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.read.metrics import TOO_OLD_S, MetricsPoll, Rows, Show
from sunk_sync.slurm.read.pacing import Time
from tests.kit.clock import run
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes

WAITING = {"job_state": ["PENDING"], "partition": "gpu", "state_reason": "Resources"}
NODE = {"name": "n1", "state": ["IDLE"], "partitions": ["gpu"], "cpus": 4}
ANSWERS: dict[str, dict[str, Any]] = {
    "partitions/": {"partitions": [{"name": "gpu"}, {"name": "cpu"}]},
    "diag/": {"statistics": {"server_thread_count": 3}},
}
NODES: tuple[Rows, ...] = ("nodes",)
RECORDS = {"jobs/": WAITING, "nodes/": NODE}


class Slurm(SlurmNodes):
    """With two partitions, one waiting job and one node."""

    def __init__(self, *, tick_s: float) -> None:
        super().__init__(tick_s=tick_s)
        self.down: set[str] = set()

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        begun_s, _ = self._ask(call)
        if call.path in self.down:
            return DOWN
        return self._answer(begun_s, ANSWERS[call.path])

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        assert call.path == key + "/"
        begun_s, _ = self._ask(call)
        if call.path in self.down:
            return DOWN
        await take([msgspec.json.encode(RECORDS[call.path])], begun_s)
        return self._answer(begun_s, {})


class Bench:
    def __init__(self, *, tick_s: float = 0.1) -> None:
        self.slurm = Slurm(tick_s=tick_s)
        self.jobs: list[JobNumbers | None] = []
        self.nodes: list[NodeNumbers | None] = []
        self.scheduler: list[SchedulerNumbers | None] = []
        self.took: list[float] = []
        self.pauses: list[float] = []
        show = Show(
            jobs=self.jobs.append,
            nodes=self.nodes.append,
            scheduler=self.scheduler.append,
            took=self.took.append,
        )
        time = Time(clock=self.slurm.clock, sleep=self.sleep, random=lambda: 0.0)
        self.poll = MetricsPoll(self.slurm, show, interval_s=30.0, rows=NODES, time=time)

    @property
    def shown(self) -> list[list[Any]]:
        return [self.jobs, self.nodes, self.scheduler]

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.slurm.now_s += seconds
        if len(self.pauses) == 3:
            raise StopAsyncIteration

    def runs(self) -> None:
        with pytest.raises((StopAsyncIteration, RuntimeError)):
            run(self.poll.run())


def test_each_interval_has_one_listing_of_each_kind() -> None:
    bench = Bench()
    bench.runs()
    asked = ["GET partitions/", "GET jobs/?flags=ALL", "GET nodes/", "GET diag/"]
    assert bench.slurm.asked == asked * 3
    assert bench.pauses == [30.0] * 3


def test_one_listing_of_jobs_serves_autoscalers_and_dashboards() -> None:
    bench = Bench()
    assert run(bench.poll.poll())
    (jobs,), (nodes,), (scheduler,) = bench.jobs, bench.nodes, bench.scheduler
    assert jobs is not None
    assert nodes is not None
    assert scheduler is not None
    zero = Demand("cpu", "", "", waits_for_nodes=True)
    assert jobs.pending == {
        Demand("gpu", "", "", waits_for_nodes=True): Waiting(1, 1),
        zero: Waiting(0, 0),
    }
    assert (jobs.states["pending"], nodes.partitions["gpu"].cpu.idle) == (1, 4)
    assert scheduler.values == {"threads": 3}
    assert (len(jobs.rows), len(nodes.rows)) == (0, 1)


def test_the_listings_take_at_most_a_twentieth_of_the_time() -> None:
    bench = Bench(tick_s=5.0)
    bench.runs()
    (took_s,) = set(bench.took)
    assert bench.pauses == [20 * took_s] * 3


def test_slow_failures_do_not_end_the_listings_for_long() -> None:
    bench = Bench(tick_s=40.0)
    bench.slurm.down = {"partitions/", "diag/"}
    bench.runs()
    assert bench.pauses == [80.0] * 3
    assert bench.took == []


def test_a_listing_that_works_beside_one_that_fails_takes_its_share_alone() -> None:
    bench = Bench(tick_s=10.0)
    bench.slurm.down = {"nodes/", "diag/"}
    bench.runs()
    assert bench.pauses == [200.0] * 3


def test_without_answers_the_numbers_stay_for_two_minutes_and_then_go() -> None:
    bench = Bench()
    run(bench.poll.poll())
    bench.slurm.down = {"partitions/", "diag/"}
    bench.slurm.now_s += TOO_OLD_S / 2
    assert run(bench.poll.poll()) == 0
    assert [len(one) for one in bench.shown] == [1, 1, 1]
    bench.slurm.now_s += TOO_OLD_S / 2
    run(bench.poll.poll())
    assert [one[1:] for one in bench.shown] == [[None]] * 3


def test_a_failure_of_one_kind_leaves_the_others() -> None:
    bench = Bench()
    bench.slurm.down = {"nodes/"}
    run(bench.poll.poll())
    assert [len(one) for one in bench.shown] == [1, 0, 1]
