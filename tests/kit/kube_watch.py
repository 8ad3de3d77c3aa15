"""A watch that runs against an API server whose answers a test writes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Restores
from sunk_sync.kube.read.selection import Selection
from sunk_sync.kube.read.watch import Watch
from tests.kit.selections import nodes
from tests.kube.recorded.server import ApiServer, Ear, node, page, refusal, serving, stream

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Script:
    """Answers lists and watches by turns; the last of each kind stays."""

    def __init__(self, *, lists: list[Step], watches: list[Step]) -> None:
        self._lists = lists
        self._watches = watches

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("limit") == "1":
            return page("Node", [], 1000)
        steps = self._watches if "watch" in request.query else self._lists
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        return await step(request)


def lists(*items: dict[str, object], version: int, next_: str = "") -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        kind = "Node" if request.path.endswith("nodes") else "Pod"
        return page(kind, items, version, next_)

    return answer


def streams(*pieces: bytes | asyncio.Event, then: str = "wait") -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, *pieces, then=then)

    return answer


def refuses(code: int, reason: str, **headers: str) -> Step:
    async def answer(_: web.Request) -> web.StreamResponse:
        return refusal(code, reason, **headers)

    return answer


NO_WATCH_LIST = refuses(422, "Invalid")
QUIET = streams()
PAGE = lists(node("a", 3), version=7)


def without_watch_lists(*watches: Step, pages: Sequence[Step] = (PAGE,)) -> Script:
    """Answer lists with these pages, and only watches from a version with a stream."""
    return Script(lists=list(pages), watches=[NO_WATCH_LIST, *watches])


class Running:
    """A watch that runs, its server, and an ear for its news."""

    def __init__(self, server: ApiServer, ear: Ear, reader: Watch) -> None:
        self.server = server
        self.ear = ear
        self.watch = reader
        self.slept_s: list[float] = []
        self.restores: Restores

    def watched_from(self) -> list[str]:
        """Versions from which streams were asked for; empty for a WatchList."""
        queries = [query for query in self.server.queries() if "watch" in query]
        return [query.get("resourceVersion", "") for query in queries]

    async def watches_from(self, version: str) -> None:
        """Wait until the last stream was asked for from this version."""
        async with asyncio.timeout(5):
            while self.watched_from()[-1:] != [version]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(script: Step, subject: Selection | None = None) -> AsyncIterator[Running]:
    """Delays are noted, and kept short."""
    async with serving(script) as (server, client):
        ear = Ear()
        slept_s: list[float] = []

        async def sleep(delay_s: float) -> None:
            slept_s.append(delay_s)
            await asyncio.sleep(min(delay_s, 0.01))

        reader = Watch(
            client,
            subject or nodes(),
            tell=ear.tell,
            on_bad=ear.on_bad,
            ambient=Ambient(sleep=sleep, random=lambda: 0.5),
        )
        made = Running(server, ear, reader)
        made.restores = client.restores
        made.slept_s = slept_s
        task = asyncio.create_task(reader.run())
        try:
            yield made
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def heard(script: Step, *words: str, subject: Selection | None = None) -> Running:
    """Run a watch until its news are exactly these words."""
    async with running(script, subject) as run:
        await run.ear.hears(*words)
    return run


LISTED = ["ListingStarted", "Observed a", "ListingEnded"]
