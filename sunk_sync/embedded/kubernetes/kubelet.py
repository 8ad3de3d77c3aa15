"""What all kubelets do to Pods: a bound Pod starts, runs and ends, each after its delay.

Knobs are annotations, of a Pod or (for all its Pods) of its Node; the Pod's own win:

    embedded/start-delay-s  seconds from bound to Running and Ready (default 0; inf: never)
    embedded/end-delay-s    seconds from deletionTimestamp to gone (default 0; inf: never)
    embedded/run-s          seconds from Running to the end of the containers (default: never)
    embedded/exit-code      how the containers end by themselves (default 0: Succeeded)

A Pod whose requests do not fit beside those of the Node's other Pods is turned away: phase Failed,
reason OutOfcpu or its like.
"""

import math
from collections import defaultdict
from collections.abc import Iterator

from sunk_sync.embedded.kubernetes.room import rejection, requests_of
from sunk_sync.embedded.kubernetes.store.agenda import Agenda, Clock, Task
from sunk_sync.embedded.kubernetes.store.kinds import NODES, PODS, Key, Object
from sunk_sync.embedded.kubernetes.store.patch import strategic
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions, Place
from sunk_sync.embedded.kubernetes.store.schema import SHAPES
from sunk_sync.embedded.kubernetes.store.store import Change, Store
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
    """Plans what is due on the agenda; `act` does it."""

    def __init__(
        self,
        store: Store,
        writes: Writes,
        *,
        agenda: Agenda,
        clock: Clock,
    ) -> None:
        self._store = store
        self._writes = writes
        self._agenda = agenda
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}
        """When a step of a Pod (by uid) was first seen."""
        self._pods_on: defaultdict[str, set[Key]] = defaultdict(set)
        self._let_in: set[Key] = set()
        """Bound Pods for which there was room."""
        self._silent: set[str] = set()
        self._addresses = 0
        store.listen(PODS, self._hear_pod)
        store.listen(NODES, self._hear_node)

    # Hearing

    def _hear_pod(self, change: Change) -> None:
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
            self._agenda.cancel(Task(step, key, uid))

    def _hear_node(self, change: Change) -> None:
        before = change.before.an_object if change.before else None
        if before is None or _knobs(before) != _knobs(change.now.an_object):
            self._plan_on(change.now.an_object["metadata"]["name"])

    def _plan_on(self, node_name: str) -> None:
        for key in sorted(self._pods_on[node_name]):
            stored = self._store.get(PODS, key)
            if stored is not None:
                self._plan(key, stored.an_object)

    def silence(self, node_name: str, *, on: bool) -> None:
        """Its kubelet is away: no Pod of it starts or ends until it is back."""
        (self._silent.add if on else self._silent.discard)(node_name)
        self._plan_on(node_name)

    def see_all(self) -> None:
        """Everything may have changed: plan all anew."""
        for uid_step in list(self._since):
            del self._since[uid_step]
        self._pods_on.clear()
        self._let_in.clear()
        for key, stored in self._store.rows(PODS).items():
            node_name = stored.an_object["spec"].get("nodeName", "")
            if node_name:
                self._pods_on[node_name].add(key)
                self._plan(key, stored.an_object)

    # Planning

    def _plan(self, key: Key, pod: Object) -> None:
        uid, due = pod["metadata"]["uid"], self._next_step(pod)
        for step in STEPS:
            if due is None or step != due[0]:
                self._agenda.cancel(Task(step, key, uid))
        if due is None:
            return
        step, delay_s = due
        if step == "start" and self._turns_away(key, pod):
            step, delay_s = "reject", 0.0
        since_s = self._since.setdefault((step, uid), self._clock.now_s)
        if math.isinf(delay_s):
            self._agenda.cancel(Task(step, key, uid))
        else:
            self._agenda.plan(Task(step, key, uid), since_s + delay_s)

    def _next_step(self, pod: Object) -> tuple[str, float] | None:
        """What comes next for this Pod, and how long after it came to be next."""
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
        """The status of a Pod for which there is no room; None: it is let in, if not already."""
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
        """Pods that hold something of the Node, until their containers have ended."""
        for key in self._pods_on[node_name]:
            stored = self._store.get(PODS, key)
            phase = stored.an_object["status"].get("phase", "Pending") if stored else ""
            if stored and (phase == "Running" or (phase == "Pending" and key in self._let_in)):
                yield stored.an_object

    # Acting

    def act(self, task: Task) -> None:
        """One step, now, if the Pod is still the one it was planned for."""
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
        """None of its containers ever runs, unless room came free in the same moment."""
        away = self._turns_away(key, pod)
        if away is None:
            self._plan(key, pod)
        else:
            self._patch_status(pod, {**away, "startTime": self._clock.text()})

    def _finish(self, pod: Object) -> None:
        """The containers have ended; the Pod stays until somebody deletes it."""
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
        """First the last status, then the object."""
        if pod["status"].get("phase") == "Running":
            self._finish(pod)
        uid = pod["metadata"]["uid"]
        self._writes.delete(_place(pod), DeleteOptions(grace_s=0, uid=uid))

    def _patch_status(self, pod: Object, status: Object) -> None:
        patch, shape = {"status": status}, SHAPES["Pod"]
        place = _place(pod, subresource="status")
        self._writes.patch(place, lambda old: strategic(old, patch, shape=shape))

    def lose(self, node_name: str) -> None:
        """As the node controller does where a Node is lost: its Pods are not Ready."""
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
