"""The embedded Slurm as an HTTP server, in real time."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web

from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question

_LOOK_S: Final = 0.2
"""Interval at which slurmrestd retries a slurmctld that is down, and at which the time advances."""
_LEAST_S: Final = 0.001
_SHUTDOWN_S: Final = 0.5
_HOST: Final = "127.0.0.1"


class SlurmServer:
    """Serves one cluster. `clock` returns seconds since the start. Call `start`, later `aclose`."""

    def __init__(self, rest: SlurmRest, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rest = rest
        self._clock = clock
        self._begun_s = clock() - rest.world.now_s
        self._runner: web.ServerRunner | None = None
        self._ticker: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def world(self) -> SlurmWorld:
        return self.rest.world

    @property
    def now_s(self) -> float:
        return self._clock() - self._begun_s

    async def start(self, port: int = 0) -> str:
        """Listen; return the URL. Port 0: any free port."""
        server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, port, reuse_address=True).start()
        self.address = f"http://{_HOST}:{self._runner.addresses[0][1]}"
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        return self.address

    async def stop(self) -> None:
        """Refuse connections like a dead slurmrestd; the cluster continues."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def aclose(self) -> None:
        await self.stop()
        if self._ticker is not None:
            self._ticker.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticker
            self._ticker = None

    async def _tick(self) -> None:
        """Advance the time even if no request arrives."""
        while True:
            self.world.advance(self.now_s)
            next_s = self.world.next_s()
            until_s = _LOOK_S if next_s is None else min(next_s - self.now_s, _LOOK_S)
            await asyncio.sleep(max(until_s, _LEAST_S))

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        question = Question(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.read(),
        )
        answer = await self._answer(question)
        response = _response(answer)
        if answer.status >= web.HTTPBadRequest.status_code:
            await self._refuse(request, response, answer)
        return response

    async def _answer(self, question: Question) -> SlurmAnswer:
        """Answer at once, or after the time that slurmrestd waits for a slurmctld that is down."""
        began_s = self.now_s
        while True:
            now_s = self.now_s
            answer = self.rest.answer(question, now_s)
            left_s = began_s + answer.after_s - now_s
            if left_s <= 0:
                return answer
            await asyncio.sleep(min(left_s, _LOOK_S))

    async def _refuse(
        self, request: web.BaseRequest, response: web.Response, answer: SlurmAnswer
    ) -> None:
        """Send an error and close the connection; 26.05 appends a second complete response."""
        response.force_close()
        await response.prepare(request)
        await response.write_eof()
        transport = request.transport
        if transport is not None and self.world.setup.generation == "26.05":
            transport.write(_second(answer, response.reason or ""))


def _response(answer: SlurmAnswer) -> web.Response:
    """Return an HTTP response; its JSON has line breaks for users of curl."""
    body, kind = answer.body, answer.content_type
    if body and kind == "application/json":
        body = msgspec.json.format(body, indent=2)
    if not body:
        return web.Response(status=answer.status)
    return web.Response(status=answer.status, body=body, content_type=kind)


def _second(answer: SlurmAnswer, phrase: str) -> bytes:
    text = answer.body
    if answer.content_type == "application/json":
        errors = msgspec.json.decode(answer.body).get("errors")
        text = str(errors[0]["error"]).encode() if errors else b""
    head = (
        f"HTTP/1.1 {answer.status} {phrase.upper()}\r\nConnection: Close\r\n"
        f"Content-Length: {len(text)}\r\nContent-Type: text/plain\r\n\r\n"
    )
    return head.encode() + text
