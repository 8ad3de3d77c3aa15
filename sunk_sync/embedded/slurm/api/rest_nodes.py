"""Routes of slurmrestd for nodes and partitions."""

from collections.abc import Sequence
from typing import Final

import msgspec

from sunk_sync.embedded.slurm.api.body import (
    Body,
    Complaint,
    printed_names,
    read_update,
    refusal,
    warning,
)
from sunk_sync.embedded.slurm.api.reply import Replies, RestCall, SlurmAnswer
from sunk_sync.embedded.slurm.api.shapes import node_record, partition_shape
from sunk_sync.embedded.slurm.model.node import Node
from sunk_sync.embedded.slurm.model.release import (
    BAD_QUERY,
    CONVERSION,
    INVALID_NAME,
    INVALID_USER,
    UNSPECIFIED,
    SlurmError,
)
from sunk_sync.embedded.slurm.model.tokens import OPERATORS
from sunk_sync.embedded.slurm.slurm import SlurmWorld

_SINCE: Final = "update_time"
_UNKNOWN: Final = SlurmError(0, "No error")
_QUERY: Final = frozenset({_SINCE, "flags"})
_NO_TRES: Final = (
    warning("Slurm accounting storage is disabled. Could not query the following: [TRES].", ""),
)
_UNCHANGED: Final = 304


