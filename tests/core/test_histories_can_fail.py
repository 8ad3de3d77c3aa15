"""The checks of the histories find defects: with a rule or an edge broken on purpose, they fail."""

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from sunk_sync.core import policy
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.graph.host_edges import HostEdges
from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.graph.volume_edges import VolumeEdges
from sunk_sync.core.model.actions import SetWeight, Undrain
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.rules.host import drain, mirror, weight
from sunk_sync.core.rules.host.drain import Stands
from sunk_sync.core.tables.claims import Claims
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.tables.last_seen import LastSeen
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_states import is_drained
from sunk_sync.core.translate.packed_weight import EMPTY, FULL, OWN_MAX, packed_weight
from sunk_sync.core.views.host import Host
from sunk_sync.core.workloads import snapshot
from sunk_sync.core.workloads.edges import WorkloadEdges
from sunk_sync.core.workloads.namespace_edges import NamespaceEdges
from sunk_sync.core.workloads.neighbours import Neighbours
from sunk_sync.core.workloads.volume_limits import VolumeLimits
from tests.core import rare_edges
from tests.core.checks import HistoryError
from tests.core.graph import test_graph
from tests.core.history import History
from tests.core.node_set_history import NodeSetHistory
from tests.core.noted_seeds import first_failure
from tests.core.packing_history import PackingHistory
from tests.core.ruled_history import RuledHistory
from tests.core.volume_history import VolumeHistory
from tests.core.workload_history import WorkloadHistory

pytestmark = pytest.mark.no_cover
"""Coverage of thousands of histories would take longer than the histories."""
MARKS = ("mark", "mark_hosts", "mark_all", "mark_each")
MARKING = (Graph.__module__, HostEdges.__module__, VolumeEdges.__module__, Keys.__module__)
KEYS = ("host_key", "workload_key")
"""The functions that make the keys which workloads mark."""
OF_WORKLOADS = (WorkloadEdges.__module__, NamespaceEdges.__module__)


class Edge(NamedTuple):
    """A call in the source of the product."""

    module: str
    function: str
    line: int
    source: str


def functions(module: str) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def method_calls(module: str, names: Sequence[str]) -> list[Edge]:
    """Return every call of a method with such a name."""
    return [
        Edge(module, function.name, call.lineno, ast.unparse(call))
        for function in functions(module)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in names
    ]


def workload_edges() -> list[Edge]:
    """Return every line of core/workloads that makes keys to mark."""
    found = {
        (module, name.lineno, name.id): function.name
        for module in OF_WORKLOADS
        for function in functions(module)
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and name.id in KEYS and function.name not in KEYS
    }
    return [
        Edge(module, function, line, name)
        for (module, line, name), function in sorted(found.items())
    ]


def drop(
    monkeypatch: pytest.MonkeyPatch, edge: Edge, function: tuple[object, str], instead: object
) -> None:
    """Let this function return `instead` when it is called from the line of the edge."""
    real = getattr(*function)

    def replaced(*arguments: Any, **named: Any) -> Any:
        here = sys._getframe(1)
        if (here.f_globals["__name__"], here.f_lineno) == (edge.module, edge.line):
            return instead
        return real(*arguments, **named)

    monkeypatch.setattr(*function, replaced)


