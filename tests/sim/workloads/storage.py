"""Claims, volumes and classes of storage for runs and scenarios."""

import math
from collections.abc import Iterable
from typing import Final

from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.volumes import NO_PROVISIONER, on_node
from tests.sim import words
from tests.sim.words import Object

DRIVER: Final = "csi.example.com"
MADE: Final = "made"
"""Class whose provisioner makes volumes."""
LOCAL: Final = "local"
"""Class of volumes that exist, one on a host."""
AT_ONCE: Final = "at-once"
"""Class of volumes that exist; claims do not wait for a Pod."""


def add_classes(kube: Kubernetes, **knobs: str) -> None:
    """Create the three classes; `knobs` are annotations of the one with a provisioner."""
    annotations = {f"embedded/{key.replace('_', '-')}": value for key, value in knobs.items()}
    for name, provisioner, mode in (
        (MADE, DRIVER, "WaitForFirstConsumer"),
        (LOCAL, NO_PROVISIONER, "WaitForFirstConsumer"),
        (AT_ONCE, NO_PROVISIONER, "Immediate"),
    ):
        metadata = {"name": name, "annotations": annotations if name == MADE else {}}
        made = {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode}
        kube.create(STORAGE_CLASSES, made)


def add_claim(kube: Kubernetes, name: str, of: str, *, namespace: str, **knobs: str) -> None:
    annotations = {f"embedded/{key.replace('_', '-')}": value for key, value in knobs.items()}
    spec = {
        "storageClassName": of,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    kube.create(VOLUME_CLAIMS, {"metadata": metadata, "spec": spec})


def add_bound_claim(kube: Kubernetes, name: str, volume: str, *, namespace: str) -> None:
    """Create a claim that names its volume, of the class that binds at once."""
    add_claim(kube, name, AT_ONCE, namespace=namespace)
    place = Place(kind=VOLUME_CLAIMS, namespace=namespace, name=name, manager="user")
    patch = {"spec": {"volumeName": volume}}
    kube.writes.patch(place, lambda old: merged(old, patch))


def add_volume(kube: Kubernetes, name: str, of: str, *, node: str) -> None:
    """Create a volume that one Node alone reaches."""
    spec = {
        "storageClassName": of,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": on_node(node),
    }
    kube.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})


def set_limit(kube: Kubernetes, node: str, count: int | None) -> None:
    """Let the driver attach so many volumes to the Node; None: any number."""
    room = {} if count is None else {"allocatable": {"count": count}}
    spec = {"drivers": [{"name": DRIVER, "nodeID": node, "topologyKeys": None, **room}]}
    _put(kube, CSI_NODES, {"metadata": {"name": node}, "spec": spec})


def set_room(kube: Kubernetes, node: str, gib: int, *, namespace: str) -> None:
    """Let the driver, which tells its room, have this much for one volume on the Node."""
    driver = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    if kube.store.get(CSI_DRIVERS, f"/{DRIVER}") is None:
        kube.create(CSI_DRIVERS, driver)
    _put(kube, STORAGE_CAPACITIES, {
        "metadata": {"name": f"room-{node}", "namespace": namespace},
        "storageClassName": MADE,
        "capacity": f"{gib}Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
    })  # fmt: skip


def _put(kube: Kubernetes, kind: Kind, an_object: Object) -> None:
    """Delete the object and create it as given."""
    metadata = an_object["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if kube.store.get(kind, f"{namespace}/{name}") is not None:
        kube.delete(kind, name, namespace=namespace)
    kube.create(kind, an_object)


def limit_of(kube: Kubernetes, node: str) -> float:
    """Return how many volumes the driver may attach to the Node."""
    stored = kube.store.get(CSI_NODES, f"/{node}")
    return limit_in(stored.an_object) if stored is not None else math.inf


def limit_in(csi_node: Object) -> float:
    (driver,) = csi_node["spec"]["drivers"]
    return float(driver.get("allocatable", {}).get("count", math.inf))


def has_room(kube: Kubernetes, node: str) -> bool:
    """Whether the driver has room on the Node for a volume of 1 GiB, or tells nothing."""
    rows = [row.an_object for row in kube.store.rows(STORAGE_CAPACITIES).values()]
    return not rows or any(
        one["nodeTopology"]["matchLabels"]["kubernetes.io/hostname"] == node
        and one["capacity"] != "0Gi"
        for one in rows
    )


def attached(kube: Kubernetes, pods: Iterable[Object]) -> set[str]:
    """Return the volumes of the driver that these Pods attach; one in the making is its claim."""
    found = set()
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        for name in claims_of(pod):
            claim = claim_of(kube, name, namespace=namespace)
            volume = volume_of(kube, claim) if claim is not None else None
            if volume is not None and "csi" in volume["spec"]:
                found.add(volume["spec"]["csi"]["volumeHandle"])
            elif volume is None and claim is not None and is_made(claim):
                found.add(claim["metadata"]["uid"])
    return found


def is_made(claim: Object) -> bool:
    return bool(claim["spec"]["storageClassName"] == MADE)


def with_claims(spec: Object, *names: str) -> Object:
    """Return the spec of a Pod that uses these claims."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**spec, "volumes": volumes}


def claims_of(pod: Object) -> list[str]:
    """Return the names of its claims."""
    sources = [one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes") or ()]
    return [one["claimName"] for one in sources if one]


def claim_of(kube: Kubernetes, name: str, *, namespace: str) -> Object | None:
    stored = kube.store.get(VOLUME_CLAIMS, f"{namespace}/{name}")
    return stored.an_object if stored else None


def volume_of(kube: Kubernetes, claim: Object) -> Object | None:
    """Return the volume to which the claim is bound completely."""
    name = claim["spec"].get("volumeName", "")
    if not name or words.BIND_COMPLETED not in words.annotations_of(claim):
        return None
    stored = kube.store.get(VOLUMES, f"/{name}")
    return stored.an_object if stored else None


def host_of(volume: Object) -> str:
    """Return the Node that alone reaches the volume; empty: all do."""
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
    return str(terms[0]["matchExpressions"][0]["values"][0]) if terms else ""
