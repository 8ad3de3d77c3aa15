"""Pods with claims in the scene: sunk-sync selects a Node for one, and reserves a volume."""

import time
from functools import partial

from tests.real import volumes
from tests.real.permissions.account import WORK
from tests.real.service import Service
from tests.real.stage import eventually
from tests.real.testbed import Bed, kube_objects
from tests.real.workloads import workload_spec

CLAIMS = f"/api/v1/namespaces/{WORK}/persistentvolumeclaims"
EVENTS = f"/api/v1/namespaces/{WORK}/events"
ROOMS = f"/apis/storage.k8s.io/v1/namespaces/{WORK}/csistoragecapacities"
TOLD_S = 0.5
SAID = "there is no space left"
READ = (
    "volume_claims", "volumes", "storage_classes", "csi_nodes", "csi_drivers", "storage_capacities"
)  # fmt: skip


class Volumes:
    """Classes, claims and volumes of each round: with new ones only new facts fulfil a claim."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._rest = bed.kube.rest

    def clear(self) -> None:
        """Delete what the last round made; its Pods are gone."""
        for collection in (
            CLAIMS, volumes.VOLUMES, volumes.STORAGE_CLASSES, volumes.CSI_NODES,
            volumes.CSI_DRIVERS, ROOMS,
        ):  # fmt: skip
            self._rest.call("DELETE", collection)

    def begin(self, name: str, service: Service) -> None:
        """Make a Pod with a claim, and wait until its service has read claims and volumes."""
        self._make_pod(name, name)
        for source in READ:
            eventually(
                partial(service.lines, "source listed", source=source),
                f"{source} listed",
                show=service.tail,
            )

    def make(self, name: str) -> None:
        """Make Pods with one claim each. Of `made` somebody must make the volume, of `local` there
        is one, of `full` no Node may attach it, and of `empty` the driver has no room for it.
        """
        self._make_drivers(name)
        for kind in ("made", "local", "full", "empty"):
            own = f"{name}-{kind}"
            provisioner = volumes.NO_PROVISIONER if kind == "local" else f"{name}.{kind}"
            one = volumes.storage_class(own, provisioner, volumes.WAITS)
            self._rest.call("POST", volumes.STORAGE_CLASSES, one)
            self._rest.call("POST", CLAIMS, volumes.claim(own, own))
            self._make_pod(own, own)
        disk = volumes.volume(f"{name}-disk", f"{name}-local")
        self._rest.call("POST", volumes.VOLUMES, disk)

    def _make_drivers(self, name: str) -> None:
        """Make what the drivers tell, a moment before there are Pods that need it."""
        for kind in ("made", "empty"):
            driver = {"metadata": {"name": f"{name}.{kind}"}, "spec": {"storageCapacity": True}}
            self._rest.call("POST", volumes.CSI_DRIVERS, driver)
        self._rest.call("POST", ROOMS, {
            "metadata": {"name": name},
            "storageClassName": f"{name}-made",
            "capacity": "10Gi",
            "nodeTopology": {},
        })  # fmt: skip
        full = {"name": f"{name}.full", "allocatable": {"count": 0}}
        for node in self._rest.call("GET", "/api/v1/nodes")["items"]:
            host = node["metadata"]["name"]
            drivers = [{**full, "nodeID": host}]
            one = {"metadata": {"name": host}, "spec": {"drivers": drivers}}
            self._rest.call("POST", volumes.CSI_NODES, one)
        time.sleep(TOLD_S)

    def is_not_attached(self, name: str) -> bool:
        return self._waits_for(f"{name}-full", "exceed max volume count")

    def has_no_room(self, name: str) -> bool:
        return self._waits_for(f"{name}-empty", "did not have enough free storage")

    def _waits_for(self, name: str, why: str) -> bool:
        pod = self._rest.call("GET", f"/api/v1/namespaces/{WORK}/pods/{name}")
        return any(why in one.get("message", "") for one in pod["status"].get("conditions", []))

    def _make_pod(self, name: str, claim: str) -> None:
        spec = {**workload_spec(), **volumes.with_claim(claim)}
        self._bed.kube.create(kube_objects.pod(name, namespace=WORK, spec=spec))

    def give_up(self, name: str) -> None:
        """As a provisioner that can make no volume for the selected Node."""
        path = f"{CLAIMS}/{name}-made"
        one = self._rest.call("GET", path)
        self._rest.call("POST", EVENTS, volumes.failure(one, SAID))
        self._bed.kube.patch(path, {"metadata": {"annotations": {volumes.SELECTED: None}}})

    def is_said(self, name: str) -> bool:
        """Whether an Event of the Pod has the words of the provisioner."""
        return any(
            one["involvedObject"]["name"] == f"{name}-made"
            and one["involvedObject"]["kind"] == "Pod"
            and SAID in one["message"]
            for one in self._rest.call("GET", EVENTS)["items"]
        )

    def is_selected(self, name: str) -> bool:
        """Whether a Node is selected for the claim whose volume somebody must make."""
        one = self._rest.call("GET", f"{CLAIMS}/{name}-made")
        return volumes.SELECTED in one["metadata"].get("annotations", {})

    def is_reserved(self, name: str) -> bool:
        one = self._rest.call("GET", f"{volumes.VOLUMES}/{name}-disk")
        return bool(one["spec"]["claimRef"]["name"] == f"{name}-local")
