"""Numbers of Slurm as metrics; without numbers there are no series."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sunk_sync.core.model.slurm_metrics import (
    Amount,
    Calls,
    JobNumbers,
    JobRow,
    JobSet,
    NodeNumbers,
    NodeRow,
    Resources,
    SchedulerNumbers,
)
from sunk_sync.slurm.decode.diag import read_diag
from sunk_sync.telemetry.slurm_metrics import Labelled, SlurmGauges
from tests.slurm.recorded import recorded

ALICE = JobSet("gpu", "games", "alice")
RESOURCES = Resources(cpu=Amount(6, 10, 16), gpu=Amount(1, 3, 4), mem=Amount(4000, 60000, 64000))
RUNNING = JobRow(
    job_id=7, name="train", jobs=ALICE, state="running", started_s=900.0, cpus=6, gpus=1
)
WAITING = JobRow(job_id=8, name="eval", jobs=ALICE, state="pending")
DRAINED = NodeRow(
    name="n1",
    partitions=("gpu", "all"),
    state=frozenset({"MIXED", "DRAIN"}),
    resources=RESOURCES,
    drained_s=500.0,
)


def jobs(*rows: JobRow) -> JobNumbers:
    return JobNumbers(
        pending={},
        states={"running": 2, "pending": 5, "failed": 1},
        pending_dependency=3,
        sets={"running": {ALICE: 2}, "pending": {ALICE: 5}},
        rows=rows,
    )


def show_all(gauges: SlurmGauges) -> None:
    """Show one number at least of each metric."""
    gauges.show_jobs(jobs(RUNNING, WAITING))
    gauges.show_nodes(NodeNumbers(partitions={"gpu": RESOURCES}, rows=(DRAINED,)))
    scheduler = read_diag(recorded("26.05", "diag"))
    assert isinstance(scheduler, SchedulerNumbers)
    gauges.show_scheduler(scheduler)


class Bench:
    def __init__(self) -> None:
        self.gauges = SlurmGauges()

    def value(self, name: str, /, **labels: str) -> float | None:
        registry = CollectorRegistry()
        registry.register(self.gauges)
        if (labelled := self.gauges.labelled()) is not None:
            registry.register(labelled)
        return registry.get_sample_value(name, labels)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    show_all(made.gauges)
    return made


def test_a_state_without_jobs_is_zero(bench: Bench) -> None:
    assert bench.value("slurm_queue_running") == 2
    assert bench.value("slurm_queue_preempted") == 0
    assert bench.value("slurm_queue_pending_dependency") == 3
    assert bench.value("slurm_jobs_failed") == bench.value("slurm_queue_failed") == 1


def test_jobs_are_counted_by_partition_account_and_user(bench: Bench) -> None:
    of = {"partition": "gpu", "account": "games", "user": "alice"}
    assert bench.value("slurm_jobs_running", **of) == 2
    assert bench.value("slurm_jobs_pending", **of) == 5


def test_partitions_have_cpus_gpus_and_memory(bench: Bench) -> None:
    values = [
        bench.value(f"slurm_partition_{resource}_{part}", partition="gpu")
        for resource in ("cpu", "gpu", "mem")
        for part in ("alloc", "idle", "total")
    ]
    assert values == [6, 10, 16, 1, 3, 4, 4000, 60000, 64000]


def test_a_statistic_that_slurm_does_not_have_has_no_series(bench: Bench) -> None:
    calls = {"PING": Calls(3, None)}
    bench.gauges.show_scheduler(SchedulerNumbers(values={"threads": 2.0}, calls=calls))
    assert bench.value("slurm_scheduler_threads") == 2
    assert bench.value("slurm_scheduler_queue") is None
    assert bench.value("slurm_controller_rpc_count", message_type="PING") == 3
    assert bench.value("slurm_controller_rpc_mean_duration_seconds", message_type="PING") is None


def test_without_numbers_there_are_no_series(bench: Bench) -> None:
    bench.gauges.show_jobs(None)
    bench.gauges.show_nodes(None)
    bench.gauges.show_scheduler(None)
    assert [*bench.gauges.collect()] == []
    assert bench.gauges.labelled() is None


def test_without_rows_there_are_no_series_of_single_objects(bench: Bench) -> None:
    bench.gauges.show_jobs(jobs())
    bench.gauges.show_nodes(NodeNumbers(partitions={"gpu": RESOURCES}))
    labelled = bench.gauges.labelled()
    assert labelled is not None
    names = {metric.name for metric in labelled.collect()}
    assert not [name for name in names if name.startswith(("slurm_job_", "slurm_node_"))]
    assert "slurm_jobs_running" in names


def test_jobs_and_nodes_have_series_of_their_own() -> None:
    nodes = NodeNumbers(partitions={}, rows=(DRAINED,))
    collector = Labelled(jobs(RUNNING, WAITING), nodes, wall_clock=lambda: 1000.0)
    lines = set(generate_latest(collector).decode().splitlines())
    of = 'account="games",id="7",name="train",partition="gpu"'
    waits = 'account="games",id="8",name="eval",partition="gpu"'
    assert {line for line in lines if line.startswith("slurm_job_")} == {
        f'slurm_job_state{{{of},state="running",user="alice"}} 1.0',
        f'slurm_job_state{{{waits},state="pending",user="alice"}} 1.0',
        f'slurm_job_cpus_allocated{{{of},user="alice"}} 6.0',
        f'slurm_job_gpus_allocated{{{of},user="alice"}} 1.0',
        f'slurm_job_uptime_seconds{{{of},user="alice"}} 100.0',
    }
    assert {line for line in lines if line.startswith("slurm_node_")} == {
        'slurm_node_state{node="n1",partition="gpu",state="drain"} 1.0',
        'slurm_node_state{node="n1",partition="all",state="drain"} 1.0',
        'slurm_node_cpu_alloc{node="n1"} 6.0',
        'slurm_node_cpu_idle{node="n1"} 10.0',
        'slurm_node_cpu_total{node="n1"} 16.0',
        'slurm_node_gpu_alloc{node="n1"} 1.0',
        'slurm_node_gpu_idle{node="n1"} 3.0',
        'slurm_node_gpu_total{node="n1"} 4.0',
        'slurm_node_mem_alloc{node="n1"} 4000.0',
        'slurm_node_mem_total{node="n1"} 64000.0',
        'slurm_node_drain_time{node="n1"} 500.0',
    }
