"""Stories, and a share of the points at which they can be killed; `python -m tests.sim crash`
plays them all, and pairs."""

import pytest

from tests.sim import crashes
from tests.sim.scenarios import IN_PAIRS, SCENARIOS
from tests.sim.stage import play

EVERY = 11
"""So manieth point of each story here."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_story_ends_as_its_rows_say(name: str) -> None:
    """Without any crash."""
    play(SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
def test_F1_killed_anywhere_it_ends_the_same(name: str) -> None:
    """Restarted from listings alone."""
    found = [crashes.run(crash) for crash in crashes.singles(name, every=EVERY)]
    assert found
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_F1_killed_twice_it_ends_the_same() -> None:
    """One pair of each story that is also played in pairs."""
    found = [crashes.run(crashes.Crash(name, (40, 20))) for name in IN_PAIRS]
    assert not [(one.crash, one.why) for one in found if one.why]
