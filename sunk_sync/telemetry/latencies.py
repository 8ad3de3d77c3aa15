"""How long things take: histograms for Prometheus, and the last minute for the status page."""

from collections import deque
from collections.abc import Callable, Mapping

from msgspec import Struct

from sunk_sync.telemetry.metrics import Metrics

RECENT_S = 60.0
RECENT_MAX = 500
"""Of each kind; the oldest of a minute with more are not counted."""


class Latency(Struct, frozen=True):
    """What took how long in the last minute, in seconds."""

    count: int
    median_s: float
    most_s: float


class Latencies:
    def __init__(self, metrics: Metrics, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._write_s = metrics.histogram("sunk_sync_write_duration_seconds")
        self._pod_wait_s = metrics.histogram("sunk_sync_pod_wait_seconds")
        self._pod_end_delay_s = metrics.histogram("sunk_sync_pod_end_delay_seconds")
        self._recent: dict[str, deque[tuple[float, float]]] = {}

    def wrote(self, action: str, seconds: float, *, authority: str) -> None:
        """An answered write, since the decision."""
        self._write_s.labels(action).observe(seconds)
        self._keep(f"writes to {authority}", seconds)

    def bound(self, waited_s: float) -> None:
        """A bound Pod, since it was first seen."""
        self._pod_wait_s.observe(waited_s)
        self._keep("Pods bound", waited_s)

    def ended(self, delay_s: float) -> None:
        """A deleted Pod, since the end of its job was known."""
        self._pod_end_delay_s.observe(delay_s)
        self._keep("Pods ended", delay_s)

    def recent(self) -> Mapping[str, Latency]:
        """Return each kind of which something happened in the last minute."""
        since_s = self._clock() - RECENT_S
        seconds = {
            kind: sorted(took for at_s, took in kept if at_s >= since_s)
            for kind, kept in self._recent.items()
        }
        return {
            kind: Latency(len(took), took[len(took) // 2], took[-1])
            for kind, took in seconds.items()
            if took
        }

    def _keep(self, kind: str, seconds: float) -> None:
        kept = self._recent.setdefault(kind, deque(maxlen=RECENT_MAX))
        kept.append((self._clock(), seconds))
