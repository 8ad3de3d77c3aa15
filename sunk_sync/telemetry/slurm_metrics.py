"""Gauges of what Slurm tells about jobs, partitions, nodes and its scheduler.

SUNK's dashboards expect these names. Without numbers there are no series.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sunk_sync.core.model.slurm_metrics import (
    Amount,
    JobNumbers,
    JobRow,
    JobSet,
    NodeNumbers,
    NodeRow,
    Resources,
    SchedulerNumbers,
)
from sunk_sync.core.translate.node_states import kind_of_state

Kind = Literal["counter", "gauge"]
Labels = tuple[str, ...]


class Family(NamedTuple):
    """One metric: name, meaning and labels."""

    name: str
    text: str
    labels: Labels = ()
    kind: Kind = "gauge"

    def metric(self, samples: Iterable[tuple[Labels, float]]) -> Metric:
        made = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric = made(self.name, self.text, labels=self.labels)
        for labels, value in samples:
            metric.add_metric(labels, value)
        return metric


_RECORD: Final = "of which slurmctld still has a record (MinJobAge)"
_QUEUE: Final = {
    "pending": "Jobs that wait, each task of an array by itself",
    "running": "Jobs that run",
    "configuring": "Jobs whose nodes are being prepared",
    "completing": "Jobs that have ended and still hold nodes",
    "suspended": "Jobs that are suspended",
    "completed": f"Jobs that have ended with exit code 0, {_RECORD}",
    "canceled": f"Jobs that were cancelled, {_RECORD}",
    "failed": f"Jobs that failed, ran out of memory, did not boot or missed a deadline, {_RECORD}",
    "timeout": f"Jobs that reached their time limit, {_RECORD}",
    "node_fail": f"Jobs whose node failed, {_RECORD}",
    "preempted": f"Jobs that were preempted, {_RECORD}",
}
_SETS: Final = {
    "running": "Jobs in slurm_queue_running",
    "pending": "Jobs in slurm_queue_pending",
}
_SET_LABELS: Final = ("partition", "account", "user")
_BOUND: Final = "a job of several partitions has them with commas; beyond the 1,000 largest: other"
_PARTS: Final = {
    "alloc": "in use by jobs",
    "idle": "free on nodes that are neither drained nor down",
    "total": "in all",
}
_UNITS: Final = {"cpu": "CPUs", "gpu": "GPUs", "mem": "Memory in MiB"}
_RESET: Final = "since the last reset of the statistics (midnight UTC, start, sdiag --reset)"
_SCHEDULER: Final = {
    "queue": "Messages of slurmctld to nodes that wait to be sent",
    "threads": "Threads of slurmctld that answer calls",
    "dbd_queue": "Messages to slurmdbd that wait to be sent",
    "cycle_last_seconds": "Duration of the last cycle of the main scheduler",
    "cycle_mean_seconds": f"Mean duration of a cycle of the main scheduler, {_RESET}",
    "cycle_mean_depth": f"Mean number of jobs that a cycle looked at, {_RESET}",
    "cycles_per_minute": f"Cycles of the main scheduler a minute, {_RESET}",
    "backfill_cycle_last_seconds": "Duration of the last backfill cycle",
    "backfill_cycle_mean_seconds": f"Mean duration of a backfill cycle, {_RESET}",
    "backfill_depth_mean": f"Mean number of jobs that a backfill cycle looked at, {_RESET}",
    "backfilled_jobs_total": "Jobs started by backfill since slurmctld started",
    "backfilled_jobs_cycle_total": f"Jobs started by backfill {_RESET}",
    "jobs_submitted": f"Jobs submitted {_RESET}",
    "jobs_started": f"Jobs started {_RESET}",
    "jobs_completed": f"Jobs completed {_RESET}",
    "jobs_cancelled": f"Jobs cancelled {_RESET}",
    "jobs_failed": f"Jobs failed {_RESET}",
    "jobs_pending": "Jobs that wait, as slurmctld counts them now and then",
    "jobs_running": "Jobs that run, as slurmctld counts them now and then",
}
_CALLS: Final = Family(
    "slurm_controller_rpc_count", f"Calls that slurmctld answered, {_RESET}", ("message_type",)
)
_CALL_SECONDS: Final = Family(
    "slurm_controller_rpc_mean_duration_seconds",
    f"Mean duration of these calls, {_RESET}",
    ("message_type",),
)
_PER_JOB: Final = "with --slurm-metrics-per-object jobs, of at most 20,000 records"
_PER_NODE: Final = "with --slurm-metrics-per-object nodes, of at most 20,000 nodes"
_JOB_LABELS: Final = ("id", "name", "user", "account", "partition")
_JOB_STATE: Final = Family(
    "slurm_job_state",
    f"1; the state is that of slurm_queue_…; those that hold nodes first; {_PER_JOB}",
    (*_JOB_LABELS, "state"),
)
_JOB_CPUS: Final = Family(
    "slurm_job_cpus_allocated", f"CPUs that a job holds; {_PER_JOB}", _JOB_LABELS
)
_JOB_GPUS: Final = Family(
    "slurm_job_gpus_allocated",
    f"GPUs that a job holds; without gres/gpu in AccountingStorageTRES: asks for; {_PER_JOB}",
    _JOB_LABELS,
)
_JOB_UPTIME: Final = Family(
    "slurm_job_uptime_seconds",
    f"Since the start of a job that holds nodes; {_PER_JOB}",
    _JOB_LABELS,
)
_NODE_STATE: Final = Family(
    "slurm_node_state",
    f"1, for each partition; the state is that of slurm_nodes_…; {_PER_NODE}",
    ("node", "partition", "state"),
)
_NODE_DRAIN: Final = Family(
    "slurm_node_drain_time",
    f"Unix time since which a node is drained, in seconds; {_PER_NODE}",
    ("node",),
)


def _queue_families() -> Iterator[Family]:
    for state, text in _QUEUE.items():
        yield Family(f"slurm_queue_{state}", f"{text}; each job counts in one state")
    yield Family(
        "slurm_queue_pending_dependency",
        "Jobs in slurm_queue_pending that wait for another job (reason Dependency)",
    )


def _set_families() -> Iterator[Family]:
    for state, text in _SETS.items():
        yield Family(f"slurm_jobs_{state}", f"{text}; {_BOUND}", _SET_LABELS)


def _ended_families() -> Iterator[Family]:
    for state in ("completed", "failed"):
        yield Family(f"slurm_jobs_{state}", f"The same number as slurm_queue_{state}")


def _resource_families(prefix: str, label: str, *, more: str = "") -> Iterator[Family]:
    for resource, unit in _UNITS.items():
        for part, text in _PARTS.items():
            if (prefix, resource, part) != ("slurm_node", "mem", "idle"):
                yield Family(f"{prefix}_{resource}_{part}", f"{unit} {text}{more}", (label,))


def _scheduler_families() -> Iterator[Family]:
    for name, text in _SCHEDULER.items():
        kind: Kind = "counter" if name.endswith("_total") else "gauge"
        yield Family(f"slurm_scheduler_{name}", text, kind=kind)


_QUEUE_FAMILIES: Final = tuple(_queue_families())
_SET_FAMILIES: Final = tuple(_set_families())
_ENDED_FAMILIES: Final = tuple(_ended_families())
_PARTITION_FAMILIES: Final = tuple(_resource_families("slurm_partition", "partition"))
_SCHEDULER_FAMILIES: Final = tuple(_scheduler_families())
_NODE_FAMILIES: Final = tuple(_resource_families("slurm_node", "node", more=f"; {_PER_NODE}"))
FAMILIES: Final = (
    *_QUEUE_FAMILIES,
    *_SET_FAMILIES,
    *_ENDED_FAMILIES,
    *_PARTITION_FAMILIES,
    *_SCHEDULER_FAMILIES,
    _CALLS,
    _CALL_SECONDS,
    _JOB_STATE,
    _JOB_CPUS,
    _JOB_GPUS,
    _JOB_UPTIME,
    _NODE_STATE,
    *_NODE_FAMILIES,
    _NODE_DRAIN,
)
"""Every metric of this module, for the reference."""


class SlurmGauges:
    """A collector of the metrics without labels; `labelled` has the others."""

    def __init__(self) -> None:
        self._jobs: JobNumbers | None = None
        self._nodes: NodeNumbers | None = None
        self._scheduler: SchedulerNumbers | None = None

    def show_jobs(self, numbers: JobNumbers | None) -> None:
        self._jobs = numbers

    def show_nodes(self, numbers: NodeNumbers | None) -> None:
        self._nodes = numbers

    def show_scheduler(self, numbers: SchedulerNumbers | None) -> None:
        self._scheduler = numbers

    def describe(self) -> Iterable[Metric]:
        """No metrics are checked at registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        if self._jobs is not None:
            yield from _of_states(self._jobs)
        if self._scheduler is not None:
            yield from _of_scheduler(self._scheduler)

    def labelled(self) -> "Labelled | None":
        """Return the metrics with labels as they are now; None: there are no numbers."""
        if self._jobs is None and self._nodes is None and self._scheduler is None:
            return None
        return Labelled(self._jobs, self._nodes, self._scheduler)


