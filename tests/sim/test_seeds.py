"""A sample of random seeds, and one replay. `python -m tests.sim --seeds 10000` runs many."""

import os
import subprocess
import sys
from pathlib import Path

from tests.sim.run import STEPS_MIN, run_seed

SEEDS = range(int(os.environ.get("SUNK_SYNC_SEEDS", "16")))
ROOT = Path(__file__).parent.parent.parent


def test_every_seed_keeps_every_invariant_and_converges() -> None:
    """S0-S20, M1-M8, F1-F11 with all faults, users of both servers, and crashes of the service."""
    broken = {}
    for seed in SEEDS:
        outcome = run_seed(seed)
        assert outcome.steps >= STEPS_MIN
        if outcome.broken:
            broken[seed] = f"{outcome.broken}\n{outcome.tail}"
    assert not broken, "replay: python -m tests.sim SEED -v"


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    """The order of sets differs between the processes."""
    first, second = (_history(seed=7, hashes=hashes) for hashes in ("1", "2"))
    assert first == second
    assert first.count("\n") > STEPS_MIN


def _history(*, seed: int, hashes: str) -> str:
    command = [sys.executable, "-m", "tests.sim", str(seed), "-v"]
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
