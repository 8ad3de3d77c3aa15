"""A small API server whose answers a test writes; makers of objects as they are sent."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from sunk_sync.core.model.facts import News, Observed
from sunk_sync.core.model.outcomes import Outcome
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import KubeClient
from sunk_sync.telemetry.exchange import Exchange
from tests.kit.news import NewsLog

HERE = Path(__file__).parent
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Json = dict[str, Any]


def recorded(name: str) -> bytes:
    """Return bytes that a real API server sent (see record.py)."""
    return (HERE / name).read_bytes()


class ApiServer:
    """Answers with `answer`; remembers the requests."""

    def __init__(self, answer: Answer, folder: Path) -> None:
        self.answer = answer
        self.requests: list[web.Request] = []
        self.exchanges: list[Exchange] = []
        self.folder = folder
        self._runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.1)
        self.url = ""

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        self.requests.append(request)  # type: ignore[arg-type]
        await request.read()
        return await self.answer(request)  # type: ignore[arg-type]

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    def kubeconfig(self, user: Json) -> str:
        """Write a kubeconfig for this server and user, and return its path."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [
                {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "own"}}
            ],
            "current-context": "x",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)

    async def client(self, user: Json | None = None) -> KubeClient:
        """Return a client of this server; the caller closes it."""
        made = await KubeClient.connect(
            kubeconfig=self.kubeconfig(user or {"token": "t0"}),
            context=None,
            on_exchange=self.exchanges.append,
        )
        assert not isinstance(made, KubeError), made
        return made

    def queries(self) -> list[dict[str, str]]:
        """Return the queries of all requests."""
        return [dict(request.query) for request in self.requests]


@asynccontextmanager
async def serving(
    answer: Answer, user: Json | None = None
) -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    """Run a server and a client of it."""
    with TemporaryDirectory() as folder:
        server = ApiServer(answer, Path(folder))
        await server.start()
        client = await server.client(user)
        try:
            yield server, client
        finally:
            await client.aclose()
            await server.stop()


class Ear(NewsLog):
    """Keeps the news of a reader, and can wait for some."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[tuple[str, str, str]] = []
        self._came = asyncio.Event()

    async def tell(self, news: Sequence[News]) -> None:
        await super().tell(news)
        self._came.set()

    def on_bad(self, kind: str, name: str, why: str) -> None:
        self.bad.append((kind, name, why))
        self._came.set()

    def kinds(self) -> list[str]:
        """Return the news as words: `Observed n1`, `Lost`."""
        return [_word(one) for one in self.news]

    async def until(self, claim: Callable[["Ear"], bool], within_s: float = 5.0) -> None:
        """Wait until the condition on the news holds."""
        async with asyncio.timeout(within_s):
            while not claim(self):
                self._came.clear()
                await self._came.wait()

    async def hears(self, *words: str) -> None:
        """Wait until the news are exactly these words, in this order."""
        try:
            await self.until(lambda ear: ear.kinds()[: len(words)] == list(words))
        except TimeoutError:
            raise AssertionError(f"heard {self.kinds()}, not {list(words)}") from None


def row_in(outcome: Outcome) -> object:
    """Return the one row that an outcome shows."""
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    return seen.row


def _word(news: News) -> str:
    name = getattr(getattr(news, "row", None), "name", getattr(news, "name", ""))
    return f"{type(news).__name__} {name}".strip()


def node(name: str, version: int, **spec: Any) -> Json:
    """Make a Node as the API server sends it."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, version: int, namespace: str = "slurm") -> Json:
    """Make a Pod as the API server sends it."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": {**meta, "resourceVersion": str(version)}, "spec": {}}


def page(kind: str, items: Sequence[Json], version: int, next_: str = "") -> web.Response:
    """Make one page of a list."""
    meta = {"resourceVersion": str(version), "continue": next_}
    return web.json_response({"kind": f"{kind}List", "metadata": meta, "items": list(items)})


def status(code: int, reason: str, **rest: Any) -> Json:
    """Make a Kubernetes Status."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, **rest}


def answers(body: bytes | Json, code: int = 200, **headers: str) -> Answer:
    """Give the same answer to every request."""

    async def answer(_: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=raw, status=code, headers=headers)

    return answer


def refusal(code: int, reason: str, **headers: str) -> web.Response:
    """Make an error answer."""
    return web.json_response(status(code, reason), status=code, headers=headers)


def event(kind: str, an_object: Json) -> bytes:
    """Make one line of a watch."""
    return json.dumps({"type": kind, "object": an_object}).encode() + b"\n"


def bookmark(kind: str, version: int, *, ends_listing: bool = False) -> bytes:
    """Make a line with a bookmark."""
    meta: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_listing:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    spec: Json = {"containers": None} if kind == "Pod" else {}
    return event("BOOKMARK", {"kind": kind, "metadata": meta, "spec": spec})


async def stream(
    request: web.Request, *pieces: bytes | asyncio.Event, then: str = "wait"
) -> web.StreamResponse:
    """Send pieces in turn, and wait for each Event between them; then `wait`, `end` or `break`."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for piece in pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        else:
            await response.write(piece)
            await asyncio.sleep(0.01)  # each piece is a packet of its own
    if then == "wait":
        await asyncio.Event().wait()
    if then == "break" and request.transport is not None:
        request.transport.abort()
    return response
