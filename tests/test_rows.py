"""Rows N, T, P, G, L and W of the requirements: their tests are named after them.

docs/development/rows.md has the files.

`test_…_P17_P26` names P17 and P26; P07 is P7.
"""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
PAGE = ROOT.parent / "docs" / "development" / "rows.md"
ROWS = (
    *(f"N{number}" for number in range(1, 31)),
    *(f"T{number}" for number in range(1, 10)),
    *(f"P{number}" for number in range(1, 34)),
    "P11a",
    "P25b",
    *(f"G{number}" for number in range(1, 10)),
    *(f"L{number}" for number in range(1, 10)),
    *(f"W{number}" for number in range(1, 5)),
    "L4a",
)
_rows_in = re.compile(r"(?<![A-Za-z0-9])([NTPGLW])0*(\d+[ab]?)(?=_|$)").findall


@cache
def files_by_row() -> dict[str, set[str]]:
    """Return, by row, the test files below tests/ with a test that names it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in ROOT.rglob("test_*.py"):
        for name in re.findall(r"def test_(\w+)", path.read_text()):
            for letter, number in _rows_in(name):
                found[letter + number].add(path.relative_to(ROOT).as_posix())
    return dict(found)


@cache
def page() -> dict[str, tuple[set[str], str]]:
    """Return, by row, the files and servers in docs/development/rows.md."""
    lines = re.findall(
        r"^\| ([NTPGLW]\d+[ab]?) \|[^|]*\| ([^|]*) \| ([^|]*) \|", PAGE.read_text(), re.M
    )
    assert len(lines) == len({row for row, _, _ in lines}), "a row stands there twice"
    return {
        row: (set(re.findall(r"`([\w/.]+)`", files)), reported.strip())
        for row, files, reported in lines
    }


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_named_by_a_test(row: str) -> None:
    assert files_by_row().get(row), f"no test says in its name that it shows {row}"


def test_the_page_has_every_row_and_no_other() -> None:
    assert page().keys() == set(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_the_page_names_files_that_test_the_row(row: str) -> None:
    """The page need not name all files, but at least one of those on real servers."""
    files, servers = page()[row]
    tested = files_by_row()[row]
    assert files
    assert files <= tested
    assert _is_real(files) == _is_real(tested) == servers.startswith(("26.05", "Kubernetes"))


def _is_real(files: set[str]) -> bool:
    return any(file.startswith(("real/", "e2e/")) for file in files)
