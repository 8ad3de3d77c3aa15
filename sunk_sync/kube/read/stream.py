"""Lines of a watch to news, in slices; the initial events of a WatchList to one listing."""

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
    """An open stream."""

    async def lines(self) -> list[bytes] | KubeError:
        """Whole lines, at least one; a KubeError after the last."""
        ...

    def close(self) -> None:
        """Give it up."""
        ...


class Thread(Struct):
    """How far one collection was followed."""

    path: str
    version: str = ""
    opened: bool = False
    """The last attempt came as far as an open stream."""
    restores: int = 0
    """How many restores of the server were known when its listing was asked for."""
    was_away: bool = False
    """The server could not be reached since the last stream, or may not have been."""
    heard_s: float = 0.0
    """When the last stream was opened, or last brought something."""
    begun_s: float = 0.0
    """When the WatchList was asked for."""
    waiting: list[News] | None = None
    """Initial events of a WatchList that has not ended yet."""


class Reading:
    """Takes lines of the streams of one source."""

    def __init__(
        self, selection: Selection, *, tell: Tell, on_bad: OnBad, ambient: Ambient
    ) -> None:
        self._decoder = selection.decoder
        self._tell = tell
        self._on_bad = on_bad
        self._ambient = ambient

    async def take(self, lines: list[bytes], thread: Thread) -> KubeError | None:
        """Tell what the lines say; a KubeError where the stream is of no more use.

        `thread` moves on with every slice that was told.
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
                await self._hand_over(news, thread)
                return one
            if one is not None:
                news.append(one)
        await self._hand_over(news, thread)
        return None

    def _note(
        self, event: WatchEvent | None, thread: Thread
    ) -> Observed | Deleted | KubeError | None:
        """What one event says; the thread moves on past it."""
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
                return garbage("a line of the watch is no event")
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

    async def _hand_over(self, news: list[News], thread: Thread) -> None:
        if thread.waiting is not None:
            thread.waiting += news
        elif news:
            await self._tell(news)

    async def _tell_list(self, news: list[News], thread: Thread, version: str) -> None:
        """The initial events as one listing.

        ListingStarted needs the order of the whole, which only the bookmark at the end knows. So
        facts wait until then; they are what the graph will hold anyway, a fraction of the bytes
        that they came from.
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
