"""The Kubernetes API of the minimal server."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from tests.bench.shapes import cluster_uid, event

CHUNK = 50
"""Objects written to a stream at once."""
OURS = "sunk.coreweave.com/"
Object = dict[str, Any]


class Collection:
    """Objects by number, as recorded until they are patched."""

    def __init__(self, kind: str, names: Sequence[str], made: Callable[[int], bytes]) -> None:
        self.kind = kind
        self.count = len(names)
        self.watchers: list[asyncio.Queue[bytes]] = []
        self._numbers = {name: number for number, name in enumerate(names)}
        self._made = made
        self._patched: dict[int, bytes] = {}

    def content(self, number: int) -> bytes:
        return self._patched.get(number) or self._made(number)

    def patch(self, name: str, patch: Object, *, version: int) -> bytes:
        """Do a server-side apply, as far as the service uses it; send it to all watchers."""
        number = self._numbers[name]
        present = msgspec.json.decode(self.content(number))
        _merge(present, patch)
        present["metadata"]["resourceVersion"] = str(version)
        content = self._patched[number] = msgspec.json.encode(present)
        for watcher in self.watchers:
            watcher.put_nowait(event(b"MODIFIED", content) + b"\n")
        return content


def _merge(present: Object, patch: Object) -> None:
    metadata = present["metadata"]
    if "status" in patch:
        desired = patch["status"]["conditions"]
        others = [one for one in present["status"]["conditions"] if "Slurm" not in one["type"]]
        present["status"]["conditions"] = others + [one for one in desired if "$patch" not in one]
        return
    for field in ("labels", "annotations"):
        kept = {k: v for k, v in metadata.get(field, {}).items() if not k.startswith(OURS)}
        metadata[field] = kept | patch["metadata"].get(field, {})


class Kube:
    """Lists, watches and patches; there are no selectors, each path has its own objects."""

    def __init__(self, collections: Mapping[str, Collection]) -> None:
        self.writes = 0
        self._collections = collections
        self._version = 10**7

    def routes(self) -> Iterable[web.RouteDef]:
        yield web.get("/api/v1/namespaces/kube-system", self._kube_system)
        for path in self._collections:
            yield web.get(path, self._read)
            yield web.patch(path + "/{name}", self._patch)
            yield web.patch(path + "/{name}/status", self._patch)

    async def _kube_system(self, _: web.Request) -> web.Response:
        metadata = {"name": "kube-system", "uid": cluster_uid()}
        return web.json_response({"kind": "Namespace", "metadata": metadata})

    async def _read(self, request: web.Request) -> web.StreamResponse:
        collection = self._collections[request.path]
        if "watch" not in request.query:
            return self._page(collection, request.query)
        return await self._watch(collection, request)

    def _page(self, collection: Collection, query: Mapping[str, str]) -> web.Response:
        start = int(query.get("continue", 0))
        end = min(start + int(query["limit"]), collection.count)
        after = f',"continue":"{end}"' if end < collection.count else ""
        head = f'{{"kind":"{collection.kind}List","apiVersion":"v1","metadata":'
        head += f'{{"resourceVersion":"{self._version}"{after}}},"items":['
        items = b",".join(collection.content(number) for number in range(start, end))
        body = head.encode() + items + b"]}"
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, collection: Collection, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        news: asyncio.Queue[bytes] = asyncio.Queue()
        collection.watchers.append(news)
        try:
            if "sendInitialEvents" in request.query:
                await self._send_all(collection, answer)
            while True:
                lines = [await news.get()]
                while not news.empty() and len(lines) < CHUNK:
                    lines.append(news.get_nowait())
                await answer.write(b"".join(lines))
        finally:
            collection.watchers.remove(news)

    async def _send_all(self, collection: Collection, answer: web.StreamResponse) -> None:
        """Send the first part of a WatchList, with the bookmark that ends it."""
        for start in range(0, collection.count, CHUNK):
            numbers = range(start, min(start + CHUNK, collection.count))
            added = (event(b"ADDED", collection.content(number)) + b"\n" for number in numbers)
            await answer.write(b"".join(added))
            await asyncio.sleep(0)
        end = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": str(self._version), "annotations": end}
        bookmark = msgspec.json.encode({"kind": collection.kind, "metadata": metadata})
        await answer.write(event(b"BOOKMARK", bookmark) + b"\n")

    async def _patch(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        collection = self._collections[request.path.partition(f"/{name}")[0]]
        self._version += 1
        self.writes += 1
        patch = msgspec.json.decode(await request.read())
        content = collection.patch(name, patch, version=self._version)
        return web.Response(body=content, content_type="application/json")
