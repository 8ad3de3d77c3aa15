"""An asyncio event loop whose clock jumps whenever everybody sleeps: no test waits."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Never waits and never asks the system: where the loop would, its clock goes on instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits for ever")
        self.loop.now_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time is a number that only sleeping moves."""

    def __init__(self) -> None:
        selector = _Jumping()
        super().__init__(selector)
        selector.loop = self
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s


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
