"""An asyncio event loop in virtual time: the clock jumps to the next timer, so no test waits.

It runs thousands of virtual hours. It has no files, threads, signals or debug mode.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakSet

from msgspec import Struct

T = TypeVar("T")

SAME_S = 1e-9
"""A timer that is due this little later is due now."""
CANCELLED_MIN = 100
"""Cancelled timers are removed once there are this many."""


class Machine:
    """Runs some of the tasks of a loop, and can be paused: as a stopped process, they stand still.

    A task belongs to the machine in whose context it was created.
    """

    def __init__(self) -> None:
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.context = contextvars.copy_context()
        self.context.run(MACHINE.set, self)
        self.held: list[Call | Timer] | None = None
        """What was due while it stands still; None: it runs."""

    def pause(self) -> None:
        if self.held is None:
            self.held = []

    def wake(self) -> None:
        """Go on. All that was due meanwhile happens now."""
        held, self.held = self.held or [], None
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.resume(held)


MACHINE: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")
OUTSIDE = contextvars.copy_context()
"""A context of no machine."""


class Timer(float):
    """A timer like asyncio.TimerHandle; as a float it is its due time.

    A heap compares floats without running Python code.
    """

    __slots__ = ("args", "callback", "context", "heap")

    callback: Callable[..., object] | None
    """None: cancelled."""
    args: tuple[Any, ...]
    context: contextvars.Context
    heap: "Heap | None"
    """The heap that holds it, until it is due."""

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
    """A callback like asyncio.Handle, built and read without running Python code."""

    callback: Callable[..., object] | None
    """None: cancelled."""
    args: tuple[Any, ...]
    context: contextvars.Context

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None


class Heap:
    """Timers by due time."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.cancelled = 0
        """Cancelled timers in the heap."""

    def next_s(self) -> float | None:
        """Return the due time of the first timer that is not cancelled."""
        if len(self.timers) > CANCELLED_MIN and self.cancelled * 2 > len(self.timers):
            self.timers = [timer for timer in self.timers if timer.callback is not None]
            heapq.heapify(self.timers)
            self.cancelled = 0
        while self.timers and self.timers[0].callback is None:
            heapq.heappop(self.timers).heap = None
            self.cancelled -= 1
        return self.timers[0] if self.timers else None


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time only advances while all tasks sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self._stopping = False
        self._due: deque[Call | Timer] = deque()
        self.pauses = False
        """Some machine can be paused."""
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

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        """Create a task; note it with its machine."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        machine = MACHINE.get(None) if context is None else context.get(MACHINE)
        if machine is not None:
            machine.tasks.add(task)
        return task

    def resume(self, held: Sequence[Call | Timer]) -> None:
        self._due.extend(held)

    def _holds(self, call: Call | Timer) -> bool:
        """Keep the call if its machine stands still; return whether it does."""
        machine = call.context.get(MACHINE)
        if machine is None or machine.held is None:
            return False
        machine.held.append(call)
        return True

    def _run_once(self) -> None:
        """Call all that is due; if nothing is, advance the time to the next timer."""
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
                self.now_s = max(self.now_s, float(timer))
        for _ in range(len(due)):
            call = due.popleft()
            if call.callback is None or (self.pauses and self._holds(call)):
                continue
            try:
                call.context.run(call.callback, *call.args)
            except Exception as error:  # noqa: BLE001 -- as asyncio does
                self.call_exception_handler({"message": "a call failed", "exception": error})


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time; cancel all remaining tasks."""
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


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let pytest run an async test in virtual time."""

    @wraps(test)
    def whole(*args: Any, **given: Any) -> None:
        run(test(*args, **given))

    return whole


def now() -> float:
    """Time of the running loop."""
    return asyncio.get_running_loop().time()
