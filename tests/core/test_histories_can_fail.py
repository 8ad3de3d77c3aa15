"""The checks of the histories catch what they are there for: broken on purpose, they fail."""

import ast
import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest

from sunk_sync import policy
from sunk_sync.actions import Undrain
from sunk_sync.claims import Claims
from sunk_sync.facts import SlurmNode
from sunk_sync.graph import Graph
from sunk_sync.rules import drain, mirror
from sunk_sync.rules.drain import Cause
from sunk_sync.slurm_state import is_drained
from sunk_sync.table import Table
from sunk_sync.verdict import Ruling
from tests.core.checks import HistoryError
from tests.core.history import History
from tests.core.test_graph import (
    CLUSTER_EDGE,
    a_removed_pod_is_no_longer_unselected_news,
    an_answer_older_than_the_news_proves_nothing,
)

SEEDS = range(400)
MARKS = ("_mark", "_mark_hosts", "_mark_all")
Edge = tuple[str, int, str]


def edges() -> list[Edge]:
    """Every place in graph.py that marks keys dirty: function, line, source."""
    source = inspect.getsource(sys.modules[Graph.__module__])
    return [
        (function.name, call.lineno, ast.unparse(call))
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef) and function.name not in MARKS
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in MARKS
    ]


def first_failure() -> str:
    """Name of the check that fails first, over as many histories as it takes; empty for none."""
    for seed in SEEDS:
        try:
            History(seed).run()
        except HistoryError as error:
            return str(error).partition(":")[0]
    return ""


def drop(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is marked from this line of graph.py any more."""
    _, line, _ = edge

    def forgetful(mark: Callable[..., None]) -> Callable[..., None]:
        def marks(self: Graph, *arguments: Any) -> None:
            if sys._getframe(1).f_lineno != line:
                mark(self, *arguments)

        return marks

    for name in MARKS:
        monkeypatch.setattr(Graph, name, forgetful(getattr(Graph, name)))


EDGES = edges()
NAMES = [f"{name}:{source}" for name, _, source in EDGES]
RARE = CLUSTER_EDGE
"""The one edge that histories hardly ever need: a scripted test of test_graph.py guards it."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != RARE])
def test_any_dirty_edge_that_is_dropped_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each edge of the graph matters: without it a verdict stands that is no longer right."""
    drop(EDGES[NAMES.index(name)], monkeypatch)
    assert first_failure() in ("oracle", "read-set")


def test_the_rare_edge_that_is_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edge that the histories miss is guarded by a test of its own."""
    drop(EDGES[NAMES.index(RARE)], monkeypatch)
    with pytest.raises(HistoryError, match="oracle"):
        a_removed_pod_is_no_longer_unselected_news()


def test_a_stale_answer_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S7: too rare for the histories; a scripted test guards it."""
    monkeypatch.setattr(Table, "heard_s", lambda *_: 0.0)
    with pytest.raises(AssertionError):
        an_answer_older_than_the_news_proves_nothing()


def test_a_claim_that_is_kept_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S16: who claims a host is worked out anew whenever a claim near it changes."""
    monkeypatch.setattr(Claims, "_unsettle", lambda *_, **__: None)
    assert first_failure() in ("oracle", "read-set", "claims")


def _lift_empty(slurm_node: SlurmNode) -> Ruling:
    lifts = is_drained(slurm_node.state) and not slurm_node.reason
    return Ruling((Undrain(slurm_node.name, "lifted"),) if lifts else ())


_numbers = itertools.count()


def _gone_unasked(*_: object) -> Cause:
    return Cause("k8s: pod terminated", "missing", absence=True)


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
        tuple(cause for cause in drain.CAUSES if cause.__name__ != "_pod_cordoned"),
        {"wrong"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Each promise has a check that fails when it is broken."""
    where, name, instead, checks = BROKEN[what]
    monkeypatch.setattr(where, name, instead)
    assert first_failure() in checks
