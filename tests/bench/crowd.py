"""The core with any number of waiting and bound Pods, each with its job.

`python -m tests.bench.crowd WAITING BOUND` prints the CPU seconds of a start and the peak RSS in
MiB.
"""

import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from sunk_sync.controller.loop import KEYS_PER_STEP, NEWS_PER_STEP
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    Job,
    ListingEnded,
    ListingStarted,
    News,
    Node,
    Observed,
    Pod,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
)
from sunk_sync.core.model.job_identity import Identity, job_name, workload_id
from sunk_sync.core.model.pod_spec import Offer, PodSpec
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.translate.job_spec import Invalid, describe, digest
from sunk_sync.service import gc_pauses
from tests.bench.running import BenchError, peak_mib

NOW_S = 1000.0
PODS_PER_HOST = 10
TASKS = 64
CLUSTER, SCHEDULER = "cluster-uid", "default-slurm"
SPEC = PodSpec(requests=(("cpu", 1000), ("memory", 1 << 30)), grace_s=5)
PENDING, RUNNING = frozenset({"PENDING"}), frozenset({"RUNNING"})
IDLE, MIXED = frozenset({"IDLE"}), frozenset({"MIXED"})


class Crowd:
    """Reconciler and graph with these Pods; `submitted=False`: no Pod has a job yet."""

    def __init__(self, waiting: int, bound: int, *, submitted: bool = True) -> None:
        self.hosts = max(bound // PODS_PER_HOST, 1)
        self.waiting, self.bound = waiting, bound
        self.submitted = submitted
        self.orders = map(float, itertools.count(2))
        chosen = Configuration(
            cluster_uid=CLUSTER,
            scheduler=SCHEDULER,
            watch_namespaces=("*",),
            kill_wait_s=30.0,
            gate="on",
            dry_run=False,
        )
        self.graph = Graph(chosen)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        self._digest = self._learn_digest(chosen)
        self.decisions = self._fill()

    def _learn_digest(self, chosen: Configuration) -> str:
        """Teach the core the description that the service would have submitted."""
        described = describe([self.pod(0)], chosen)
        if isinstance(described, Invalid):
            raise BenchError(described.message)
        return digest(described)

    def node(self, number: int) -> Node:
        """Return a Node with free resources."""
        name = f"host-{number:05d}"
        room = (("cpu", 128_000), ("memory", 2 << 40), ("pods", 250))
        labels = (("kubernetes.io/hostname", name),)
        offer = Offer(labels=labels, allocatable=room)
        return Node(name=name, uid=f"node-{number}", ready="True", offer=offer)

    def slurmd_pod(self, number: int) -> SlurmdPod:
        name = f"host-{number:05d}"
        return SlurmdPod(
            namespace="slurm",
            name=f"slurmd-{name}",
            uid=f"slurmd-{number}",
            slurm_node=name,
            node_name=name,
            ready=True,
        )

    def slurm_node(self, number: int, *, state: frozenset[str] = MIXED) -> SlurmNode:
        return SlurmNode(name=f"host-{number:05d}", state=state)

    def pod(self, number: int) -> Pod:
        """Return a Pod; the first ones are bound."""
        name = f"work-{number:06d}"
        at = number < self.bound
        return Pod(
            namespace="default",
            name=name,
            uid=f"00000000-0000-4000-8000-{number:012x}",
            node_name=self._host(number) if at else "",
            phase="Running" if at else "Pending",
            job_id=self._job_id(number) if at else "",
            spec=SPEC,
        )

    def job(self, number: int) -> Job:
        """Return a task of an array."""
        pod = self.pod(number)
        at = number < self.bound
        workload = workload_id((pod.uid,))
        return Job(
            job_id=self._job_id(number),
            name=job_name("default", pod.name, workload=workload),
            identity=Identity(
                cluster=CLUSTER,
                scheduler=SCHEDULER,
                workload=workload,
                pods=(f"default/{pod.name}/{pod.uid}",),
                digest=self._digest,
            ),
            state=RUNNING if at else PENDING,
            slurm_nodes=(self._host(number),) if at else (),
            reason="None" if at else "Resources",
            script=True,
            started=at,
        )

    def _host(self, number: int) -> str:
        return f"host-{number % self.hosts:05d}"

    def _job_id(self, number: int) -> str:
        return f"{1000 + number // TASKS}_{number % TASKS}"

    def _fill(self) -> list[Decision]:
        count = range(self.waiting + self.bound)
        jobs = count if self.submitted else range(self.bound)
        self._list("nodes", map(self.node, range(self.hosts)))
        self._list("slurmd_pods", map(self.slurmd_pod, range(self.hosts)))
        self._list("slurm_nodes", map(self.slurm_node, range(self.hosts)))
        self._list("pods", map(self.pod, count))
        self._list("jobs", map(self.job, jobs))
        return self.settle()

    def _list(self, source: Source, rows: Iterable[Row]) -> None:
        self.take(
            (
                ListingStarted(source, 1.0, 1.0),
                *(Observed(row, 1.0) for row in rows),
                ListingEnded(source),
            )
        )

    def take(self, news: Sequence[News], *, now: float = NOW_S) -> None:
        """Observe facts and decide, in the slices of the loop."""
        for start in range(0, len(news), NEWS_PER_STEP):
            self.reconciler.observe(news[start : start + NEWS_PER_STEP], now=now)
            self.reconciler.step(now=now, limit=KEYS_PER_STEP)

    def settle(self, *, now: float = NOW_S) -> list[Decision]:
        """Decide everything that is dirty."""
        decisions: list[Decision] = []
        while self.reconciler.pending:
            decisions += self.reconciler.step(now=now, limit=KEYS_PER_STEP)
        return decisions


def main(waiting: str, bound: str) -> None:
    with gc_pauses.in_pieces():  # as the service runs
        begun_s = time.process_time()
        Crowd(int(waiting), int(bound))
        spent_s = time.process_time() - begun_s
    print(spent_s, peak_mib(Path("/proc/self/status")))


if __name__ == "__main__":
    main(*sys.argv[1:])
