"""Both embedded clusters on sockets of 127.0.0.1, and the operations that users do on them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from sunk_sync.core.model.names import CORDON_REASON, PENDING_DELETION
from sunk_sync.demo.stage.callers import Callers
from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer, kubeconfig
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import Object
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import Node, NodeSpec
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld

HOSTS = tuple(f"n{number}" for number in range(1, 13))
PLAIN_HOSTS, WORKLOAD_HOSTS = HOSTS[:9], HOSTS[9:]
"""The story breaks the first group; Slurm schedules Pods to the second group."""
MACHINES = ("m1", "m2", "m3")
"""Nodes for the slurmd Pods of a NodeSet."""
NODE_SET = "cpu"
MAIN, GPU, URGENT = "main", "gpu", "urgent"
"""Partitions; jobs of `urgent` preempt those of `gpu`."""
NAMESPACE = "slurm"
CLUSTER = "demo"
SCHEDULER = f"{NAMESPACE}-{CLUSTER}"
"""The default scheduler name of the service."""
TOKEN = "demo"
HOOKS_KEY = b"a demo without secrets"
SCRIPT_MARK = "Placeholder of sunk-sync"
CPUS = 16
POD_ENDS_S = 0.5
SCHEDULES_EVERY_S = 0.25
"""About the same as slurmctld with batch_sched_delay=0."""


class Worlds:
    """Twelve machines, each with a Node, a slurmd Pod and a Slurm node; some run jobs. And three
    Nodes without a slurmd Pod, for a NodeSet.
    """

    def __init__(self) -> None:
        self._callers: Callers | None = None
        self.kube = Kubernetes(epoch=datetime.now(UTC))
        self.slurm = SlurmWorld(_setup(), wake=self._wake_callers)
        tokens = Tokens()
        tokens.add(TOKEN)
        self._kube_server = KubeServer(KubeApi(self.kube))
        self._slurm_server = SlurmServer(SlurmRest(self.slurm, tokens))
        self.kubeconfig = ""
        """Text of a kubeconfig, set by `start`."""
        self.slurm_address = ""
        self.kube.install_node_sets()
        for host in (*HOSTS, *MACHINES):
            self.kube.add_node(host, cpus=CPUS)
        for host in HOSTS:
            self._add_pod(host)
        for number, host in enumerate(PLAIN_HOSTS[1::2]):
            self.run_job(host, user=f"user{number}", cpus=CPUS if number % 2 else 4)

    async def start(self) -> None:
        self.kubeconfig = kubeconfig(await self._kube_server.start())
        self.slurm_address = await self._slurm_server.start()

    def start_callers(self, url: str) -> None:
        self._callers = Callers(self._slurm_server, url=url, key=HOOKS_KEY)

    async def stop_callers(self) -> None:
        """Cancel all calls of the hooks: the service closes faster without open calls."""
        if self._callers is not None:
            await self._callers.aclose()
            self._callers = None

    async def aclose(self) -> None:
        await self.stop_callers()
        await self._kube_server.aclose()
        await self._slurm_server.aclose()

    def slurm_node(self, host: str) -> Node:
        return self.slurm.nodes[host]

    def node(self, host: str) -> Object:
        name = host if host in HOSTS else self.pod(host).get("spec", {}).get("nodeName", "")
        return self.kube.node(name) or {}

    @property
    def slots(self) -> Sequence[str]:
        """Return the Slurm nodes of the NodeSet, sorted."""
        return sorted(name for name in self.slurm.nodes if name.startswith(f"{NODE_SET}-"))

    def pod(self, host: str) -> Object:
        return self.kube.pod(pod_of(host), namespace=NAMESPACE) or {}

    def cordon(self, host: str, why: str) -> None:
        with self.kubernetes() as kube:
            kube.annotate(host, {CORDON_REASON: why})
            kube.cordon(host)

    def uncordon(self, host: str) -> None:
        with self.kubernetes() as kube:
            kube.cordon(host, on=False)
            kube.annotate(host, {CORDON_REASON: None})

    def mark_for_deletion(self, host: str, why: str) -> None:
        with self.kubernetes() as kube:
            kube.annotate(pod_of(host), {PENDING_DELETION: why}, namespace=NAMESPACE)

    def delete_pod(self, host: str) -> None:
        with self.kubernetes() as kube:
            kube.delete_pod(pod_of(host), namespace=NAMESPACE)

    def create_pod(self, host: str) -> None:
        with self.kubernetes():
            self._add_pod(host)

    def set_ready(self, host: str, *, ready: bool) -> None:
        """Set the Ready condition that the kubelet reports."""
        with self.kubernetes() as kube:
            kube.set_node_ready(host, ready=ready)

    def remove_node(self, host: str) -> None:
        with self.kubernetes() as kube:
            kube.remove_node(host)

    def add_node(self, host: str) -> None:
        with self.kubernetes() as kube:
            kube.add_node(host, cpus=CPUS)

    def drain(self, host: str, why: str) -> None:
        self.slurm.drain(host, reason=why, now_s=self._slurm_server.now_s)

    def resume(self, host: str) -> None:
        self.slurm.resume(host, now_s=self._slurm_server.now_s)

    def run_job(
        self, host: str, *, user: str, cpus: int = 4, duration_s: float | None = None
    ) -> None:
        """Submit a job to this host; without a duration it runs until it is cancelled."""
        request = JobRequest(
            name="train", user=user, cpus=cpus, memory_mb=1000, required_nodes=(host,),
            partition=MAIN if host in HOSTS else NODE_SET, duration_s=duration_s, requeue=False,
        )  # fmt: skip
        self.slurm.submit(request, now_s=self._slurm_server.now_s)

    def cancel_jobs(self, host: str) -> None:
        for job_id, job in list(self.slurm.jobs.items()):
            if host in (job.nodes or job.request.required_nodes):
                self.slurm.cancel(job_id, now_s=self._slurm_server.now_s)

    def stop_slurmctld(self) -> None:
        """Stop slurmctld; slurmrestd keeps running."""
        self.slurm.stop_controller(now_s=self._slurm_server.now_s)

    def start_slurmctld(self) -> None:
        self.slurm.start_controller(now_s=self._slurm_server.now_s)

    @property
    def slurm_now_s(self) -> float:
        return self._slurm_server.now_s

    @contextmanager
    def kubernetes(self) -> Iterator[Kubernetes]:
        """Yield Kubernetes at the current time; ignore writes that it refuses."""
        self.kube.advance(self._kube_server.now_s)
        with suppress(RefusalError):
            yield self.kube
        self._kube_server.wake()

    def _wake_callers(self) -> None:
        if self._callers is not None:
            self._callers.wake()

    def _add_pod(self, host: str) -> None:
        metadata: dict[str, Any] = {
            "labels": {"app.kubernetes.io/component": "slurmd"},
            "annotations": {END_DELAY: str(POD_ENDS_S)},
        }
        spec = {"hostNetwork": True, "nodeName": host}
        self.kube.add_pod(pod_of(host), namespace=NAMESPACE, metadata=metadata, spec=spec)


def pod_of(host: str) -> str:
    """Return the name of the slurmd Pod; a NodeSet gives both one name."""
    return f"slurmd-{host}" if host in HOSTS else host


def _setup() -> Setup:
    return Setup(
        nodes=[NodeSpec(name=host, cpus=CPUS, gres="gpu:4") for host in HOSTS],
        partitions=[
            Partition(name=MAIN, default=True, nodes=PLAIN_HOSTS),
            Partition(name=GPU, nodes=WORKLOAD_HOSTS, preempt_mode="CANCEL"),
            Partition(name=URGENT, nodes=WORKLOAD_HOSTS, tier=2),
            Partition(name=NODE_SET),
        ],
        knobs=Knobs(
            schedule_every_s=SCHEDULES_EVERY_S,
            prolog_slurmctld=True,
            epilog_slurmctld=True,
            acted_script=SCRIPT_MARK,
        ),
        epoch_s=time.time(),
    )
