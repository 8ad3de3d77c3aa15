"""A TCP proxy between the service and a server that stops at chosen requests.

It expects HTTP/1.1 without pipelining: data that starts with a method starts a request, and the
next data from the server answers it. The proxy uses TLS to an https server; the service connects
without TLS.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.real.service import NAMESPACE
from tests.real.testbed import Bed
from tests.real.testbed.closing import Closing

PIECE_BYTES = 256 << 10
METHODS = (b"GET ", b"POST ", b"PATCH ", b"PUT ", b"DELETE ")

Hook = Callable[[str, str, str], bool]
"""(`before`, `sent` or `after`, method, path without query) → whether to forward it."""


class Tap(Closing):
    """Runs in its own thread, which calls the hook; `url` is its address."""

    def __init__(self, server_url: str, hook: Hook, *, ca_file: Path | None = None) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname, parts.port)
        self._ssl = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._hook = hook
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
            theirs = await asyncio.open_connection(*self._server, ssl=self._ssl)
        except OSError:
            writer.close()
            return
        link = _Link(self._hook)
        up = self._pass_on(reader, theirs[1], link.asks, link.asked)
        down = self._pass_on(theirs[0], writer, link.answers, lambda: None)
        with suppress(asyncio.CancelledError):  # the tap is closed
            await asyncio.gather(up, down)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        may: Callable[[bytes], bool],
        passed: Callable[[], None],
    ) -> None:
        try:
            while piece := await reader.read(PIECE_BYTES):
                if not may(piece):
                    break
                writer.write(piece)
                await writer.drain()
                passed()
        except OSError:
            pass
        writer.close()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        links = asyncio.all_tasks() - {asyncio.current_task()}
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


class _Link:
    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._request: tuple[str, str] | None = None
        self._asked = False

    def asks(self, piece: bytes) -> bool:
        if not piece.startswith(METHODS):
            return True
        method, path = piece.split(b"\r\n", 1)[0].decode().split(" ")[:2]
        self._request, self._asked = (method, path.partition("?")[0]), False
        return self._hook("before", *self._request)

    def asked(self) -> None:
        if self._request is not None and not self._asked:
            self._asked = True
            self._hook("sent", *self._request)

    def answers(self, _: bytes) -> bool:
        request, self._request = self._request, None
        return request is None or self._hook("after", *request)


def tapped_kubeconfig(bed: Bed, tap: Tap, name: str = "tapped") -> Path:
    """Write the service's kubeconfig, under this name, with the proxy as server."""
    path = bed.kube.kubeconfig_for("sunk-sync", NAMESPACE)
    config = json.loads(path.read_text())
    config["clusters"][0]["cluster"] = {"server": tap.url}
    made = path.with_name(f"{name}.kubeconfig")
    made.touch(mode=0o600)
    made.write_text(json.dumps(config))
    return made
