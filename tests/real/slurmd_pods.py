"""A stand-in for scheduler and container runtime of slurmd Pods: real slurmd, no containers.

Unless `binds` is false it binds each waiting slurmd Pod to a Node. It starts a real slurmd with the
arguments of the Pod once the test bed's kubelet runs it, and ends slurmd when the Pod is gone.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from tests.real.stage import eventually
from tests.real.testbed import Bed
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import RestError

Object = dict[str, Any]
LOOK_S = 0.05
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class SlurmdPods:
    """Use as a context manager. `starts`: whether new Pods get a slurmd."""

    def __init__(self, bed: Bed, *, namespace: str = "slurm", binds: bool = True) -> None:
        self._bed = bed
        self._namespace = namespace
        self._running: dict[str, str] = {}
        """UID → name of the daemon."""
        self._ports = Ports()
        self._port_of: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._binds = binds
        self.starts = True
        self.started: list[str] = []
        """Name of the Pod for each slurmd it started."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for name in self._running.values():
            self._stop(name)
        self._ports.close()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            with contextlib.suppress(RestError):
                self._look()

    def _look(self) -> None:
        pods = list(self._slurmd_pods())
        living = {pod["metadata"]["uid"] for pod in pods}
        for uid in self._running.keys() - living:
            self._stop(self._running.pop(uid))
        busy = {pod["spec"].get("nodeName") for pod in pods}
        nodes = [
            one["metadata"]["name"] for one in self._items("/api/v1/nodes") if _takes_pods(one)
        ]
        for pod in pods:
            if "nodeName" not in pod["spec"]:
                if not self._binds:
                    continue
                free = [name for name in nodes if name not in busy] or nodes
                if free:
                    busy.add(free[0])
                    self._bind(pod, free[0])
            elif self._is_to_start(pod):
                self._start(pod)

    def _slurmd_pods(self) -> Iterator[Object]:
        query = "?labelSelector=sunk.coreweave.com%2Fshape"
        yield from self._items(f"/api/v1/namespaces/{self._namespace}/pods{query}")

    def _items(self, path: str) -> Any:
        return self._bed.kube.rest.call("GET", path)["items"]

    def _bind(self, pod: Object, node: str) -> None:
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}/binding"
        self._bed.kube.rest.call("POST", path, body)

    def _is_to_start(self, pod: Object) -> bool:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
        known = meta["uid"] in self._running or "deletionTimestamp" in meta
        return self.starts and phase == "Running" and not known

    def _start(self, pod: Object) -> None:
        """Start slurmd with the Pod's arguments. One machine has all, so each has its own port."""
        name, args = pod["metadata"]["name"], list(_slurmd(pod)["args"])
        port = self._port_of.setdefault(name, self._ports.take())
        conf = args.index("--conf") + 1
        args[conf] += f" Port={port}"
        self._bed.slurm.start_dynamic_slurmd(name, *args)
        self._running[pod["metadata"]["uid"]] = name
        self.started.append(name)

    def _stop(self, name: str) -> None:
        self._bed.slurm.stop_slurmd(name)


def _takes_pods(node: Object) -> bool:
    """Whether it is not cordoned, silent or out of service: numbered Pods do not go there."""
    taints = node["spec"].get("taints", ())
    repels = any(one["effect"] == "NoSchedule" for one in taints)
    return not repels and all(one["key"] != OUT_OF_SERVICE for one in taints)


def _slurmd(pod: Object) -> Object:
    found = [one for one in pod["spec"]["containers"] if one["name"] == "slurmd"]
    assert found, json.dumps(pod)
    container: Object = found[0]
    return container


def wait_for(what: Callable[[], Any], text: str, *, deadline_s: float = 20) -> float:
    """Wait until `what()` is true; return the seconds it took."""
    begun = time.monotonic()
    eventually(what, text, within_s=deadline_s)
    return time.monotonic() - begun
