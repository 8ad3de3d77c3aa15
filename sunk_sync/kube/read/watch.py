"""Read one source for ever: list it, follow it, and list it again if the watch loses its position.

Guarantee for the graph: after ListingEnded or Confirmed, until Lost, every change arrives, with its
resourceVersion as order. ListingEnded follows only a complete listing.
"""

import asyncio
from typing import Protocol

import anyio

from sunk_sync.core.model.facts import Tell
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient, Backoff
from sunk_sync.kube.api.client import Caller, Request, Restores
from sunk_sync.kube.decode.source_decoder import order_of
from sunk_sync.kube.read.listing import Listing, OnBad
from sunk_sync.kube.read.liveness import Liveness
from sunk_sync.kube.read.selection import Selection
from sunk_sync.kube.read.stream import Lines, Reading, Thread

SILENCE_S = 100.0
"""The server sends a bookmark about every minute, so a connection silent for longer is dead."""
WATCH_S = 300.0
"""The server ends a watch after one to two times this long, so that not all end at once."""
DEAD_S = 10.0
"""A connection that was silent for this long before it broke may have been dead. Then list again:
the cluster may have been restored from a backup, which takes longer."""
LIST_DEADLINE_S = 60.0
"""Deadline for all initial events of a WatchList."""
LIVED_S = 10.0
"""A stream that was open for this long counts as a success, even without events."""
STRIKES_MAX = 3
"""List again after this many streams in a row that start unreadable."""
GONE = 410
_INITIAL_EVENTS = (
    ("sendInitialEvents", "true"),
    ("resourceVersionMatch", "NotOlderThan"),
)


class WatchClient(Caller, Protocol):
    restores: Restores

    async def open(self, request: Request, *, silence_s: float) -> Lines | KubeError: ...


