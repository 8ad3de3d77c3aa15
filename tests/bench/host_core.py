"""The core with any number of hosts, filled from recorded bytes and converged."""

import itertools
from typing import Any

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import News, Observed, SlurmNode
from sunk_sync.kube.decode.source_decoder import NODES, PODS, SLURMD_PODS, SourceDecoder
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.decode.nodes import read_node
from tests.bench.core import Core
from tests.bench.running import BenchError
from tests.bench.shapes import PODS_PER_HOST, Shapes, cluster_uid, host_name


class HostCore(Core):
    """The core with `count` hosts in the desired state."""

    def __init__(self, count: int) -> None:
        super().__init__(Configuration(cluster_uid=cluster_uid()))
        self.hosts = [host_name(number) for number in range(count)]
        self._versions = itertools.count(1000)
        self._shapes = Shapes("warm")
        hosts = self.hosts
        self.list_source("nodes", (_decoded(NODES, self.node(host)) for host in hosts))
        self.list_source(
            "slurmd_pods", (_decoded(SLURMD_PODS, self.slurmd_pod(host)) for host in hosts)
        )
        places = itertools.product(hosts, range(PODS_PER_HOST))
        self.list_source(
            "pods", (_decoded(PODS, self.workload(host, place)) for host, place in places)
        )
        self.list_source("slurm_nodes", self.slurm_news(b"IDLE", 1.0))
        self._check_converged()

    def node(self, host: bytes) -> bytes:
        return self._shapes.node.made(host, version=next(self._versions))

    def slurmd_pod(self, host: bytes) -> bytes:
        return self._shapes.slurmd_pod.made(host, version=next(self._versions))

    def workload(self, host: bytes, place: int) -> bytes:
        return self._shapes.workload(host, place, version=next(self._versions))

    def slurm_node(self, host: bytes, state: bytes) -> bytes:
        return self._shapes.slurm_node.made(host, state=state)

    def slurm_news(self, state: bytes, order: float) -> list[News]:
        rows = (read_slurm_node(self.slurm_node(host, state)) for host in self.hosts)
        return [Observed(row, order) for row in rows]

    def _check_converged(self) -> None:
        """Fail if a write is wanted for any host."""
        self.settle()
        standing = self.reconciler.standing.values()
        wants = [one.verdict for one in standing if one.verdict.wants]
        if len(standing) != len(self.hosts) + 1 or wants:
            raise BenchError(f"{len(standing)} keys, writes are still wanted: {wants[:2]}")


def _decoded(decoder: SourceDecoder[Any], content: bytes) -> Observed:
    found = decoder.object(content)
    if not isinstance(found, Observed):
        raise BenchError(f"a recorded object cannot be read: {found.why}")
    return found


def read_slurm_node(record: bytes) -> SlurmNode:
    node = read_node(record)
    if isinstance(node, SlurmError):
        raise BenchError(str(node))
    return node
