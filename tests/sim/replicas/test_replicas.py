"""F6: a sample of random seeds with two replicas. `python -m tests.sim --replicas` runs many."""

import math
import os
from collections.abc import Callable
from typing import Any

import pytest

from sunk_sync.controller.loop import Loop
from sunk_sync.service.election import ElectionTiming, Elector
from sunk_sync.service.fence import Fence
from sunk_sync.slurm.read.nodes import NodePoll
from tests.sim.outcome import Outcome
from tests.sim.replicas.run import run_seed, run_workload_seed

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")

SEEDS = range(int(os.environ.get("SUNK_SYNC_SEEDS", "4")))
ENOUGH = range(20)


@pytest.mark.parametrize(
    ("play", "seeds"), [(run_seed, SEEDS), (run_workload_seed, SEEDS[: len(SEEDS) // 2])]
)
def test_every_seed_has_one_writer_and_converges_F6(
    play: Callable[[int], Outcome], seeds: range
) -> None:
    """Kills, stops, pauses, cut-offs, and a Lease that is deleted, emptied or restored."""
    outcomes = [play(seed) for seed in seeds]
    broken = {one.seed: f"{one.broken}\n{one.tail}" for one in outcomes if one.broken}
    assert not broken, "replay: python -m tests.sim --replicas SEED -v"
    assert sum(one.counts.get("changes of the leader", 0) for one in outcomes) > len(seeds)


async def _at_once(*_: object) -> None:
    """Return without a listing."""


BROKEN: dict[str, tuple[object, str, Any, set[str]]] = {
    "no fence": (Fence, "left_s", lambda _: math.inf, {"two writers", "awaited"}),
    "a Lease is taken while it is held": (
        *(Elector, "_is_free", lambda *_: True),
        {"two writers", "awaited"},
    ),
    "a margin that is too small": (
        *(ElectionTiming, "margin_s", property(lambda _: -3.0)),
        {"two writers", "awaited"},
    ),
    "no fresh look": (NodePoll, "poll_after", _at_once, {"stale"}),
    "a standby that hands its decisions over": (
        *(Loop, "leading", property(lambda _: True, lambda *_: None)),
        {"stale", "awaited", "two writers"},
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_promise_is_detected(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    where, name, instead, checks = BROKEN[what]
    monkeypatch.setattr(where, name, instead, raising=False)
    broken = next(filter(None, (run_seed(seed).broken for seed in ENOUGH)), "")
    assert broken.partition(":")[0] in checks
