"""Retries of failed writes: back-off, Retry-After, an authority that is back."""

import asyncio
from itertools import pairwise

import pytest

from sunk_sync.controller.backoff import BACKOFF_FIRST_S, BACKOFF_MAX_S
from sunk_sync.controller.pacing import PACE_S
from sunk_sync.core.model.outcomes import Done, Unsure
from tests.kit.outbox import DRAIN, KEY, LIFT, Answer, Bench, refused, run_bench, shown, unsure


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (0.999, 0.9995)])
def test_unsure_writes_are_retried_after_growing_pauses(jitter: float, share: float) -> None:
    """Doubling from 0.2 s, at most 30 s, between half and the whole of it."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 12
        bench.want(DRAIN)
        await asyncio.sleep(400)

    times = run_bench(steps, jitter=jitter).slurm.times
    pauses = [after - before for before, after in pairwise(times)]
    longest = [min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**n) for n in range(12)]
    assert pauses == pytest.approx([share * most for most in longest], rel=0.01)


def test_wanting_it_again_changes_neither_back_off_nor_age() -> None:
    """The loop wants the same write at every fact; back-off and age begin with the first."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 4
        for _ in range(100):
            bench.want(DRAIN)
            await asyncio.sleep(0.03)

    bench = run_bench(steps)
    assert bench.slurm.times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert {one.desired_at_s for one in bench.reports} == {1000.0}


@pytest.mark.parametrize(
    ("seconds", "jitter", "pause"),
    [(7.0, 0.0, 7.0), (900.0, 0.0, BACKOFF_MAX_S), (7.0, 0.5, 7.35), (900.0, 0.5, 31.5)],
)
def test_retry_after_is_honoured_within_bounds_F8(
    seconds: float, jitter: float, pause: float
) -> None:
    """The server names the wait; ours is bounded, and up to a tenth longer, so that clients
    that were told the same do not come back together."""

    async def steps(bench: Bench) -> None:
        bench.kube.answers = [lambda action: Unsure(action, "429", seconds)]
        bench.want(shown("a"))
        await asyncio.sleep(60)

    assert run_bench(steps, jitter=jitter).kube.times == [0, pytest.approx(pause)]


def test_nothing_shortens_a_retry_after_F8() -> None:
    """The authority answers again; a write with Retry-After still waits."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [lambda action: Unsure(action, "429", 20.0)]
        bench.want(DRAIN)
        await asyncio.sleep(5)
        bench.outbox.slurm.hurry()
        await asyncio.sleep(60)

    assert run_bench(steps).slurm.times == [0, 20]


@pytest.mark.parametrize("answer", [Done, refused], ids=["done", "refused"])
def test_after_an_answer_the_back_off_begins_anew(answer: Answer) -> None:
    """A failure before the last answer does not lengthen the next back-off."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [unsure, unsure, answer, unsure]
        bench.want(DRAIN)
        await asyncio.sleep(10)
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN)
        await asyncio.sleep(10)

    first_s = BACKOFF_FIRST_S / 2
    assert run_bench(steps).slurm.times == pytest.approx(
        [0, first_s, 3 * first_s, 10, 10 + first_s]
    )


def test_another_write_does_not_wait_for_the_back_off_of_the_old_one() -> None:
    """The failure was that of another write."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 8
        bench.want(DRAIN)
        await asyncio.sleep(10)
        bench.slurm.answers = []
        bench.want(LIFT)
        await asyncio.sleep(1)

    bench = run_bench(steps)
    assert bench.slurm.actions[-1] == LIFT
    assert bench.slurm.times[-1] == 10


def test_failed_writes_are_retried_at_once_when_the_authority_is_back() -> None:
    """hurry(): an outage of minutes does not cost another half minute."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [unsure] * 9
        bench.want(DRAIN)
        await asyncio.sleep(40)
        bench.slurm.answers = []
        bench.outbox.slurm.hurry()
        await asyncio.sleep(60)

    bench = run_bench(steps)
    assert bench.slurm.times[-1] == 40
    assert isinstance(bench.reports[-1].outcome, Done)


def test_hurry_does_not_touch_the_pace_of_writes_that_did_not_fail() -> None:
    """One write a second and object stays."""

    async def steps(bench: Bench) -> None:
        bench.want(shown("a"))
        await asyncio.sleep(0.1)
        bench.want(shown("b"))
        bench.outbox.kube.hurry()
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times == [0, PACE_S]
