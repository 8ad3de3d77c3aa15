"""10,000 hosts and 90,000 workload Pods from a minimal server: CPU and memory, also when quiet."""

import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.quiet import watch_quiet
from tests.bench.running import BenchError, Measured, Running

HOSTS = 10_000
CPU_MAX_S = 25.0
RSS_MAX_MIB = 300.0


def scale() -> Iterator[Figure]:
    """Run the syncer at 10,000 hosts: a first start, a minute without changes, another start."""
    with _bare("streams") as url:
        with _service(url) as service:
            yield from _measure(service, "first start")
            yield Figure("writes of the first start", _writes(url), "")
            yield from watch_quiet(service)
        with _service(url) as service:
            yield from _measure(service, "next start")


def _measure(service: Running, start: str) -> Iterator[Figure]:
    begun_s = time.monotonic()
    service.wait_ready()
    ready_s, cpu_s = time.monotonic() - begun_s, service.cpu_s()
    yield Figure(f"{start}: our CPU until ready", cpu_s, "s", CPU_MAX_S)
    yield Figure(f"{start}: time until ready", ready_s, "s")
    yield Figure(f"{start}: peak RSS until ready", service.peak_mib(), "MiB", RSS_MAX_MIB)
    cpu_s = service.wait_for_rest(rest_s=6.0, deadline_s=400)
    yield Figure(f"{start}: our CPU until idle", cpu_s, "s", CPU_MAX_S)
    yield Figure(f"{start}: time until idle", time.monotonic() - begun_s - 6.0, "s")
    yield Figure(f"{start}: peak RSS until idle", service.peak_mib(), "MiB", RSS_MAX_MIB)
    longest_s = service.metrics().total("sunk_sync_loop_longest_step_seconds")
    yield Figure(f"{start}: longest recent step of the loop", longest_s * 1e3, "ms")


@contextmanager
def _bare(lists: str) -> Iterator[str]:
    with Measured([sys.executable, "-m", "tests.bench.bare", str(HOSTS), lists]) as server:
        assert server.process.stdout is not None
        port = server.process.stdout.readline().strip()
        if not port:
            raise BenchError("the minimal server did not start")
        yield f"http://127.0.0.1:{int(port)}"


@contextmanager
def _service(url: str) -> Iterator[Running]:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bare", "cluster": {"server": url}}],
        "users": [{"name": "us", "user": {"token": "none"}}],
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "us"}}],
        "current-context": "bare",
    }
    with tempfile.TemporaryDirectory(prefix="sunk-sync-bench-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        flags = ["--components=syncer"]  # the minimal Slurm has nodes and no jobs
        with Running(kubeconfig=kubeconfig, slurm_url=url, token="none", flags=flags) as service:
            yield service


def _writes(url: str) -> int:
    with urllib.request.urlopen(f"{url}/bench/writes", timeout=30) as answer:
        counts: dict[str, int] = json.load(answer)
    return sum(counts.values())
