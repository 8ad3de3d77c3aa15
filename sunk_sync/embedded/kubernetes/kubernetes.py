"""The embedded Kubernetes: its objects, its time, and operations of users. No clock, no I/O."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sunk_sync.embedded.kubernetes.kubelet import MANAGER, STEPS, Kubelet
from sunk_sync.embedded.kubernetes.nodes import HEARTBEAT_S, NodeController
from sunk_sync.embedded.kubernetes.store.kinds import (
    KINDS,
    KNOWN_KINDS,
    NAMESPACES,
    NODE_SETS,
    NODES,
    PODS,
    Key,
    Kind,
    Object,
)
from sunk_sync.embedded.kubernetes.store.patch import merged, strategic
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions, Place
from sunk_sync.embedded.kubernetes.store.schema import SHAPES
from sunk_sync.embedded.kubernetes.store.store import HISTORY_MAX, Change, Snapshot, Store
from sunk_sync.embedded.kubernetes.store.timers import Clock, Task, Timers
from sunk_sync.embedded.kubernetes.store.writes import Writes
from sunk_sync.embedded.kubernetes.volumes import STEP as VOLUME_STEP
from sunk_sync.embedded.kubernetes.volumes import VolumeController

HOME_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PERSON = "kubectl"
SYSTEM = "kube-apiserver"


class Kubernetes:
    """The cluster. `now_s` is its time: seconds since `epoch`, never going back.

    `advance` moves the time; `next_s` is when something is due. Read objects through `node`, `pod`
    and `store`; change them through the methods here or through `KubeApi`. Without `alive` it is an
    API server alone: no kubelet and no controller runs.
    """

    def __init__(
        self,
        *,
        epoch: datetime = EPOCH,
        cluster: int = 1,
        history_max: int = HISTORY_MAX,
        heartbeat_s: float = HEARTBEAT_S,
        alive: bool = True,
    ) -> None:
        self.denied: set[tuple[str, str]] = set()
        """Verb and resource (`patch`, `nodes/status`) that a SelfSubjectAccessReview denies."""
        self._cluster = cluster
        self._uids = 0
        self._clock = Clock(epoch)
        self.store = Store(KINDS, history_max=history_max)
        self.writes = Writes(self.store, clock=self._clock, new_uid=self._new_uid)
        self._timers = Timers()
        self._alive = alive
        self._kubelet, self._controller = self._start_controllers(heartbeat_s)
        self._volumes = VolumeController(
            self.store, self.writes, timers=self._timers, clock=self._clock
        )
        self.store.listen(NAMESPACES, self._on_namespace)
        for name in HOME_NAMESPACES:
            self.add_namespace(name, by=SYSTEM)

    def _start_controllers(self, heartbeat_s: float) -> tuple[Kubelet, NodeController]:
        store, writes, timers = self.store, self.writes, self._timers
        clock = self._clock
        kubelet = Kubelet(store, writes, timers=timers, clock=clock)
        controller = NodeController(store, writes, timers=timers, clock=clock)
        controller.heartbeat_s = heartbeat_s
        controller.on_lost = kubelet.lose
        return kubelet, controller

    def advance(self, now_s: float) -> None:
        while (due_s := self.next_s()) is not None and due_s <= now_s:
            self._clock.now_s = max(self.now_s, due_s)
            self._act()
        self._clock.now_s = max(self.now_s, now_s)

    def next_s(self) -> float | None:
        return self._timers.next_s() if self._alive else None

    def _act(self) -> None:
        task = self._timers.pop()
        if task.what in STEPS:
            self._kubelet.act(task)
        elif task.what == VOLUME_STEP:
            self._volumes.act(task)
        elif task.what == "namespace":
            self._finish_namespace(task.name)
        else:
            self._controller.act(task)

    @property
    def now_s(self) -> float:
        return self._clock.now_s

    def wall(self) -> datetime:
        return self._clock.wall()

    def _new_uid(self) -> str:
        self._uids += 1
        mixed = self._uids * 2654435761 % 2**32
        return f"{mixed:08x}-{self._cluster:04x}-4000-8000-{self._uids:012x}"

    def _on_namespace(self, change: Change) -> None:
        if change.type == "MODIFIED" and change.now.an_object["status"]["phase"] == "Terminating":
            self._timers.plan(Task("namespace", change.key), self.now_s)

    def _finish_namespace(self, key: Key) -> None:
        """Delete the objects in a namespace, then the namespace, as its controller does."""
        name = key.removeprefix("/")
        for kind in KNOWN_KINDS:
            if kind.namespaced and self.store.has_kind(kind):
                for inside, _ in list(self.store.scan(kind, namespace=name)):
                    self.store.remove(kind, inside)
        if self.store.get(NAMESPACES, key) is not None:
            self.store.remove(NAMESPACES, key)

    def node(self, name: str) -> Object | None:
        """Return the whole Node; do not change it."""
        stored = self.store.get(NODES, f"/{name}")
        return stored.an_object if stored else None

    def pod(self, name: str, *, namespace: str = "default") -> Object | None:
        """Return the whole Pod; do not change it."""
        stored = self.store.get(PODS, f"{namespace}/{name}")
        return stored.an_object if stored else None

    def nodes(self) -> Iterable[Object]:
        return (row.an_object for _, row in self.store.scan(NODES))

    def pods(self, namespace: str = "") -> Iterable[Object]:
        return (row.an_object for _, row in self.store.scan(PODS, namespace=namespace))

    # Operations of users. Each raises RefusalError where the API server would refuse it.

    def create(self, kind: Kind, an_object: Object, *, by: str = PERSON) -> Object:
        """Create an object of this kind; its metadata names its namespace."""
        namespace = an_object["metadata"].get("namespace", "") if kind.namespaced else ""
        place = Place(kind=kind, namespace=namespace, manager=by)
        return self.writes.create(place, an_object).an_object

    def install_node_sets(self) -> None:
        """Do what the CustomResourceDefinition of NodeSets does."""
        self.store.install(NODE_SETS)

    def add_namespace(self, name: str, *, by: str = PERSON) -> Object:
        return self.create(NAMESPACES, {"metadata": {"name": name}}, by=by)

    def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        cpus: int = 16,
    ) -> Object:
        """Create a Node with a running kubelet; it is Ready at once."""
        metadata = {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        }
        self.create(NODES, {"metadata": metadata}, by="kubelet")
        self._controller.join(name, cpus=cpus)
        node = self.node(name)
        assert node is not None
        return node

    def remove_node(self, name: str) -> None:
        """Delete the Node object; Pods on it stay until they are deleted."""
        self._delete(Place(kind=NODES, name=name))

    def add_pod(
        self,
        name: str,
        *,
        namespace: str = "default",
        node: str = "",
        metadata: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Object:
        """Create a Pod with one container, bound if `node` is given.

        `metadata` and `spec` add to the defaults or replace them.
        """
        if self.store.get(NAMESPACES, f"/{namespace}") is None:
            self.add_namespace(namespace)
        whole: Object = {
            "containers": [{"name": "main", "image": "none.invalid/none:1"}],
            "tolerations": [{"operator": "Exists"}],
            **({"nodeName": node} if node else {}),
            **(spec or {}),
        }
        named = {**(metadata or {}), "name": name, "namespace": namespace}
        return self.create(PODS, {"metadata": named, "spec": whole})

    def delete_pod(
        self, name: str, *, namespace: str = "default", grace_s: int | None = None
    ) -> None:
        self._delete(Place(kind=PODS, namespace=namespace, name=name), grace_s=grace_s)

    def delete(self, kind: Kind, name: str, *, namespace: str = "") -> None:
        """Delete an object of this kind."""
        self._delete(Place(kind=kind, namespace=namespace, name=name))

    def _delete(self, place: Place, *, grace_s: int | None = None) -> None:
        self.writes.delete(place, DeleteOptions(grace_s=grace_s))

    def cordon(self, name: str, *, on: bool = True) -> None:
        self._merge(Place(kind=NODES, name=name), {"spec": {"unschedulable": on or None}})

    def taint(self, name: str, key: str, *, on: bool = True) -> None:
        """Add a taint that keeps Pods away, or take it away, as `kubectl taint` does."""
        node = self.node(name)
        others = [one for one in _taints_of(node) if one["key"] != key] if node else []
        taints = [*others, *([{"key": key, "effect": "NoSchedule"}] if on else [])]
        self._merge(Place(kind=NODES, name=name), {"spec": {"taints": taints}})

    def annotate(
        self,
        name: str,
        annotations: Mapping[str, str | None],
        *,
        namespace: str = "",
        labels: Mapping[str, str | None] | None = None,
    ) -> None:
        """Set annotations and labels of a Node, or of a Pod in `namespace`; None removes one."""
        place = Place(kind=PODS if namespace else NODES, namespace=namespace, name=name)
        patch = {"annotations": dict(annotations), "labels": dict(labels or {})}
        self._merge(place, {"metadata": patch})

    def label_namespace(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a Namespace; None removes one."""
        self._merge(Place(kind=NAMESPACES, name=name), {"metadata": {"labels": dict(labels)}})

    def set_pod_ready(self, name: str, *, ready: bool, namespace: str = "default") -> None:
        """Set Ready of a Pod; the kubelet does not change it afterwards."""
        listed = [
            {"type": kind, "status": str(ready), "lastTransitionTime": self._clock.text()}
            for kind in ("Ready", "ContainersReady")
        ]
        patch = {"status": {"conditions": listed}}
        place = Place(
            kind=PODS, namespace=namespace, name=name, subresource="status", manager=MANAGER
        )
        self.writes.patch(place, lambda old: strategic(old, patch, shape=SHAPES["Pod"]))

    def set_node_ready(self, name: str, *, ready: bool) -> None:
        """Set the Ready condition that the kubelet reports, of a Node made by `add_node`."""
        self._controller.set_ready(name, ready=ready)

    def silence(self, name: str, *, on: bool = True) -> None:
        """Stop or resume a kubelet; a stopped one makes its Node Unknown after a while."""
        self._controller.silence(name, on=on)
        self._kubelet.silence(name, on=on)

    def _merge(self, place: Place, patch: Object) -> None:
        by = Place(kind=place.kind, namespace=place.namespace, name=place.name, manager=PERSON)
        self.writes.patch(by, lambda old: merged(old, patch))

    def compact(self) -> None:
        """Forget the history: older watches and continue tokens get 410."""
        self.store.compact()

    def backup(self) -> Snapshot:
        return self.store.snapshot()

    def restore(self, backup: Snapshot) -> None:
        """Restore a snapshot: objects and versions go back, and open watches end."""
        self.store.restore(backup)
        self._kubelet.see_all()
        self._controller.see_all()
        self._volumes.see_all()


def _taints_of(node: Object) -> list[Object]:
    taints: list[Object] = node["spec"].get("taints") or []
    return taints
