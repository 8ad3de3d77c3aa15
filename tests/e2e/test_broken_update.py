"""N12, N13: an update to Pods that never become usable takes one of six nodes, and no more."""

import os
import time
from typing import Any

import pytest

from tests.e2e.cluster import NODES, ONE_BY_ONE, RealCluster
from tests.e2e.images import SLURMD
from tests.e2e.stopwatch import Stopwatch

WATCHED_S = float(os.environ.get("SUNK_SYNC_E2E_BROKEN_S", "120"))
"""How long the test looks for a second node that goes, with a missing image."""
SLOTS = 6
LOOK_S = 0.1
BROKEN: dict[str, tuple[float, dict[str, Any]]] = {
    "the image is missing": (WATCHED_S, {"image": "docker.io/local/missing:1"}),
    "it exits at once": (WATCHED_S / 3, {"command": ["/bin/false"]}),
    "slurmd never starts in a Pod that is Ready": (
        WATCHED_S / 3,
        {"command": ["/bin/sh", "-c", "sleep 86400"]},
    ),
}
"""why the Pods are of no use: how long the test looks, what the template says"""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(WATCHED_S + 400)]


@pytest.mark.parametrize("why", BROKEN)
def test_at_most_one_node_goes_N12_N13(cluster: RealCluster, why: str) -> None:
    watch = Stopwatch(cluster.slurm.version)
    cluster.make(SLOTS, updateStrategy=ONE_BY_ONE)
    watch.until(lambda: cluster.is_available(SLOTS), f"NodeSet → {SLOTS} nodes available")
    assert sorted(cluster.nodes_of().values()) == list(NODES)
    for_s, fields = BROKEN[why]
    cluster.set_slurmd(**fields)
    first_s, fewest = watched(cluster, for_s)
    watch.say(
        f"{why}: {SLOTS - fewest} of {SLOTS} out of use at most in {for_s:.0f} s, "
        f"the first after {first_s:.1f} s; Progressing: {progressing(cluster)}"
    )
    assert fewest == SLOTS - 1
    assert len(old_pods(cluster)) == SLOTS - 1
    watch.begin()
    cluster.set_slurmd(image=SLURMD.format(2))
    new = {f"cpu-{ordinal}": SLURMD.format(2) for ordinal in range(SLOTS)}
    updated = lambda: cluster.images() == new and cluster.is_available(SLOTS)  # noqa: E731
    watch.until(updated, "another template that works → all six updated", within_s=150)


def watched(cluster: RealCluster, for_s: float) -> tuple[float, int]:
    """Return after how many seconds the first node went, and how few were in use at worst."""
    begun = time.monotonic()
    first_s, fewest = for_s, SLOTS
    while (passed_s := time.monotonic() - begun) < for_s:
        number = len(cluster.in_use())
        if number < SLOTS:
            first_s = min(first_s, passed_s)
        fewest = min(fewest, number)
        time.sleep(LOOK_S)
    return first_s, fewest


def old_pods(cluster: RealCluster) -> list[str]:
    """Return the Pods with the template that works."""

    def is_old(pod: Any) -> bool:
        container = pod["spec"]["containers"][0]
        return container["image"] == SLURMD.format(1) and "command" not in container

    return [name for name, pod in cluster.pods_of().items() if is_old(pod)]


def progressing(cluster: RealCluster) -> str:
    found = [one for one in cluster.status()["conditions"] if one["type"] == "Progressing"]
    return " ".join(f"{one['status']} {one['reason']}: {one['message']}" for one in found)
