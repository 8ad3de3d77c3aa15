"""The result of one run, and the function that plays any run."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from tests.kit import clock
from tests.sim.history import BrokenPromiseError, History


class Outcome(Struct, frozen=True, kw_only=True):
    seed: int
    steps: int
    virtual_s: float
    counts: dict[str, int]
    broken: str = ""
    tail: str = ""


def play_seed(play: Callable[[History], Awaitable[None]], *, seed: int, aloud: bool) -> Outcome:
    """Play one seed in a VirtualLoop. `play` creates the run there and plays it once."""
    history = History(aloud=aloud)
    broken = tail = ""
    virtual_s = 0.0

    async def story() -> float:
        asyncio.get_running_loop().set_exception_handler(_breaks(history))
        begun_s = clock.now()
        await play(history)
        return clock.now() - begun_s

    try:
        virtual_s = clock.run(story())
    except BrokenPromiseError as error:
        broken, tail = str(error), history.tail()
    return Outcome(
        seed=seed,
        steps=history.steps,
        virtual_s=virtual_s,
        counts=dict(history.counts),
        broken=broken,
        tail=tail,
    )


def _breaks(history: History) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return an exception handler of the loop that reports each error as a bug."""

    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = "".join(traceback.format_exception(error)) if error else context["message"]
        history.break_promise("uncaught", told)

    return tell
