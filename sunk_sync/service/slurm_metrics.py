"""Lists jobs and nodes for the metrics of Slurm, on the replica that leads."""

import random
from collections.abc import Callable, Sequence

import anyio

from sunk_sync.core.model.slurm_metrics import JobNumbers, QueuedJob
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.read.metrics import MetricsPoll, Show
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.telemetry.telemetry import Telemetry


class Queue:
    """The pending jobs of the last listing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.jobs: Sequence[QueuedJob] = ()
        self.read_s = 0.0

    def show(self, jobs: Sequence[QueuedJob]) -> None:
        self.jobs = jobs
        self.read_s = self.clock()


def metrics_poll(
    settings: Settings, slurm: Slurm, *, telemetry: Telemetry, queue: Queue
) -> MetricsPoll:
    def jobs(numbers: JobNumbers | None) -> None:
        telemetry.node_set_gauges.show_pending(numbers.pending if numbers else {})
        telemetry.slurm_gauges.show_jobs(numbers)
        queue.show(numbers.queue if numbers else ())

    def took(seconds: float) -> None:
        telemetry.figures["sunk_sync_slurm_metrics_duration_seconds"] = seconds

    show = Show(
        jobs=jobs,
        nodes=telemetry.slurm_gauges.show_nodes,
        scheduler=telemetry.slurm_gauges.show_scheduler,
        took=took,
    )
    return MetricsPoll(
        slurm,
        show,
        interval_s=settings.slurm_metrics_interval_s,
        rows=settings.slurm_metrics_per_object,
        time=Time(clock=queue.clock, sleep=anyio.sleep, random=random.random),
    )
