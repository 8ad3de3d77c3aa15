"""Both embedded servers with hosts for Pods that may not run side by side.

`python -m tests.bench.apart_server HOSTS` prints the path of a kubeconfig and the address of
slurmrestd. Each line of its input is answered: `create N` makes N such Pods, `shown` returns how
many Pods are bound, on how many Nodes, and how many jobs were submitted.
"""

import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer, kubeconfig
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.bench.pod_site import OURS, apart_from, workload

TOKEN = "bench"
SLURMD = {"app.kubernetes.io/component": "slurmd"}


class Hosts:
    """Create on the event loop."""

    def __init__(self, count: int) -> None:
        names = [f"n{number}" for number in range(count)]
        self.kube = Kubernetes(epoch=datetime.now(UTC))
        nodes = [NodeSpec(name=name, cpus=16) for name in names]
        self.slurm = SlurmWorld(Setup(nodes=nodes, epoch_s=time.time()))
        tokens = Tokens()
        tokens.add(TOKEN)
        self._kube_server = KubeServer(KubeApi(self.kube))
        self._slurm_server = SlurmServer(SlurmRest(self.slurm, tokens))
        for name in names:
            self.kube.add_node(name)
            spec = {"hostNetwork": True, "nodeName": name}
            self.kube.add_pod(f"slurmd-{name}", metadata={"labels": SLURMD}, spec=spec)
        self._created: list[str] = []

    async def start(self) -> tuple[str, str]:
        return await self._kube_server.start(), await self._slurm_server.start()

    def do(self, line: str) -> str:
        what, _, given = line.partition(" ")
        if what == "create":
            self._create(int(given))
        found = [self.kube.pod(name) or {} for name in self._created]
        nodes = [pod["spec"]["nodeName"] for pod in found if pod["spec"].get("nodeName")]
        return f"{len(nodes)} {len(set(nodes))} {len(self.slurm.jobs)}"

    def _create(self, count: int) -> None:
        self.kube.advance(self._kube_server.now_s)
        for number in range(count):
            pod = apart_from(workload(f"p{number}", OURS), group="apart")
            self._created.append(pod["metadata"]["name"])
            metadata = {"labels": pod["metadata"]["labels"]}
            self.kube.add_pod(self._created[-1], metadata=metadata, spec=pod["spec"])
        self._kube_server.wake()


async def main(hosts: str) -> None:
    servers = Hosts(int(hosts))
    address, slurm = await servers.start()
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
        file.write(kubeconfig(address))
        file.flush()
        print(f"{file.name} {slurm}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(servers.do(line.strip()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
