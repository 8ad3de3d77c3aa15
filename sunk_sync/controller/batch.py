"""The answers to a batch of writes whose parts do not wait for each other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from msgspec import Struct

from sunk_sync.controller.slots import Slot
from sunk_sync.controller.wake import wait_at_most
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.outcomes import Outcome

TOGETHER_S: Final = 0.05
"""An answer waits at most this long for the others of its batch: the rules take them together."""


class Cause(Struct, frozen=True):
    """Why a write was sent. Its slot may have another cause when it is answered."""

    key: Key
    because: str
    desired_at_s: float


class Answer(Struct, frozen=True):
    slot: Slot
    cause: Cause
    outcome: Outcome


class Batch:
    def __init__(self, *, parts: int) -> None:
        self._left = parts
        self._answers: list[Answer] = []
        self._some = asyncio.Event()
        self._whole = asyncio.Event()

    def take(self, answers: Sequence[Answer]) -> None:
        """Take the answers to one part."""
        self._answers += answers
        self._left -= 1
        self._some.set()
        if not self._left:
            self._whole.set()

    async def bundles(self) -> AsyncIterator[Sequence[Answer]]:
        """Yield all answers, none later than TOGETHER_S after it came."""
        while self._left or self._answers:
            await self._some.wait()
            await wait_at_most(self._whole, TOGETHER_S)
            bundle, self._answers = self._answers, []
            if self._left:
                self._some.clear()
                self._whole.clear()
            yield bundle
