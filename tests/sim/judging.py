"""Pure functions that compare an object before and after a write of sunk-sync."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.reads import Row, SlurmRead
from tests.sim.wire import Exchange
from tests.sim.words import Object

Place = tuple[str, ...]


def label_names(kind: str) -> frozenset[str]:
    return frozenset(words.NODE_LABELS if kind == "Node" else ())


def is_about_jobs(exchange: Exchange) -> bool:
    return exchange.side == "slurm" and "/job" in exchange.question.path


def places(exchange: Exchange) -> list[Place]:
    """Return the targets of a write. Each has at most one write in flight."""
    question = exchange.question
    if exchange.side == "kube":
        if question.method == "POST":
            return []
        manager = question.query.get("fieldManager", "")
        field = "conditions" if question.path.endswith("/status") else manager
        if question.method == "DELETE":
            field = "whole"
        elif manager == "sunk-sync-release":
            field = manager
        return [(question.path.removesuffix("/status"), field)]
    if is_about_jobs(exchange):
        return []
    tail = question.path.rstrip("/").rpartition("/")[2]
    if question.method == "DELETE":
        return [("slurm_node", tail, "record")]
    body = msgspec.json.decode(question.body)
    names = body["name"] if tail == "nodes" else [tail]
    field = _field_of(body)
    return [("slurm_node", name, field) for name in names]


def _field_of(body: Mapping[str, Any]) -> str:
    """Return which field of a Slurm node an update writes. Features come with their comment."""
    for field, keys in _FIELDS.items():
        if any(key in body for key in keys):
            return field
    return "state"


_FIELDS = {
    "features": ("features", "features_act"),
    "weight": ("weight",),
    "topology": ("topology_str",),
    "comment": ("comment",),
}


def succeeded(exchange: Exchange) -> bool:
    return getattr(exchange.answer, "status", 500) < 300


def is_mark(exchange: Exchange) -> bool:
    """Whether the call writes only a comment: neither state nor reason."""
    body = exchange.question.body
    return exchange.side == "slurm" and (msgspec.json.decode(body) if body else {}).keys() <= {
        "comment", "name",
    }  # fmt: skip


def uncounted(event: Object) -> Object:
    """Return the Event without the parts that a count changes."""
    metadata = event["metadata"]
    identity = {name: metadata[name] for name in ("name", "namespace", "uid")}
    rest = {key: event[key] for key in event.keys() - {"count", "lastTimestamp"}}
    return {**rest, "metadata": identity}


def rest_of(an_object: Object) -> Object:
    """Return the object without the parts that change at each write or have their own check."""
    metadata = {
        key: value
        for key, value in an_object["metadata"].items()
        if key not in ("annotations", "labels", "managedFields", "resourceVersion", "generation")
    }
    spec = {key: value for key, value in an_object["spec"].items() if key != "unschedulable"}
    status = {
        key: value for key, value in an_object.get("status", {}).items() if key != "conditions"
    }
    return {**an_object, "metadata": metadata, "spec": spec, "status": status}


def other_fields(node: Node) -> Node:
    """Return the node without the fields that sunk-sync updates and those that a listing counts."""
    flags = node.flags - {"DRAIN", "NOT_RESPONDING", "FAIL"}
    return msgspec.structs.replace(
        node,
        flags=flags,
        reason="",
        reason_s=0,
        reason_user=None,
        comment="",
        listed_cpus=0,
        listed_memory_mb=0,
    )


def is_drained_and_idle(read: SlurmRead) -> bool:
    return read.row is not None and read.row.drained and not read.row.state & words.BUSY


def why_not(was: Row, now: Row) -> str:
    """Return the invariant that this change of state or reason breaks; empty if it is allowed."""
    ours = words.is_our_text(was.reason)
    if words.keeps_drain(was.state):
        return "frozen"
    if was.drained and not ours:
        return "ownership"
    if now.drained and not was.drained and words.wakes_for_jobs(was.state):
        return "waking"
    if now.drained and not was.drained and was.state & words.POWER:
        return "power" if now.reason in words.OF_POWER_SAVING else ""
    if now.drained:
        return "" if words.is_our_text(now.reason) else "ownership"
    if was.drained:
        return "text" if words.is_our_text(now.reason) else ""
    return "" if ours and not words.is_our_text(now.reason) else "ownership"


def may(row: Row, now: Row) -> bool:
    """Whether the same write was allowed for the node as read, with or without its state."""
    states = (row.state, row.state | {"DRAIN"} if now.drained else row.state - {"DRAIN"})
    return any(not why_not(row, Row(row.name, one, now.reason, row.comment)) for one in states)


def mark_of(comment: str) -> dict[str, str]:
    """Return the mark in the comment of a Slurm node, or an empty one."""
    try:
        mark = msgspec.json.decode(comment)["sunk-sync"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return {}
    return mark if isinstance(mark, dict) else {}


def causes_of_pod(pod: Object) -> set[str]:
    """Return the causes of a drain that this Pod is now, without their variable part."""
    annotations, causes = words.annotations_of(pod), set()
    if words.is_terminating(pod):
        causes.add("k8s: pod terminating")
    if words.PENDING_DELETION in annotations:
        causes.add("k8s: pod pending deletion")
    if annotations.get(words.CORDON, "false") not in ("", "false"):
        causes.add("k8s: pod cordoned")
    if not words.is_ready(pod) or words.is_finished(pod):
        causes.add("k8s: pod not ready")
    return causes


def causes_of_node(node: Object) -> set[str]:
    """Return the causes of a drain that this Node is now, without their variable part."""
    causes = set()
    if node["spec"].get("unschedulable"):
        causes.add("k8s: node cordoned")
    if words.going_taint(node):
        causes.add(words.TAINTED)
    if not words.is_ready(node):
        causes.add("k8s: node not ready")
    return causes
