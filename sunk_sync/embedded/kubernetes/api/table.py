"""Rendering of objects as the tables that `kubectl get` prints."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import Kind, Object

Cell = str | int
NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


def wants_table(accept: str) -> bool:
    first = accept.partition(",")[0]
    return "as=Table" in first and "v=v1;" in first.replace(" ", "") + ";"


class Column(Struct, frozen=True):
    """One column; a `wide` column appears only with `-o wide`."""

    name: str
    cell: Callable[[Object, datetime], Cell]
    wide: bool = False

    def definition(self) -> Object:
        text = "integer" if self.name == "Count" else "string"
        form = "name" if self.name == "Name" else ""
        shown = {"name": self.name, "type": text, "format": form}
        return {**shown, "description": self.name, "priority": int(self.wide)}


def rows_of(kind: Kind, objects: Iterable[Object], *, now: datetime) -> list[Object]:
    columns = COLUMNS[kind.name]
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return [
        {
            "cells": [column.cell(one, now) for column in columns],
            "object": {**head, "metadata": one["metadata"]},
        }
        for one in objects
    ]


def table(kind: Kind, *, metadata: Object, rows: list[Object], declared: bool = True) -> Object:
    definitions = [column.definition() for column in COLUMNS[kind.name]] if declared else None
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }


def span(seconds: float) -> str:
    """Format a duration as kubectl does: 45s, 3m5s, 12m, 5h3m, 17h, 2d5h, 12d, 2y."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -2 else "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _joined(minutes, "m", whole % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _joined(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _joined(days, "d", hours % 24, "h")
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _joined(one: int, unit: str, rest: int, lower: str) -> str:
    return f"{one}{unit}{rest}{lower}" if rest else f"{one}{unit}"


def _since(text: str | None, now: datetime) -> str:
    if not text:
        return "<unknown>"
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return span((now - at.astimezone(UTC)).total_seconds())


def _name(one: Object, _: datetime) -> str:
    return str(one["metadata"]["name"])


def _age(one: Object, now: datetime) -> str:
    return _since(one["metadata"].get("creationTimestamp"), now)


def _at(*path: str, default: str = NONE) -> Callable[[Object, datetime], Cell]:
    def cell(one: Object, _: datetime) -> Cell:
        value: Any = one
        for name in path:
            value = (value or {}).get(name)
        return value if isinstance(value, int) else str(value or default)

    return cell


def _node_status(node: Object, _: datetime) -> str:
    ready = [one for one in node["status"].get("conditions", ()) if one["type"] == "Ready"]
    words = [("Ready" if one["status"] == "True" else "NotReady") for one in ready] or ["Unknown"]
    if node["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, _: datetime) -> str:
    labels = node["metadata"].get("labels", {})
    roles = sorted(name.removeprefix(_ROLE) for name in labels if name.startswith(_ROLE))
    return ",".join(roles) or NONE


def _address(kind: str) -> Callable[[Object, datetime], str]:
    def cell(node: Object, _: datetime) -> str:
        addresses = node["status"].get("addresses", ())
        found = [one["address"] for one in addresses if one["type"] == kind]
        return str(found[0]) if found else NONE

    return cell


def _system(name: str) -> Callable[[Object, datetime], Cell]:
    return _at("status", "nodeInfo", name, default="<unknown>")


def _ready(pod: Object, _: datetime) -> str:
    """Count the ready containers: 0 in a Pod that is not Ready."""
    statuses = pod["status"].get("containerStatuses", ())
    ready = sum(1 for one in statuses if one.get("ready"))
    return f"{ready}/{len(pod['spec'].get('containers', ()))}"


def _pod_status(pod: Object, _: datetime) -> str:
    status = pod["status"]
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for container in status.get("containerStatuses", ()):
        for state in ("waiting", "terminated"):
            reason = container.get("state", {}).get(state, {}).get("reason")
            if reason:
                return str(reason)
    return str(status.get("reason") or status.get("phase", "Unknown"))


def _restarts(pod: Object, _: datetime) -> str:
    return str(
        sum(one.get("restartCount", 0) for one in pod["status"].get("containerStatuses", ()))
    )


def _last_seen(event: Object, now: datetime) -> str:
    return _since(event.get("lastTimestamp") or event.get("eventTime"), now)


def _first_seen(event: Object, now: datetime) -> str:
    return _since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _involved(event: Object, _: datetime) -> str:
    involved = event.get("involvedObject", {})
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(one: Object, _: datetime) -> str:
    return ",".join(_SHORT_MODES.get(mode, mode) for mode in one["spec"].get("accessModes", ()))


def _claim_of(volume: Object, _: datetime) -> str:
    owner = volume["spec"].get("claimRef")
    return f"{owner['namespace']}/{owner['name']}" if owner else ""


def _drivers(one: Object, _: datetime) -> str:
    return str(len(one["spec"].get("drivers") or ()))


_NAME, _AGE = Column("Name", _name), Column("Age", _age)
_CLASS = Column("StorageClass", _at("spec", "storageClassName", default=""))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        _AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", _system("osImage"), wide=True),
        Column("Kernel-Version", _system("kernelVersion"), wide=True),
        Column("Container-Runtime", _system("containerRuntimeVersion"), wide=True),
    ),
    "Pod": (
        _NAME,
        Column("Ready", _ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        Column("IP", _at("status", "podIP"), wide=True),
        Column("Node", _at("spec", "nodeName"), wide=True),
        Column("Nominated Node", _at("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", lambda _, __: NONE, wide=True),
    ),
    "Event": (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type", default="")),
        Column("Reason", _at("reason", default="")),
        Column("Object", _involved),
        Column("Subobject", _at("involvedObject", "fieldPath", default=""), wide=True),
        Column("Source", _at("source", "component", default=""), wide=True),
        Column("Message", _at("message", default="")),
        Column("First Seen", _first_seen, wide=True),
        Column("Count", _at("count", default="1"), wide=True),
        Column("Name", _name, wide=True),
    ),
    "Namespace": (_NAME, Column("Status", _at("status", "phase", default="")), _AGE),
    "NodeSet": (
        _NAME,
        Column("Desired", _at("status", "desired", default="")),
        Column("Current", _at("status", "replicas", default="")),
        Column("Ready", _at("status", "ready", default="")),
        Column("Registered", _at("status", "registered", default="")),
        Column("Idle", _at("status", "idle", default="")),
        Column("Allocated", _at("status", "allocated", default="")),
        Column("Draining", _at("status", "draining", default="")),
        _AGE,
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", _at("status", "phase", default="")),
        Column("Volume", _at("spec", "volumeName", default="")),
        Column("Capacity", _at("status", "capacity", "storage", default="")),
        Column("Access Modes", _modes),
        _CLASS,
        _AGE,
        Column("VolumeMode", _at("spec", "volumeMode", default=""), wide=True),
    ),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", _at("spec", "capacity", "storage", default="")),
        Column("Access Modes", _modes),
        Column("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy", default="")),
        Column("Status", _at("status", "phase", default="")),
        Column("Claim", _claim_of),
        _CLASS,
        _AGE,
        Column("VolumeMode", _at("spec", "volumeMode", default=""), wide=True),
    ),
    "StorageClass": (
        _NAME,
        Column("Provisioner", _at("provisioner", default="")),
        Column("ReclaimPolicy", _at("reclaimPolicy", default="")),
        Column("VolumeBindingMode", _at("volumeBindingMode", default="")),
        _AGE,
    ),
    "CSIDriver": (
        _NAME,
        Column("StorageCapacity", _at("spec", "storageCapacity", default="false")),
        _AGE,
    ),
    "CSIStorageCapacity": (
        _NAME,
        Column("StorageClassName", _at("storageClassName", default="")),
        Column("Capacity", _at("capacity", default="")),
    ),
    "CSINode": (_NAME, Column("Drivers", _drivers), _AGE),
    "Lease": (_NAME, Column("Holder", _at("spec", "holderIdentity", default="")), _AGE),
}
