"""Measured figures and their limits."""

import math
from collections.abc import Callable, Iterator, Sequence
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


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def _with_unit(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()
