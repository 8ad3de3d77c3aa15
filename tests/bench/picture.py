"""The core with any number of hosts, filled from recorded bytes and converged."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from sunk_sync.controller.loop import KEYS_PER_STEP, NEWS_PER_STEP
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    ListingEnded,
    ListingStarted,
    News,
    Observed,
    SlurmNode,
    Source,
)
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.kube.decode.source_decoder import NODES, PODS, SLURMD_PODS, SourceDecoder
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.decode.nodes import read_node
from tests.bench.running import BenchError
from tests.bench.shapes import (
    PODS_PER_HOST,
    Shape,
    SlurmShape,
    cluster_uid,
    host_name,
    recorded,
    workload_uid,
)

NOW_S = 1000.0


class Picture:
    """Reconciler and graph of `count` hosts in the desired state."""

    def __init__(self, count: int) -> None:
        self.hosts = [host_name(number) for number in range(count)]
        self.versions = itertools.count(1000)
        self.node, self.slurmd_pod, self.pod = (
            Shape(recorded(f"{name}-warm")) for name in ("node", "slurmd-pod", "pod")
        )
        self.slurm_node = SlurmShape("warm")
        graph = Graph(Configuration(cluster_uid=cluster_uid()))
        self.reconciler = Reconciler(graph=graph, policy=Policy())
        self._fill()
        self._check()

    def settle(self) -> list[Decision]:
        """Decide everything that is dirty, in the slices of the loop."""
        decisions: list[Decision] = []
        while self.reconciler.pending:
            decisions += self.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)
        return decisions

    def take(self, news: Sequence[News]) -> None:
        """Observe facts in the slices of the loop, deciding as the loop does."""
        for start in range(0, len(news), NEWS_PER_STEP):
            self.reconciler.observe(news[start : start + NEWS_PER_STEP], now=NOW_S)
            self.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)

    def slurm_news(self, state: bytes, order: float) -> list[News]:
        """Return all Slurm nodes in this state."""
        return [
            Observed(read_slurm_node(self.slurm_node.made(host, state=state)), order)
            for host in self.hosts
        ]

    def _fill(self) -> None:
        nodes = (self.node.made(host, version=next(self.versions)) for host in self.hosts)
        self._list("nodes", (_seen(NODES, content) for content in nodes))
        pods = (self.slurmd_pod.made(host, version=next(self.versions)) for host in self.hosts)
        self._list("slurmd_pods", (_seen(SLURMD_PODS, content) for content in pods))
        self._list("pods", (_seen(PODS, content) for content in self._workloads()))
        self._list("slurm_nodes", self.slurm_news(b"IDLE", 1.0))

    def _workloads(self) -> Iterable[bytes]:
        for host in self.hosts:
            for place in range(PODS_PER_HOST):
                yield self.workload(host, place)

    def workload(self, host: bytes, place: int) -> bytes:
        """Return one of the host's workload Pods."""
        name = b"work-%b-%d" % (host[-5:], place)
        uid = workload_uid(host, place)
        return self.pod.made(host, version=next(self.versions), uid=uid, name=name)

    def _list(self, source: Source, news: Iterable[News]) -> None:
        self.take([ListingStarted(source, 1.0, 1.0), *news, ListingEnded(source)])

    def _check(self) -> None:
        """Check that no write is wanted for any host."""
        self.settle()
        standing = self.reconciler.standing.values()
        wants = [one.verdict for one in standing if one.verdict.wants]
        if len(standing) != len(self.hosts) + 1 or wants:
            raise BenchError(f"{len(standing)} keys, writes are still wanted: {wants[:2]}")


def _seen(decoder: SourceDecoder[Any], content: bytes) -> Observed:
    seen = decoder.object(content)
    if not isinstance(seen, Observed):
        raise BenchError(f"a recorded object cannot be read: {seen.why}")
    return seen


def read_slurm_node(record: bytes) -> SlurmNode:
    node = read_node(record)
    if isinstance(node, SlurmError):
        raise BenchError(str(node))
    return node
