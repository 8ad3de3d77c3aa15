"""A NodeSet grows from 0 to 40 and goes to 0 again, with real slurmd, compared with a floor.

The floor are the same Pods, made by a script without sunk-sync. A stand-in for scheduler and
kubelet starts a slurmd for each Pod on one machine, 40 at once: that is most of the time. Both see
creation by a watch, and registration by listings of Slurm, 50 ms apart.
"""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.bench.figures import Figure, beside_floor
from tests.bench.pod_watch import PodWatch
from tests.real.node_farm import PATH, Farm, farm_with
from tests.real.slurmd_pods import wait_for

NAMESPACE = "slurm"
SET = f"{PATH}/cpu"
MERGE = "application/merge-patch+json"
PODS = 40
LOOK_S = 0.05
WITHIN_S = 120
GRACE_S = 1
IDLE_OUT_S = 2.0
"""From the patch to the last deletion of a Pod, besides its grace period."""
OWN = ("name", "namespace", "labels", "annotations")


class Watcher:
    """When each Pod came, when it was told to end, and when Slurm first had its record in use.

    Pods are watched, not listed: looking must not take the machine from those who work.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._pods = PodWatch(farm.kube, NAMESPACE)
        self._stop = threading.Event()
        self.registered_s: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S) and len(self.registered_s) < PODS:
            for name, state in self._farm.records().items():
                if not state & {"DOWN", "NOT_RESPONDING"}:
                    self.registered_s.setdefault(name, time.monotonic())

    def took_ms(self) -> list[float]:
        made_s = self._pods.wait("made", self.registered_s)
        return [(self.registered_s[name] - made_s[name]) * 1e3 for name in self.registered_s]

    def last_ended_s(self) -> float:
        """Return when the last of them was told to end."""
        return max(self._pods.wait("deleting", self.registered_s).values())


def nodesets() -> Iterator[Figure]:
    """Scale a NodeSet from 0 to 40 slurmd Pods and back, compared with a floor."""
    with farm_with("26.05", nodes=PODS) as farm:
        farm.make(0)
        with Watcher(farm) as ours:
            begun_s = time.monotonic()
            farm.scale(PODS)
            wait_for(lambda: len(ours.registered_s) == PODS, "registered", deadline_s=WITHIN_S)
            whole_s = max(ours.registered_s.values()) - begun_s
            wait_for(lambda: farm.is_available(PODS), "available", deadline_s=WITHIN_S)
            (pod, *_) = farm.pods_of().values()
            patched_s = time.monotonic()
            farm.kube.rest.call("PATCH", SET, {"spec": {"replicas": 0}}, content_type=MERGE)
            wait_for(lambda: not farm.records(), "no record", deadline_s=WITHIN_S)
            gone_s = time.monotonic() - patched_s
            ended_s = ours.last_ended_s() - patched_s
        farm.service.terminate()
        with Watcher(farm) as bare:
            for number in range(PODS):
                _make(farm, pod, f"cpu-{number}")
            wait_for(lambda: len(bare.registered_s) == PODS, "registered", deadline_s=WITHIN_S)
    what = "Pod created → registered"
    yield from beside_floor(what, ours.took_ms(), bare.took_ms(), limits={50: None, 95: 1.5})
    yield Figure(f"0 → {PODS}: all registered after the patch", whole_s, "s")
    yield Figure(f"{PODS} → 0: last idle Pod told to end after the patch", ended_s, "s", IDLE_OUT_S)
    yield Figure(f"{PODS} → 0: last record gone, grace period {GRACE_S} s", gone_s, "s")


def _make(farm: Farm, pod: dict[str, Any], name: str) -> None:
    """Make the same Pod with another name, and without an owner."""
    like = pod["metadata"]["name"]
    kept = {key: pod["metadata"][key] for key in OWN if key in pod["metadata"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}
    text = json.dumps(body).replace(f'"{like}"', f'"{name}"')
    farm.kube.rest.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", json.loads(text))
