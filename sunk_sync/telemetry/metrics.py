"""Every metric: the table of the registry and of docs/reference.md.

A new metric is a row here and a line where it is set: `Metrics.figures[name]` without labels, else
`Metrics.counter(name)` and the like. Names begin with `sunk_sync_`, except names that dashboards
expect.
"""

import platform
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sunk_sync import __version__
from sunk_sync.core.translate.node_states import kind_of_state
from sunk_sync.telemetry import node_sets, slurm_metrics

SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60, 300, 900, 3600, 14_400, 86_400)

SLURM_NODE_KINDS = (
    "alloc",
    "comp",
    "down",
    "drain",
    "err",
    "fail",
    "idle",
    "maint",
    "mix",
    "not_responding",
    "resv",
    "total",
)


Figures = dict[str, float]


class Spec(NamedTuple):
    """One metric as users see it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    later: bool = False
    """Absent until its value is known."""
    buckets: tuple[float, ...] = SECONDS_BUCKETS
    """Of a histogram."""

    @property
    def is_figure(self) -> bool:
        """Whether it is one number, in `Metrics.figures`."""
        return not self.labels and self.kind != "histogram"


_PUSHES = (
    Spec(
        "sunk_sync_writes_total",
        "counter",
        "Writes sent to either side, by outcome",
        ("action", "outcome"),
    ),
    Spec(
        "sunk_sync_write_duration_seconds",
        "histogram",
        "Seconds from the decision to the answer, including the time in the outbox",
        ("action",),
    ),
    Spec(
        "sunk_sync_pod_wait_seconds",
        "histogram",
        "Seconds from the first sight of a Pod until it is bound, with the time in Slurm's queue",
        buckets=WAIT_BUCKETS,
    ),
    Spec(
        "sunk_sync_pod_end_delay_seconds",
        "histogram",
        "Seconds from the known end of a Pod's job until Kubernetes accepted the Pod's deletion",
    ),
    Spec("workqueue_depth", "gauge", "Writes that wait in the outbox of one side", ("name",)),
    Spec("workqueue_adds_total", "counter", "Writes handed to the outbox of one side", ("name",)),
    Spec(
        "workqueue_retries_total",
        "counter",
        "Writes with an unsure result that are sent again",
        ("name",),
    ),
    Spec(
        "rest_client_requests_total",
        "counter",
        "Requests by HTTP status or kind of failure; host is kubernetes or slurm",
        ("code", "host", "method"),
    ),
    Spec(
        "rest_client_request_duration_seconds",
        "histogram",
        "Seconds from the first byte sent to the last byte read",
        ("host", "verb"),
    ),
    Spec(
        "sunk_sync_received_bytes_total", "counter", "Bytes of answers read", ("host", "path")
    ),
    Spec(
        "sunk_sync_request_seconds_total",
        "counter",
        "Seconds that requests took, from the first byte sent to the last byte read",
        ("host", "path"),
    ),
    Spec(
        "sunk_sync_pod_ends_total",
        "counter",
        "Pods that sunk-sync ended, by the reason in their condition DisruptionTarget",
        ("reason",),
    ),
)  # fmt: skip
_STATE = (
    Spec(
        "sunk_sync_source_listed",
        "gauge",
        "1 while the source was listed completely and can be read",
        ("source",),
    ),
    Spec(
        "sunk_sync_source_age_seconds",
        "gauge",
        "Seconds since the last complete listing or confirmation of the source began",
        ("source",),
    ),
    Spec(
        "leader_election_master_status",
        "gauge",
        "1 while this replica leads, 0 while it stands by; absent without --leader-elect",
        ("name",),
    ),
    Spec("sunk_sync_drains_held", "gauge", "Drains held back by --max-drains-per-minute"),
    Spec(
        "sunk_sync_pod_ends_held",
        "gauge",
        "Workloads whose Pods --max-pod-ends-per-minute keeps from being deleted",
    ),
    Spec("sunk_sync_paused", "gauge", "1 while an operator lets nothing be written"),
    Spec(
        "sunk_sync_jobs_kept",
        "gauge",
        "Jobs that sunk-sync does not cancel because it cannot read their Pods",
    ),
    Spec(
        "sunk_sync_jobs_unproven",
        "gauge",
        "Live jobs that look like those of sunk-sync, while nothing proves whose they are",
    ),
    Spec(
        "sunk_sync_jobs_comment_overwritten",
        "gauge",
        "Live jobs of sunk-sync whose admin_comment somebody overwrote",
    ),
    Spec(
        "sunk_sync_user_policy_wrong",
        "gauge",
        "1 while the file of --user-policy is wrong, so that its last good version applies",
    ),
    Spec(
        "sunk_sync_placeholders_unheard",
        "gauge",
        "Placeholders whose script has run for half a minute and never reached the hooks server",
    ),
    Spec(
        "sunk_sync_pending_reasons_age_seconds",
        "gauge",
        "Since the reasons of all jobs of ours that wait were read or proved; 0 where so few wait "
        "that each is read in turn, or where Slurm has more than 4,000 records",
    ),
    Spec(
        "sunk_sync_double_allocation_seconds_total",
        "counter",
        "Seconds, of all hosts together, in which another job ran beside a Pod whose own job had "
        "ended, from when we know of that end; on a node that jobs share it may be too much",
    ),
    Spec(
        "sunk_sync_conflicts",
        "gauge",
        "Slurm nodes that more than one object claims; sunk-sync writes nothing for them",
    ),
    Spec(
        "sunk_sync_differences",
        "gauge",
        "Differences between Slurm and Kubernetes, or from what the rules want: those of "
        "`sunk-sync diff`; counted every 30 s by the replica that leads",
        ("kind",),
    ),
    Spec(
        "sunk_sync_oldest_difference_seconds",
        "gauge",
        "Age of the oldest of these differences; 0: there is none",
        ("kind",),
    ),
    Spec(
        "sunk_sync_keys_out_of_service",
        "gauge",
        "Hosts and workloads that sunk-sync ignores because a rule failed; must be 0",
    ),
    Spec(
        "sunk_sync_audit_surprises_total",
        "counter",
        "Decisions that an audit would have made differently; must stay 0",
    ),
    Spec(
        "sunk_sync_rule_failures_total", "counter", "Exceptions in rules; must stay 0", ("rule",)
    ),
    Spec(
        "slurm_token_expiry_timestamp_seconds",
        "gauge",
        "Expiry of the token for slurmrestd, Unix time; absent if the token has none",
        later=True,
    ),
    Spec(
        "sunk_sync_log_lines_dropped_total",
        "counter",
        "Log lines dropped because their reader was too slow",
    ),
    Spec(
        "sunk_sync_trace_spans_dropped_total",
        "counter",
        "Spans of traces that no collector took; absent without --traces-endpoint",
        later=True,
    ),
    Spec(
        "sunk_sync_build_info",
        "gauge",
        "Always 1",
        ("version", "python_version", "cluster_name"),
    ),
)  # fmt: skip
LOOP = (
    Spec("sunk_sync_loop_busy_seconds_total", "counter", "Seconds the loop spent on its steps"),
    Spec(
        "sunk_sync_loop_longest_step_seconds",
        "gauge",
        "Longest step of the last one to two minutes",
    ),
    Spec("sunk_sync_loop_steps_total", "counter", "Steps of the loop"),
    Spec("sunk_sync_decisions_total", "counter", "Keys decided"),
    Spec("sunk_sync_news_total", "counter", "Facts and other news that the loop took in"),
)
SLURM = tuple(
    Spec(
        f"slurm_nodes_{kind}",
        "gauge",
        {
            "total": "Slurm nodes",
            "not_responding": "Slurm nodes that do not respond, whatever their state",
        }.get(kind, f"Slurm nodes counted as {kind}; each node counts once"),
        later=True,
    )
    for kind in SLURM_NODE_KINDS
)
_HOOKS = (
    Spec(
        "sunk_sync_hook_calls_total",
        "counter",
        "Calls to the hooks server by answer: go, wait, requeue, passed (beside Pods, or without "
        "the lock), off (no --lock), gone, drain, noted, ready, write and nothing (a topology "
        "file), left (the caller went away), forwarded (by a standby), or the status of a refusal",
        ("call", "outcome"),
    ),
    Spec(
        "sunk_sync_hook_calls_waiting", "gauge", "Calls to the hooks server that wait for an answer"
    ),
    Spec(
        "sunk_sync_hook_call_duration_seconds",
        "histogram",
        "Seconds from a call to its answer, including the wait",
        ("call",),
    ),
)
_NODE_SETS = tuple(
    Spec(name, "gauge", text, labels) for name, text, labels in node_sets.described()
)
_SLURM_METRICS = (
    Spec(
        "sunk_sync_slurm_metrics_duration_seconds",
        "gauge",
        "Duration of the last listing of jobs, nodes and statistics for the metrics below",
        later=True,
    ),
    *(Spec(one.name, one.kind, one.text, one.labels, later=True) for one in slurm_metrics.FAMILIES),
)
SPECS: tuple[Spec, ...] = (
    *_PUSHES,
    *_STATE,
    *_HOOKS,
    *_NODE_SETS,
    *LOOP,
    *SLURM,
    *_SLURM_METRICS,
)


def count_slurm_nodes(states: Iterable[frozenset[str]]) -> Figures:
    counts = dict.fromkeys(SLURM_NODE_KINDS, 0.0)
    for state in states:
        counts["total"] += 1
        counts["not_responding"] += "NOT_RESPONDING" in state
        kind = kind_of_state(state)
        if kind is not None:
            counts[kind] += 1
    return {f"slurm_nodes_{kind}": count for kind, count in counts.items()}


class Metrics:
    """A registry of this process, filled from SPECS."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.figures: Figures = {
            spec.name: 0.0 for spec in SPECS if spec.is_figure and not spec.later
        }
        """Current value of every metric without labels."""
        self.at_scrape: list[Callable[[Figures], None]] = []
        """Called first at each scrape, to set values that are costly."""
        self.registry.register(_Figures(self))
        self.node_sets = node_sets.NodeSetGauges()
        self.registry.register(self.node_sets)
        self.slurm = slurm_metrics.SlurmGauges()
        self.registry.register(self.slurm)

    def counter(self, name: str) -> Counter:
        spec = _BY_NAME[name]
        return Counter(name.removesuffix("_total"), spec.text, spec.labels, registry=self.registry)

    def gauge(self, name: str) -> Gauge:
        spec = _BY_NAME[name]
        return Gauge(name, spec.text, spec.labels, registry=self.registry)

    def histogram(self, name: str) -> Histogram:
        spec = _BY_NAME[name]
        return Histogram(name, spec.text, spec.labels, registry=self.registry, buckets=spec.buckets)

    def set_build(self, cluster_name: str) -> None:
        self.gauge("sunk_sync_build_info").labels(
            __version__, platform.python_version(), cluster_name
        ).set(1)


class _Figures:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """No metrics are checked at registration."""
        return ()

    def collect(self) -> Iterable[Metric]:
        figures = self._metrics.figures
        for tell in self._metrics.at_scrape:
            tell(figures)
        return [_metric(_BY_NAME[name], value) for name, value in figures.items()]


def _metric(spec: Spec, value: float) -> Metric:
    if spec.kind == "counter":
        return CounterMetricFamily(spec.name.removesuffix("_total"), spec.text, value)
    return GaugeMetricFamily(spec.name, spec.text, value)


_BY_NAME = {spec.name: spec for spec in SPECS}
