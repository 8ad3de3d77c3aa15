"""Turn lines of a watch into facts, in slices, and initial events of a WatchList into a listing."""

from typing import Protocol

from msgspec import Struct

from sunk_sync.core.model.facts import Deleted, ListingEnded, ListingStarted, News, Observed, Tell
from sunk_sync.kube.api.answers import KubeError, garbage, stream_refusal
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.decode.source_decoder import (
    Bookmark,
    DeletedEvent,
    ErrorEvent,
    Unreadable,
    WatchEvent,
    order_of,
)
from sunk_sync.kube.read.listing import SLICE, OnBad
from sunk_sync.kube.read.selection import Selection


class Lines(Protocol):
    async def lines(self) -> list[bytes] | KubeError:
        """Wait for at least one line; return a KubeError after the last."""
        ...

    def close(self) -> None: ...


class Thread(Struct):
    """How far sunk-sync has followed one collection."""

    path: str
    version: str = ""
    opened: bool = False
    """The last attempt opened a stream."""
    restores: int = 0
    """Number of known restores when its listing was requested."""
    was_away: bool = False
    """The server was, or may have been, unreachable since the last stream."""
    heard_s: float = 0.0
    """When the last stream was opened, or last sent something."""
    begun_s: float = 0.0
    """Start of the request for the WatchList."""
    waiting: list[News] | None = None
    """Initial events of a WatchList that has not ended yet."""


class Reading:
    def __init__(
        self, selection: Selection, *, tell: Tell, on_bad: OnBad, ambient: Ambient
    ) -> None:
        self._decoder = selection.decoder
        self._tell = tell
        self._on_bad = on_bad
        self._ambient = ambient

    async def take(self, lines: list[bytes], thread: Thread) -> KubeError | None:
        """Report the facts in the lines; return a KubeError if the stream is of no more use.

        `thread` advances with each reported slice.
        """
        for start in range(0, len(lines), SLICE):
            if start:
                await self._ambient.sleep(0)
            error = await self._take_slice(lines[start : start + SLICE], thread)
            if error is not None:
                return error
        return None

    async def _take_slice(self, lines: list[bytes], thread: Thread) -> KubeError | None:
        news: list[News] = []
        for line in filter(None, lines):
            event = self._decoder.event(line)
            if isinstance(event, Bookmark) and event.ends_listing and thread.waiting is not None:
                await self._tell_list([*thread.waiting, *news], thread, event.version)
                news = []
                continue
            one = self._note(event, thread)
            if isinstance(one, KubeError):
                await self._report(news, thread)
                return one
            if one is not None:
                news.append(one)
        await self._report(news, thread)
        return None

    def _note(
        self, event: WatchEvent | None, thread: Thread
    ) -> Observed | Deleted | KubeError | None:
        """Return the fact in one event; advance the thread past it."""
        match event:
            case Observed():
                thread.version = _version(event.order)
                return event
            case DeletedEvent():
                thread.version = _version(event.observed.order)
                return self._deleted(event.observed)
            case Bookmark():
                thread.version = event.version
            case Unreadable():
                self._on_bad(self._decoder.kind, event.name, event.why)
                thread.version = _version(event.order) if event.order else thread.version
            case ErrorEvent():
                return stream_refusal(event.status)
            case None:
                return garbage("a line of the watch is not an event")
        return None

    def _deleted(self, observed: Observed) -> Deleted:
        row = observed.row
        return Deleted(
            source=self._decoder.source,
            namespace=getattr(row, "namespace", ""),
            name=row.name,
            uid=getattr(row, "uid", ""),
            order=observed.order,
        )

    async def _report(self, news: list[News], thread: Thread) -> None:
        if thread.waiting is not None:
            thread.waiting += news
        elif news:
            await self._tell(news)

    async def _tell_list(self, news: list[News], thread: Thread, version: str) -> None:
        """Report the initial events as one listing.

        ListingStarted needs the order of the listing, which only the last bookmark has. So the
        facts wait for it. They need a fraction of the memory of the bytes.
        """
        source = self._decoder.source
        await self._tell([ListingStarted(source, thread.begun_s, order_of(version))])
        for start in range(0, len(news), SLICE):
            await self._tell(news[start : start + SLICE])
            await self._ambient.sleep(0)
        await self._tell([ListingEnded(source)])
        thread.waiting = None
        thread.version = version


def _version(order: float) -> str:
    return f"{order:.0f}"
