"""The time of a cluster, and the tasks that are due; tasks of equal time keep their order."""

import heapq
from datetime import datetime, timedelta
from typing import NamedTuple


class Clock:
    """Time of a cluster: seconds since its epoch. Only the cluster advances it."""

    def __init__(self, epoch: datetime) -> None:
        self.epoch = epoch
        self.now_s = 0.0
        self._text: tuple[int, str] = (-1, "")

    def text(self, *, later_s: float = 0) -> str:
        """Return the wall clock in `later_s` seconds, as RFC 3339."""
        second = int(self.now_s + later_s)
        if self._text[0] != second:
            at = self.epoch + timedelta(seconds=second)
            self._text = second, at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._text[1]

    def wall(self) -> datetime:
        return self.epoch + timedelta(seconds=self.now_s)


class Task(NamedTuple):
    what: str
    name: str
    """Key of a Pod or name of a Node."""
    uid: str = ""


class Timers:
    """Tasks by due time. A task has one due time; planning it again moves it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Task]] = []
        self._due: dict[Task, tuple[float, int]] = {}
        self._number = 0

    def plan(self, task: Task, at_s: float) -> None:
        planned = self._due.get(task)
        if planned is not None and planned[0] == at_s:
            return
        self._number += 1
        self._due[task] = at_s, self._number
        heapq.heappush(self._heap, (at_s, self._number, task))

    def cancel(self, task: Task) -> None:
        self._due.pop(task, None)

    def next_s(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Task:
        at_s = self.next_s()
        assert at_s is not None, "nothing is due"
        task = heapq.heappop(self._heap)[2]
        del self._due[task]
        return task
