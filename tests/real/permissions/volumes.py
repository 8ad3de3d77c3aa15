"""Pods with claims in the scene: sunk-sync selects a Node for one, and reserves a volume."""

from functools import partial

from tests.real import volumes
from tests.real.permissions.account import WORK
from tests.real.service import Service
from tests.real.stage import eventually
from tests.real.testbed import Bed, kube_objects
from tests.real.workloads import workload_spec

CLAIMS = f"/api/v1/namespaces/{WORK}/persistentvolumeclaims"
EVENTS = f"/api/v1/namespaces/{WORK}/events"
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
        for collection in (CLAIMS, volumes.VOLUMES, volumes.STORAGE_CLASSES):
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
        """Make one Pod whose volume somebody must make, and one for which there is a volume."""
        for kind, provisioner in (
            ("made", "nobody.invalid"),
            ("local", volumes.NO_PROVISIONER),
        ):
            own = f"{name}-{kind}"
            one = volumes.storage_class(own, provisioner, volumes.WAITS)
            self._rest.call("POST", volumes.STORAGE_CLASSES, one)
            self._rest.call("POST", CLAIMS, volumes.claim(own, own))
            self._make_pod(own, own)
        disk = volumes.volume(f"{name}-disk", f"{name}-local")
        self._rest.call("POST", volumes.VOLUMES, disk)

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
