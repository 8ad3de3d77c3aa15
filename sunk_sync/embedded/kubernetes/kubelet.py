"""All kubelets: a bound Pod starts, runs and ends, each step after a delay.

Annotations set the delays. Those of the Pod take precedence over those of its Node:

    embedded/start-delay-s  seconds from bound to Running and Ready (default 0; inf: never)
    embedded/end-delay-s    seconds from deletionTimestamp to gone (default 0; inf: never)
    embedded/run-s          seconds from Running to the end of the containers (default: never)
    embedded/exit-code      exit code of containers that end by themselves (default 0: Succeeded)

A Pod that does not fit beside the Node's other Pods is rejected: phase Failed, reason OutOfcpu or
similar.
"""

import math
from collections import defaultdict
from collections.abc import Iterator

from sunk_sync.embedded.kubernetes.resources import rejection, requests_of
from sunk_sync.embedded.kubernetes.store.kinds import NODES, PODS, Key, Object
from sunk_sync.embedded.kubernetes.store.patch import strategic
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions, Place
from sunk_sync.embedded.kubernetes.store.schema import SHAPES
from sunk_sync.embedded.kubernetes.store.store import Change, Store
from sunk_sync.embedded.kubernetes.store.timers import Clock, Task, Timers
from sunk_sync.embedded.kubernetes.store.writes import Writes

PREFIX = "embedded/"
START_DELAY = PREFIX + "start-delay-s"
END_DELAY = PREFIX + "end-delay-s"
RUN = PREFIX + "run-s"
EXIT_CODE = PREFIX + "exit-code"
MANAGER = "kubelet"

STEPS = ("start", "reject", "run", "end")
_READY_KINDS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_RUNNING_KINDS = ("PodReadyToStartContainers", "Ready", "ContainersReady")


