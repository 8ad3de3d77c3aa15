"""A NodeSet on three machines of its own, and a stand-in that runs its slurmd Pods.

The embedded Kubernetes has no scheduler for them, and runs no programs. This stand-in binds each
Pod to a free machine, and registers its slurmd in Slurm once the Pod runs.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from sunk_sync.core.model.names import LABEL_SHAPE
from sunk_sync.core.model.node_set import API_VERSION
from sunk_sync.demo.stage.worlds import MACHINES, NAMESPACE, NODE_SET, POD_ENDS_S, Worlds
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY
from sunk_sync.embedded.kubernetes.store.kinds import NODE_SETS, PODS, Object
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.slurm.dynamic import registration_of

STARTS_S = 0.2
"""How long slurmd takes to register."""
LOOK_S = 0.05
SLURMCTLD = "slurmctld:6817"


class Slurmds:
    """Create on the event loop; end with `aclose`."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._runs: dict[str, str] = {}
        """UID of a Pod → name of its Slurm node."""
        self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in slurmd_pods(self._worlds)}
        for uid in self._runs.keys() - pods.keys():
            self._stop(self._runs.pop(uid))
        for uid, pod in pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                continue
            if not pod["spec"].get("nodeName"):
                self._bind(pod)
            elif pod["status"].get("phase") == "Running" and uid not in self._runs:
                self._runs[uid] = pod["metadata"]["name"]
                asyncio.get_running_loop().call_later(STARTS_S, self._register, pod)

    def _bind(self, pod: Object) -> None:
        taken = {one["spec"].get("nodeName") for one in slurmd_pods(self._worlds)}
        free = [name for name in MACHINES if name not in taken]
        if not free:
            return
        place = Place(
            kind=PODS, namespace=NAMESPACE, name=pod["metadata"]["name"], manager="scheduler"
        )
        with self._worlds.kubernetes() as kube:
            kube.writes.bind(place, {"target": {"name": free[0]}})

    def _register(self, pod: Object) -> None:
        (slurmd,) = pod["spec"]["containers"]
        spec = registration_of(slurmd["args"])
        self._worlds.slurm.register(spec, now_s=self._worlds.slurm_now_s)

    def _stop(self, name: str) -> None:
        if name in self._worlds.slurm.memory.slurmds:
            self._worlds.slurm.kill_slurmd(name, now_s=self._worlds.slurm_now_s)


def slurmd_pods(worlds: Worlds) -> Sequence[Object]:
    """Return the Pods of the NodeSet, by name."""
    pods = worlds.kube.pods(NAMESPACE)
    ours = [pod for pod in pods if LABEL_SHAPE in pod["metadata"].get("labels", {})]
    return sorted(ours, key=lambda pod: str(pod["metadata"]["name"]))


def image_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def apply(worlds: Worlds, *, replicas: int, image: str) -> None:
    """Apply the NodeSet: make it, or change it."""
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "NodeSet",
        "metadata": {"name": NODE_SET, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "template": _template(image),
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
        },
    }
    place = Place(kind=NODE_SETS, namespace=NAMESPACE, name=NODE_SET)
    with worlds.kubernetes() as kube:
        if kube.store.get(NODE_SETS, place.key) is None:
            kube.create(NODE_SETS, body)
        else:
            kube.writes.patch(place, lambda old: merged(old, body))


def _template(image: str) -> dict[str, Any]:
    container = {
        "name": "slurmd",
        "image": image,
        "args": ["-D", "--conf-server", SLURMCTLD],
        "resources": {"limits": {"cpu": "16", "memory": "64Gi"}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"metadata": {"annotations": {END_DELAY: str(POD_ENDS_S)}}, "spec": spec}
