"""The last check before a write leaves: only the replica that leads may write (F6)."""

from collections.abc import Callable
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload

from sunk_sync.kube.api.answers import KubeError

LeftSeconds = Callable[[], float]
"""Seconds that a write may still take; zero or less: it must not be sent."""

READS: Final = frozenset({"GET", "HEAD"})
FENCED: Final = KubeError(kind="fenced", why="not sent: this replica does not lead")


def unlimited() -> float:
    """Return the time for a write of a service that has no second replica."""
    return float("inf")


class FencedError(Exception):
    """The write was not sent."""


class FencedBody(BytesPayload):
    """The body of a write. aiohttp sends it together with the headers, right after this check.

    A new connection takes time, and a machine can stop for a minute meanwhile.
    """

    def __init__(self, body: bytes, left_s: LeftSeconds) -> None:
        super().__init__(body)
        self.refused = False
        self._left_s = left_s

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if self._left_s() <= 0:
            self.refused = True
            raise FencedError
        await super().write_with_length(writer, content_length)