class Kubelet:
    """Plans the next step of each Pod; `act` performs it."""

    def __init__(
        self,
        store: Store,
        writes: Writes,
        *,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._store = store
        self._writes = writes
        self._timers = timers
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}
        """Pod UID and step → when the step was first planned."""
        self._pods_on: defaultdict[str, set[Key]] = defaultdict(set)
        self._let_in: set[Key] = set()
        """Bound Pods that fit on their Node."""
        self._silent: set[str] = set()
        self._addresses = 0
        store.listen(PODS, self._on_pod)
        store.listen(NODES, self._on_node)

    def _on_pod(self, change: Change) -> None:
        pod = change.now.an_object
        node_name = pod["spec"].get("nodeName", "")
        if not node_name:
            return
        if change.type == "DELETED":
            self._pods_on[node_name].discard(change.key)
            self._forget(change.key, pod["metadata"]["uid"])
            return
        self._pods_on[node_name].add(change.key)
        self._plan(change.key, pod)

    def _forget(self, key: Key, uid: str) -> None:
        self._let_in.discard(key)
        for step in STEPS:
            self._since.pop((step, uid), None)
            self._timers.cancel(Task(step, key, uid))

    def _on_node(self, change: Change) -> None:
        before = change.before.an_object if change.before else None
        if before is None or _knobs(before) != _knobs(change.now.an_object):
            self._plan_on(change.now.an_object["metadata"]["name"])

    def _plan_on(self, node_name: str) -> None:
        for key in sorted(self._pods_on[node_name]):
            stored = self._store.get(PODS, key)
            if stored is not None:
                self._plan(key, stored.an_object)

    def silence(self, node_name: str, *, on: bool) -> None:
        """Stop or resume the kubelet of a Node: without it no Pod there starts or ends."""
        (self._silent.add if on else self._silent.discard)(node_name)
        self._plan_on(node_name)

    def see_all(self) -> None:
        """Plan all Pods again, after a restore."""
        for uid_step in list(self._since):
            del self._since[uid_step]
        self._pods_on.clear()
        self._let_in.clear()
        for key, stored in self._store.rows(PODS).items():
            node_name = stored.an_object["spec"].get("nodeName", "")
            if node_name:
                self._pods_on[node_name].add(key)
                self._plan(key, stored.an_object)

    def _plan(self, key: Key, pod: Object) -> None:
        uid, due = pod["metadata"]["uid"], self._next_step(pod)
        for step in STEPS:
            if due is None or step != due[0]:
                self._timers.cancel(Task(step, key, uid))
        if due is None:
            return
        step, delay_s = due
        if step == "start" and self._turns_away(key, pod):
            step, delay_s = "reject", 0.0
        since_s = self._since.setdefault((step, uid), self._clock.now_s)
        if math.isinf(delay_s):
            self._timers.cancel(Task(step, key, uid))
        else:
            self._timers.plan(Task(step, key, uid), since_s + delay_s)

    def _next_step(self, pod: Object) -> tuple[str, float] | None:
        node_name = pod["spec"]["nodeName"]
        if node_name in self._silent:
            return None
        node = self._store.get(NODES, f"/{node_name}")
        knobs = (_knobs(node.an_object) if node else {}) | _knobs(pod)
        phase = pod["status"].get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            return "end", float(knobs.get(END_DELAY, "0"))
        if phase == "Pending":
            return "start", float(knobs.get(START_DELAY, "0"))
        if phase == "Running" and RUN in knobs:
            return "run", float(knobs[RUN])
        return None

    def _turns_away(self, key: Key, pod: Object) -> Object | None:
        """Return the status of a Pod that does not fit; None if it fits or was admitted before."""
        if key in self._let_in:
            return None
        node_name = pod["spec"]["nodeName"]
        node = self._store.get(NODES, f"/{node_name}")
        room = node.an_object["status"].get("allocatable", {}) if node else {}
        beside = map(requests_of, self._living_on(node_name))
        away = rejection(requests_of(pod), beside=beside, allocatable=room)
        if away is None:
            self._let_in.add(key)
        return away

    def _living_on(self, node_name: str) -> Iterator[Object]:
        """Yield the other Pods whose containers still use the Node's resources."""
        for key in self._pods_on[node_name]:
            stored = self._store.get(PODS, key)
            phase = stored.an_object["status"].get("phase", "Pending") if stored else ""
            if stored and (phase == "Running" or (phase == "Pending" and key in self._let_in)):
                yield stored.an_object

    def act(self, task: Task) -> None:
        """Perform one step, if the Pod is still the one for which it was planned."""
        stored = self._store.get(PODS, task.name)
        if stored is None or stored.an_object["metadata"]["uid"] != task.uid:
            return
        pod = stored.an_object
        if task.what == "start":
            self._start(pod)
        elif task.what == "reject":
            self._reject(task.name, pod)
        elif task.what == "run":
            self._finish(pod)
        else:
            self._end(pod)

    def _start(self, pod: Object) -> None:
        self._addresses += 1
        number, now = self._addresses, self._clock.text()
        address = f"10.{64 + number // 62500 % 128}.{number // 250 % 250}.{number % 250 + 1}"
        status = {
            "phase": "Running",
            "startTime": now,
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(_READY_KINDS, "True", at=now),
            "containerStatuses": _containers(pod, {"running": {"startedAt": now}}),
        }
        self._patch_status(pod, status)

    def _reject(self, key: Key, pod: Object) -> None:
        """Reject the Pod, unless it fits now after all."""
        away = self._turns_away(key, pod)
        if away is None:
            self._plan(key, pod)
        else:
            self._patch_status(pod, {**away, "startTime": self._clock.text()})

    def _finish(self, pod: Object) -> None:
        """End the containers; the Pod stays until it is deleted."""
        now = self._clock.text()
        code = int(_knobs(pod).get(EXIT_CODE, "0"))
        reason = "Error" if code else "Completed"
        terminated = {"exitCode": code, "reason": reason, "finishedAt": now}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "conditions": _conditions(_RUNNING_KINDS, "False", at=now),
            "containerStatuses": _containers(pod, {"terminated": terminated}),
        }
        self._patch_status(pod, status)

    def _end(self, pod: Object) -> None:
        """Write the last status, then remove the object."""
        if pod["status"].get("phase") == "Running":
            self._finish(pod)
        uid = pod["metadata"]["uid"]
        self._writes.delete(_place(pod), DeleteOptions(grace_s=0, uid=uid))

    def _patch_status(self, pod: Object, status: Object) -> None:
        patch, shape = {"status": status}, SHAPES["Pod"]
        place = _place(pod, subresource="status")
        self._writes.patch(place, lambda old: strategic(old, patch, shape=shape))

    def lose(self, node_name: str) -> None:
        """Set Ready of all Pods of a lost Node to False, as the node controller does."""
        for key in sorted(self._pods_on[node_name]):
            stored = self._store.get(PODS, key)
            if stored is not None:
                conditions = _conditions(("Ready",), "False", at=self._clock.text())
                self._patch_status(stored.an_object, {"conditions": conditions})


def _place(pod: Object, *, subresource: str = "") -> Place:
    metadata = pod["metadata"]
    return Place(
        kind=PODS,
        namespace=metadata["namespace"],
        name=metadata["name"],
        subresource=subresource,
        manager=MANAGER,
    )


def _knobs(an_object: Object) -> dict[str, str]:
    annotations = an_object["metadata"].get("annotations", {})
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX)}


def _conditions(kinds: tuple[str, ...], status: str, *, at: str) -> list[Object]:
    return [{"type": kind, "status": status, "lastTransitionTime": at} for kind in kinds]


def _containers(pod: Object, state: Object) -> list[Object]:
    running = "running" in state
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": f"embedded://{pod['metadata']['uid']}/{container['name']}",
            "ready": running,
            "started": running,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]
