"""Claims, volumes and classes of storage, and a provisioner as a cluster has one.

The objects are written and read without our code.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tests.real.service import NAMESPACE
from tests.real.testbed import Bed, RestError
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube_objects import Object
from tests.real.workloads import HOSTNAME

PROVISIONER = "disks.invalid"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAITS, AT_ONCE = "WaitForFirstConsumer", "Immediate"
DYNAMIC, NETWORK, SILENT = "dynamic", "network", "silent"
LOCAL, PLAIN = "local", "plain"
CLASSES: Mapping[str, tuple[str, str]] = {
    DYNAMIC: (PROVISIONER, WAITS),
    NETWORK: (PROVISIONER, WAITS),
    SILENT: ("nobody.invalid", WAITS),
    LOCAL: (NO_PROVISIONER, WAITS),
    PLAIN: (NO_PROVISIONER, AT_ONCE),
}
"""Provisioner and binding mode of each class."""
VOLUMES = "/api/v1/persistentvolumes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
CSI_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
SELECTED = "volume.kubernetes.io/selected-node"
NEEDS = "volume.kubernetes.io/storage-provisioner"
"""Written by Kubernetes when somebody must make a volume."""
VOLUME_FOR = "sunk.coreweave.com/volume-for"
FULL = "rpc error: code = ResourceExhausted desc = no space on this Node"
PAUSE_S = 0.02


def claim(name: str, storage_class: str, *, mode: str = "ReadWriteOnce") -> Object:
    return {"metadata": {"name": name}, "spec": claim_spec(storage_class, mode=mode)}


def claim_spec(storage_class: str, *, mode: str = "ReadWriteOnce") -> Object:
    return {
        "storageClassName": storage_class,
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
    }


def storage_class(name: str, provisioner: str, mode: str) -> Object:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def volume(name: str, storage_class: str, *nodes: str) -> Object:
    """Make a volume that these Nodes reach; none named: all Nodes."""
    among = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [among]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/{name}"},
            **({"nodeAffinity": {"required": terms}} if nodes else {}),
        },
    }


def failure(claim: Object, words: str) -> Object:
    """Make the Event of a provisioner that makes no volume."""
    meta = claim["metadata"]
    of = {key: meta[key] for key in ("namespace", "name", "uid")}
    storage_class = claim["spec"]["storageClassName"]
    return {
        "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **of},
        "type": "Warning",
        "reason": "ProvisioningFailed",
        "message": f'failed to provision volume with StorageClass "{storage_class}": {words}',
        "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "source": {"component": PROVISIONER},
    }


def with_claim(*names: str) -> dict[str, Any]:
    """Return the part of a Pod's spec that names these claims."""
    sources = [{"persistentVolumeClaim": {"claimName": name}} for name in names]
    return {"volumes": [{"name": f"v{i}", **one} for i, one in enumerate(sources)]}