class Labelled:
    """A collector of perhaps very many series. Its numbers never change: a thread may read them."""

    def __init__(
        self,
        jobs: JobNumbers | None = None,
        nodes: NodeNumbers | None = None,
        scheduler: SchedulerNumbers | None = None,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._scheduler = scheduler
        self._wall_clock = wall_clock

    def collect(self) -> Iterator[Metric]:
        if self._jobs is not None:
            yield from _of_sets(self._jobs)
            if self._jobs.rows:
                yield from _of_rows(self._jobs.rows, now_s=self._wall_clock())
        if self._nodes is not None:
            yield from _of_resources(_PARTITION_FAMILIES, self._nodes.partitions)
            if self._nodes.rows:
                yield from _of_nodes(self._nodes.rows)
        if self._scheduler is not None:
            yield from _of_calls(self._scheduler)


def _of_rows(rows: Sequence[JobRow], *, now_s: float) -> Iterator[Metric]:
    labels = [(row, _labels_of(row)) for row in rows]
    yield _JOB_STATE.metric(((*named, row.state), 1) for row, named in labels)
    holding = [(row, named) for row, named in labels if row.started_s is not None]
    yield _JOB_CPUS.metric((named, row.cpus) for row, named in holding)
    yield _JOB_GPUS.metric((named, row.gpus) for row, named in holding)
    yield _JOB_UPTIME.metric(
        (named, max(0.0, now_s - row.started_s)) for row, named in holding if row.started_s
    )


def _of_nodes(rows: Sequence[NodeRow]) -> Iterator[Metric]:
    yield _NODE_STATE.metric(
        ((row.name, partition, kind_of_state(row.state) or "unknown"), 1)
        for row in rows
        for partition in row.partitions
    )
    yield from _of_resources(_NODE_FAMILIES, {row.name: row.resources for row in rows})
    yield _NODE_DRAIN.metric(((row.name,), row.drained_s) for row in rows if row.drained_s)


def _labels_of(row: JobRow) -> Labels:
    jobs = row.jobs
    return str(row.job_id), row.name, jobs.user, jobs.account, jobs.partition


def _of_states(numbers: JobNumbers) -> Iterator[Metric]:
    counts = {f"slurm_queue_{state}": count for state, count in numbers.states.items()}
    counts["slurm_queue_pending_dependency"] = numbers.pending_dependency
    for family in _QUEUE_FAMILIES:
        yield family.metric([((), counts.get(family.name, 0))])
    for family in _ENDED_FAMILIES:
        same = family.name.replace("slurm_jobs_", "slurm_queue_")
        yield family.metric([((), counts.get(same, 0))])


def _of_sets(numbers: JobNumbers) -> Iterator[Metric]:
    for family in _SET_FAMILIES:
        sets = numbers.sets.get(family.name.removeprefix("slurm_jobs_"), {})
        yield family.metric((_set_labels(jobs), count) for jobs, count in sets.items())


def _set_labels(jobs: JobSet) -> Labels:
    return jobs.partition, jobs.account, jobs.user


def _of_resources(
    families: Sequence[Family], resources: Mapping[str, Resources]
) -> Iterator[Metric]:
    """The names of these families end with the resource and the part: `cpu_alloc`."""
    for family in families:
        _, resource, part = family.name.rsplit("_", 2)
        yield family.metric(
            ((name,), getattr(_amount(one, resource), part)) for name, one in resources.items()
        )


def _amount(resources: Resources, name: str) -> Amount:
    return {"cpu": resources.cpu, "gpu": resources.gpu, "mem": resources.mem}[name]


def _of_scheduler(numbers: SchedulerNumbers) -> Iterator[Metric]:
    for family in _SCHEDULER_FAMILIES:
        value = numbers.values.get(family.name.removeprefix("slurm_scheduler_"))
        if value is not None:
            yield family.metric([((), value)])


def _of_calls(numbers: SchedulerNumbers) -> Iterator[Metric]:
    calls = numbers.calls.items()
    yield _CALLS.metric(((name,), one.count) for name, one in calls)
    yield _CALL_SECONDS.metric(
        ((name,), one.mean_s) for name, one in calls if one.mean_s is not None
    )
