"""The table of conditions has what the rules set, no more and no less."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.condition_kinds import CONDITIONS, ConditionKind
from sunk_sync.core.model.event_kinds import EVENT_CANCELLED
from sunk_sync.core.rules.host.mirror import node_conditions, pod_conditions
from sunk_sync.core.views import topology_shown
from tests.docs.pages import ROOT

CORE = ROOT / "sunk_sync" / "core"
TYPES = {kind.type for kind in CONDITIONS}
PAIRS = {(one.status, one.reason) for kind in CONDITIONS for one in kind.meanings}
NO_REASON = {"True", "False", "Unknown", "None", "Node", "Pod"}
"""Words that look like the reason of a condition: states of conditions, what Slurm says without a
reason, and kinds."""
_NAME = re.compile(r"(?:[A-Z][a-z]+)+")

each_kind = pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.type)


def makers() -> Iterator[Path]:
    """Yield the files that give a condition its reason."""
    words = ("Condition(", "EndPod(", "SetScheduled(")
    yield CORE / "translate" / "job_states.py"
    yield CORE / "views" / "why_waiting.py"
    yield from (path for path in CORE.rglob("views/*.py") if "Condition(" in path.read_text())
    for path in CORE.rglob("rules/**/*.py"):
        if any(word in path.read_text() for word in words):
            yield path


def constants(path: Path) -> set[str]:
    nodes = (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Constant))
    values = (node.value for node in nodes)
    return {value for value in values if isinstance(value, str) and _NAME.fullmatch(value)}


def test_each_type_of_the_table_is_set_and_each_type_that_is_set_is_in_the_table() -> None:
    named = {value for name, value in vars(names).items() if name.endswith("_CONDITION")}
    assert {*named, topology_shown.TYPE, "Available", "Held", "Progressing"} == TYPES


def test_each_reason_of_the_table_is_set_and_each_reason_that_is_set_is_in_the_table() -> None:
    found = {reason for path in makers() for reason in constants(path)} - NO_REASON - TYPES
    assert found == {reason for _, reason in PAIRS}
    assert EVENT_CANCELLED.reason in found


def test_a_status_that_stands_beside_its_reason_in_the_code_is_that_of_the_table() -> None:
    calls = [
        (str(status.value), str(reason.value))
        for path in makers()
        for status, reason in _literal_pairs(ast.parse(path.read_text()))
    ]
    assert {*calls} <= PAIRS
    assert len(calls) > 8, "the pattern finds calls"


def _literal_pairs(tree: ast.AST) -> Iterator[tuple[ast.Constant, ast.Constant]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            match node.func.id, node.args:
                case "Condition", [_, ast.Constant() as status, ast.Constant() as reason, *_]:
                    yield status, reason
                case _:
                    pass


@pytest.mark.parametrize("state", ["IDLE", "IDLE+DRAIN", "ALLOCATED", "DOWN+NOT_RESPONDING"])
def test_the_conditions_of_each_state_are_in_the_table(state: str) -> None:
    states = frozenset(state.split("+"))
    for one in (*node_conditions(states, "fan"), *pod_conditions(states, "fan")):
        (kind,) = [kind for kind in CONDITIONS if covers(kind, one.type)]
        assert (one.status, one.reason) in [(it.status, it.reason) for it in kind.meanings]


def covers(kind: ConditionKind, name: str) -> bool:
    return name == kind.type or (kind.family and name.startswith(kind.type))


@each_kind
def test_a_row_names_no_status_and_reason_twice(kind: ConditionKind) -> None:
    pairs = [(one.status, one.reason) for one in kind.meanings]
    assert len(pairs) == len({*pairs})
    assert kind.on
