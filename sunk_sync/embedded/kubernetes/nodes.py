"""Heartbeats, Ready conditions and taints of Nodes, from kubelets and the node controller."""

from collections.abc import Callable

from sunk_sync.embedded.kubernetes.store.kinds import NODE_SYSTEM, NODES, Object
from sunk_sync.embedded.kubernetes.store.patch import strategic
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.schema import SHAPES
from sunk_sync.embedded.kubernetes.store.store import Change, Store
from sunk_sync.embedded.kubernetes.store.timers import Clock, Task, Timers
from sunk_sync.embedded.kubernetes.store.writes import Writes

HEARTBEAT_S = 10.0
GRACE_S = 50.0
"""A Node is Unknown after this time without a heartbeat."""
CONTROLLER = "kube-controller-manager"
KUBELET = "kubelet"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS = "node.kubernetes.io/"
_OURS = tuple(_TAINTS + word for word in ("not-ready", "unreachable", "unschedulable"))


class NodeController:
    """Sends the heartbeats of Nodes that joined, and marks silent Nodes as Unknown.

    Calls `on_lost` with the name of each Node that becomes Unknown.
    """

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
        self.heartbeat_s = HEARTBEAT_S
        self.on_lost: Callable[[str], None] = lambda _: None
        self._ready: dict[str, bool] = {}
        """Nodes with a kubelet, and the Ready condition that it reports."""
        self._silent: set[str] = set()
        store.listen(NODES, self._on_change)

    def join(self, name: str, *, cpus: int) -> None:
        self._ready[name] = True
        room = {"cpu": str(cpus), "memory": "64Gi", "pods": "250"}
        status = {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {**dict.fromkeys(NODE_SYSTEM, "embedded"), "kubeletVersion": "v1.35.4"},
        }
        self._patch_status(name, status, by=KUBELET)
        self._heartbeat(name)

    def set_ready(self, name: str, *, ready: bool) -> None:
        self._ready[name] = ready
        self._heartbeat(name)

    def silence(self, name: str, *, on: bool) -> None:
        """Stop or resume the heartbeats; without them Ready is Unknown after GRACE_S."""
        if not on:
            self._silent.discard(name)
            self._timers.cancel(Task("lost", name))
            self._heartbeat(name)
        elif name not in self._silent:
            self._silent.add(name)
            self._timers.cancel(Task("heartbeat", name))
            self._timers.plan(Task("lost", name), self._clock.now_s + GRACE_S)

    def act(self, task: Task) -> None:
        if self._store.get(NODES, f"/{task.name}") is None:
            return
        if task.what == "heartbeat":
            self._heartbeat(task.name)
        elif task.what == "lost":
            self._lose(task.name)
        else:
            self._set_taints(task.name)

    def _on_change(self, change: Change) -> None:
        node = change.now.an_object
        name = node["metadata"]["name"]
        if change.type == "DELETED":
            for what in ("heartbeat", "lost", "taint"):
                self._timers.cancel(Task(what, name))
            self._ready.pop(name, None)
            self._silent.discard(name)
        elif _taints(node) is not None:
            self._timers.plan(Task("taint", name), self._clock.now_s)

    def see_all(self) -> None:
        for stored in self._store.rows(NODES).values():
            name = stored.an_object["metadata"]["name"]
            if name in self._ready and name not in self._silent:
                self._timers.plan(Task("heartbeat", name), self._clock.now_s)

    def _heartbeat(self, name: str) -> None:
        ready = self._ready[name]
        said = [("Ready", str(ready), "KubeletReady" if ready else "KubeletNotReady")]
        said += [(kind, "False", f"KubeletHasNo{kind}") for kind in _PRESSURES]
        now = self._clock.text()
        conditions = [
            {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now}
            for kind, status, reason in said
        ]
        self._write_conditions(name, conditions, by=KUBELET)
        if self.heartbeat_s and name not in self._silent:
            self._timers.plan(Task("heartbeat", name), self._clock.now_s + self.heartbeat_s)

    def _lose(self, name: str) -> None:
        message = "Kubelet stopped posting node status."
        conditions = [
            {"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
            for kind in ("Ready", *_PRESSURES)
        ]
        self._write_conditions(name, conditions, by=CONTROLLER)
        self.on_lost(name)

    def _write_conditions(self, name: str, conditions: list[Object], *, by: str) -> None:
        """Write conditions; lastTransitionTime changes with the status only."""
        before = _conditions_of(self._node(name))
        now = self._clock.text()
        for one in conditions:
            was = before.get(one["type"])
            if was is None or was["status"] != one["status"]:
                one["lastTransitionTime"] = now
                one.setdefault("message", None)
        self._patch_status(name, {"conditions": conditions}, by=by)

    def _set_taints(self, name: str) -> None:
        taints = _taints(self._node(name))
        if taints is not None:
            place = Place(kind=NODES, name=name, manager=CONTROLLER)
            self._writes.patch(place, lambda old: _with_taints(old, taints))

    def _node(self, name: str) -> Object:
        stored = self._store.get(NODES, f"/{name}")
        assert stored is not None, name
        return stored.an_object

    def _patch_status(self, name: str, status: Object, *, by: str) -> None:
        place = Place(kind=NODES, name=name, subresource="status", manager=by)
        patch, shape = {"status": status}, SHAPES["Node"]
        self._writes.patch(place, lambda old: strategic(old, patch, shape=shape))


def _conditions_of(node: Object) -> dict[str, Object]:
    return {one["type"]: one for one in node["status"].get("conditions", ())}


def _taints(node: Object) -> list[Object] | None:
    """Return the taints that the conditions need; None if the Node has them."""
    ready = _conditions_of(node).get("Ready")
    word = {"False": "not-ready", "Unknown": "unreachable"}.get(ready["status"] if ready else "")
    wanted = {_TAINTS + word} if word else set()
    if node["spec"].get("unschedulable"):
        wanted.add(_TAINTS + "unschedulable")
    taints = node["spec"].get("taints", [])
    held = {taint["key"] for taint in taints if taint["effect"] == "NoSchedule"} & {*_OURS}
    if ready is None or held == wanted:
        return None
    kept = [one for one in taints if one["key"] in wanted or one["key"] not in _OURS]
    added = [{"key": key, "effect": "NoSchedule"} for key in sorted(wanted - held)]
    return [*kept, *added]


def _with_taints(node: Object, taints: list[Object]) -> Object:
    return {**node, "spec": {**node["spec"], "taints": taints}}
