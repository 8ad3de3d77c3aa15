"""What a bench measured, against what it may be at most."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of a bench. Without a limit it is there to be read beside the others."""

    what: str
    value: float
    unit: str
    """`x` for a ratio."""
    limit: float | None = None
    """The most that `value` may be."""

    @property
    def missed(self) -> bool:
        return self.limit is not None and not self.value <= self.limit

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "MISSED" if self.missed else "ok"

    @property
    def told(self) -> str:
        return _told(self.value, self.unit)

    @property
    def limit_told(self) -> str:
        return "" if self.limit is None else "≤ " + _told(self.limit, self.unit)


Bench = Callable[[], Iterator[Figure]]
"""Yields its figures as they are measured."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def _told(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()
