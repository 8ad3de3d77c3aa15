"""From a drain in Slurm to the condition of the slurmd Pod in a watch; and a quiet cluster."""

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

from tests.bench.figures import Figure, percentile
from tests.bench.real import Site, site
from tests.bench.running import BenchError
from tests.real.testbed import Bed

HOSTS = 99
ROUNDS = 2
POLL_INTERVAL_MS = 1000.0
ALLOWED_MS = 100.0
APART_S = (0.05, 0.3)
SEEN_WITHIN_S = 20.0
CONDITION = "SlurmNodeStateDrain"


def mirror() -> Iterator[Figure]:
    """Drain each of 100 hosts in Slurm at random moments, twice; wait for the Pod condition."""
    with site(HOSTS) as here, PodWatch(here.bed) as watch:
        took_ms: list[float] = []
        for _ in range(ROUNDS):
            took_ms += _drain_all(here, watch)
            here.bed.slurm.update_slurm_node(f"x[1-{HOSTS}]", state=["UNDRAIN"], reason="bench")
            here.service.wait_for_rest()
    yield Figure("Slurm drain → Pod condition seen, p50", percentile(took_ms, 50), "ms")
    limit = POLL_INTERVAL_MS + ALLOWED_MS
    yield Figure("Slurm drain → Pod condition seen, p95", percentile(took_ms, 95), "ms", limit)
    yield Figure("drains measured", len(took_ms), "")


def _drain_all(here: Site, watch: "PodWatch") -> list[float]:
    """Measure from the response to the drain until the watch shows the condition."""
    drained_s = {}
    watch.clear()
    for name in random.sample(here.hosts, len(here.hosts)):
        here.bed.slurm.update_slurm_node(name, state=["DRAIN"], reason="bench: by an administrator")
        drained_s[name] = time.monotonic()
        time.sleep(random.uniform(*APART_S))
    seen_s = watch.wait_for({f"slurmd-{name}" for name in drained_s})
    return [(seen_s[f"slurmd-{name}"] - asked_s) * 1e3 for name, asked_s in drained_s.items()]


class PodWatch:
    """When the condition of each slurmd Pod first appears in a watch of the benchmark."""

    def __init__(self, bed: Bed) -> None:
        self._connection = bed.kube.rest.connect()
        token = bed.kube.admin_token
        query = "watch=true&timeoutSeconds=3600"
        own = {"Authorization": f"Bearer {token}"}
        self._connection.request("GET", f"/api/v1/namespaces/slurm/pods?{query}", headers=own)
        assert self._connection.sock is not None
        self._socket = self._connection.sock
        self._socket.settimeout(None)
        lines = self._connection.getresponse()
        self._first_s: dict[str, float] = {}
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def _read(self, lines: HTTPResponse) -> None:
        try:
            while line := lines.readline():
                now_s = time.monotonic()
                pod = json.loads(line)["object"]
                if _is_drained(pod):
                    with self._came:
                        self._first_s.setdefault(pod["metadata"]["name"], now_s)
                        self._came.notify_all()
        except OSError:
            return  # the end

    def clear(self) -> None:
        with self._came:
            self._first_s.clear()

    def wait_for(self, names: set[str]) -> dict[str, float]:
        with self._came:
            if not self._came.wait_for(lambda: names <= self._first_s.keys(), SEEN_WITHIN_S):
                missing = sorted(names - self._first_s.keys())
                raise BenchError(f"no condition on {', '.join(missing[:5])}")
            return dict(self._first_s)

    def __enter__(self) -> "PodWatch":
        return self

    def __exit__(self, *_: object) -> None:
        """End the stream, which wakes its reader."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()


def _is_drained(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == CONDITION and one["status"] == "True" for one in conditions)
