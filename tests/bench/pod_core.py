"""The core with any number of waiting and bound Pods, each with its job.

`python -m tests.bench.pod_core WAITING BOUND` prints the CPU seconds of a start and the peak RSS in
MiB.
"""

import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Node, Observed, Pod, Row, SlurmdPod, SlurmNode, Source
from sunk_sync.core.model.job_identity import Identity, job_name, workload_id
from sunk_sync.core.model.pod_spec import Offer, PodSpec
from sunk_sync.core.translate.job_spec import Invalid, describe, digest
from sunk_sync.service import gc_pauses
from tests.bench.core import Core
from tests.bench.running import BenchError, peak_mib

PODS_PER_HOST = 10
TASKS = 64
CLUSTER, SCHEDULER = "cluster-uid", "default-slurm"
SPEC = PodSpec(requests=(("cpu", 1000), ("memory", 1 << 30)), grace_s=5)
PENDING, RUNNING = frozenset({"PENDING"}), frozenset({"RUNNING"})
IDLE, MIXED = frozenset({"IDLE"}), frozenset({"MIXED"})


class PodCore(Core):
    """The core with these Pods, converged."""

    def __init__(self, waiting: int, bound: int) -> None:
        configuration = Configuration(
            cluster_uid=CLUSTER,
            scheduler=SCHEDULER,
            watch_namespaces=("*",),
            kill_wait_s=30.0,
            gate="on",
            dry_run=False,
        )
        super().__init__(configuration)
        self.waiting, self.bound = waiting, bound
        self.hosts = max(bound // PODS_PER_HOST, 1)
        self.orders = map(float, itertools.count(2))
        described = describe([self.pod(0)], configuration)
        if isinstance(described, Invalid):
            raise BenchError(described.message)
        self._digest = digest(described)
        """Of the description that the service would have submitted."""
        self._fill()

    def _fill(self) -> None:
        hosts, pods = range(self.hosts), range(self.waiting + self.bound)
        self._list("nodes", map(self.node, hosts))
        self._list("slurmd_pods", map(self.slurmd_pod, hosts))
        self._list("slurm_nodes", map(self.slurm_node, hosts))
        self._list("pods", map(self.pod, pods))
        self._list("jobs", self.jobs())
        self.settle()

    def _list(self, source: Source, rows: Iterable[Row]) -> None:
        self.list_source(source, (Observed(row, 1.0) for row in rows))

    def node(self, number: int) -> Node:
        name = self.host(number)
        free = (("cpu", 128_000), ("memory", 2 << 40), ("pods", 250))
        offer = Offer(labels=(("kubernetes.io/hostname", name),), allocatable=free)
        return Node(name=name, uid=f"node-{number}", ready="True", offer=offer)

    def slurmd_pod(self, number: int) -> SlurmdPod:
        name = self.host(number)
        return SlurmdPod(
            namespace="slurm",
            name=f"slurmd-{name}",
            uid=f"slurmd-{number}",
            slurm_node=name,
            node_name=name,
            ready=True,
        )

    def slurm_node(self, number: int, *, state: frozenset[str] = MIXED) -> SlurmNode:
        return SlurmNode(name=self.host(number), state=state)

    def pod(self, number: int) -> Pod:
        """Return a Pod; the first ones are bound."""
        is_bound = number < self.bound
        return Pod(
            namespace="default",
            name=f"work-{number:06d}",
            uid=f"00000000-0000-4000-8000-{number:012x}",
            node_name=self.host(number) if is_bound else "",
            phase="Running" if is_bound else "Pending",
            job_id=self._job_id(number) if is_bound else "",
            spec=SPEC,
        )

    def jobs(self) -> Iterator[Job]:
        return map(self.job, range(self.waiting + self.bound))

    def job(self, number: int) -> Job:
        """Return the job of a Pod, a task of an array."""
        pod, is_bound = self.pod(number), number < self.bound
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
            state=RUNNING if is_bound else PENDING,
            slurm_nodes=(self.host(number),) if is_bound else (),
            reason="None" if is_bound else "Resources",
            script=True,
            started=is_bound,
        )

    def host(self, number: int) -> str:
        return f"host-{number % self.hosts:05d}"

    def _job_id(self, number: int) -> str:
        return f"{1000 + number // TASKS}_{number % TASKS}"


def main(waiting: str, bound: str) -> None:
    with gc_pauses.in_pieces():  # as the service runs
        begun_s = time.process_time()
        PodCore(int(waiting), int(bound))
        spent_s = time.process_time() - begun_s
    print(spent_s, peak_mib(Path("/proc/self/status")))


if __name__ == "__main__":
    main(*sys.argv[1:])
