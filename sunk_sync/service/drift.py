"""Counts the differences between Slurm and Kubernetes as metrics: those of `sunk-sync diff`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from sunk_sync.core.explain.differences import (
    DIFFERENCE_KINDS,
    Difference,
    DifferenceKind,
)

EVERY_S: Final = 30.0
SHARE: Final = 50
"""Looking takes at most this part of the time."""

Drift = Mapping[DifferenceKind, tuple[int, float]]
"""Kind → number of differences, and age of the oldest one in seconds."""


class DriftWatch:
    def __init__(
        self,
        find: Callable[[], Awaitable[Sequence[Difference]]],
        show: Callable[[Drift], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._find = find
        self._show = show
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> None:
        while True:
            began_s = self._clock()
            self._show(drift_of(await self._find()))
            await self._sleep(max(EVERY_S, SHARE * (self._clock() - began_s)))


def drift_of(differences: Sequence[Difference]) -> Drift:
    """Sum up the differences; a kind without any has zeros."""
    drift: dict[DifferenceKind, tuple[int, float]] = dict.fromkeys(DIFFERENCE_KINDS, (0, 0.0))
    for one in differences:
        count, oldest_s = drift[one.kind]
        drift[one.kind] = (count + 1, max(oldest_s, one.age_s))
    return drift
