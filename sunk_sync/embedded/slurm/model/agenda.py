"""What is due when: a heap of callbacks in world time."""

import heapq
from collections.abc import Callable
from itertools import count


class Agenda:
    """Things to do, each at its second; equal seconds in the order in which they were noted."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()

    def note(self, due_s: float, act: Callable[[float], None]) -> None:
        """`act` will be called with the second in which it was due."""
        heapq.heappush(self._heap, (due_s, next(self._numbers), act))

    def next_s(self) -> float | None:
        """When something is due next."""
        return self._heap[0][0] if self._heap else None

    def run(self, now_s: float) -> None:
        """Everything that is due by now, also what becomes due on the way."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, act = heapq.heappop(self._heap)
            act(due_s)