class Storage(Closing):
    """Classes of storage, and a provisioner as external-provisioner.

    Of class `dynamic` it makes volumes on the selected Node, of class `network` ones that all
    reach.

    `fails_on`: Nodes for which it makes no volume; it removes the selected Node then. `fails_once`:
    claims for which it fails so on the first Node.
    """

    def __init__(self, bed: Bed, *, namespace: str = NAMESPACE) -> None:
        self._rest = bed.kube.rest
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._events = f"/api/v1/namespaces/{namespace}/events"
        self.delay_s = 0.0
        self.fails_on: set[str] = set()
        self.fails_once: set[str] = set()
        self.failed: list[tuple[str, str]] = []
        """Claim and Node of each failure."""
        self.made_s: dict[str, float] = {}
        """When it made the volume of a claim."""
        for name, (provisioner, mode) in CLASSES.items():
            self._rest.call("POST", STORAGE_CLASSES, storage_class(name, provisioner, mode))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add_claim(self, name: str, storage_class: str, *, mode: str = "ReadWriteOnce") -> None:
        self._rest.call("POST", self._claims, claim(name, storage_class, mode=mode))

    def add_volume(self, name: str, storage_class: str, *nodes: str) -> None:
        self._rest.call("POST", VOLUMES, volume(name, storage_class, *nodes))

    def limit(self, node_name: str, count: int | None) -> None:
        """Let the driver of the provisioner attach so many volumes there; None: no limit."""
        room = {} if count is None else {"allocatable": {"count": count}}
        driver = {"name": PROVISIONER, "nodeID": node_name, **room}
        one = {"metadata": {"name": node_name}, "spec": {"drivers": [driver]}}
        with suppress(RestError):
            self._rest.call("DELETE", f"{CSI_NODES}/{node_name}")
        self._rest.call("POST", CSI_NODES, one)

    def tell_room(self, node_name: str, size: str) -> None:
        """Let the driver tell how much room it has for class `dynamic` on a Node."""
        driver = {"metadata": {"name": PROVISIONER}, "spec": {"storageCapacity": True}}
        path = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
        with suppress(RestError):
            self._rest.call("POST", CSI_DRIVERS, driver)
        with suppress(RestError):
            self._rest.call("DELETE", f"{path}/room-{node_name}")
        self._rest.call("POST", path, {
            "metadata": {"name": f"room-{node_name}"},
            "storageClassName": DYNAMIC,
            "capacity": size,
            "nodeTopology": {"matchLabels": {HOSTNAME: node_name}},
        })  # fmt: skip

    def tell_nothing(self) -> None:
        self._rest.call("DELETE", f"{CSI_DRIVERS}/{PROVISIONER}")

    def delete_claim(self, name: str) -> None:
        self._rest.call("DELETE", f"{self._claims}/{name}")

    def claim(self, name: str) -> Any:
        return self._rest.call("GET", f"{self._claims}/{name}")

    def marks(self, name: str) -> dict[str, str]:
        """Return the annotations of a claim."""
        return dict(self.claim(name)["metadata"].get("annotations", {}))

    def is_bound(self, name: str) -> bool:
        return bool(self.claim(name)["status"]["phase"] == "Bound")

    def nodes_of(self, name: str) -> list[str]:
        """Return the Nodes that reach the volume of a claim."""
        one = self._rest.call("GET", f"{VOLUMES}/{self.claim(name)['spec']['volumeName']}")
        (term,) = one["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        return list(term["matchExpressions"][0]["values"])

    def volumes_of(self, name: str) -> list[str]:
        """Return every volume that names this claim."""
        return [
            one["metadata"]["name"]
            for one in self._rest.call("GET", VOLUMES)["items"]
            if one["spec"].get("claimRef", {}).get("name") == name
        ]

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            with suppress(RestError, OSError):
                for one in self._rest.call("GET", self._claims)["items"]:
                    self._provide(one)

    def _provide(self, one: Object) -> None:
        meta = one["metadata"]
        marks = meta.get("annotations", {})
        node = marks.get(SELECTED, "")
        if one["spec"].get("volumeName") or marks.get(NEEDS) != PROVISIONER or not node:
            return
        if node in self.fails_on or meta["name"] in self.fails_once:
            self.fails_once.discard(meta["name"])
            self._give_up(one, node)
        elif meta["uid"] not in self.made_s:
            time.sleep(self.delay_s)
            self._make(one, node)

    def _give_up(self, one: Object, node: str) -> None:
        """Say why, and remove the selected Node: the scheduler shall choose another."""
        meta = one["metadata"]
        self.failed.append((meta["name"], node))
        self._rest.call("POST", self._events, failure(one, FULL))
        version = {"resourceVersion": meta["resourceVersion"]}
        patch = {"metadata": {**version, "annotations": {SELECTED: None}}}
        kind = "application/merge-patch+json"
        self._rest.call("PATCH", f"{self._claims}/{meta['name']}", patch, content_type=kind)

    def _make(self, one: Object, node: str) -> None:
        meta = one["metadata"]
        storage_class = one["spec"]["storageClassName"]
        nodes = () if storage_class == NETWORK else (node,)
        made = volume(f"pvc-{meta['uid']}", storage_class, *nodes)
        del made["spec"]["hostPath"]
        made["spec"]["csi"] = {"driver": PROVISIONER, "volumeHandle": meta["uid"]}
        made["spec"]["capacity"] = one["spec"]["resources"]["requests"]
        made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
        reference = {key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion")}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        made["spec"]["claimRef"] = {**kind, **reference}
        self._rest.call("POST", VOLUMES, made)
        self.made_s[meta["uid"]] = time.monotonic()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
