"""A TCP proxy in front of slurmrestd that records when each request was answered.

Its delay is the same for all clients.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from tests.bench.running import BenchError

PIECE_BYTES = 256 << 10
_Seen = Callable[[bytes], None]


@dataclass(frozen=True)
class Exchanged:
    """One request, and when the first bytes of its response were forwarded."""

    request: bytes
    asked_s: float
    answered_s: float

    @property
    def writes(self) -> bool:
        return self.request.startswith(b"POST ")

    @property
    def drains(self) -> bool:
        return self.writes and b'"DRAIN"' in self.request

    @property
    def undrains(self) -> bool:
        return self.writes and b'"UNDRAIN"' in self.request

    @property
    def names(self) -> set[str]:
        """Return the Slurm nodes of a write: the one in the path, or the list in the body."""
        head, _, body = self.request.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        if "/node/" in path:
            return {path.rpartition("/")[2]}
        return set(json.loads(body)["name"])


class Proxy:
    """Runs in its own thread; `url` is the address of the proxied server."""

    def __init__(self, server_url: str) -> None:
        self._host, _, port = server_url.rpartition("/")[2].partition(":")
        self._port = int(port)
        self._seen: list[Exchanged] = []
        self.passed = 0
        """Bytes forwarded since `clear`, in both directions."""
        self._recorded = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        made = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self.url = f"http://127.0.0.1:{made.result()}"

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        link = _Link(self._record)
        up = self._forward(reader, theirs[1], link.asked)
        down = self._forward(theirs[0], writer, link.answered)
        await asyncio.gather(up, down)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: _Seen
    ) -> None:
        """Forward bytes; record a request before and a response when it is forwarded."""
        try:
            while piece := await reader.read(PIECE_BYTES):
                seen(piece)
                self.passed += len(piece)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def _record(self, exchanged: Exchanged) -> None:
        with self._recorded:
            self._seen.append(exchanged)
            self._recorded.notify_all()

    def seen(self) -> list[Exchanged]:
        with self._recorded:
            return list(self._seen)

    def clear(self) -> None:
        with self._recorded:
            self._seen.clear()
            self.passed = 0

    def wait(
        self, enough: Callable[[list[Exchanged]], bool], what: str, *, deadline_s: float = 30
    ) -> list[Exchanged]:
        """Wait until enough was recorded since `clear`; return all of it."""
        with self._recorded:
            if not self._recorded.wait_for(lambda: enough(self._seen), deadline_s):
                raise BenchError(f"not within {deadline_s:.0f} s: {what}")
            return list(self._seen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Link:
    """One connection of HTTP/1.1 without pipelining: bytes of a response end the request."""

    def __init__(self, record: Callable[[Exchanged], None]) -> None:
        self._record = record
        self._request = b""
        self._asked_s = 0.0

    def asked(self, piece: bytes) -> None:
        self._asked_s = self._asked_s if self._request else time.monotonic()
        self._request += piece

    def answered(self, _: bytes) -> None:
        if self._request:
            self._record(Exchanged(self._request, self._asked_s, time.monotonic()))
            self._request = b""
