"""2,000 Nodes in 10 NodeSets on the embedded servers: at rest, and in a full update."""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.fleet_server import TOKEN
from tests.bench.running import BenchError, Measured, Running

NODES, SETS = 2_000, 10
REST_S = 60.0
WITHIN_S = 600.0
STEP_MS = 20.0
REQUESTS_PER_S = 1.1
"""A poll a second, and a tenth more."""
RSS_MIB = 300.0
FLAGS = ("--components=syncer,nodesets", "--slurm-metrics-interval=0")


def fleet() -> Iterator[Figure]:
    """Scale 10 NodeSets to 200 each, watch a quiet minute, then give all another image."""
    with Measured("tests.bench.fleet_server", str(NODES), str(SETS)) as server:
        config, url = server.line().split()
        with Running(Path(config), url, TOKEN, flags=FLAGS) as service:
            service.wait_ready()
            yield from _changed(server, service, "scale-out", f"scale {NODES // SETS}")
            service.wait_idle(deadline_s=WITHIN_S)
            yield from _rest(service)
            yield from _changed(server, service, "full update", "image slurmd:2")


def _changed(server: Measured, service: Running, what: str, line: str) -> Iterator[Figure]:
    cpu_s, begun_s, asked = service.cpu_s(), time.monotonic(), _requests(service)
    server.ask(line)
    longest_ms = 0.0
    while server.ask("shown") != f"{NODES} {NODES} {NODES}":
        if time.monotonic() > begun_s + WITHIN_S:
            raise BenchError(f"{what} has not ended: {server.ask('shown')}")
        longest_ms = max(longest_ms, service.longest_step_ms())
        time.sleep(1.0)
    took_s = time.monotonic() - begun_s
    yield Figure(f"{what}: seconds until every node is idle", took_s, "s")
    yield Figure(f"{what}: our CPU", service.cpu_s() - cpu_s, "s")
    yield Figure(f"{what}: requests for a node", (_requests(service) - asked) / NODES, "")
    yield Figure(f"{what}: longest step of the loop", longest_ms, "ms", STEP_MS)
    yield Figure(f"{what}: peak RSS", service.peak_mib(), "MiB", RSS_MIB)


def _rest(service: Running) -> Iterator[Figure]:
    cpu_s, asked = service.cpu_s(), _requests(service)
    time.sleep(REST_S)
    per_s = (_requests(service) - asked) / REST_S
    yield Figure("at rest: requests to both servers", per_s, "1/s", REQUESTS_PER_S)
    yield Figure("at rest: our CPU", (service.cpu_s() - cpu_s) / REST_S * 100, "%")


def _requests(service: Running) -> float:
    return service.metrics().total("rest_client_requests_total")
