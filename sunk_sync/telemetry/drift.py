"""Gauges of the differences between Slurm and Kubernetes."""

from collections.abc import Mapping

from sunk_sync.core.explain.differences import DifferenceKind
from sunk_sync.telemetry.metrics import Metrics


class DriftGauges:
    def __init__(self, metrics: Metrics) -> None:
        self._count = metrics.gauge("sunk_sync_differences")
        self._oldest_s = metrics.gauge("sunk_sync_oldest_difference_seconds")

    def show(self, drift: Mapping[DifferenceKind, tuple[int, float]]) -> None:
        """Set the number of differences of each kind, and the age of the oldest in seconds."""
        for kind, (count, oldest_s) in drift.items():
            self._count.labels(kind).set(count)
            self._oldest_s.labels(kind).set(oldest_s)
