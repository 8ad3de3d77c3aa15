"""The checks of the histories find defects: with a rule or an edge broken on purpose, they fail."""

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sunk_sync.core import policy
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.graph.host_edges import HostEdges
from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.model.actions import Undrain
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.rules.host import drain, mirror
from sunk_sync.core.rules.host.drain import Stands
from sunk_sync.core.tables.claims import Claims
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.tables.last_seen import LastSeen
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_states import is_drained
from sunk_sync.core.workloads import edges as workload_module
from sunk_sync.core.workloads.edges import WorkloadEdges
from tests.core import rare_edges
from tests.core.checks import HistoryError
from tests.core.graph import test_graph
from tests.core.history import History
from tests.core.workload_history import WorkloadHistory

pytestmark = pytest.mark.no_cover
"""Coverage of thousands of histories would take longer than the histories."""
SEEDS = range(400)
MARKS = ("mark", "mark_hosts", "mark_all", "mark_each")
MARKING = (Graph.__module__, HostEdges.__module__, Keys.__module__)
KEYS = ("host_key", "workload_key")
"""The functions that make the keys which workloads/edges.py marks."""
Edge = tuple[str, int, str]


def functions(module: str) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def edges() -> list[Edge]:
    """Return every place of the graph that marks keys dirty: function, line, source."""
    return [
        (function.name, call.lineno, ast.unparse(call).replace("self._keys.", "self.keys."))
        for module in MARKING
        for function in functions(module)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in MARKS
    ]


def workload_edges() -> list[Edge]:
    """Return every line of workloads/edges.py that makes keys to mark: function, line, source."""
    found = {
        (name.lineno, name.id): function.name
        for function in functions(WorkloadEdges.__module__)
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and name.id in KEYS and function.name not in KEYS
    }
    return [(function, line, name) for (line, name), function in sorted(found.items())]


def first_failure(kinds: Sequence[type[History]] = (History, WorkloadHistory)) -> str:
    """Run histories until a check fails, and return its name; empty for none."""
    for seed in SEEDS:
        for kind in kinds:
            try:
                kind(seed).run()
            except HistoryError as error:
                return str(error).partition(":")[0]
    return ""


def drop(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark nothing from this line any more."""
    function, line, _ = edge

    def forgetful(mark: Callable[..., None]) -> Callable[..., None]:
        def marks(self: Keys, *arguments: Any, **named: Any) -> None:
            here = sys._getframe(1)
            if (here.f_code.co_name, here.f_lineno) != (function, line):
                mark(self, *arguments, **named)

        return marks

    for name in MARKS:
        monkeypatch.setattr(Keys, name, forgetful(getattr(Keys, name)))


def drop_workload_edge(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no key in this line of workloads/edges.py any more."""
    _, line, name = edge
    make = getattr(workload_module, name)

    def forgets(key: str) -> Key:
        here = sys._getframe(1)
        dropped = here.f_lineno == line and here.f_code.co_filename == workload_module.__file__
        return NOBODY if dropped else make(key)

    monkeypatch.setattr(workload_module, name, forgets)


def host_answers() -> list[Edge]:
    """Return every line of HostIdentity that looks up hosts for its answer: function, line, method.

    `slurmd_pod_changed` uses the lookup to remember places: a mutant of the simulator guards it.
    """
    return [
        (function.name, call.lineno, call.func.attr)
        for function in functions(HostIdentity.__module__)
        if function.name != "slurmd_pod_changed"
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("hosts_on_node", "hosts_last_at")
    ]


def drop_host_answer(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find no host in this line of HostIdentity any more."""
    function, line, name = edge
    table = Claims if name == "hosts_on_node" else LastSeen
    find = getattr(table, name)

    def finds(self: object, place: object) -> object:
        here = sys._getframe(1)
        return () if (here.f_code.co_name, here.f_lineno) == (function, line) else find(self, place)

    monkeypatch.setattr(table, name, finds)


NOBODY: Key = ("host", "nobody")
WORKLOAD_EDGES = workload_edges()
WORKLOAD_NAMES = [
    f"{function}:{name}:{[(f, n) for f, _, n in WORKLOAD_EDGES[: nth + 1]].count((function, name))}"
    for nth, (function, _, name) in enumerate(WORKLOAD_EDGES)
]
HOST_ANSWERS = host_answers()
EDGES = edges()
NAMES = [f"{name}:{source}" for name, _, source in EDGES]
RARE = test_graph.CLUSTER_EDGE
"""The one edge that histories hardly ever need: a test of test_graph.py guards it."""
SCRIPTED = rare_edges.GRAPH_EDGES | rare_edges.WORKLOAD_EDGES
"""Edges that the histories need less than once in sixty: each has a scripted case."""


@pytest.mark.parametrize("case", sorted({*SCRIPTED.values(), *rare_edges.CASES}, key=str))
def test_a_scripted_case_ends_right_with_every_edge(case: Callable[[], None]) -> None:
    case()


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_rare_edge_that_is_dropped_is_noticed_by_the_oracle(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name in NAMES:
        drop(EDGES[NAMES.index(name)], monkeypatch)
    else:
        drop_workload_edge(WORKLOAD_EDGES[WORKLOAD_NAMES.index(name)], monkeypatch)
    with pytest.raises(HistoryError, match="oracle"):
        SCRIPTED[name]()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (RARE, *SCRIPTED)])
def test_any_dirty_edge_that_is_dropped_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    drop(EDGES[NAMES.index(name)], monkeypatch)
    assert first_failure() in ("oracle", "read-set")


@pytest.mark.parametrize("edge", HOST_ANSWERS, ids=str)
def test_any_host_that_an_identity_does_not_name_is_noticed(
    monkeypatch: pytest.MonkeyPatch, edge: Edge
) -> None:
    drop_host_answer(edge, monkeypatch)
    assert first_failure() in ("oracle", "read-set")


@pytest.mark.parametrize("name", [name for name in WORKLOAD_NAMES if name not in SCRIPTED])
def test_any_key_of_a_workload_that_is_dropped_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    drop_workload_edge(WORKLOAD_EDGES[WORKLOAD_NAMES.index(name)], monkeypatch)
    assert first_failure((WorkloadHistory,)) in ("oracle", "read-set", "index")


def test_the_rare_edge_that_is_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    drop(EDGES[NAMES.index(RARE)], monkeypatch)
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
    assert first_failure() in ("oracle", "read-set", "claims")


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
    "a DOWN node is drained (S13)": (drain, "is_frozen", lambda _: False, {"frozen"}),
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
    assert first_failure() in checks
