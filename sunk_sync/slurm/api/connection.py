"""One connection to slurmrestd: a request goes out, one answer comes in, a piece at a time.

httptools reads HTTP; it is told nothing more once the first answer has ended, for slurmrestd 26.05
sends a second one after an error (docs/decisions/0011).
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final

from httptools import HttpParserError, HttpResponseParser

HEAD_BYTES_MAX: Final = 64 << 10
"""Status line and headers; the parser itself has no bound."""
WAITING_BYTES_MAX: Final = 256 << 10
"""So much of a body may wait to be taken before the connection is read no further."""


class BrokenError(Exception):
    """The connection ended early or did not carry HTTP. Its text says how."""


class Connection(asyncio.Protocol):
    """Asked one question at a time; what comes unasked ends it."""

    def __init__(self) -> None:
        self.open = False
        self._transport: asyncio.Transport
        self._incoming: Incoming | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.open = True

    def data_received(self, data: bytes) -> None:
        if self._incoming is None:
            self.close()
        else:
            self._incoming.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._incoming is not None:
            self._incoming.lose(error)

    def send(self, request: bytes) -> "Incoming":
        """Ask; the answer is still to come."""
        incoming = self._incoming = Incoming(self._transport)
        self._transport.write(request)
        if not self.open:
            incoming.lose(None)
        return incoming

    def rest(self) -> bool:
        """The answer was read to its end: whether another question may follow."""
        incoming, self._incoming = self._incoming, None
        return self.open and incoming is not None and incoming.reusable()

    def close(self) -> None:
        """Give it up, whatever is under way."""
        self.open = False
        self._transport.abort()


class Incoming:
    """One answer on its way in."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.status = 0
        """0 until the headers have come."""
        self._transport = transport
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        """Let go at the end: it holds us, and such a ring is garbage only to a collector."""
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._head_bytes = 0
        self._delimited = False
        """Its length is told; else it ends with the connection."""
        self._keeps = False
        """The server keeps the connection for more."""
        self._ended = False
        self._surplus = False
        """More came than was asked for."""
        self._lost: str | None = None
        """How it broke; the error itself would hold us by its traceback."""
        self._woken: asyncio.Future[None] | None = None

    # Reading

    async def head(self) -> int:
        """The status, once the headers have come. Raises BrokenError."""
        while not self.status:
            await self._more()
        return self.status

    async def piece(self) -> bytes:
        """The next piece of the body, empty after the last. Raises BrokenError."""
        while not self._pieces:
            if self._ended:
                return b""
            await self._more()
        piece = self._pieces.popleft()
        self._waiting_bytes -= len(piece)
        if not self._pieces:
            self._transport.resume_reading()
        return piece

    def reusable(self) -> bool:
        """It ended well, and nothing on this connection can be mistaken for the next answer."""
        clean = self._ended and not self._surplus and self._lost is None
        return clean and self._keeps and self.status < HTTPStatus.BAD_REQUEST

    async def _more(self) -> None:
        if self._lost is not None:
            raise BrokenError(self._lost)
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    # What the connection tells

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._parser is None:
            self._surplus = True
            return
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"no HTTP: {error}")
        if not self.status and self._head_bytes > HEAD_BYTES_MAX:
            self._fail(f"headers of more than {HEAD_BYTES_MAX} bytes")
        if self._ended or self._lost is not None:
            self._parser = None
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._transport.pause_reading()
        self._wake()

    def lose(self, error: Exception | None) -> None:
        """The connection ended; so does a body whose length was not told."""
        if self.status and not self._delimited and error is None:
            self._ended = True
        self._parser = None
        self._fail(str(error) if error else "the connection ended before the answer did")
        self._wake()

    def _fail(self, why: str) -> None:
        if not self._ended and self._lost is None:
            self._lost = why

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    # What the parser tells

    def on_message_begin(self) -> None:
        self._surplus = self._surplus or self._ended

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002 - the parser's form
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._delimited = True

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if not self._ended and status >= HTTPStatus.OK:  # below are only promises
            self.status = status
            self._keeps = self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        if not self._ended:
            self._pieces.append(piece)
            self._waiting_bytes += len(piece)

    def on_message_complete(self) -> None:
        self._ended = self._ended or self.status != 0
