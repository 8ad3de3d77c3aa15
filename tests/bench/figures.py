"""Measured figures and their limits."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark. Without a limit it is for comparison only."""

    what: str
    value: float
    unit: str
    """`x` for a ratio."""
    limit: float | None = None
    """Maximum of `value`."""

    @property
    def missed(self) -> bool:
        return self.limit is not None and not self.value <= self.limit

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "MISSED" if self.missed else "ok"

    @property
    def shown(self) -> str:
        return _with_unit(self.value, self.unit)

    @property
    def limit_shown(self) -> str:
        return "" if self.limit is None else "≤ " + _with_unit(self.limit, self.unit)


Bench = Callable[[], Iterator[Figure]]
"""Yields its figures as they are measured."""


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that is at least as large as `percent` of all values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def beside_floor(
    what: str,
    took_ms: Sequence[float],
    floor_ms: Sequence[float],
    *,
    limits: Mapping[int, float | None],
) -> Iterator[Figure]:
    """Compare percentiles with those of the floor. `limits`: percent → maximum of the ratio."""
    for percent, most in limits.items():
        own, floor = percentile(took_ms, percent), percentile(floor_ms, percent)
        yield Figure(f"{what}, p{percent}", own, "ms")
        yield Figure(f"the floor, p{percent}", floor, "ms")
        yield Figure(f"{what}, p{percent}, of the floor", own / floor, "x", most)


def _with_unit(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()
