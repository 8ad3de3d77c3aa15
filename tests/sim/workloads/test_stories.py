"""Scenarios of Pods, with a share of their crash points, and a sample of seeds.

`python -m tests.sim crash --workloads` plays all points, `--workloads --seeds N` many seeds.
"""

import os

import pytest

from tests.sim import crashes
from tests.sim.workloads.run import STEPS_MIN, run_seed
from tests.sim.workloads.scenarios import SCENARIOS

EVERY = 131
"""Play each `EVERY`th point of a scenario."""
SEEDS = range(int(os.environ.get("SUNK_SYNC_WORK_SEEDS", "2")))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_pods_ends_as_its_rows_require(name: str) -> None:
    crashes.whole(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_any_point_each_pod_has_one_job_F1(name: str) -> None:
    found = [crashes.run(crash) for crash in crashes.singles(name, every=EVERY)]
    assert found
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_every_seed_of_pods_keeps_every_invariant_and_converges() -> None:
    """Rows P, G, L5-L9, F with all faults, users of both servers, and crashes of the service."""
    broken = {}
    for seed in SEEDS:
        outcome = run_seed(seed)
        assert outcome.steps >= STEPS_MIN
        if outcome.broken:
            broken[seed] = f"{outcome.broken}\n{outcome.tail}"
    assert not broken, "replay: python -m tests.sim SEED -v --workloads"


def test_a_task_whose_pod_is_deleted_during_a_restart_ends_P21() -> None:
    """A listing that starts at the moment of the job's read counts."""
    name = "one task of an array ends"
    cancels = [
        one.number
        for one in crashes.whole(name)[1]
        if one.words.startswith("sent") and "/jobs/" in one.words and one.writes
    ]
    assert cancels
    assert not [why for at in cancels if (why := crashes.run(crashes.Crash(name, (at,))).why)]