def drop_mark(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Mark nothing from the line with this name any more."""
    for mark in MARKS:
        drop(monkeypatch, EDGES[NAMES.index(name)], (Keys, mark), None)


def drop_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make no key in the line with this name any more."""
    edge = WORKLOAD_EDGES[WORKLOAD_NAMES.index(name)]
    drop(monkeypatch, edge, (sys.modules[edge.module], edge.source), NOBODY)


FIRST: tuple[type[History], ...] = (History, WorkloadHistory)
NOBODY: Key = ("host", "nobody")
WORKLOAD_EDGES = workload_edges()
WORKLOAD_CALLS = [(edge.function, edge.source) for edge in WORKLOAD_EDGES]
WORKLOAD_NAMES = [
    f"{function}:{key}:{WORKLOAD_CALLS[: nth + 1].count((function, key))}"
    for nth, (function, key) in enumerate(WORKLOAD_CALLS)
]
HOST_LOOKUPS: dict[str, type] = {"hosts_on_node": Claims, "hosts_last_at": LastSeen}
HOST_ANSWERS = [
    edge
    for edge in method_calls(HostIdentity.__module__, tuple(HOST_LOOKUPS))
    if edge.function != "slurmd_pod_changed"
]
"""Lookups of hosts for an answer of HostIdentity. `slurmd_pod_changed` uses its lookup to remember
places: a mutant of the simulator guards it."""
EDGES = [edge for module in MARKING for edge in method_calls(module, MARKS)]
NAMES = [f"{edge.function}:{edge.source.replace('self._keys.', 'self.keys.')}" for edge in EDGES]
READ_OF_SLURM = "_listed:self.keys.mark_each(self.node_sets.slurm_was_read())"
OF_VOLUMES = (
    "claim_changed:self.keys.mark(CLUSTER)",
    "_mark_workloads:self.keys.mark_each(map(workload_key, {*keys, *beside}))",
    "_listed:self.keys.mark(CLUSTER)",
    "_job_changed:self.keys.mark(CLUSTER)",
)
RARE = test_graph.CLUSTER_EDGE
"""The one edge that histories hardly ever need: a test of test_graph.py guards it."""
SCRIPTED = rare_edges.GRAPH_EDGES | rare_edges.WORKLOAD_EDGES
"""Edges that the histories need less than once in sixty: each has a scripted case."""


@pytest.mark.parametrize("case", sorted({*SCRIPTED.values(), *rare_edges.CASES}, key=str))
def test_a_scripted_case_ends_right_with_every_edge(case: Callable[[], None]) -> None:
    case()


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_dropped_rare_edge_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (drop_mark if name in NAMES else drop_key)(monkeypatch, name)
    with pytest.raises(HistoryError, match="oracle"):
        SCRIPTED[name]()


UNDRAWN = "_note_drain:self.keys.mark_each(map(workload_key, self._all.lists.unplaced))"
"""No history fails a Prolog, so no history notices it."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (RARE, UNDRAWN, *SCRIPTED)])
def test_any_dropped_edge_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    drop_mark(monkeypatch, name)
    with_sets = "node_set" in name or name == READ_OF_SLURM
    kinds = FIRST
    if with_sets:
        kinds = (NodeSetHistory,)
    elif name in OF_VOLUMES:
        kinds = (VolumeHistory,)
    assert first_failure(name, kinds) in ("oracle", "read-set")


@pytest.mark.parametrize("edge", HOST_ANSWERS, ids=str)
def test_any_dropped_host_of_an_identity_is_noticed(
    monkeypatch: pytest.MonkeyPatch, edge: Edge
) -> None:
    for lookup, table in HOST_LOOKUPS.items():
        drop(monkeypatch, edge, (table, lookup), ())
    assert first_failure(f"{edge.function}:{edge.source}", FIRST) in ("oracle", "read-set")


def test_a_pod_bound_beside_one_that_a_rule_forbids_is_noticed_P8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "why_stopped", lambda _fences, _node: "")
    assert first_failure("forbidden beside", (RuledHistory,)) == "rules"


def test_a_place_that_concerns_nobody_is_noticed_P8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Neighbours, "_concerned", lambda _self, _kind: iter(()))
    assert first_failure("concerns nobody", (RuledHistory,)) in ("oracle", "exclusions")


@pytest.mark.parametrize(
    ("name", "instead", "checks"),
    [
        ("fences", lambda *_: iter(()), ("limit",)),
        ("are_short", lambda *_: False, ("oracle", "index")),
        ("nodes_of", lambda *_: set(), ("oracle", "index")),
    ],
    ids=["too many volumes on a Node", "room that concerns nobody", "a job that takes no room"],
)
def test_a_broken_limit_of_volumes_is_noticed_P8(
    monkeypatch: pytest.MonkeyPatch, name: str, instead: object, checks: tuple[str, ...]
) -> None:
    monkeypatch.setattr(VolumeLimits, name, instead)
    assert first_failure(f"volumes: {name}", (VolumeHistory,)) in checks


@pytest.mark.parametrize("name", [name for name in WORKLOAD_NAMES if name not in SCRIPTED])
def test_any_dropped_key_of_a_workload_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    drop_key(monkeypatch, name)
    failed = first_failure(name, (WorkloadHistory, RuledHistory, VolumeHistory))
    assert failed in ("oracle", "read-set", "index")


def test_the_rare_edge_that_is_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_mark(monkeypatch, RARE)
    with pytest.raises(HistoryError, match="oracle"):
        test_graph.test_a_listed_pod_does_not_count_as_missed_by_the_selector_S20()


def test_a_stale_answer_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S7: too rare for the histories; a test of the graph guards it."""
    monkeypatch.setattr(Table, "last_news_s", lambda *_: 0.0)
    with pytest.raises(AssertionError):
        test_graph.test_a_read_from_before_the_pod_was_last_seen_proves_nothing_S7()


def test_a_claim_that_is_kept_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S16: the claims of a host are computed again whenever a claim near it changes."""
    monkeypatch.setattr(Claims, "_unsettle", lambda *_, **__: None)
    assert first_failure("kept too long", FIRST) in ("oracle", "read-set", "claims")


def _lift_empty(slurm_node: SlurmNode) -> Ruling:
    lifts = is_drained(slurm_node.state) and not slurm_node.reason
    return Ruling((Undrain(slurm_node.name, "lifted"),) if lifts else ())


_numbers = itertools.count()


def _gone_unasked(*_: object) -> Stands:
    return Stands("missing")


BROKEN: dict[str, tuple[object, str, object, set[str]]] = {
    "an empty reason is lifted (S15)": (drain, "_no_cause", _lift_empty, {"ownership"}),
    "a foreign drain is drained over (S11)": (
        drain, "is_foreign_drain", lambda _: False, {"ownership"},
    ),
    "a DOWN node is drained (S13)": (drain, "keeps_drain", lambda _: False, {"frozen"}),
    "a drain ends the job that wakes a node (S1)": (
        drain, "wakes_for_jobs", lambda _: False, {"waking"},
    ),
    "our text is left on an undrained node (S2)": (
        drain, "LIFTED_PREFIX", "", {"text", "rest", "quiet"},
    ),
    "an absence counts unasked (S7, S20)": (drain, "_open", _gone_unasked, {"evidence"}),
    "written before all was listed": (policy, "_why_not", lambda *_: "", {"unlisted"}),
    "shown again without a change (M5)": (
        mirror,
        "shown_of",
        lambda *_: mirror.Shown((), (), str(next(_numbers)), ""),
        {"rest", "quiet", "oracle"},
    ),
    "a cause is overlooked (S3)": (
        drain,
        "CAUSES",
        tuple(cause for cause in drain.CAUSES if cause.ask is not drain._pod_cordoned),
        {"wrong"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    where, name, instead, checks = BROKEN[what]
    monkeypatch.setattr(where, name, instead)
    assert first_failure(what, FIRST) in checks


PACKING: dict[str, tuple[object, str, object, set[str]]] = {
    "an empty host keeps the weight of one in use (W1)": (
        weight, "_takes_no_job", lambda row: row.fill == EMPTY, {"weight"},
    ),
    "a packed weight stays without --pack (W4)": (
        weight, "unpacked", lambda packed: packed, {"weight", "rest", "own"},
    ),
    "weights are packed without --pack (W2)": (
        weight, "_unpacked", lambda host, own, **_: _packed(host, own), {"packed"},
    ),
}  # fmt: skip


def _packed(host: Host, own: int) -> Ruling:
    return Ruling((SetWeight(host.name, packed_weight(min(own, OWN_MAX), FULL), None, "own"),))


@pytest.mark.parametrize("what", PACKING)
def test_a_broken_rule_of_packing_is_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    where, name, instead, checks = PACKING[what]
    monkeypatch.setattr(where, name, instead)
    assert first_failure(what, (PackingHistory,)) in checks
