"""Cordons and Pods all the time: how long each takes to get through."""

import contextlib
import threading
import time
from dataclasses import dataclass, field

from tests.real.replicas import Repeated
from tests.real.testbed import Bed, kube_objects
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.rest import RestError

NAME = "roll"
WAITING_MAX = 8
EVERY_S = 0.25
LOOK_EVERY_S = 0.05


@dataclass
class Delays:
    """Of one kind of change: those that wait, by what they wait for, and how long others took."""

    waiting: dict[tuple[str, bool], float] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)

    def came(self, what: tuple[str, bool]) -> None:
        if (began_s := self.waiting.pop(what, None)) is not None:
            self.took_s.append(time.monotonic() - began_s)

    def __str__(self) -> str:
        middle_s = sorted(self.took_s)[len(self.took_s) // 2]
        return f"{len(self.took_s)}, median {middle_s:.2f} s, longest {max(self.took_s):.2f} s"


class Load(Closing):
    """Each quarter of a second one Node is cordoned or uncordoned, and one Pod created.

    A Pod is deleted once it is bound.
    """

    def __init__(self, bed: Bed, scheduler: str, namespace: str) -> None:
        self._bed, self._scheduler, self._namespace = bed, scheduler, namespace
        self._nodes = bed.slurm.conf.external_names
        self.drains, self.pods = Delays(), Delays()
        self._turns = 0
        self._lock = threading.Lock()
        self._changing = Repeated(self._change, every_s=EVERY_S)
        self._looking = Repeated(self._look, every_s=LOOK_EVERY_S)

    def _change(self, number: int) -> None:
        turn, place = divmod(self._turns, len(self._nodes))
        if self._begins(self.drains, (self._nodes[place], turn % 2 == 0)):
            self._turns += 1
            self._bed.kube.cordon(self._nodes[place], unschedulable=turn % 2 == 0)
        pod = self._pod(f"{NAME}-{number}")
        if self._begins(self.pods, (pod["metadata"]["name"], True)):
            self._bed.kube.create_pod(pod)

    def _begins(self, delays: Delays, what: tuple[str, bool]) -> bool:
        """Note that a change begins, unless many wait: a busy machine has no time for more."""
        with self._lock:
            if len(delays.waiting) >= WAITING_MAX:
                return False
            delays.waiting[what] = time.monotonic()
            return True

    def _pod(self, name: str) -> Object:
        requests = {"cpu": "1", "memory": "100Mi"}
        container = {**kube_objects.CONTAINER, "resources": {"requests": requests}}
        spec = {
            "containers": [container],
            "schedulerName": self._scheduler,
            "terminationGracePeriodSeconds": 1,
        }
        labels = {"of": "load"}
        return kube_objects.pod(name, namespace=self._namespace, labels=labels, spec=spec)

    def _look(self, _: int) -> None:
        states = self._bed.slurm.states()
        with self._lock:
            for node in self._nodes:
                self.drains.came((node, "DRAIN" in states[node]))
        path = f"/api/v1/namespaces/{self._namespace}/pods?labelSelector=of%3Dload"
        for pod in self._bed.kube.rest.call("GET", path)["items"]:
            if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                with self._lock:
                    self.pods.came((pod["metadata"]["name"], True))
                with contextlib.suppress(RestError):  # gone since the listing
                    self._bed.kube.delete_pod(pod["metadata"]["name"], self._namespace)

    @property
    def unanswered(self) -> dict[tuple[str, bool], float]:
        with self._lock:
            return self.drains.waiting | self.pods.waiting

    @property
    def jobs(self) -> list[str]:
        """Names of their jobs that hold something in Slurm."""
        names = self._bed.slurm.squeue("-h", "-o", "%j").split()
        return [name for name in names if f"/{NAME}-" in name]

    def end(self, *, within_s: float) -> None:
        """Change no more, and uncordon all; wait until everything has got through."""
        self._changing.close()
        end_s = time.monotonic() + within_s
        while self.unanswered and time.monotonic() < end_s:
            time.sleep(LOOK_EVERY_S)
        assert not self.unanswered, f"not within {within_s} s: {sorted(self.unanswered)}"
        for node in self._nodes:
            self._bed.kube.cordon(node, unschedulable=False)

    def close(self) -> None:
        self._changing.close()
        self._looking.close()
