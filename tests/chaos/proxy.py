"""A TCP proxy that can be cut, frozen or slow, and that notes the writes of one replica.

It expects HTTP/1.1 without TLS from the client, and uses TLS to a server with a CA.
"""

import asyncio
import contextlib
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tests.chaos.checkers import Write
from tests.real.testbed.closing import Closing

PIECE_BYTES = 256 << 10
READS = (b"GET ", b"HEAD ")
WRITES = (b"POST ", b"PATCH ", b"PUT ", b"DELETE ")
EVERYBODYS = ("/leases", "/secrets/", "accessreviews", "rulesreviews")
"""Paths of writes that every replica may send."""
Mode = Literal["open", "cut", "frozen", "slow"]


class Proxy(Closing):
    """Runs in a thread of its own. With several servers it tries them in random order."""

    def __init__(
        self, servers: Sequence[str], *, ca_file: Path | None = None, writer: str = ""
    ) -> None:
        self.reach(servers)
        self._ssl = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._writer = writer
        self._mode: Mode = "open"
        self._delay_s = 0.0
        self.writes: list[Write] = []
        """Requests that it passed on, besides reads."""
        self.links: set[asyncio.StreamWriter] = set()
        """Open connections of both sides."""
        self._loop = asyncio.new_event_loop()
        self._opened = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._call(self._listen())
        self.url = f"http://127.0.0.1:{self.port}"

    def reach(self, servers: Sequence[str]) -> None:
        """Connect new clients to one of these."""
        self._servers = [(url.hostname, url.port) for url in map(urlsplit, servers)]

    def set(self, mode: Mode, *, delay_s: float = 0.0) -> None:
        """Change what happens to connections, also to open ones.

        cut: they break. frozen: nothing passes, and they break when the mode changes. slow: each
        piece is late.
        """
        self._call(self._set(mode, delay_s))

    def _call(self, made: Coroutine[None, None, int]) -> int:
        return asyncio.run_coroutine_threadsafe(made, self._loop).result()

    async def _listen(self) -> int:
        self._opened.set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _set(self, mode: Mode, delay_s: float) -> int:
        if mode == "cut" or self._mode == "frozen":
            for writer in list(self.links):
                writer.transport.abort()
        self._mode, self._delay_s = mode, delay_s
        if mode == "frozen":
            self._opened.clear()
        else:
            self._opened.set()
        return 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.links.add(writer)
        theirs: asyncio.StreamWriter | None = None
        try:
            await self._opened.wait()
            if self._mode == "cut" or writer.is_closing():
                return
            answers, theirs = await self._connect()
            self.links.add(theirs)
            up = self._pass_on(reader, theirs, note=self._note)
            down = self._pass_on(answers, writer)
            await asyncio.gather(up, down)
        except (OSError, asyncio.CancelledError):
            pass  # a server is away, or the proxy is closed
        finally:
            for one in filter(None, (writer, theirs)):
                self.links.discard(one)
                one.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        error: OSError = ConnectionRefusedError()
        for host, port in random.sample(self._servers, len(self._servers)):
            try:
                return await asyncio.open_connection(host, port, ssl=self._ssl)
            except OSError as refused:
                error = refused
        raise error

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        note: Callable[[bytes], None] | None = None,
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._opened.wait()
                if self._mode == "slow":
                    await asyncio.sleep(self._delay_s)
                if writer.is_closing() or (note is not None and reader.at_eof()):
                    break  # a client that has given up must not be heard any more
                if note is not None:
                    note(piece)
                writer.write(piece)
                await writer.drain()
        writer.close()

    def _note(self, piece: bytes) -> None:
        if not piece.startswith(WRITES):
            return
        words = piece.split(b"\r\n", 1)[0].decode(errors="replace").split(" ")
        if not any(one in words[1] for one in EVERYBODYS):
            self.writes.append(Write(time.time(), self._writer, " ".join(words[:2])[:200]))

    def close(self) -> None:
        self.set("cut")
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> int:
        links = asyncio.all_tasks() - {asyncio.current_task()}
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        return 0
