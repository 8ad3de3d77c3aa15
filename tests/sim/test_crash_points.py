"""Scenarios, with a share of their crash points.

`python -m tests.sim crash` plays all points, and pairs of points.
"""

from typing import Any

import pytest

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.rules.host import drain
from tests.sim import crashes
from tests.sim.life import Life
from tests.sim.scenarios import SCENARIOS

EVERY = 61
"""Play each `EVERY`th point of a scenario."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_ends_as_its_rows_require(name: str) -> None:
    crashes.whole(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_killed_at_any_point_ends_the_same_F1(name: str) -> None:
    found = [crashes.run(crash) for crash in crashes.singles(name, every=EVERY)]
    assert found
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_a_scenario_killed_twice_ends_the_same_F1() -> None:
    found = crashes.run_pairs(crashes.Crash("and uncordoned", (100,)))
    assert len(found) > 30
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_a_fork_has_the_result_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this play the ends differ: the third life lifts no drain."""
    begin, rule = Life.__init__, drain._rule_state
    life = [0]

    def begins(one: Life, *arguments: Any, number: int, **others: Any) -> None:
        life[0] = number
        begin(one, *arguments, number=number, **others)

    def rules(slurm_node: SlurmNode, cause: Any, undecided: Any, *, goes: bool) -> Ruling:
        lifts = cause is None and life[0] > 2
        return Ruling() if lifts else rule(slurm_node, cause, undecided, goes=goes)

    monkeypatch.setattr(Life, "__init__", begins)
    monkeypatch.setattr(drain, "_rule_state", rules)
    found = crashes.run_pairs(crashes.Crash("and uncordoned", (60,)))[::11]
    assert any(one.why for one in found)
    assert [one.why for one in found] == [crashes.run(one.crash).why for one in found]
