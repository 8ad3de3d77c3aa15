"""The table of log events has what the code logs: names, levels and fields."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from sunk_sync.telemetry.log_events import LOG_EVENTS, LogEvent
from tests.docs.pages import ROOT

PACKAGE = ROOT / "sunk_sync"
LEVELS = ("debug", "info", "warning", "error")
APART = {"demo", "embedded"}
"""They write no log of the service."""
LOGGERS = {"log", "_log"}
ROWS = {one.name: one for one in LOG_EVENTS}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Logged(NamedTuple):
    place: str
    names: frozenset[str]
    """The events that this call can log; empty: not found."""
    levels: frozenset[str]
    fields: frozenset[str]
    more: bool
    """It passes fields that the call does not name."""


@cache
def logged() -> list[Logged]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if not APART & {*path.parts}]
    return [call for path in paths for call in _in_file(path)]


def _in_file(path: Path) -> Iterator[Logged]:
    tree = ast.parse(path.read_text())
    functions = [one for one in ast.walk(tree) if isinstance(one, _Function)]
    for function in functions:
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and (levels := _levels(call, function, functions)):
                fields = {_field(one.arg) for one in call.keywords if one.arg}
                more = any(one.arg is None for one in call.keywords)
                texts = frozenset(_texts(call.args[0], function, tree))
                place = f"{path.name}:{call.lineno}"
                yield Logged(place, texts, frozenset(levels), frozenset(fields), more)


def _field(keyword: str) -> str:
    """A traceback is the field `exception`."""
    return "exception" if keyword == "exc_info" else keyword


def _levels(call: ast.Call, function: _Function, others: list[_Function]) -> set[str]:
    """Return the levels of a call that logs, else nothing."""
    if isinstance(call.func, ast.Attribute):
        return _level(call.func)
    if isinstance(call.func, ast.Name) and call.func.id == "level":
        helpers = [one for one in others if f"self.{one.name}(" in ast.unparse(function)]
        nodes = (node for one in (function, *helpers) for node in ast.walk(one))
        return {level for node in nodes for level in _level(node)}
    return set()


def _level(node: ast.AST) -> set[str]:
    if not isinstance(node, ast.Attribute) or node.attr not in LEVELS:
        return set()
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return {node.attr} if name in LOGGERS else set()


def _texts(node: ast.expr, function: _Function, tree: ast.Module) -> Iterator[str]:
    """Yield the constants that an expression can be, through names of the function or module."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from _texts(node.body, function, tree)
            yield from _texts(node.orelse, function, tree)
        case ast.Name():
            for value in _assigned(node.id, function, tree):
                yield from _texts(value, function, tree)
        case ast.Subscript(value=ast.Name(id=name)):
            for value in _assigned(name, function, tree):
                if isinstance(value, ast.Dict):
                    for one in value.values:
                        yield from _texts(one, function, tree)
        case _:
            pass


def _assigned(name: str, function: _Function, tree: ast.Module) -> Iterator[ast.expr]:
    for node in (*ast.walk(function), *tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if (
                found == name
            ):
                yield value
            case _:
                pass


def test_the_name_of_each_logged_event_is_known_and_in_the_table() -> None:
    """The lines of libraries alone have other texts: `_Libraries` in telemetry/logs.py."""
    assert not [call.place for call in logged() if not call.names]
    names = {name for call in logged() for name in call.names}
    assert names == ROWS.keys()
    print(f"{len(logged())} calls, {len(names)} events")


@cache
def of_each() -> dict[str, list[Logged]]:
    calls: defaultdict[str, list[Logged]] = defaultdict(list)
    for call in logged():
        for name in call.names:
            calls[name].append(call)
    return calls


each_row = pytest.mark.parametrize("row", LOG_EVENTS, ids=lambda row: row.name)


@each_row
def test_the_levels_of_the_table_are_those_of_the_calls(row: LogEvent) -> None:
    levels = {level for call in of_each()[row.name] for level in call.levels}
    if row.name == "read":
        levels.discard("info")  # a read that is done is logged as debug
    assert row.levels == tuple(level for level in LEVELS if level in levels)


@each_row
def test_the_fields_of_the_table_are_those_of_the_calls(row: LogEvent) -> None:
    calls = of_each()[row.name]
    named = {field for call in calls for field in call.fields}
    assert named <= {*row.fields}
    if not any(call.more for call in calls):
        assert named == {*row.fields}


@each_row
def test_a_row_says_in_one_line_what_the_event_means(row: LogEvent) -> None:
    assert row.text.endswith(".")
    assert "\n" not in row.text + row.name


def test_no_event_has_two_rows() -> None:
    assert len(ROWS) == len(LOG_EVENTS)
