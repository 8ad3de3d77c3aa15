"""10,000 hosts and 90,000 workload Pods from a minimal server: CPU and memory, also when quiet."""

import json
import time
import urllib.request
from collections.abc import Iterator

from sunk_sync.embedded.kubernetes.api.http import kubeconfig
from tests.bench.figures import Figure
from tests.bench.quiet import watch_quiet
from tests.bench.running import Measured, Running

HOSTS = 10_000
CPU_MAX_S = 25.0
RSS_MAX_MIB = 300.0
IDLE_S = 6.0
FLAGS = ("--components=syncer",)
"""The minimal Slurm has nodes and no jobs."""


def scale() -> Iterator[Figure]:
    """Run the syncer at 10,000 hosts: a first start, a minute without changes, another start."""
    with Measured("tests.bench.bare", str(HOSTS)) as server:
        url = f"http://127.0.0.1:{server.line()}"
        with Running(kubeconfig(url), url, "none", flags=FLAGS) as service:
            yield from _measure(service, "first start")
            yield Figure("writes of the first start", _writes(url), "")
            yield from watch_quiet(service)
        with Running(kubeconfig(url), url, "none", flags=FLAGS) as service:
            yield from _measure(service, "next start")


def _measure(service: Running, start: str) -> Iterator[Figure]:
    begun_s = time.monotonic()
    service.wait_ready()
    ready_s, cpu_s = time.monotonic() - begun_s, service.cpu_s()
    yield Figure(f"{start}: our CPU until ready", cpu_s, "s", CPU_MAX_S)
    yield Figure(f"{start}: time until ready", ready_s, "s")
    yield Figure(f"{start}: peak RSS until ready", service.peak_mib(), "MiB", RSS_MAX_MIB)
    cpu_s = service.wait_idle(idle_s=IDLE_S, deadline_s=400)
    yield Figure(f"{start}: our CPU until idle", cpu_s, "s", CPU_MAX_S)
    yield Figure(f"{start}: time until idle", time.monotonic() - begun_s - IDLE_S, "s")
    yield Figure(f"{start}: peak RSS until idle", service.peak_mib(), "MiB", RSS_MAX_MIB)
    yield Figure(f"{start}: longest recent step of the loop", service.longest_step_ms(), "ms")


def _writes(url: str) -> int:
    with urllib.request.urlopen(f"{url}/bench/writes", timeout=30) as answer:
        counts: dict[str, int] = json.load(answer)
    return sum(counts.values())
