"""One connection to slurmrestd: send a request, receive one answer in pieces.

httptools parses HTTP. It gets no bytes after the first answer, because slurmrestd 26.05 sends a
second answer after an error (docs/decisions/0011).
"""

import asyncio
import socket
import struct
from collections import deque
from http import HTTPStatus
from typing import Final

from httptools import HttpParserError, HttpResponseParser

HEAD_BYTES_MAX: Final = 64 << 10
"""Limit of status line and headers, because the parser has none."""
WAITING_BYTES_MAX: Final = 256 << 10
"""Bytes of a body that wait for the caller, above which reading pauses."""


class BrokenError(Exception):
    """The connection ended early or did not carry HTTP. The text names the reason."""


class Connection(asyncio.Protocol):
    """Carries one request at a time. Unexpected bytes close it."""

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

    def drop_unsent_at_close(self) -> None:
        """Otherwise a write that was given up may arrive much later (F6)."""
        opened = self._transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def send(self, request: bytes) -> "Incoming":
        incoming = self._incoming = Incoming(self._transport)
        self._transport.write(request)
        if not self.open:
            incoming.lose(None)
        return incoming

    def rest(self) -> bool:
        """End the answer; return whether the connection can carry another request."""
        incoming, self._incoming = self._incoming, None
        return self.open and incoming is not None and incoming.reusable()

    def close(self) -> None:
        self.open = False
        self._transport.abort()


class Incoming:
    """One answer while it arrives."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.status = 0
        """0 until the headers have arrived."""
        self._transport = transport
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        """Dropped at the end: parser and answer refer to each other, a cycle that only the GC
        frees."""
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._head_bytes = 0
        self._delimited = False
        """The headers give the length; else the body ends with the connection."""
        self._keeps = False
        self._ended = False
        self._surplus = False
        """More bytes came than belong to the answer."""
        self._lost: str | None = None
        """How it broke, as text: the traceback of an error would refer to this object."""
        self._woken: asyncio.Future[None] | None = None

    async def head(self) -> int:
        """Return the status, once the headers have come. Raises BrokenError."""
        while not self.status:
            await self._more()
        return self.status

    async def piece(self) -> bytes:
        """Return the next piece of the body, empty after the last. Raises BrokenError."""
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
        """Whether it ended well, and no byte on the connection can be taken for the next answer."""
        clean = self._ended and not self._surplus and self._lost is None
        return clean and self._keeps and self.status < HTTPStatus.BAD_REQUEST

    async def _more(self) -> None:
        if self._lost is not None:
            raise BrokenError(self._lost)
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def feed(self, data: bytes) -> None:
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
        """The connection ended, and so does a body without a given length."""
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

    def on_message_begin(self) -> None:
        self._surplus = self._surplus or self._ended

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002 - the parser's form
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._delimited = True

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if not self._ended and status >= HTTPStatus.OK:  # statuses below are interim responses
            self.status = status
            self._keeps = self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        if not self._ended:
            self._pieces.append(piece)
            self._waiting_bytes += len(piece)

    def on_message_complete(self) -> None:
        self._ended = self._ended or self.status != 0
