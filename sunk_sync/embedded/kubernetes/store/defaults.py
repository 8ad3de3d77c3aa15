"""Completion of objects by the API server: defaults, admission, dropped parts."""

from collections.abc import Callable
from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import NODE_SYSTEM, Kind, Object

_DROPPED_IN_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
_NODE_CONDITION = ("type", "status", "lastHeartbeatTime", "lastTransitionTime")
_POD_CONDITION = ("type", "status", "lastProbeTime", "lastTransitionTime")
TOLERATION_S = 300
_UNTOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def completed(kind: Kind, an_object: Object) -> Object:
    """Return the object as the server stores it: without empty parts, with defaults.

    Unchanged parts are the same objects as before, which makes comparison fast.
    """
    completing = _COMPLETING.get(kind.name)
    result = {name: value for name, value in an_object.items() if value is not None}
    result.pop("apiVersion", None)
    result.pop("kind", None)
    result["metadata"] = _without_empty(result["metadata"], _DROPPED_IN_METADATA)
    return completing(result) if completing else {**kind.blank, **result}


def _without_empty(part: Object, names: tuple[str, ...]) -> Object:
    bad = [name for name in names if name in part and not part[name]]
    return {name: value for name, value in part.items() if name not in bad} if bad else part


def _condition(one: Object, *, names: tuple[str, ...]) -> Object:
    full = names[2] in one and names[3] in one and one.get("type") and one.get("status")
    if full and one.get("reason", "-") and one.get("message", "-"):
        return one
    made = {name: one.get(name) for name in names}
    made["type"], made["status"] = one.get("type", ""), one.get("status", "")
    return made | {name: value for name, value in one.items() if name not in names and value}


def _with_conditions(status: Object, names: tuple[str, ...]) -> Object:
    conditions = status.get("conditions")
    if not conditions:
        return _without_empty(status, ("conditions",))
    made = [_condition(one, names=names) for one in conditions]
    if all(one is other for one, other in zip(made, conditions, strict=True)):
        return status
    return {**status, "conditions": made}


def _node(an_object: Object) -> Object:
    spec = _without_empty(an_object.get("spec", {}), ("unschedulable", "taints", "podCIDRs"))
    status = _with_conditions(an_object.get("status", {}), _NODE_CONDITION)
    if "daemonEndpoints" not in status:
        status = {**status, "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}
    system = status.get("nodeInfo", {})
    if len(system) < len(NODE_SYSTEM):
        status = {**status, "nodeInfo": {name: system.get(name, "") for name in NODE_SYSTEM}}
    capacity = status.get("capacity")
    if capacity and "allocatable" not in status:
        status = {**status, "allocatable": capacity}
    return {**an_object, "spec": spec, "status": status}


_POD_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def _pod(an_object: Object) -> Object:
    spec = _without_empty(an_object.get("spec", {}), ("schedulingGates",))
    if not all(name in spec for name in _POD_SPEC) or "securityContext" not in spec:
        spec = {**_POD_SPEC, "securityContext": {}, **spec}
    for part in ("containers", "initContainers"):
        containers = spec.get(part) or []
        made = [_container(one) for one in containers]
        if any(one is not other for one, other in zip(made, containers, strict=True)):
            spec = {**spec, part: made}
    status = _with_conditions(an_object.get("status", {}), _POD_CONDITION)
    if "qosClass" not in status:
        status = {**status, "qosClass": _quality(spec)}
    return {**an_object, "spec": spec, "status": status}


_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def _container(one: Object) -> Object:
    if any("protocol" not in port for port in one.get("ports", ())):
        one = {**one, "ports": [{"protocol": "TCP", **port} for port in one["ports"]]}
    resources = one.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if not limits.keys() <= requests.keys():
        one = {**one, "resources": {**resources, "requests": {**limits, **requests}}}
    if "imagePullPolicy" in one and all(name in one for name in _CONTAINER):
        return one
    image = str(one.get("image", ""))
    last = image.rpartition("/")[2]
    latest = "@" not in image and (":" not in last or last.endswith(":latest"))
    policy = "Always" if latest else "IfNotPresent"
    return {**_CONTAINER, "imagePullPolicy": policy, **one}


def _namespace(an_object: Object) -> Object:
    metadata = an_object["metadata"]
    labels = metadata.get("labels", {})
    name = metadata.get("name", "")
    if labels.get("kubernetes.io/metadata.name") != name:
        labels = {**labels, "kubernetes.io/metadata.name": name}
        metadata = {**metadata, "labels": labels}
    spec = an_object.get("spec", {})
    status = an_object.get("status") or {"phase": "Active"}
    return {**an_object, "metadata": metadata, "spec": spec, "status": status}


CLAIM_IN_USE = "kubernetes.io/pvc-protection"
"""Finalizer of claims: a Pod on a Node may still use one."""


def _claim(an_object: Object) -> Object:
    spec = {"volumeMode": "Filesystem", **an_object.get("spec", {})}
    return {**an_object, "spec": spec, "status": an_object.get("status") or {"phase": "Pending"}}


_VOLUME = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}


