"""When a reader looks again: rest that was taken beyond the share is saved for who stands still."""

import asyncio
from collections.abc import Sequence

import pytest

from sunk_sync.slurm.read.pacing import PollLoop, PollTiming, Time
from tests.kit.clock import now, run


def looks(*, took_s: float, awaited_s: Sequence[float], until_s: float) -> list[float]:
    """When each look begins that takes so long; somebody begins to stand still at each moment."""
    began: list[float] = []
    from_s = 0.0

    async def look() -> None:
        began.append(round(now() - from_s, 3))
        await asyncio.sleep(took_s)

    async def whole() -> None:
        nonlocal from_s
        from_s = now()
        loop = PollLoop(PollTiming(), Time(clock=now, sleep=asyncio.sleep, random=lambda: 0.0))
        running = asyncio.ensure_future(loop.run(look, interval=lambda: 1.0))
        for moment_s in awaited_s:
            await asyncio.sleep(from_s + moment_s - now())
            loop.poll_now(awaited=True)
        await asyncio.sleep(from_s + until_s - now())
        running.cancel()

    run(whole())
    return began


def test_nobody_stands_still_and_it_is_looked_once_a_second() -> None:
    """However quick the looks are."""
    assert looks(took_s=0.005, awaited_s=[], until_s=2.5) == [0, 1, 2]


@pytest.mark.parametrize("after_s", [0.005, 0.006, 0.02])
def test_who_stands_still_after_a_quiet_second_waits_for_no_rest_L7(after_s: float) -> None:
    """A prolog that asks just after a look would wait for four times that look's time."""
    assert looks(took_s=0.005, awaited_s=[1 + after_s], until_s=1.1) == [0, 1, 1 + after_s]


def test_the_first_look_of_all_has_no_rest_to_spare_L7() -> None:
    """Nothing was saved yet."""
    assert looks(took_s=0.005, awaited_s=[0.006], until_s=0.1) == [0, 0.025]


def test_who_always_stands_still_takes_a_fifth_of_the_time() -> None:
    """What was saved is spent once."""
    all_the_time = [1 + place / 1000 for place in range(2000)]
    began = looks(took_s=0.01, awaited_s=all_the_time, until_s=3)
    late = [one for one in began if one >= 2]
    assert len(late) == pytest.approx(1 / 5 / 0.01, abs=1)
    early = [one for one in began if 1 <= one < 1.2]
    assert len(early) == pytest.approx(len(late) / 5 + 0.2 / 5 / 0.01, abs=1)


def test_looks_that_take_long_have_nothing_to_spare() -> None:
    """A fifth of the time, to a twentieth of it."""
    began = looks(took_s=1.0, awaited_s=[0.1 * place for place in range(250)], until_s=24)
    assert began == [0, 5, 10, 15, 20]
