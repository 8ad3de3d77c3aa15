"""A server whose answers a test writes byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.slurm.recorded import recorded


@dataclass(frozen=True)
class Request:
    """One request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def http(
    body: bytes, *, status: int = 200, close: bool = False, length: int | None = None
) -> bytes:
    """Return one HTTP response; `length` replaces the true Content-Length."""
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body) if length is None else length}\r\n"
    return (head + ("Connection: Close\r\n" if close else "") + "\r\n").encode() + body


def send(*answers: bytes, close: bool = False) -> Answer:
    """Send these bytes at once."""

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(answers))
        await writer.drain()
        if close:
            writer.close()

    return answer


def drop() -> Answer:
    """Close the connection without an answer."""
    return send(close=True)


def late(seconds: float, then: Answer) -> Answer:
    """Answer after a delay."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await then(request, writer)

    return answer


def after(gate: asyncio.Event, then: Answer) -> Answer:
    """Answer once the gate is open."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await then(request, writer)

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Give one answer for each request; the last one stays."""
    rest = list(answers)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await (rest.pop(0) if len(rest) > 1 else rest[0])(request, writer)

    return answer


UNSERVED = send(http(b"Unable to find requested URL.", status=404, close=True), close=True)


@dataclass
class Server:
    """`answers` by request line; every other path is not served."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    open_now: int = 0
    open_most: int = 0
    accepted: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]

    def speak(self, release: str, *versions: str) -> None:
        """Answer pings in these versions."""
        for version in versions:
            self.answers[f"GET /slurm/{version}/ping/"] = send(http(recorded(release, "ping")))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        number = self.accepted
        try:
            while not writer.is_closing():
                request = await _read(reader, number)
                self.requests.append(request)
                await self.answers.get(request.line, UNSERVED)(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_now -= 1
            writer.close()


async def _read(reader: asyncio.StreamReader, connection: int) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {
        name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body, connection)


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Serve on a free port of this machine."""
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
