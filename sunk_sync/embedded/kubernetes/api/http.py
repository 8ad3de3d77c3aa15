"""The embedded Kubernetes as an HTTP server on 127.0.0.1, for kubectl, curl and the service."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.wire import Answer, Question

SHUTDOWN_S = 0.5
BODY_BYTES_MAX = 3 << 20
"""The limit of the real server."""
HOST = "127.0.0.1"


class KubeServer:
    """Serves one cluster. `clock` returns seconds since the start. Call `start`, later `aclose`."""

    def __init__(self, api: KubeApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._begun_s = clock() - api.world.now_s
        self._woken = asyncio.Event()
        self._streams: set[Subscription] = set()
        self._server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=SHUTDOWN_S)
        self._ticker: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def now_s(self) -> float:
        return self._clock() - self._begun_s

    async def start(self, port: int = 0) -> str:
        """Listen; return the URL. Port 0: any free port."""
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, port).start()
        self.address = f"http://{HOST}:{self._runner.addresses[0][1]}"
        self._ticker = asyncio.create_task(self._tick())
        return self.address

    async def aclose(self) -> None:
        for stream in list(self._streams):
            stream.close()
        if self._ticker is not None:
            self._ticker.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticker
        await self._runner.cleanup()

    def wake(self) -> None:
        """Process what is due after a change that came through no request."""
        self._woken.set()

    async def _tick(self) -> None:
        """Advance the time even if no request arrives."""
        while True:
            self._api.world.advance(self.now_s)
            next_s = self._api.world.next_s()
            wait_s = None if next_s is None else max(next_s - self.now_s, 0.0)
            self._woken.clear()
            await _wait(self._woken, wait_s)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read(BODY_BYTES_MAX)
        question = Question(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=body,
        )
        answer = self._api.answer(question, self.now_s)
        self.wake()
        if isinstance(answer, Answer):
            headers = {"Content-Type": answer.content_type, **answer.headers}
            return web.Response(status=answer.status, body=answer.body, headers=headers)
        return await self._stream(request, answer)

    async def _stream(self, request: web.BaseRequest, watch: Subscription) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        woken = asyncio.Event()
        watch.wake = woken.set
        self._streams.add(watch)
        try:
            await response.prepare(request)
            while True:
                woken.clear()
                if lines := watch.take(self.now_s):
                    await response.write(b"".join(lines))
                if watch.closed:
                    break
                next_s = watch.next_s()
                await _wait(woken, None if next_s is None else max(next_s - self.now_s, 0.0))
        except ConnectionError:
            return response
        finally:
            watch.close()
            self._streams.discard(watch)
        return response


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def kubeconfig(address: str, *, namespace: str = "default") -> str:
    name = "embedded"
    context = {"cluster": name, "user": name, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": address}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return json.dumps(config, indent=1) + "\n"
