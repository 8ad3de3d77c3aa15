"""NodeSets as users write them, and changes of objects by users."""

from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import NODE_SETS, NODES, PODS, Kind
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions, Place
from tests.sim.node_sets.truth import API_VERSION, NAMESPACE
from tests.sim.words import Object
from tests.sim.worlds import Worlds

IMAGE = "none.invalid/slurmd:1"
NEVER = {"embedded/start-delay-s": "inf"}
"""Annotations of a Pod whose image never starts."""


def template(
    image: str = IMAGE, *, annotations: dict[str, str] | None = None, grace_s: int = 5
) -> Object:
    container = {
        "name": "slurmd",
        "image": image,
        "args": ["-D", "--conf-server", "slurmctld:6817"],
        "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": grace_s}
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def node_set(name: str = "cpu", *, replicas: int, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "template": template(), **spec},
    }


def make(worlds: Worlds, an_object: Object) -> None:
    worlds.kube.create(NODE_SETS, an_object)


def change(worlds: Worlds, name: str, **spec: Any) -> None:
    """Replace these fields in the spec of a NodeSet; None removes one."""

    def changed(old: Object) -> Object:
        whole = {**old["spec"], **spec}
        return {**old, "spec": {key: one for key, one in whole.items() if one is not None}}

    worlds.kube.writes.patch(_place(NODE_SETS, name), changed)


def patch(worlds: Worlds, kind: Kind, name: str, given: Object) -> None:
    worlds.kube.writes.patch(_place(kind, name), lambda old: merged(old, given))


def delete(worlds: Worlds, name: str, *, orphan: bool = False) -> None:
    """Delete a NodeSet; `orphan`: as `kubectl delete --cascade=orphan`."""
    place = _place(NODE_SETS, name)
    if orphan:
        stored = worlds.kube.store.get(NODE_SETS, place.key)
        held = stored.an_object["metadata"].get("finalizers", []) if stored else []
        patch(worlds, NODE_SETS, name, {"metadata": {"finalizers": [*held, "orphan"]}})
    worlds.kube.writes.delete(place, DeleteOptions())


def _place(kind: Kind, name: str) -> Place:
    namespace = "" if kind is NODES else NAMESPACE
    return Place(kind=kind, namespace=namespace, name=name, manager="kubectl")


def fail_pod(worlds: Worlds, name: str) -> None:
    """Let the kubelet evict the Pod: its containers end, and the object stays."""
    place = Place(
        kind=PODS, namespace=NAMESPACE, name=name, subresource="status", manager="kubelet"
    )
    status = {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}
    worlds.kube.writes.patch(place, lambda old: merged(old, {"status": status}))
