"""Requests on workload Pods. Untrusted text never makes one fail."""

from typing import Any

import msgspec

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Bind, EndPod, SetScheduled
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.node_lock import TAINT
from sunk_sync.kube.api.client import Request
from sunk_sync.kube.decode.strings import cut
from sunk_sync.kube.write.apply import STRATEGIC, path_of


def binding(action: Bind) -> Request:
    """Bind the Pod and set its job id: the API server copies a Binding's annotations to the Pod."""
    pod = action.reference
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "annotations": {names.JOB_ID: action.job_id, names.BOUND_FOR: action.job_id},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": action.node_name},
    }
    return Request(method="POST", path=path_of(pod) + "/binding", body=_encoded(body))


def tolerating(action: Bind, *, first: bool = False) -> Request:
    """Add the toleration of the lock to the Pod; `first`: it has no tolerations yet.

    Kubernetes allows additions only. The test refuses another Pod of this name.
    """
    pod, path = action.reference, "/spec/tolerations"
    value = {"key": TAINT.key, "operator": "Exists", "effect": TAINT.effect}
    adding = {"path": path, "value": [value]} if first else {"path": f"{path}/-", "value": value}
    test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    return Request(
        method="PATCH",
        path=path_of(pod),
        query=(("fieldManager", names.MANAGER_LOCK),),
        body=msgspec.json.encode([test, {"op": "add", **adding}]),
        content_type="application/json-patch+json",
    )


def disruption(action: EndPod, *, at: str) -> Request:
    """Set the condition that names the cause for the owner's controller (podFailurePolicy)."""
    condition = _condition(action, kind=names.DISRUPTION_CONDITION, status="True")
    condition["lastTransitionTime"] = at
    return _status(action.reference, condition, manager=names.MANAGER_RELEASE)


def deletion(reference: Reference, *, version: int = 0) -> Request:
    """Delete the Pod with this UID, with its own grace period.

    `version`: only as it was read with this resourceVersion; 0: in any version.
    """
    preconditions = {"uid": reference.uid}
    if version:
        preconditions["resourceVersion"] = str(version)
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
    }
    return Request(method="DELETE", path=path_of(reference), body=_encoded(body))


def scheduled(action: SetScheduled, *, version: int, since: str | None) -> Request:
    """Set PodScheduled on the Pod as it was read: a binding in between causes a conflict.

    `since`: lastTransitionTime; None if the status does not change.
    """
    condition = _condition(action, kind=names.SCHEDULED_CONDITION, status="False")
    if since is not None:
        condition["lastTransitionTime"] = since
    return _status(action.reference, condition, manager=names.MANAGER_SUBMIT, version=version)


def reading(reference: Reference) -> Request:
    return Request(path=path_of(reference))


def _condition(action: EndPod | SetScheduled, *, kind: str, status: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": action.reason,
        "message": cut(action.message),
    }


def _status(
    reference: Reference, condition: dict[str, str], *, manager: str, version: int = 0
) -> Request:
    metadata: dict[str, str] = {"uid": reference.uid}
    if version:
        metadata["resourceVersion"] = str(version)
    return Request(
        method="PATCH",
        path=path_of(reference) + "/status",
        query=(("fieldManager", manager),),
        body=_encoded({"metadata": metadata, "status": {"conditions": [condition]}}),
        content_type=STRATEGIC,
    )


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sendable(body))


def _sendable(part: Any) -> Any:
    """Replace lone surrogates, which have no UTF-8: a Pod must end for any reason of Slurm."""
    if isinstance(part, str):
        return part.encode(errors="replace").decode()
    if isinstance(part, dict):
        return {key: _sendable(value) for key, value in part.items()}
    return [_sendable(one) for one in part] if isinstance(part, list) else part