class NodeRoutes:
    def __init__(self, world: SlurmWorld, replies: Replies) -> None:
        self._world = world
        self._memory = world.memory
        self._replies = replies
        self._records: dict[tuple[str, str], tuple[Node, bytes]] = {}
        """(name, version) → the node when it was encoded, and the JSON."""

    def node(self, asked: RestCall) -> SlurmAnswer:
        """GET /node/{name}. 24.11 does not support update_time there."""
        if asked.unavailable is not None:
            return self._unread(asked, asked.unavailable, f"Failure to query node {asked.name}")
        if _SINCE in asked.question.query and not self._replies.modern:
            return self._unread(asked, UNSPECIFIED, "Unable to query partitions")
        node = self._world.nodes.get(asked.name)
        if node is None or node.base == "FUTURE":
            return self._unread(asked, _UNKNOWN, f"Failure to query node {asked.name}")
        record = self._record(node, asked.version)
        return self._replies.listed(asked, "nodes", records=[record])

    def nodes(self, asked: RestCall) -> SlurmAnswer:
        """GET /nodes/."""
        since_s = self._since(asked, source="_dump_nodes")
        if isinstance(since_s, SlurmAnswer):
            return since_s
        if asked.unavailable is not None:
            return self._unread(asked, asked.unavailable, "Failure to query nodes")
        if since_s > self._memory.nodes_changed_s:
            return SlurmAnswer(status=_UNCHANGED)
        if since_s > self._memory.partitions_changed_s and not self._replies.modern:
            return self._unread(asked, UNSPECIFIED, "Unable to query partitions")
        self._world.count_all()
        nodes = self._world.nodes.values()
        seen = [self._record(node, asked.version) for node in nodes if node.base != "FUTURE"]
        warnings = _unknown_query(asked, "NODES")
        return self._replies.listed(asked, "nodes", records=seen, warnings=warnings)

    def partitions(self, asked: RestCall) -> SlurmAnswer:
        """GET /partitions/. A failure has no error in its body."""
        since_s = self._since(asked, source="_dump_partitions")
        if isinstance(since_s, SlurmAnswer):
            return since_s
        if asked.unavailable is not None:
            failed = self._unread(asked, asked.unavailable, "")
            return self._replies.without_payload(asked, status=failed.status)
        if since_s > self._memory.partitions_changed_s:
            return SlurmAnswer(status=_UNCHANGED)
        records = [self._partition_record(name, asked.version) for name in self._memory.partitions]
        return self._replies.listed(asked, "partitions", records=records, warnings=_NO_TRES)

    def partition(self, asked: RestCall) -> SlurmAnswer:
        """GET /partition/{name}."""
        modern = self._replies.modern
        source = "_partition_get" if modern else "op_handler_partition"
        if asked.unavailable is not None:
            text = "Unable to query partitions"
            return self._replies.failed(asked, asked.unavailable, text=text, source=source)
        if asked.name in self._memory.partitions:
            records = [self._partition_record(asked.name, asked.version)]
            return self._replies.listed(asked, "partitions", records=records, warnings=_NO_TRES)
        entry = f"Unable to find partition {asked.name}"
        if modern:
            return self._replies.without_payload(asked, warnings=[warning(entry, source)])
        error = refusal(BAD_QUERY, entry, source=source)
        return self._replies.without_payload(asked, errors=[error], status=422)

    def post_node(self, asked: RestCall) -> SlurmAnswer:
        """POST /node/{name}; the name may be an encoded hostlist."""
        body = self._body(asked)
        if not isinstance(body, Body):
            return body
        if body.names is not None and not body.fatal:
            text = f"node_names field {printed_names(body.names)} ignored for singular node update"
            body.warnings.append(warning(text, "_update_node"))
        body.names = [asked.name]
        return self._update(asked, body, name=asked.name)

    def post_nodes(self, asked: RestCall) -> SlurmAnswer:
        """POST /nodes/ with `name` in the body."""
        body = self._body(asked)
        if not isinstance(body, Body):
            return body
        return self._update(asked, body, name="" if body.fatal else printed_names(body.names))

    def delete_node(self, asked: RestCall) -> SlurmAnswer:
        """DELETE /node/{name}."""
        error = asked.unavailable or self._world.remove_node(asked.name, now_s=self._world.now_s)
        if error is None:
            return self._replies.without_payload(asked)
        verb = "delete" if self._replies.modern else "update"
        text = f"Failure to {verb} node {asked.name}"
        return self._replies.failed(asked, error, text=text, source="op_handler_node")

    def _unread(self, asked: RestCall, error: SlurmError, text: str) -> SlurmAnswer:
        return self._replies.failed(asked, error, text=text, source="_dump_nodes")

    def _record(self, node: Node, version: str) -> bytes:
        key = (node.name, version)
        row, record = self._records.get(key, (None, b""))
        if row is not node:
            record = node_record(node, version, memory=self._memory)
            self._records[key] = (node, record)
        return record

    def _partition_record(self, name: str, version: str) -> bytes:
        partition = self._memory.partitions[name]
        return msgspec.json.encode(partition_shape(partition, version, memory=self._memory))

    def _since(self, asked: RestCall, *, source: str) -> int | SlurmAnswer:
        text = asked.question.query.get(_SINCE)
        if text is None:
            return 0
        served = self._replies.modern or asked.version >= "v0.0.42"
        if served and text.lstrip("-").isdecimal():
            return int(text)
        said = (
            f"Parsing of {text} for timestamp failed"
            if text
            else ("Invalid or unset timestamp value")
        )
        errors = [
            refusal(CONVERSION, said, source="#/update_time/"),
            refusal(BAD_QUERY, "Rejecting request. Failure parsing query.", source=source),
        ]
        return self._replies.without_payload(asked, errors=errors)

    def _body(self, asked: RestCall) -> Body | SlurmAnswer:
        content = asked.question.body
        kind = asked.question.headers.get("content-type", "").partition(";")[0].strip()
        if content.strip() and kind != "application/json":
            return self._replies.unreadable_type(kind)
        return read_update(content, asked.version) or self._replies.unreadable_body()

    def _update(self, asked: RestCall, body: Body, *, name: str) -> SlurmAnswer:
        error = None if body.fatal else self._refusal(asked, body)
        if error is not None:
            source = "_update_node" if asked.name else "_update_nodes"
            text = f"Failure to update node {name}"
            body.errors.append(refusal(error, text, source=source))
        return self._replies.without_payload(asked, errors=body.errors, warnings=body.warnings)

    def _refusal(self, asked: RestCall, body: Body) -> SlurmError | None:
        """Return the error of slurmctld, which may have performed a part of the update."""
        if asked.unavailable is not None:
            return asked.unavailable
        if asked.user not in OPERATORS:
            return INVALID_USER
        if not body.names:
            return INVALID_NAME
        now_s = self._world.now_s
        return self._world.update(body.names, body.update, now_s=now_s, user=asked.user)


def _unknown_query(asked: RestCall, what: str) -> Sequence[Complaint]:
    return [
        warning(
            f'Ignoring unknown field "{name}" of type string in DATA_PARSER_OPENAPI_{what}_QUERY',
            f"#/{name}/",
        )
        for name in asked.question.query
        if name not in _QUERY
    ]
