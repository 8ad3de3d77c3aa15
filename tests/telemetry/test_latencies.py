"""Latencies of the last minute, as the status page shows them."""

from sunk_sync.telemetry.latencies import RECENT_MAX, RECENT_S, Latencies, Latency
from sunk_sync.telemetry.metrics import Metrics


class Watched:
    """Latencies with a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.metrics = Metrics()
        self.latencies = Latencies(self.metrics, clock=lambda: self.now_s)


def test_the_last_minute_is_told_by_kind_with_its_median_and_its_most() -> None:
    watched = Watched()
    for seconds in (0.3, 0.1, 0.2):
        watched.latencies.wrote("Drain", seconds, authority="slurm")
    watched.latencies.bound(5.0)
    watched.latencies.ended(0.04)
    assert watched.latencies.recent() == {
        "writes to slurm": Latency(3, 0.2, 0.3),
        "Pods bound": Latency(1, 5.0, 5.0),
        "Pods ended": Latency(1, 0.04, 0.04),
    }


def test_what_is_older_than_a_minute_is_not_told() -> None:
    watched = Watched()
    watched.latencies.bound(5.0)
    watched.now_s = RECENT_S + 1
    assert watched.latencies.recent() == {}


def test_of_a_flood_only_the_newest_are_kept() -> None:
    watched = Watched()
    for seconds in range(3 * RECENT_MAX):
        watched.latencies.ended(float(seconds))
    assert watched.latencies.recent()["Pods ended"].count == RECENT_MAX


def test_the_histograms_count_every_one() -> None:
    watched = Watched()
    for _ in range(RECENT_MAX + 1):
        watched.latencies.ended(0.01)
    counted = watched.metrics.registry.get_sample_value("sunk_sync_pod_end_delay_seconds_count")
    assert counted == RECENT_MAX + 1
