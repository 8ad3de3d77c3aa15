"""Gauges of NodeSets, and of the jobs that wait. Autoscalers and dashboards read them.

Numbers of Pods and nodes are those of the status.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sunk_sync.core.model.node_set import Counts, NodeSet
from sunk_sync.core.model.pending_jobs import PendingJobs
from sunk_sync.core.translate.job_demand import can_run

LABELS: Final = ("namespace", "nodeset")
PREFIX: Final = "kube_sunk_nodeset_"
"""SUNK's dashboards expect these names."""
TEXTS: Final = {
    "desired": "slurmd Pods that should exist",
    "current": "slurmd Pods that exist",
    "ready": "slurmd Pods that are ready",
    "registered": "slurmd Pods whose Slurm node answers",
    "updated": "slurmd Pods with the present template",
    "unavailable": "desired slurmd Pods that jobs cannot use",
    "idle": "Slurm nodes that are free for jobs",
    "allocated": "Slurm nodes with jobs",
    "drained": "Slurm nodes that are drained or draining",
    "down": "Slurm nodes that are down or do not respond",
}
PENDING_LABELS: Final = ("partition", "features", "gres", "waits_for")
PENDING_TEXTS: Final = {
    "sunk_sync_pending_jobs": "Jobs that wait in Slurm; for nodes: more nodes could start them",
    "sunk_sync_pending_nodes": "Nodes that waiting jobs ask for, at least",
}
DEMAND_LABELS: Final = ("namespace", "nodeset", "partition")
DEMAND_TEXTS: Final = {
    "pending_jobs": "Jobs that wait for nodes, with features and GRES that this NodeSet can have",
    "pending_nodes": "Nodes that these jobs ask for, at least",
}


def described() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield name, text and labels of each gauge."""
    for name, text in TEXTS.items():
        yield PREFIX + name, f"{text}, of one NodeSet", LABELS
    for name, text in DEMAND_TEXTS.items():
        yield PREFIX + name, text, DEMAND_LABELS
    for name, text in PENDING_TEXTS.items():
        yield name, text, PENDING_LABELS


class NodeSetGauges:
    """A collector: NodeSets come and go, and so do their series."""

    def __init__(self) -> None:
        self._shown: Sequence[NodeSet] = ()
        self._pending: PendingJobs = {}

    def show(self, node_sets: Iterable[NodeSet]) -> None:
        """Take all NodeSets, each with its complete registration."""
        self._shown = tuple(node_sets)

    def show_pending(self, pending: PendingJobs) -> None:
        """Take the counts of waiting jobs; none while Slurm cannot be read."""
        self._pending = pending

    def describe(self) -> Iterable[Metric]:
        """No metrics are checked at registration."""
        return ()

    def collect(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(PREFIX + name, text, labels=LABELS)
            for name, text in TEXTS.items()
        }
        for row in self._shown:
            for name, value in _values(row.counts).items():
                families[name].add_metric((row.namespace, row.name), value)
        return [*families.values(), *self._of_pending(), *self._of_demand()]

    def _of_pending(self) -> Iterable[Metric]:
        jobs, nodes = (
            GaugeMetricFamily(name, text, labels=PENDING_LABELS)
            for name, text in PENDING_TEXTS.items()
        )
        for demand, waiting in sorted(self._pending.items()):
            waits_for = "nodes" if demand.waits_for_nodes else "other"
            labels = (demand.partition, demand.features, demand.gres, waits_for)
            jobs.add_metric(labels, waiting.jobs)
            nodes.add_metric(labels, waiting.nodes)
        return jobs, nodes

    def _of_demand(self) -> Iterable[Metric]:
        """A NodeSet that no job waits for has zeros, so that an autoscaler can go to zero."""
        jobs, nodes = (
            GaugeMetricFamily(PREFIX + name, text, labels=DEMAND_LABELS)
            for name, text in DEMAND_TEXTS.items()
        )
        for row in self._shown:
            for partition, (of_jobs, of_nodes) in _demand(row, self._pending).items():
                labels = (row.namespace, row.name, partition)
                jobs.add_metric(labels, of_jobs)
                nodes.add_metric(labels, of_nodes)
        return jobs, nodes


def _demand(row: NodeSet, pending: PendingJobs) -> dict[str, tuple[int, int]]:
    """Return the jobs and nodes of each partition."""
    jobs: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for demand, waiting in pending.items():
        counts = demand.waits_for_nodes and can_run(row, demand)
        jobs[demand.partition] += waiting.jobs * counts
        nodes[demand.partition] += waiting.nodes * counts
    return {partition: (jobs[partition], nodes[partition]) for partition in jobs}


def _values(counts: Counts) -> dict[str, float]:
    return {
        "desired": counts.desired,
        "current": counts.replicas,
        "ready": counts.ready,
        "registered": counts.registered,
        "updated": counts.updated,
        "unavailable": max(counts.desired - counts.available, 0),
        "idle": counts.idle,
        "allocated": counts.allocated,
        "drained": counts.draining,
        "down": counts.down,
    }