class Watch:
    """Reads one source until cancelled. Call `run` once, and `relist` at any time."""

    def __init__(
        self,
        client: WatchClient,
        selection: Selection,
        *,
        tell: Tell,
        on_bad: OnBad,
        ambient: Ambient,
    ) -> None:
        self._client = client
        self._restores = client.restores
        self._selection = selection
        self._ambient = ambient
        self._listing = Listing(client, selection, tell=tell, on_bad=on_bad, ambient=ambient)
        self._one_listing = asyncio.Lock()
        """sunk-sync could not tell apart the facts of two concurrent listings of one source."""
        self._liveness = Liveness(selection, tell=tell, ambient=ambient)
        self._reading = Reading(selection, tell=tell, on_bad=on_bad, ambient=ambient)
        self._backoff = Backoff(ambient)
        self._streams_lists = len(selection.paths) == 1
        """Request a WatchList. Several collections would have no common version."""

    async def run(self) -> None:
        while True:
            error = await self._list_and_follow()
            await self._liveness.lost(self._selection.paths[0], error)
            await self._backoff.wait(error.retry_after_s)

    async def relist(self, after_s: float) -> KubeError | None:  # noqa: ARG002
        """List completely once more beside the running watch; return the error if it fails.

        The orders make this safe: facts of the watch are newer than the listing.
        """
        async with self._one_listing:
            version = await self._listing.run()
        return version if isinstance(version, KubeError) else None

    async def _list_and_follow(self) -> KubeError:
        """List and follow until only a new listing helps."""
        if self._streams_lists:
            error = await self._stream_list_and_follow()
            if self._streams_lists:
                return error
        begun_s, restores = self._ambient.clock(), self._restores.count
        async with self._one_listing:
            version = await self._listing.run()
        if isinstance(version, KubeError):
            return version
        self._liveness.listed(begun_s)
        return await self._follow_all(version, restores=restores)

    async def _follow_all(self, version: str, *, restores: int) -> KubeError:
        ends: list[KubeError] = []

        async def follow(thread: Thread) -> None:
            ends.append(await self._follow(thread))
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for path in self._selection.paths:
                group.start_soon(follow, Thread(path, version, restores=restores))
        return ends[0]

    async def _follow(self, thread: Thread, *, again: bool = False) -> KubeError:
        """Open stream after stream; return when only a listing helps.

        `again`: a stream broke before, so the first attempt must not trust its version.
        """
        strikes = 0
        while True:
            version, begun_s = thread.version, self._ambient.clock()
            error = await self._attempt(thread, again=again)
            again = True
            thread.was_away |= self._was_dead(error, thread) if thread.opened else error.away
            if error.status == GONE:
                return error
            lived = thread.opened and self._ambient.clock() - begun_s > LIVED_S
            if lived or thread.version != version:
                strikes = 0
                self._backoff.succeeded()
            elif thread.opened and error.kind in ("garbage", "too-large"):
                strikes += 1
                if strikes >= STRIKES_MAX:
                    return error
            if not thread.opened:
                await self._liveness.lost(thread.path, error)
            if not thread.opened or thread.version == version:
                await self._backoff.wait(error.retry_after_s)

    async def _attempt(self, thread: Thread, *, again: bool) -> KubeError:
        thread.opened = False
        error = await self._check_history(thread) if again else None
        if error is not None:
            return error
        stream = await self._open(thread.path, (("resourceVersion", thread.version),))
        if isinstance(stream, KubeError):
            return stream
        thread.opened, thread.heard_s = True, self._ambient.clock()
        try:
            await self._liveness.resumed(thread.path)
            return await self._read(stream, thread)
        finally:
            stream.close()

    async def _read(self, stream: Lines, thread: Thread) -> KubeError:
        while True:
            lines = await stream.lines()
            if isinstance(lines, KubeError):
                return lines
            thread.heard_s = self._ambient.clock()
            self._liveness.heard(thread.path)
            error = await self._reading.take(lines, thread) or self._restored(thread)
            if error is not None:
                return error

    async def _check_history(self, thread: Thread) -> KubeError | None:
        """Return an error if the server was restored from a backup since the listing.

        A watch from a version in the future stays silent (measured on 1.35) instead of failing. A
        restored server that was unreachable may have passed that version again.
        """
        now = await self._listing.version_now(thread.path)
        if isinstance(now, KubeError):
            return now
        if now < order_of(thread.version) and thread.restores == self._restores.count:
            self._restores.count += 1
        restored = self._restored(thread)
        if restored is not None:
            return restored
        if thread.was_away:
            self._backoff.succeeded()  # the server is back: list without delay
            return KubeError(kind="answer", status=GONE, why="the API server was unreachable")
        return None

    def _restored(self, thread: Thread) -> KubeError | None:
        """Return an error if another watch has found a restore since the listing."""
        if thread.restores == self._restores.count:
            return None
        return KubeError(kind="answer", status=GONE, why="the cluster was restored from a backup")

    def _was_dead(self, error: KubeError, thread: Thread) -> bool:
        """Whether the connection may have been dead since the stream last sent something."""
        if error.kind in ("connection", "garbage"):
            return self._ambient.clock() - thread.heard_s > DEAD_S
        return error.kind == "timeout"

    async def _open(self, path: str, start: tuple[tuple[str, str], ...]) -> Lines | KubeError:
        seconds = int(WATCH_S * (1 + self._ambient.random()))
        query = (
            *self._selection.selectors,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
            *start,
        )
        return await self._client.open(Request(path=path, query=query), silence_s=SILENCE_S)

    # WatchList: the listing arrives as the start of the stream

    async def _stream_list_and_follow(self) -> KubeError:
        """As `_list_and_follow`; stop using WatchLists if the server does not support them."""
        begun_s = self._ambient.clock()
        restores = self._restores.count
        thread = Thread(self._selection.paths[0], begun_s=begun_s, restores=restores, waiting=[])
        stream = await self._open(thread.path, _INITIAL_EVENTS)
        if isinstance(stream, KubeError):
            self._streams_lists = stream.status in (0, 401, 403, 429)
            return stream
        try:
            error = await self._read_list(stream, thread)
            if error is not None:
                self._streams_lists = False
                return error
            self._liveness.listed(begun_s)
            thread.heard_s = self._ambient.clock()
            error = await self._read(stream, thread)
        finally:
            stream.close()
        thread.was_away = self._was_dead(error, thread)
        return error if error.status == GONE else await self._follow(thread, again=True)

    async def _read_list(self, stream: Lines, thread: Thread) -> KubeError | None:
        with anyio.move_on_after(LIST_DEADLINE_S):
            while thread.waiting is not None:
                lines = await stream.lines()
                if isinstance(lines, KubeError):
                    return lines
                async with self._one_listing:
                    error = await self._reading.take(lines, thread)
                if error is not None:
                    return error
            return None
        return KubeError(kind="timeout", why=f"no end of the WatchList in {LIST_DEADLINE_S:.0f} s")
