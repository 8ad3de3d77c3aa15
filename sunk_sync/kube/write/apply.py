"""Requests for conditions, metadata and cordons: server-side apply, one field manager each."""

from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import (
    Cordon,
    SetConditions,
    SetMetadata,
    Uncordon,
)
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.translate.node_states import BASE_STATES, FLAGS
from sunk_sync.kube.api.client import Request

CONTENT_TYPE = "application/apply-patch+yaml"
"""JSON is valid YAML, and Kubernetes 1.30 knows no other content type for apply."""

Apply = SetConditions | SetMetadata | Cordon | Uncordon


MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

POD_CONDITIONS = (
    names.POD_CONFLICT_CONDITION,
    names.TOO_SMALL_CONDITION,
    *sorted(
        {names.POD_STATE_CONDITION + suffix for suffix in (*BASE_STATES.values(), *FLAGS.values())}
    ),
)
"""All condition types that one apply of sunk-sync writes on a Pod."""


class DesiredWrite(Struct, frozen=True):
    manager: str
    subresource: str
    metadata: dict[str, Any]
    rest: dict[str, Any]


def request_of(action: Apply, *, at: str) -> Request:
    """Make the request; `at` (RFC 3339) is the time of conditions that change now.

    Raise UnicodeEncodeError if a text cannot be encoded.
    """
    if isinstance(action, SetConditions) and not action.conditions:
        return _delete_conditions(action.reference)
    reference = action.reference
    desired = _desired(action, at=at)
    body = {
        "apiVersion": "v1",
        "kind": reference.kind,
        "metadata": {"name": reference.name, "uid": reference.uid, **desired.metadata},
        **desired.rest,
    }
    return Request(
        method="PATCH",
        path=path_of(reference) + desired.subresource,
        query=(("fieldManager", desired.manager), ("force", "true")),
        body=msgspec.json.encode(body),
        content_type=CONTENT_TYPE,
    )


def _delete_conditions(reference: Reference) -> Request:
    """Delete each condition of sunk-sync by type.

    An empty apply would also delete conditions without a field manager: those of an object created
    with its status, or restored from a backup (measured on 1.35).
    """
    types = names.NODE_CONDITIONS if reference.kind == "Node" else POD_CONDITIONS
    body = {
        "metadata": {"uid": reference.uid},
        "status": {"conditions": [{"type": kind, "$patch": "delete"} for kind in types]},
    }
    return Request(
        method="PATCH",
        path=path_of(reference) + "/status",
        query=(("fieldManager", names.MANAGER_MIRROR),),
        body=msgspec.json.encode(body),
        content_type=STRATEGIC,
    )


def path_of(reference: Reference) -> str:
    return object_path(reference.kind, reference.namespace, reference.name)


def object_path(kind: str, namespace: str, name: str) -> str:
    match kind:
        case "Node":
            return f"/api/v1/nodes/{name}"
        case "Namespace":
            return f"/api/v1/namespaces/{name}"
        case "PersistentVolume":
            return f"/api/v1/persistentvolumes/{name}"
        case "PersistentVolumeClaim":
            return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        case _:
            return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _desired(action: Apply, *, at: str) -> DesiredWrite:
    match action:
        case SetConditions():
            since = zip_longest(action.conditions, action.changed_at)
            conditions = [_condition(one, at=changed_at or at) for one, changed_at in since]
            return DesiredWrite(
                names.MANAGER_MIRROR, "/status", {}, {"status": {"conditions": conditions}}
            )
        case SetMetadata():
            return DesiredWrite(action.manager, "", _metadata(action), {})
        case Cordon():
            mark = {"annotations": {names.CORDONED_FOR_DRAIN: "true"}}
            return DesiredWrite(names.MANAGER_CORDON, "", mark, {"spec": {"unschedulable": True}})
        case Uncordon():
            return DesiredWrite(names.MANAGER_CORDON, "", {}, {})


def _metadata(action: SetMetadata) -> dict[str, Any]:
    """Return the metadata to own. The field manager gives up keys that are left out."""
    metadata = {"labels": dict(action.labels), "annotations": dict(action.annotations)}
    return {key: value for key, value in metadata.items() if value}


def _condition(condition: Condition, *, at: str) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": at,
    }
