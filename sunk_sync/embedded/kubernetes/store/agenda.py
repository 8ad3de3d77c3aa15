"""The time of the world, and what is due when; of two at once, the one planned first."""

import heapq
from datetime import datetime, timedelta
from typing import NamedTuple


class Clock:
    """The time of a world: seconds since its epoch, moved by the world alone."""

    def __init__(self, epoch: datetime) -> None:
        self.epoch = epoch
        self.now_s = 0.0
        self._text: tuple[int, str] = (-1, "")

    def text(self, *, later_s: float = 0) -> str:
        """The wall clock in so many seconds, RFC 3339."""
        second = int(self.now_s + later_s)
        if self._text[0] != second:
            at = self.epoch + timedelta(seconds=second)
            self._text = second, at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._text[1]

    def wall(self) -> datetime:
        """The wall clock."""
        return self.epoch + timedelta(seconds=self.now_s)


class Task(NamedTuple):
    """One thing to do: what, and to whom."""

    what: str
    name: str
    """Key of a Pod, name of a Node."""
    uid: str = ""


class Agenda:
    """Each task is due once at most; planned again, it moves."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Task]] = []
        self._due: dict[Task, tuple[float, int]] = {}
        self._number = 0

    def plan(self, task: Task, at_s: float) -> None:
        """It is due then."""
        planned = self._due.get(task)
        if planned is not None and planned[0] == at_s:
            return
        self._number += 1
        self._due[task] = at_s, self._number
        heapq.heappush(self._heap, (at_s, self._number, task))

    def cancel(self, task: Task) -> None:
        """It is not due any more, if it was."""
        self._due.pop(task, None)

    def next_s(self) -> float | None:
        """When the first is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Task:
        """The first, which is done now. There must be one."""
        at_s = self.next_s()
        assert at_s is not None, "nothing is due"
        task = heapq.heappop(self._heap)[2]
        del self._due[task]
        return task
