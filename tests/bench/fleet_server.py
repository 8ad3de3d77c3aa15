"""Both embedded servers with Nodes and NodeSets, and a stand-in that runs the slurmd Pods.

`python -m tests.bench.fleet_server NODES SETS` prints the path of a kubeconfig and the address of
slurmrestd. Each line of its input is answered: `scale REPLICAS` and `image NAME` change every
NodeSet, `shown` returns the Slurm nodes that are idle and the slurmd Pods with the newest image.
"""

import asyncio
import sys
import tempfile
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

from sunk_sync.core.model.names import LABEL_SHAPE
from sunk_sync.core.model.node_set import API_VERSION
from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer, kubeconfig
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import NODE_SETS, PODS, Object
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.dynamic import registration_of
from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld

NAMESPACE = "slurm"
TOKEN = "bench"
LOOK_S = 0.02
AT_ONCE = 40
"""Pods that scheduler and kubelets handle in one look."""


class Fleet:
    """Create on the event loop."""

    def __init__(self, *, nodes: int, sets: int) -> None:
        self.kube = Kubernetes(epoch=datetime.now(UTC))
        self.slurm = SlurmWorld(Setup(epoch_s=time.time()))
        tokens = Tokens()
        tokens.add(TOKEN)
        self._kube_server = KubeServer(KubeApi(self.kube))
        self._slurm_server = SlurmServer(SlurmRest(self.slurm, tokens))
        self.kube.install_node_sets()
        self.kube.add_namespace(NAMESPACE)
        self._free = deque(f"k{number}" for number in range(nodes))
        for name in self._free:
            self.kube.add_node(name, cpus=16)
        self._waiting: deque[Object] = deque()
        self._runs: dict[str, str] = {}
        """UID of a Pod → name of its Slurm node."""
        self._images: dict[str, str] = {}
        self._image = "slurmd:1"
        self.kube.store.listen(PODS, self._on_change)
        self._sets = [f"set{number}" for number in range(sets)]
        for name in self._sets:
            self.kube.create(NODE_SETS, _node_set(name, image=self._image))

    async def start(self) -> tuple[str, str]:
        address = await self._kube_server.start()
        return address, await self._slurm_server.start()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for _ in range(min(AT_ONCE, len(self._waiting))):
                self._handle(self._waiting.popleft())
            self._kube_server.wake()

    def _on_change(self, change: Change) -> None:
        pod = change.now.an_object
        if LABEL_SHAPE in pod["metadata"].get("labels", {}):
            self._waiting.append({"gone": change.type == "DELETED", "pod": pod})

    def _handle(self, item: Object) -> None:
        pod = item["pod"]
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if item["gone"]:
            self._stop(uid, pod)
        elif "deletionTimestamp" in pod["metadata"]:
            return
        elif not pod["spec"].get("nodeName"):
            self._bind(pod, name)
        elif pod["status"].get("phase") == "Running" and uid not in self._runs:
            self._runs[uid] = name
            self._images[name] = str(pod["spec"]["containers"][0]["image"])
            spec = registration_of(pod["spec"]["containers"][0]["args"])
            self.slurm.register(spec, now_s=self._slurm_server.now_s)

    def _bind(self, pod: Object, name: str) -> None:
        bound = self.kube.pod(name, namespace=NAMESPACE)
        if not self._free or bound is None or bound["spec"].get("nodeName"):
            return
        self.kube.advance(self._kube_server.now_s)
        place = Place(kind=PODS, namespace=NAMESPACE, name=name, manager="scheduler")
        node = self._free.popleft()
        try:
            self.kube.writes.bind(place, {"target": {"name": node}})
        except RefusalError:
            self._free.append(node)
            self._waiting.append({"gone": False, "pod": pod})

    def _stop(self, uid: str, pod: Object) -> None:
        if node := pod["spec"].get("nodeName"):
            self._free.append(node)
        name = self._runs.pop(uid, "")
        if name in self.slurm.memory.slurmds:
            self.slurm.kill_slurmd(name, now_s=self._slurm_server.now_s)

    def change(self, **spec: Any) -> None:
        self.kube.advance(self._kube_server.now_s)
        for name in self._sets:
            place = Place(kind=NODE_SETS, namespace=NAMESPACE, name=name)
            self.kube.writes.patch(place, lambda old: merged(old, {"spec": spec}))
        self._kube_server.wake()

    def do(self, line: str) -> str:
        what, _, given = line.partition(" ")
        if what == "scale":
            self.change(replicas=int(given))
        elif what == "image":
            self._image = given
            self.change(template=_template(given))
        idle = sum(row.base == "IDLE" and not row.flags & {"DRAIN", "NOT_RESPONDING"}
                   for row in self.slurm.nodes.values())  # fmt: skip
        newest = sum(self._images[name] == self._image for name in self._runs.values())
        return f"{idle} {newest} {len(self._runs)}"


def _template(image: str) -> Object:
    container = {
        "name": "slurmd",
        "image": image,
        "args": ["-D", "--conf-server", "slurmctld:6817"],
        "resources": {"limits": {"cpu": "16", "memory": "64Gi"}},
    }
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}


def _node_set(name: str, *, image: str) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 0, "template": _template(image)},
    }


async def main(nodes: str, sets: str) -> None:
    fleet = Fleet(nodes=int(nodes), sets=int(sets))
    address, slurm = await fleet.start()
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
        file.write(kubeconfig(address))
        file.flush()
        print(f"{file.name} {slurm}", flush=True)
        running = asyncio.create_task(fleet.run())
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(fleet.do(line.strip()), flush=True)
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