def _volume(an_object: Object) -> Object:
    spec = {**_VOLUME, **an_object.get("spec", {})}
    return {**an_object, "spec": spec, "status": an_object.get("status") or {"phase": "Pending"}}


_STORAGE_CLASS = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}

_COMPLETING: dict[str, Callable[[Object], Object]] = {
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "StorageClass": lambda an_object: {**_STORAGE_CLASS, **an_object},
    "Node": _node,
    "Pod": _pod,
    "Namespace": _namespace,
}


def admitted(kind: Kind, an_object: Object) -> Object:
    """Add what admission adds to a new object; no field manager owns these fields."""
    if kind.name == "Node":
        spec = an_object["spec"]
        taints = [*spec.get("taints", []), NOT_READY_TAINT]
        return {**an_object, "spec": {**spec, "taints": taints}}
    if kind.name == "Namespace":
        return {**an_object, "spec": {"finalizers": ["kubernetes"]}}
    if kind.name == "PersistentVolumeClaim":
        return _protected(an_object)
    return _admitted_pod(an_object) if kind.name == "Pod" else an_object


def _protected(claim: Object) -> Object:
    held = [one for one in claim["metadata"].get("finalizers", []) if one != CLAIM_IN_USE]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": [*held, CLAIM_IN_USE]}}


def _admitted_pod(pod: Object) -> Object:
    spec: dict[str, Any] = {
        "serviceAccountName": "default",
        "serviceAccount": "default",
        **pod["spec"],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    spec["tolerations"] = _tolerations(spec.get("tolerations", []))
    return {**pod, "spec": spec, "status": {"phase": "Pending", **_gated(pod)}}


def _gated(pod: Object) -> Object:
    status: Object = pod["status"]
    if not pod["spec"].get("schedulingGates"):
        return status
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    return {**status, "conditions": [*status.get("conditions", []), condition]}


def _tolerations(given: list[Object]) -> list[Object]:
    if any(one.get("operator") == "Exists" and not one.get("key") for one in given):
        return given
    known = {one.get("key") for one in given}
    added = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_S,
        }
        for key in _UNTOLERATED
        if key not in known
    ]
    return [*given, *added]


def _quality(spec: Object) -> str:
    """Return the QoS class of a spec with complete requests; zero values do not count."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    wants = [(_wanted(one, "requests"), _wanted(one, "limits")) for one in containers]
    if not any(requests or limits for requests, limits in wants):
        return "BestEffort"
    alike = all(len(limits) == 2 and requests == limits for requests, limits in wants)
    return "Guaranteed" if alike else "Burstable"


def _wanted(container: Object, part: str) -> Object:
    amounts = (container.get("resources") or {}).get(part) or {}
    return {name: amounts[name] for name in ("cpu", "memory") if amounts.get(name, "0") != "0"}
