"""An asyncio event loop whose clock jumps whenever everybody sleeps: no test waits.

Thousands of virtual hours pass through it: it calls what is due and does nothing else. No files,
no threads, no signals, no debug mode.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")

SAME_S = 1e-9
"""What is due so little later is due now."""
CANCELLED_MIN = 100
"""At least so many timers lie there before those that were cancelled are cleared away."""


class Timer(float):
    """One call, as asyncio.TimerHandle; as a number it is the second in which it is due.

    Numbers are compared without a line of Python, and a heap does little else.
    """

    __slots__ = ("args", "callback", "context", "heap")

    callback: Callable[..., object] | None
    """None: cancelled."""
    args: tuple[Any, ...]
    context: contextvars.Context
    heap: "Heap | None"
    """Where it lies until it is due."""

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback, self.args = None, ()
            if self.heap is not None:
                self.heap.cancelled += 1

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return float(self)


class Call(Struct):
    """One call that is due at once, as asyncio.Handle; built and read without a line of Python."""

    callback: Callable[..., object] | None
    """None: cancelled."""
    args: tuple[Any, ...]
    context: contextvars.Context

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None


class Heap:
    """Timers by second."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.cancelled = 0
        """How many of them."""

    def next_s(self) -> float | None:
        """Second of the first that was not cancelled."""
        if len(self.timers) > CANCELLED_MIN and self.cancelled * 2 > len(self.timers):
            self.timers = [timer for timer in self.timers if timer.callback is not None]
            heapq.heapify(self.timers)
            self.cancelled = 0
        while self.timers and self.timers[0].callback is None:
            heapq.heappop(self.timers).heap = None
            self.cancelled -= 1
        return self.timers[0] if self.timers else None


class VirtualLoop(asyncio.BaseEventLoop):
    """Time is a number that only sleeping moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self._stopping = False
        self._due: deque[Call | Timer] = deque()
        self._heap = Heap()

    def time(self) -> float:
        return self.now_s

    def get_debug(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Call:
        call = Call(callback, args, contextvars.copy_context() if context is None else context)
        self._due.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:
        timer = Timer(when)
        timer.callback, timer.args, timer.heap = callback, args, self._heap
        timer.context = contextvars.copy_context() if context is None else context
        heapq.heappush(self._heap.timers, timer)
        return timer

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """Call all that is due now; where nothing is, it is the next timer's second now."""
        due, next_s = self._due, self._heap.next_s()
        if not due and not self._stopping:
            if next_s is None:
                raise RuntimeError("everybody waits for ever")
            self.now_s += max(0.0, next_s - self.now_s)
        if next_s is not None:
            timers, end_s = self._heap.timers, self.now_s + SAME_S
            while timers and timers[0] < end_s:
                timer = heapq.heappop(timers)
                timer.heap = None
                due.append(timer)
        for _ in range(len(due)):
            call = due.popleft()
            if call.callback is None:
                continue
            try:
                call.context.run(call.callback, *call.args)
            except Exception as error:  # noqa: BLE001 -- as asyncio does
                self.call_exception_handler({"message": "a call failed", "exception": error})


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time; tasks that are left over are cancelled."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(story)
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        if rest:
            loop.run_until_complete(asyncio.wait(rest))
        loop.close()


def now() -> float:
    """Second of the running loop."""
    return asyncio.get_running_loop().time()
