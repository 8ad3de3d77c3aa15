"""Server-sent events for the status page: hosts that changed, the status, the last happenings."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
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


class _Look(Struct, frozen=True):
    """What all pages show."""

    tiles: Mapping[str, Any] = {}
    last: Any = None
    status: bytes = b""


class Live:
    """Streams to at most ten pages; what they share is computed and encoded once a second."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open = 0
        self._look = _Look()
        self._looked_s = float("-inf")
        self._looking = asyncio.Lock()

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
        shown = _Look()
        try:
            while True:
                look = await self._current()
                await response.write(b"".join(_events(look, shown)))
                shown = look
                await asyncio.sleep(EVERY_S)
        except ConnectionError:
            return response
        finally:
            self._open -= 1

    async def _current(self) -> _Look:
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_s >= EVERY_S / 2:
                self._looked_s = now
                tiles, status = await self._feed.tiles(), await self._feed.status()
                self._look = _Look(tiles, self._feed.last(), _event("status", status))
            return self._look


def _events(look: _Look, shown: _Look) -> Iterator[bytes]:
    """Yield what differs from what a page shows, and the status."""
    if look.tiles is not shown.tiles:
        changed = [one for name, one in look.tiles.items() if shown.tiles.get(name) != one]
        gone = [name for name in shown.tiles if name not in look.tiles]
        if changed or gone:
            yield _event("hosts", {"hosts": changed, "gone": gone})
    if look.last != shown.last:
        yield _event("last", look.last)
    yield look.status


def _event(name: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(content))
