"""The pace of polls: rest beyond the required share is saved for calls that block somebody."""

import asyncio
from collections.abc import Sequence

import pytest

from sunk_sync.slurm.read.pacing import PollLoop, PollTiming, Time
from tests.kit.clock import now, run


def polls(*, took_s: float, awaited_s: Sequence[float], until_s: float) -> list[float]:
    """Return when each poll begins that takes so long; a call blocks somebody at each moment."""
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


def test_without_blocked_callers_a_poll_begins_once_a_second() -> None:
    assert polls(took_s=0.005, awaited_s=[], until_s=2.5) == [0, 1, 2]


@pytest.mark.parametrize("after_s", [0.005, 0.006, 0.02])
def test_a_blocked_caller_after_a_quiet_second_waits_for_no_rest_L7(after_s: float) -> None:
    """A prolog that calls just after a poll would otherwise wait four times its duration."""
    assert polls(took_s=0.005, awaited_s=[1 + after_s], until_s=1.1) == [0, 1, 1 + after_s]


def test_after_the_first_poll_no_rest_is_saved_L7() -> None:
    assert polls(took_s=0.005, awaited_s=[0.006], until_s=0.1) == [0, 0.025]


def test_constantly_blocked_callers_take_a_fifth_of_the_time() -> None:
    all_the_time = [1 + place / 1000 for place in range(2000)]
    began = polls(took_s=0.01, awaited_s=all_the_time, until_s=3)
    late = [one for one in began if one >= 2]
    assert len(late) == pytest.approx(1 / 5 / 0.01, abs=1)
    early = [one for one in began if 1 <= one < 1.2]
    assert len(early) == pytest.approx(len(late) / 5 + 0.2 / 5 / 0.01, abs=1)


def test_slow_polls_save_no_rest() -> None:
    began = polls(took_s=1.0, awaited_s=[0.1 * place for place in range(250)], until_s=24)
    assert began == [0, 5, 10, 15, 20]


def test_no_rest_alone_makes_the_last_picture_too_old() -> None:
    assert polls(took_s=20.0, awaited_s=[], until_s=120.0) == [0, 50, 100]


def test_a_standby_polls_ten_times_more_rarely_F6() -> None:
    stands_by = [True]
    timing = PollTiming(stands_by=lambda: stands_by[0])
    assert timing.rarer == 10
    stands_by[0] = False
    assert timing.rarer == 1


def test_a_poll_that_began_earlier_does_not_count_F6() -> None:
    """The last leader may have written after its start."""

    async def look() -> None:
        await asyncio.sleep(1.0)

    async def whole() -> tuple[float, float]:
        loop = PollLoop(PollTiming(), Time(clock=now, sleep=asyncio.sleep, random=lambda: 0.0))
        running = asyncio.ensure_future(loop.run(look, interval=lambda: 100.0))
        await asyncio.sleep(0.5)
        from_s = now()
        await loop.poll_after(from_s)
        running.cancel()
        return from_s, now()

    from_s, until_s = run(whole())
    assert until_s - from_s > 1.5
