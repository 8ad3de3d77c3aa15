"""Events for `kubectl describe`. Equal Events have equal names, so each exists once."""

import hashlib
from typing import Any

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.names import EVENT_COMPONENT
from sunk_sync.core.translate.pending import MESSAGE_BYTES_MAX, within

NAME_LENGTH_MAX = 253
UNNAMED = "default"
"""Namespace of the Events of objects without a namespace."""


def path_of(record_event: RecordEvent) -> str:
    return f"/api/v1/namespaces/{_namespace(record_event.reference)}/events"


def event_of(record_event: RecordEvent, *, at: str) -> dict[str, Any]:
    reference = record_event.reference
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(record_event), "namespace": _namespace(reference)},
        "involvedObject": _involved(reference),
        "type": record_event.event.type,
        "reason": record_event.reason,
        "action": record_event.event.action,
        "message": within(record_event.message, MESSAGE_BYTES_MAX),
        "source": {"component": EVENT_COMPONENT},
        "reportingComponent": EVENT_COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _involved(reference: Reference) -> dict[str, str]:
    involved = {"apiVersion": "v1", "kind": reference.kind, "name": reference.name}
    if reference.uid:
        involved["uid"] = reference.uid
    if reference.kind != "Node":
        involved["namespace"] = _namespace(reference)
    return involved


def _namespace(reference: Reference) -> str:
    """An Event about a Namespace belongs into it, for `kubectl get events -n`."""
    if reference.kind == "Namespace":
        return reference.name
    return reference.namespace or UNNAMED


def _name(record_event: RecordEvent) -> str:
    reference = record_event.reference
    parts = (reference.uid, record_event.event.type, record_event.reason, record_event.message)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    return f"{reference.name[: NAME_LENGTH_MAX - 17].rstrip('.-')}.{digest}"
