"""Retries of failed writes: back-off, Retry-After, an authority that answers again."""

import asyncio
from itertools import pairwise

import pytest

from sunk_sync.controller.backoff import BACKOFF_FIRST_S, BACKOFF_MAX_S
from sunk_sync.controller.pacing import PACE_S
from sunk_sync.core.model.outcomes import Done, Unsure
from tests.kit.clock import in_virtual_time
from tests.kit.outbox import DRAIN, KEY, LIFT, Answer, Bench, on_bench, refused, shown, unsure


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (0.999, 0.9995)])
@in_virtual_time
async def test_unsure_writes_are_retried_with_a_back_off(jitter: float, share: float) -> None:
    """The pause doubles from 0.2 s to 30 s, with a jitter between half and all of it."""
    bench = Bench(jitter=jitter)
    bench.slurm.answers = [unsure] * 12
    await bench.want_for(400, DRAIN)
    times = bench.slurm.times
    pauses = [after - before for before, after in pairwise(times)]
    longest = [min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**n) for n in range(12)]
    assert pauses == pytest.approx([share * most for most in longest], rel=0.01)


@on_bench
async def test_a_repeated_want_changes_neither_back_off_nor_age(bench: Bench) -> None:
    """The loop wants the same write after each fact."""
    bench.slurm.answers = [unsure] * 4
    for _ in range(100):
        await bench.want_for(0.03, DRAIN)
    assert bench.slurm.times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert {one.cause.desired_at_s for one in bench.reports} == {1000.0}


@pytest.mark.parametrize(
    ("seconds", "jitter", "pause"),
    [(7.0, 0.0, 7.0), (900.0, 0.0, BACKOFF_MAX_S), (7.0, 0.5, 7.35), (900.0, 0.5, 31.5)],
)
@in_virtual_time
async def test_retry_after_has_a_maximum_F8(seconds: float, jitter: float, pause: float) -> None:
    """Up to a tenth longer, so that clients with the same answer do not return together."""
    bench = Bench(jitter=jitter)
    bench.kube.answers = [lambda action: Unsure(action, "429", seconds)]
    await bench.want_for(60, shown("a"))
    assert bench.kube.times == [0, pytest.approx(pause)]


@on_bench
async def test_hurry_does_not_shorten_a_retry_after_F8(bench: Bench) -> None:
    bench.slurm.answers = [lambda action: Unsure(action, "429", 20.0)]
    await bench.want_for(5, DRAIN)
    bench.outbox.slurm.hurry()
    await asyncio.sleep(60)
    assert bench.slurm.times == [0, 20]


@pytest.mark.parametrize("answer", [Done, refused], ids=["done", "refused"])
@on_bench
async def test_after_an_answer_the_back_off_starts_again(bench: Bench, answer: Answer) -> None:
    bench.slurm.answers = [unsure, unsure, answer, unsure]
    await bench.want_for(10, DRAIN)
    bench.outbox.facts_changed(KEY)
    await bench.want_for(10, DRAIN)
    first_s = BACKOFF_FIRST_S / 2
    assert bench.slurm.times == pytest.approx([0, first_s, 3 * first_s, 10, 10 + first_s])


@on_bench
async def test_another_write_does_not_wait_for_the_back_off_of_a_failed_one(bench: Bench) -> None:
    bench.slurm.answers = [unsure] * 8
    await bench.want_for(10, DRAIN)
    bench.slurm.answers = []
    await bench.want_for(1, LIFT)
    assert bench.slurm.actions[-1] == LIFT
    assert bench.slurm.times[-1] == 10


@on_bench
async def test_hurry_retries_failed_writes_at_once(bench: Bench) -> None:
    bench.slurm.answers = [unsure] * 9
    await bench.want_for(40, DRAIN)
    bench.slurm.answers = []
    bench.outbox.slurm.hurry()
    await asyncio.sleep(60)
    assert bench.slurm.times[-1] == 40
    assert isinstance(bench.reports[-1].outcome, Done)


@on_bench
async def test_hurry_does_not_change_the_pace_of_other_writes(bench: Bench) -> None:
    await bench.want_for(0.1, shown("a"))
    bench.want(shown("b"))
    bench.outbox.kube.hurry()
    await asyncio.sleep(5)
    assert bench.kube.times == [0, PACE_S]
