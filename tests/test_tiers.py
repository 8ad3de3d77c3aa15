"""The commit tier: what a change adds to it, and that it shows every row on a real server."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_rows import page
from tests.tiers import widened

ROOT = Path(__file__).parent
_rows_in = re.compile(r"(?<![A-Za-z0-9])([SMFNTPGLW]\d+[ab]?)(?=_|$)").findall


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("docs/limits.md", ()),
        ("sunk_sync/core/decide.py", ()),
        ("deploy/helm/sunk-sync/values.yaml", ("tests/chart/", "tests/real/permissions/")),
        ("requirements-dev.lock", ("tests/test_locks",)),
    ],
)
def test_a_change_runs_the_night_tests_of_the_files_that_depend_on_it(
    changed: str, files: tuple[str, ...]
) -> None:
    assert widened([changed]) == files


def test_every_row_with_a_real_test_is_shown_on_a_real_server_with_each_commit() -> None:
    assert len(real_tests()) > 90
    assert not [row for row, at_night in real_tests().items() if all(at_night)]


def test_every_row_of_the_page_that_names_servers_has_such_a_test() -> None:
    named = {row for row, (_, servers) in page().items() if servers.startswith("26.05")}
    assert not named - real_tests().keys()


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
