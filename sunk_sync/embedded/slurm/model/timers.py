"""Callbacks by due time, in seconds of the cluster."""

import heapq
from collections.abc import Callable
from itertools import count


class SlurmTimers:
    """Those of equal time run in the order of their addition."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()

    def note(self, due_s: float, act: Callable[[float], None]) -> None:
        """Call `act` at `due_s`, with that second."""
        heapq.heappush(self._heap, (due_s, next(self._numbers), act))

    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def run(self, now_s: float) -> None:
        """Run all callbacks that are due, also those added by these."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, act = heapq.heappop(self._heap)
            act(due_s)
