"""The mutation tool finds the survivors and compares them with their explanations."""

from pathlib import Path

import pytest

from tests.mutation.__main__ import EXPLAINED, run, table
from tests.mutation.survivors import complaints, described, read_explained, survived

SETTINGS = """
[tool.mutmut]
source_paths = ["toy"]
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = ["tests"]
"""
SOURCE = '''
"""A toy."""

LOG = []


def least(a: int, b: int) -> int:
    """The lesser of two."""
    LOG.append("compared")
    if a < b:
        return a
    return b


def titled(name: str) -> str:
    """A sentence."""
    return name or "nobody at all"
'''
TESTS = """
from toy.one import least, titled


def test_least():
    assert least(1, 2) == 1
    assert least(3, 2) == 2
    assert titled("x") == "x"
"""
LOGGED = 'one.least: LOG.append("compared") => None'
EQUAL = "one.least: if a < b: => if a <= b:"


def test_mutants_are_killed_or_reported_as_survivors(tmp_path: Path) -> None:
    """The tests of the sample do not notice a dropped call and an equal comparison."""
    for name, text in {
        "pyproject.toml": SETTINGS,
        "toy/__init__.py": "",
        "toy/one.py": SOURCE,
        "tests/test_one.py": TESTS,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    results = run(tmp_path)
    survivors = survived(results)
    statuses = {one["status"] for one in results}
    assert statuses == {"killed", "survived"}
    assert {LOGGED, EQUAL} < set(survivors)
    assert not [one for one in survivors if "if False" in one or "if True" in one]
    assert not [one for one in survivors if "XXnobody" in one], "sentences are not reworded"
    assert "one " in table(results)
    assert f"not explained: {EQUAL}" in complaints(survivors, [LOGGED])


def diff(before: str, after: str) -> str:
    return f"--- a\n+++ a\n@@ -1 +1 @@\n def f():\n-    {before}\n+    {after}"


MUTANT = {
    "name": "sunk_sync.controller.outbox.xǁOutboxǁ_drop__mutmut_3",
    "status": "survived",
    "diff": diff("return 1", "return 2"),
}


def test_a_survivor_is_described_by_its_place_and_its_change() -> None:
    assert described(MUTANT) == "controller.outbox.Outbox._drop: return 1 => return 2"
    function = {**MUTANT, "name": "sunk_sync.core.rules.host.drain.x__node_lost__mutmut_11"}
    assert described(function) == "core.rules.host.drain._node_lost: return 1 => return 2"


@pytest.mark.parametrize(
    ("status", "kept"),
    [("killed", 0), ("timeout", 0), ("survived", 1), ("no tests", 1), ("suspicious", 1)],
)
def test_only_killed_and_endless_mutants_need_no_explanation(status: str, kept: int) -> None:
    assert len(survived([{**MUTANT, "status": status}])) == kept


def test_a_missing_and_a_superfluous_explanation_are_complaints() -> None:
    explained = read_explained("The same.\n    a: x => y\n    b: x => y\nAnother.\n    c: x => y\n")
    assert explained == ["a: x => y", "b: x => y", "c: x => y"]
    assert complaints(["a: x => y", "d: x => y"], explained[:2]) == [
        "not explained: d: x => y",
        "explained, but killed or gone: b: x => y",
    ]
    assert not complaints(explained, explained)


def test_an_explanation_needs_a_sentence() -> None:
    with pytest.raises(ValueError, match="no sentence"):
        read_explained("    a: x => y\n")
    assert read_explained(EXPLAINED.read_text())
