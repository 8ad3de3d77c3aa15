"""Scenarios of NodeSets, with a share of their crash points, and a sample of seeds.

`python -m tests.sim crash --node-sets` plays all points, `--node-sets --seeds N` many seeds.
"""

import os

import pytest

from tests.sim import crashes
from tests.sim.node_sets.run import STEPS_MIN, run_seed
from tests.sim.node_sets.scenarios import SCENARIOS
from tests.sim.replicas.run import run_node_set_seed

EVERY = 131
"""Play each `EVERY`th point of a scenario."""
SEEDS = range(int(os.environ.get("SUNK_SYNC_NODE_SET_SEEDS", "2")))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_node_sets_ends_as_its_rows_require(name: str) -> None:
    crashes.whole(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_node_set_ends_the_same_after_a_kill_at_any_point_N25(name: str) -> None:
    found = [crashes.run(crash) for crash in crashes.singles(name, every=EVERY)]
    assert found
    assert not [(one.crash.at, one.why) for one in found if one.why]


def test_every_seed_of_node_sets_keeps_every_invariant_and_converges() -> None:
    """Rows N and T with all faults, users of both servers, and crashes of the service."""
    broken = {}
    for seed in SEEDS:
        outcome = run_seed(seed)
        assert outcome.steps >= STEPS_MIN
        if outcome.broken:
            broken[seed] = f"{outcome.broken}\n{outcome.tail}"
    assert not broken, "replay: python -m tests.sim SEED -v --node-sets"


def test_node_sets_with_two_replicas_keep_every_invariant_and_converge_F6() -> None:
    outcome = run_node_set_seed(1)
    assert not outcome.broken, outcome.tail
