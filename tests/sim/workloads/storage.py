"""Claims, volumes and classes of storage for runs and scenarios."""

from typing import Final

from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from sunk_sync.embedded.kubernetes.volumes import NO_PROVISIONER, on_node
from tests.sim import words
from tests.sim.words import Object

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
        (MADE, "csi.example.com", "WaitForFirstConsumer"),
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
