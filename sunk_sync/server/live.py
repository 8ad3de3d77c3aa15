"""Server-sent events for the status page: hosts that changed, the status, the last happenings."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

EVERY_S: Final = 1.0
PAGES_MAX: Final = 10


class Feed(Struct, frozen=True):
    """Where the events come from. Each returns structs for JSON."""

    tiles: Callable[[], Awaitable[Mapping[str, Any]]]
    status: Callable[[], Awaitable[Any]]
    last: Callable[[], Any]


class Live:
    """Streams to at most ten pages; what they share is computed once a second."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open = 0
        self._tiles: Mapping[str, Any] = {}
        self._looked_s = float("-inf")

    @property
    def full(self) -> bool:
        return self._open >= PAGES_MAX

    async def stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send until the page goes away."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        self._open += 1
        shown: Mapping[str, Any] = {}
        last: Any = None
        try:
            while True:
                shown, last = await self._send(response, shown, last)
                await asyncio.sleep(EVERY_S)
        except ConnectionError:
            return response
        finally:
            self._open -= 1

    async def _send(
        self, response: web.StreamResponse, shown: Mapping[str, Any], last: Any
    ) -> tuple[Mapping[str, Any], Any]:
        tiles = await self._current()
        changed = [one for name, one in tiles.items() if shown.get(name) != one]
        gone = [name for name in shown if name not in tiles]
        if changed or gone:
            await response.write(_event("hosts", {"hosts": changed, "gone": gone}))
        happened = self._feed.last()
        if happened != last:
            await response.write(_event("last", happened))
        await response.write(_event("status", await self._feed.status()))
        return tiles, happened

    async def _current(self) -> Mapping[str, Any]:
        now = asyncio.get_running_loop().time()
        if now - self._looked_s >= EVERY_S / 2:
            self._looked_s = now
            self._tiles = await self._feed.tiles()
        return self._tiles


def _event(name: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(content))
