"""Differences between the two sides are counted by kind, at a bounded cost."""

from collections.abc import Sequence

import pytest

from sunk_sync.core.explain.differences import Difference, DifferenceKind
from sunk_sync.service.drift import Drift, DriftWatch, drift_of
from tests.kit.clock import run


def difference(kind: DifferenceKind, age_s: float) -> Difference:
    return Difference(kind=kind, about="host n1", what="x", age_s=age_s)


def test_each_kind_has_its_number_and_its_oldest_age() -> None:
    drift = drift_of([difference("drain", 3.0), difference("drain", 9.0), difference("job", 1.0)])
    assert (drift["drain"], drift["job"]) == ((2, 9.0), (1, 1.0))


def test_a_kind_without_differences_has_zeros() -> None:
    kinds = {"write", "held", "drain", "record", "claim", "job", "rule"}
    assert dict(drift_of([])) == dict.fromkeys(kinds, (0, 0.0))


@pytest.mark.parametrize(("takes_s", "pause_s"), [(0.1, 30.0), (2.0, 100.0)])
def test_looking_takes_at_most_a_fiftieth_of_the_time(takes_s: float, pause_s: float) -> None:
    now_s = 0.0
    pauses: list[float] = []
    shown: list[Drift] = []

    async def find() -> Sequence[Difference]:
        nonlocal now_s
        now_s += takes_s
        return [difference("claim", 5.0)]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise StopAsyncIteration

    watch = DriftWatch(find, shown.append, clock=lambda: now_s, sleep=sleep)
    with pytest.raises((StopAsyncIteration, RuntimeError)):
        run(watch.run())
    assert pauses == [pause_s]
    assert [one["claim"] for one in shown] == [(1, 5.0)]
