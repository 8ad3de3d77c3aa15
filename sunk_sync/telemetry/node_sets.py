"""Gauges of NodeSets, as their status shows the numbers. Autoscalers and dashboards read them."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sunk_sync.core.model.node_set import Counts, NodeSet

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


class NodeSetGauges:
    """A collector: NodeSets come and go, and so do their series."""

    def __init__(self) -> None:
        self._shown: Sequence[NodeSet] = ()

    def show(self, node_sets: Iterable[NodeSet]) -> None:
        self._shown = tuple(node_sets)

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
        return families.values()


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
