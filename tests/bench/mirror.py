"""From a drain in Slurm to the condition of the slurmd Pod in a watch."""

import random
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, percentile
from tests.bench.pod_watch import PodWatch
from tests.bench.site import Site, site

HOSTS = 99
ROUNDS = 2
POLL_INTERVAL_MS = 1000.0
ALLOWED_MS = 100.0
APART_S = (0.05, 0.3)
SEEN_WITHIN_S = 20.0


def mirror() -> Iterator[Figure]:
    """Drain each of 100 hosts in Slurm at random moments, twice; wait for the Pod condition."""
    with site(HOSTS) as here:
        watch = PodWatch(here.bed.kube, "slurm")
        took_ms: list[float] = []
        for _ in range(ROUNDS):
            took_ms += _drain_all(here, watch)
            here.bed.slurm.update_slurm_node(f"x[1-{HOSTS}]", state=["UNDRAIN"], reason="bench")
            here.service.wait_idle()
    yield Figure("Slurm drain → Pod condition seen, p50", percentile(took_ms, 50), "ms")
    limit = POLL_INTERVAL_MS + ALLOWED_MS
    yield Figure("Slurm drain → Pod condition seen, p95", percentile(took_ms, 95), "ms", limit)
    yield Figure("drains measured", len(took_ms), "")


def _drain_all(here: Site, watch: PodWatch) -> list[float]:
    """Measure from the response to the drain until the watch shows the condition."""
    drained_s = {}
    watch.clear()
    for name in random.sample(here.hosts, len(here.hosts)):
        here.bed.slurm.update_slurm_node(name, state=["DRAIN"], reason="bench: by an administrator")
        drained_s[f"slurmd-{name}"] = time.monotonic()
        time.sleep(random.uniform(*APART_S))
    seen_s = watch.wait("drained", drained_s, deadline_s=SEEN_WITHIN_S)
    return [(seen_s[pod] - asked_s) * 1e3 for pod, asked_s in drained_s.items()]
