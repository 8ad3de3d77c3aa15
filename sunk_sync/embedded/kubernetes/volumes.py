"""The controllers of volumes: they bind claims, make volumes, release and protect them.

Annotations of a claim, or else of its StorageClass, change what a provisioner does:

    embedded/provision-s  seconds from the selected Node to the volume (default 0; inf: never)
    embedded/bind-s       seconds from a reserved volume to the bound claim (default 0)
    embedded/not-on       Nodes, separated by commas, on which it can make no volume
    embedded/everywhere   not empty: every Node reaches its volumes
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sunk_sync.core.translate.quantity import nanos
from sunk_sync.embedded.kubernetes.store.defaults import CLAIM_IN_USE
from sunk_sync.embedded.kubernetes.store.kinds import (
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
    Object,
)
from sunk_sync.embedded.kubernetes.store.patch import merged
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.store import Change, Store
from sunk_sync.embedded.kubernetes.store.timers import Clock, Task, Timers
from sunk_sync.embedded.kubernetes.store.writes import Writes

PREFIX = "embedded/"
PROVISION = PREFIX + "provision-s"
BIND = PREFIX + "bind-s"
NOT_ON = PREFIX + "not-on"
EVERYWHERE = PREFIX + "everywhere"
STEP = "volumes"
CONTROLLER = "kube-controller-manager"
PROVISIONER = "csi-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
HOST = "kubernetes.io/hostname"
_ENDED = ("Succeeded", "Failed")


class Begun(NamedTuple):
    """A volume that a provisioner is making: for which Node, and since when."""

    node_name: str
    since_s: float


class VolumeController:
    """Looks at all claims and volumes after each change; `act` does what is due."""

    def __init__(self, store: Store, writes: Writes, *, timers: Timers, clock: Clock) -> None:
        self._store = store
        self._writes = writes
        self._timers = timers
        self._clock = clock
        self._begun: dict[str, Begun] = {}
        """UID of a claim → its volume in the making."""
        self._found_s: dict[str, float] = {}
        """UID of a claim → when its volume was found."""
        for kind in (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES):
            store.listen(kind, self._on_change)
        store.listen(PODS, self._on_pod)

    def _on_change(self, _: Change) -> None:
        self._plan()

    def _on_pod(self, _: Change) -> None:
        if self._store.rows(VOLUME_CLAIMS):
            self._plan()

    def _plan(self) -> None:
        self._timers.plan(Task(STEP, ""), self._clock.now_s)

    def see_all(self) -> None:
        """Look at everything again, after a restore."""
        self._begun.clear()
        self._found_s.clear()
        self._plan()

    def act(self, _: Task) -> None:
        for volume in self._each(VOLUMES):
            self._release(volume)
        for claim in self._each(VOLUME_CLAIMS):
            if "deletionTimestamp" in claim["metadata"]:
                self._let_go(claim)
            elif not _is_bound(claim):
                self._give(claim)

    def _each(self, kind: Kind) -> Iterator[Object]:
        """Yield each object as it is when its turn comes."""
        for key in list(self._store.rows(kind)):
            stored = self._store.get(kind, key)
            if stored is not None:
                yield stored.an_object

    def _is_due(self, uid: str, what: str, at_s: float) -> bool:
        if self._clock.now_s >= at_s:
            return True
        if not math.isinf(at_s):
            self._timers.plan(Task(STEP, what, uid), at_s)
        return False

    # Volumes

    def _release(self, volume: Object) -> None:
        """Set the phase of a volume that no claim has, and remove one that was made for a claim."""
        owner = volume["spec"].get("claimRef")
        if owner is None or not owner.get("uid"):
            self._set_phase(VOLUMES, volume, "Available")
            return
        stored = self._store.get(VOLUME_CLAIMS, f"{owner['namespace']}/{owner['name']}")
        if stored is not None and stored.an_object["metadata"]["uid"] == owner["uid"]:
            return
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            self._store.remove(VOLUMES, f"/{volume['metadata']['name']}")
        else:
            self._set_phase(VOLUMES, volume, "Released")

    # Claims

    def _let_go(self, claim: Object) -> None:
        """Remove the finalizer of a deleted claim that no Pod on a Node uses."""
        held = claim["metadata"].get("finalizers", [])
        if CLAIM_IN_USE in held and not self._is_used(claim):
            rest = [one for one in held if one != CLAIM_IN_USE]
            self._patch(VOLUME_CLAIMS, claim, {"metadata": {"finalizers": rest}})

    def _is_used(self, claim: Object) -> bool:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        return any(
            name in claims_of(pod)
            for _, row in self._store.scan(PODS, namespace=namespace)
            if (pod := row.an_object)["spec"].get("nodeName")
            and pod["status"].get("phase") not in _ENDED
        )

    def _give(self, claim: Object) -> None:
        """Bind the claim to its volume, or let one be made."""
        uid = claim["metadata"]["uid"]
        volume = self._volume_for(claim)
        if volume is None:
            self._found_s.pop(uid, None)
            self._make(claim)
            return
        knobs = self._knobs(claim)
        since_s = self._found_s.setdefault(uid, self._clock.now_s)
        if self._is_due(uid, "bind", since_s + float(knobs.get(BIND, "0"))):
            self._bind(claim, volume)

    def _volume_for(self, claim: Object) -> Object | None:
        """Return the volume that the claim names, that names the claim, or that it may take."""
        named = claim["spec"].get("volumeName")
        if named:
            stored = self._store.get(VOLUMES, f"/{named}")
            volume = stored.an_object if stored else None
            return volume if volume is not None and _may_have(claim, volume) else None
        volumes = sorted(self._each(VOLUMES), key=lambda one: str(one["metadata"]["name"]))
        mine = [one for one in volumes if one["spec"].get("claimRef") and _may_have(claim, one)]
        if mine or self._waits(claim):
            return mine[0] if mine else None
        return next((one for one in volumes if _fits(claim, one)), None)

    def _bind(self, claim: Object, volume: Object) -> None:
        """Write both ends, in the order of the real controller."""
        owner, name = claim["metadata"], volume["metadata"]["name"]
        reference = {"apiVersion": "v1", "kind": VOLUME_CLAIMS.name}
        reference |= {part: owner[part] for part in ("namespace", "name", "uid")}
        self._patch(VOLUMES, volume, {"spec": {"claimRef": reference}})
        self._set_phase(VOLUMES, volume, "Bound")
        marks = {"metadata": {"annotations": {COMPLETED: "yes"}}}
        self._patch(VOLUME_CLAIMS, claim, {**marks, "spec": {"volumeName": name}})
        capacity = volume["spec"].get("capacity", {})
        modes = volume["spec"].get("accessModes", [])
        self._set_phase(VOLUME_CLAIMS, claim, "Bound", accessModes=modes, capacity=capacity)
        self._begun.pop(owner["uid"], None)
        self._found_s.pop(owner["uid"], None)

    # Provisioners

    def _make(self, claim: Object) -> None:
        """Let the provisioner work: a volume that it has begun is made, whoever wants it still."""
        uid, knobs = claim["metadata"]["uid"], self._knobs(claim)
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
        begun = self._begun.get(uid)
        takes_s = float(knobs.get(PROVISION, "0"))
        if begun is None or math.isinf(takes_s):
            if not self._provisions(claim) or (self._waits(claim) and not node_name):
                self._begun.pop(uid, None)
                return
            begun = self._begun[uid] = Begun(node_name, self._clock.now_s)
        if not self._is_due(uid, "provision", begun.since_s + takes_s):
            return
        del self._begun[uid]
        if begun.node_name and begun.node_name in knobs.get(NOT_ON, "").split(","):
            if begun.node_name == node_name:
                self._give_up(claim)
        else:
            self._create(claim, "" if knobs.get(EVERYWHERE) else begun.node_name)

    def _give_up(self, claim: Object) -> None:
        marks = {"annotations": {SELECTED_NODE: None}}
        self._patch(VOLUME_CLAIMS, claim, {"metadata": marks}, by=PROVISIONER)

    def _create(self, claim: Object, node_name: str) -> None:
        owner, spec = claim["metadata"], claim["spec"]
        reference = {part: owner[part] for part in ("namespace", "name", "uid")}
        made: Object = {
            "capacity": spec.get("resources", {}).get("requests", {}),
            "accessModes": spec.get("accessModes", []),
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName", ""),
            "volumeMode": spec["volumeMode"],
            "claimRef": {"apiVersion": "v1", "kind": VOLUME_CLAIMS.name, **reference},
            "csi": {"driver": self._driver_of(claim), "volumeHandle": owner["uid"]},
        }
        if node_name:
            made["nodeAffinity"] = on_node(self._host_of(node_name))
        place = Place(kind=VOLUMES, manager=PROVISIONER)
        name = f"pvc-{owner['uid']}"
        if self._store.get(VOLUMES, f"/{name}") is None:
            self._writes.create(place, {"metadata": {"name": name}, "spec": made})

    def _host_of(self, node_name: str) -> str:
        stored = self._store.get(NODES, f"/{node_name}")
        labels = stored.an_object["metadata"].get("labels", {}) if stored else {}
        return str(labels.get(HOST, node_name))

    # Classes

    def _class_of(self, claim: Object) -> Object | None:
        stored = self._store.get(STORAGE_CLASSES, f"/{claim['spec'].get('storageClassName', '')}")
        return stored.an_object if stored else None

    def _driver_of(self, claim: Object) -> str:
        found = self._class_of(claim)
        return str(found["provisioner"]) if found is not None else PROVISIONER

    def _waits(self, claim: Object) -> bool:
        found = self._class_of(claim)
        return found is not None and found["volumeBindingMode"] == "WaitForFirstConsumer"

    def _provisions(self, claim: Object) -> bool:
        found = self._class_of(claim)
        return found is not None and found["provisioner"] not in ("", NO_PROVISIONER)

    def _knobs(self, claim: Object) -> dict[str, str]:
        found = self._class_of(claim)
        return (_knobs(found) if found else {}) | _knobs(claim)

    # Writes

    def _set_phase(self, kind: Kind, an_object: Object, phase: str, **others: object) -> None:
        if an_object["status"].get("phase") != phase:
            patch = {"status": {"phase": phase, **others}}
            self._patch(kind, an_object, patch, subresource="status")

    def _patch(
        self,
        kind: Kind,
        an_object: Object,
        patch: Object,
        *,
        subresource: str = "",
        by: str = CONTROLLER,
    ) -> None:
        metadata = an_object["metadata"]
        place = Place(
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            subresource=subresource,
            manager=by,
        )
        changed: Callable[[Object], Object] = lambda old: merged(old, patch)  # noqa: E731
        self._writes.patch(place, changed)


def on_node(host: str) -> Object:
    """Return the nodeAffinity of a volume that one host alone reaches."""
    line = {"key": HOST, "operator": "In", "values": [host]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}


def claims_of(pod: Object) -> set[str]:
    """Return the names of the claims in the volumes of a Pod."""
    sources = [one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes") or ()]
    return {one["claimName"] for one in sources if one}


def _is_bound(claim: Object) -> bool:
    """Whether nothing is left to write for its binding."""
    marks = claim["metadata"].get("annotations", {})
    return COMPLETED in marks and claim["status"].get("phase") == "Bound"


def _may_have(claim: Object, volume: Object) -> bool:
    """Whether the volume is free, or belongs to this claim."""
    owner, own = volume["spec"].get("claimRef"), claim["metadata"]
    if owner is None:
        return True
    named = (owner.get("namespace"), owner.get("name")) == (own["namespace"], own["name"])
    return named and owner.get("uid", "") in ("", own["uid"])


def _fits(claim: Object, volume: Object) -> bool:
    """Whether a claim that does not wait for a Pod may take this volume."""
    wants, has = claim["spec"], volume["spec"]
    if has.get("claimRef") or volume["status"].get("phase") != "Available":
        return False
    if any(wants.get(part, "") != has.get(part, "") for part in ("storageClassName", "volumeMode")):
        return False
    asked = wants.get("resources", {}).get("requests", {}).get("storage", "0")
    room = has.get("capacity", {}).get("storage", "0")
    modes = set(wants.get("accessModes", [])) <= set(has.get("accessModes", []))
    return modes and nanos(asked) <= nanos(room)


def _knobs(an_object: Object) -> dict[str, str]:
    annotations = an_object["metadata"].get("annotations", {})
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
