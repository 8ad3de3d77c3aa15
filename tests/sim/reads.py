"""The answers that the service got, as seen from outside: the evidence for its writes."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.watch import INITIAL_EVENTS_END
from sunk_sync.embedded.slurm.model.node import Node, state_of
from sunk_sync.embedded.wire import Answer, Question
from tests.sim.wire import Exchange, Process
from tests.sim.worlds import Worlds

KEPT = 64
AT_ONCE_S = 0.1
"""A failed read is repeated once before its push continues."""
NODES = "/api/v1/nodes"
_uids = re.compile(rb'"uid":"([^"]+)"').findall


class Row(Struct, frozen=True):
    name: str
    state: frozenset[str]
    reason: str
    comment: str

    @property
    def drained(self) -> bool:
        return "DRAIN" in self.state


def row_of(node: Node) -> Row:
    return Row(node.name, frozenset(state_of(node)), node.reason, node.comment)


class SlurmRead(Struct, frozen=True, kw_only=True):
    """One answered read of one Slurm node. `row=None`: the node does not exist."""

    by_name: bool
    asked_s: float
    served_s: float
    taken_s: float
    row: Row | None


class Absence(Struct, frozen=True, kw_only=True):
    """A read by name, with the UID that it found. An empty UID stands for 404."""

    uid: str
    asked_s: float
    served_s: float
    taken_s: float


def whole_records(body: bytes, *, of: str) -> Iterator[dict[str, Any]]:
    """Yield the complete records of the list `of` in an answer that broke off."""
    text = body.decode(errors="replace").partition(f'"{of}":[')[2]
    while text.startswith("{"):
        try:
            record, end = JSONDecoder().raw_decode(text)
        except JSONDecodeError:
            return
        yield record
        text = text[end:].removeprefix(",")


class Reads:
    """The evidence of one process. A new process has none."""

    def __init__(self, worlds: Worlds, process: Process) -> None:
        self._worlds = worlds
        self._process = process
        self.slurm: defaultdict[str, list[SlurmRead]] = defaultdict(list)
        """Slurm node → its reads, oldest first."""
        self.named: defaultdict[tuple[str, str, str], list[Absence]] = defaultdict(list)
        """Kind, namespace, name → answers to reads by name."""
        self.listed: set[str] = set()
        """Sources with a complete listing: nodes, slurmd_pods, slurm_nodes."""
        self.told: set[str] = set()
        """UIDs of Pods that some line or page showed."""
        self._ended: deque[tuple[float, float]] = deque(maxlen=KEPT)
        """When each read or write by name was sent and ended, with or without success."""
        self._rows: dict[int, dict[str, Row]] = {}

    @property
    def ready(self) -> bool:
        return len(self.listed) == 3

    def asked_with_what_ended_at(self, now_s: float) -> set[float]:
        """Return the send times of the reads and writes by name that end at this time."""
        return {asked_s for asked_s, ended_s in self._ended if ended_s >= now_s - AT_ONCE_S}

    def served(self, exchange: Exchange) -> None:
        """Store the state of the Slurm nodes when the server answers a read."""
        if exchange.process is not self._process or exchange.writes:
            return
        if exchange.side == "slurm" and "/node" in exchange.question.path:
            nodes = self._worlds.slurm.nodes.values()
            self._rows[exchange.number] = {node.name: row_of(node) for node in nodes}

    def over(self, exchange: Exchange) -> None:
        self._rows.pop(exchange.number, None)
        if exchange.process is self._process and "/node/" in exchange.question.path:
            self._ended.append((exchange.sent_s, self._worlds.now_s))

    def taken(self, exchange: Exchange) -> None:
        answer = exchange.answer
        if exchange.process is not self._process or exchange.writes:
            return
        if exchange.served_s is None or not isinstance(answer, Answer):
            return
        if exchange.side == "slurm":
            self._take_slurm(exchange, answer)
        else:
            self._take_kube(exchange, answer)

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        """Note the first part of a listing: it is correct, but not complete."""
        rows = self._rows.get(exchange.number)
        if exchange.process is not self._process or rows is None:
            return
        exchange.taken_s = self._worlds.now_s
        for record in whole_records(body, of="nodes"):
            if record["name"] in rows:
                self._note(record["name"], exchange, rows[record["name"]], by_name=False)

    def _take_slurm(self, exchange: Exchange, answer: Answer) -> None:
        rows = self._rows.pop(exchange.number, None)
        if rows is None or answer.status not in (200, 304) or b'"errors":[{"desc' in answer.body:
            return
        head, _, name = exchange.question.path.rstrip("/").rpartition("/")
        if head.endswith("/node"):
            self._note(name, exchange, rows.get(name), by_name=True)
            return
        self.listed.add("slurm_nodes")
        for name in {**rows, **self.slurm}:
            self._note(name, exchange, rows.get(name), by_name=False)

    def _note(self, name: str, exchange: Exchange, row: Row | None, *, by_name: bool) -> None:
        assert exchange.served_s is not None
        assert exchange.taken_s is not None
        reads = self.slurm[name]
        reads.append(
            SlurmRead(
                by_name=by_name,
                asked_s=exchange.sent_s,
                served_s=exchange.served_s,
                taken_s=exchange.taken_s,
                row=row,
            )
        )
        del reads[:-KEPT]

    def _take_kube(self, exchange: Exchange, answer: Answer) -> None:
        parts = exchange.question.path.split("/")
        match parts[3:]:
            case ["nodes", name]:
                self._note_named(("Node", "", name), exchange, answer)
            case ["namespaces", namespace, "pods", name]:
                self._note_named(("Pod", namespace, name), exchange, answer)
            case _:
                self._take_page(exchange, answer)

    def _note_named(self, place: tuple[str, str, str], exchange: Exchange, answer: Answer) -> None:
        if answer.status not in (200, 404):
            return
        uid = msgspec.json.decode(answer.body)["metadata"]["uid"] if answer.status == 200 else ""
        assert exchange.served_s is not None
        assert exchange.taken_s is not None
        self.named[place].append(
            Absence(
                uid=uid,
                asked_s=exchange.sent_s,
                served_s=exchange.served_s,
                taken_s=exchange.taken_s,
            )
        )

    def _take_page(self, exchange: Exchange, answer: Answer) -> None:
        if answer.status != 200 or exchange.question.query.get("limit") == "1":
            return
        self._tell_pods(exchange.question.path, [answer.body])
        if b'"continue":' not in answer.body[:300]:
            self._end_listing(exchange.question.path, exchange.question.query)

    def _tell_pods(self, path: str, bodies: Iterable[bytes]) -> None:
        if not path.endswith("/pods"):
            return
        for body in bodies:
            if b'"DELETED"' not in body[:20]:
                self.told.update(uid.decode() for uid in _uids(body))

    def _end_listing(self, path: str, query: object) -> None:
        if path == NODES:
            self.listed.add("nodes")
        elif "labelSelector" in str(query):
            self.listed.add("slurmd_pods")

    def streamed(self, process: Process, question: Question, piece: list[bytes]) -> None:
        """Note lines of a watch. The end of its initial events ends a listing."""
        if process is not self._process:
            return
        self._tell_pods(question.path, piece)
        if any(INITIAL_EVENTS_END.encode() in line for line in piece):
            self._end_listing(question.path, question.query)
