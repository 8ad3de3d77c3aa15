"""The commit tier: what a change adds to it, and that it shows every row on a real server."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tiers import widened

ROOT = Path(__file__).parent
PAGE = ROOT.parent / "docs" / "development" / "rows.md"
_rows_in = re.compile(r"(?<![A-Za-z0-9])([SMFNTPGLW]\d+[ab]?)(?=_|$)").findall


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("docs/limits.md", ()),
        ("sunk_sync/core/decide.py", ()),
        ("deploy/helm/sunk-sync/values.yaml", ("tests/chart/", "tests/real/permissions/")),
        ("requirements-dev.lock", ("tests/test_locks",)),
        ("tests/real/test_lock.py", ("tests/real/test_lock.py",)),
    ],
)
def test_a_change_runs_the_night_tests_of_the_files_that_depend_on_it(
    changed: str, files: tuple[str, ...]
) -> None:
    assert widened([changed]) == files


def test_every_row_is_shown_on_a_real_server_with_each_commit_or_at_night_with_a_reason() -> None:
    at_night = {row for row, tests in real_tests().items() if all(tests)}
    assert at_night == reasons().keys()
    assert all(reasons().values())


@cache
def reasons() -> dict[str, str]:
    """Return the rows that docs/development/rows.md names as shown at night, with the reason."""
    _, _, section = PAGE.read_text().partition("## Rows that only the night shows")
    return {row: why.strip() for row, why in re.findall(r"^\| (\w+) \| ([^|]*) \|$", section, re.M)}


def real_tests() -> dict[str, list[bool]]:
    """Return, for each test on real servers that names a row, whether it runs at night only."""
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for path in sorted((ROOT / "real").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        for name, at_night in _tests(tree, at_night=_module_is_nightly(tree)):
            for row in _rows_in(name):
                found[re.sub(r"^([A-Z])0+(?=\d)", r"\1", row)].append(at_night)
    return dict(found)


def _tests(tree: ast.Module | ast.ClassDef, *, at_night: bool) -> Iterator[tuple[str, bool]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _tests(node, at_night=at_night or _is_nightly(node.decorator_list))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, at_night or _is_nightly(node.decorator_list)


def _module_is_nightly(tree: ast.Module) -> bool:
    marks = (node.value for node in tree.body if isinstance(node, ast.Assign) and _marks(node))
    return _is_nightly(list(marks))


def _marks(node: ast.Assign) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "pytestmark" for one in node.targets)


def _is_nightly(marks: list[ast.expr]) -> bool:
    return any("mark.night(" in ast.unparse(mark) for mark in marks)
