"""List a source completely, page by page.

Several namespaces are one source: the first answer fixes the resourceVersion, and sunk-sync lists
the others at exactly that version. So the listing shows one moment of the cluster, with one order.
"""

from collections.abc import Callable
from itertools import islice

import msgspec

from sunk_sync.core.model.facts import ListingEnded, ListingStarted, Observed, Tell
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.source_decoder import ListPage, Unreadable, order_of
from sunk_sync.kube.read.selection import Selection

PAGE = 500
PAGE_BYTES_MAX = 64 << 20
PAGE_DEADLINE_S = 60.0
SLICE = 100
"""Objects decoded without a pause: about 1 ms."""

OnBad = Callable[[str, str, str], None]
"""Called for an unreadable object with its kind, its `namespace/name` and the reason."""


class Listing:
    """Lists one source. Call `run` any number of times, but not concurrently."""

    def __init__(
        self, client: Caller, selection: Selection, *, tell: Tell, on_bad: OnBad, ambient: Ambient
    ) -> None:
        self._client = client
        self._selection = selection
        self._tell = tell
        self._on_bad = on_bad
        self._ambient = ambient
        self._page_size = PAGE

    async def run(self) -> str | KubeError:
        """List everything once; return its resourceVersion, or the error.

        Report ListingEnded only after every page of every collection has arrived.
        """
        version = ""
        begun_s = self._ambient.clock()
        for path in self._selection.paths:
            next_ = ""
            while True:
                page = await self._page(path, version=version, next_=next_)
                if isinstance(page, KubeError):
                    return page
                if not version:
                    version = page.version
                    await self._start(begun_s, version)
                await self._tell_items(page.items)
                next_ = page.next
                if not next_:
                    break
        await self._tell([ListingEnded(self._selection.source)])
        return version

    async def version_now(self, path: str) -> float | KubeError:
        """Return the current resourceVersion of the server, never older than this call.

        Without selectors: with them the server would read on until an object matches.
        """
        request = Request(path=path, query=(("limit", "1"),))
        page = await self._client.call(request, self._selection.decoder.page)
        return page if isinstance(page, KubeError) else order_of(page.version)

    async def _start(self, begun_s: float, version: str) -> None:
        source = self._selection.source
        await self._tell([ListingStarted(source, begun_s, order_of(version))])

    async def _page(self, path: str, *, version: str, next_: str) -> ListPage | KubeError:
        query = [*self._selection.selectors, ("limit", str(self._page_size))]
        if next_:
            query.append(("continue", next_))
        elif version:
            query += [("resourceVersion", version), ("resourceVersionMatch", "Exact")]
        request = Request(
            path=path, query=tuple(query), deadline_s=PAGE_DEADLINE_S, bytes_max=PAGE_BYTES_MAX
        )
        page = await self._client.call(request, self._selection.decoder.page)
        if isinstance(page, KubeError) and page.kind == "too-large":
            self._page_size = max(1, self._page_size // 4)
        return page

    async def _tell_items(self, items: list[msgspec.Raw]) -> None:
        rest = iter(items)
        while some := list(islice(rest, SLICE)):
            await self._tell(self._readable(some))
            await self._ambient.sleep(0)

    def _readable(self, items: list[msgspec.Raw]) -> list[Observed]:
        rows = []
        for item in items:
            seen = self._selection.decoder.object(item)
            if isinstance(seen, Unreadable):
                self._on_bad(self._selection.decoder.kind, seen.name, seen.why)
            else:
                rows.append(seen)
        return rows
