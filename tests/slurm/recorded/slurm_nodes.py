"""A small slurmctld as the reader and the writer of nodes see it through a client."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take

NO_SUCH = SlurmError("no_such", "Failure to query node: No error (0)", 0)
INVALID_NAME = SlurmError("no_such", "Invalid node name specified (2018)", 2018)
DOWN = SlurmError("controller_down", "Unable to contact slurm controller (1800)", 1800)


BAD: dict[str, Any] = {"name": 7}


def slurm_node(name: str, *state: str, reason: str = "", comment: str = "") -> SlurmNode:
    return SlurmNode(name=name, state=frozenset(state or ["IDLE"]), reason=reason, comment=comment)


@dataclass
class SlurmNodes:
    """Its nodes, the requests it received, and its failures.

    `before` is called with each request before it is answered: a test changes nodes there, or
    returns what replaces the answer.
    """

    nodes: dict[str, SlurmNode] = field(default_factory=dict)
    version: str = "v0.0.45"
    now_s: float = 100.0
    tick_s: float = 1.0
    """Time of each answer."""
    asked: list[str] = field(default_factory=list)
    calls: list[SlurmCall] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each request began."""
    before: Callable[[str], SlurmResponse | SlurmError | None] = lambda _: None
    unreadable: bool = False
    """Each answer has one node that cannot be read."""
    end: SlurmError | None = None
    """A failure after the last record of each listing."""
    last_update: int | None = 17
    changed: bool = True

    def add(self, *nodes: SlurmNode) -> Self:
        self.nodes.update((node.name, node) for node in nodes)
        return self

    def clock(self) -> float:
        return self.now_s

    @property
    def writes(self) -> list[str]:
        return [asked for asked in self.asked if asked.startswith("POST")]

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        begun_s, line = self._ask(call)
        if instead := self.before(line):
            return instead
        if call.method == "POST":
            return self._update(call, begun_s)
        node = self.nodes.get(call.path.removeprefix("node/"))
        if node is None:
            return NO_SUCH
        return self._answer(begun_s, {"nodes": [BAD if self.unreadable else _wire(node)]})

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        assert key == "nodes"
        begun_s, line = self._ask(call)
        if instead := self.before(line):
            return instead
        if call.query and not self.changed:
            return self._answer(begun_s, {}, unchanged=True)
        nodes = [_wire(node) for node in self.nodes.values()] + [BAD] * self.unreadable
        records = [msgspec.json.encode(node) for node in nodes]
        for start in range(0, len(records), 3):
            if failure := await take(records[start : start + 3], begun_s):
                return failure
        return self.end or self._answer(begun_s, {"last_update": self.last_update})

    def _ask(self, call: SlurmCall) -> tuple[float, str]:
        query = "".join(f"?{name}={value}" for name, value in call.query.items())
        line = f"{call.method} {call.path}{query}" + (f" {call.body.decode()}" if call.body else "")
        self.asked.append(line)
        self.calls.append(call)
        begun_s = self.now_s
        self.times.append(begun_s)
        self.now_s += self.tick_s
        return begun_s, line

    def _answer(
        self, begun_s: float, body: dict[str, Any], *, unchanged: bool = False
    ) -> SlurmResponse:
        return SlurmResponse(
            body=msgspec.json.encode({**body, "errors": [], "meta": {}}),
            version=self.version,
            asked_s=begun_s,
            answered_s=self.now_s,
            unchanged=unchanged,
        )

    def _update(self, call: SlurmCall, begun_s: float) -> SlurmResponse | SlurmError:
        body = msgspec.json.decode(call.body)
        for name in body.get("name", [call.path.removeprefix("node/")]):
            if name not in self.nodes:
                return INVALID_NAME
            self.nodes[name] = self._updated(self.nodes[name], body)
        return self._answer(begun_s, {})

    def _updated(self, node: SlurmNode, body: dict[str, Any]) -> SlurmNode:
        state, reason = node.state, body.get("reason", node.reason)
        for word in body.get("state", ()):
            state = state | {"DRAIN"} if word == "DRAIN" else state - {"DRAIN"}
            if word == "UNDRAIN" and self.version == "v0.0.45":
                reason = ""
        comment = body.get("comment", node.comment)
        weight = body.get("weight", node.weight)
        return replace(node, state=state, reason=reason, comment=comment, weight=weight)


def _wire(node: SlurmNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": sorted(node.state),
        "reason": node.reason,
        "comment": node.comment,
        "weight": node.weight,
        "alloc_cpus": (node.fill or 0) * 4,
        "cpus": 16,
    }
