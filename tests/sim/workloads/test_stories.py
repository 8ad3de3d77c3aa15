"""Stories of Pods, a share of the points at which they can be killed, and a sample of seeds.

`python -m tests.sim crash --workloads` plays all points, `--workloads --seeds N` many seeds.
"""

import os

import pytest

from tests.sim import crashes
from tests.sim.stage import play
from tests.sim.workloads.run import STEPS_MIN, run_seed
from tests.sim.workloads.scenarios import SCENARIOS

EVERY = 61
"""So manieth point of each story here."""
SEEDS = range(int(os.environ.get("SUNK_SYNC_WORK_SEEDS", "4")))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_story_of_pods_ends_as_its_rows_say(name: str) -> None:
    """Without any crash."""
    play(SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
def test_F1_killed_anywhere_there_is_one_job_for_each_pod(name: str) -> None:
    """Restarted from listings alone."""
    found = [crashes.run(crash) for crash in crashes.singles(name, every=EVERY)]
    assert found
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_every_broken_hour_of_pods_keeps_every_promise_and_comes_to_rest() -> None:
    """Faults of all kinds, people on both sides, crashes of our own: rows P, G, L5-L9, F."""
    broken = {}
    for seed in SEEDS:
        outcome = run_seed(seed)
        assert outcome.steps >= STEPS_MIN
        if outcome.broken:
            broken[seed] = f"{outcome.broken}\n{outcome.tail}"
    assert not broken, "replay: python -m tests.sim SEED -v --workloads"


def test_P21_a_task_whose_pod_went_while_we_were_away_ends() -> None:
    """Found by a crash: a listing that begins in the moment in which the job is seen counts."""
    name = "one task of an array ends"
    points = play(SCENARIOS[name])[1]
    cancels = [
        one.number
        for one in points
        if one.words.startswith("sent") and "/jobs/" in one.words and one.writes
    ]
    assert cancels
    assert not [why for at in cancels if (why := crashes.run(crashes.Crash(name, (at,))).why)]
