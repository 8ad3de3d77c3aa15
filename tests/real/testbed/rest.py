"""A small blocking JSON client for tests.

Each thread keeps a connection for its reads: tests poll, and a handshake costs more than an answer.
A write has a connection of its own, and is never repeated.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 30
Request = tuple[str, str, str | None, Mapping[str, str]]
"""Method, path, body and headers."""


class RestError(Exception):
    """The server answered with an error status; `body` is its answer, decoded if it is JSON."""

    def __init__(self, call: str, status: int, body: Any) -> None:
        super().__init__(f"{call}: {status}: {body}")
        self.status = status
        self.body = body


class Rest:
    """Calls one server; `headers` are sent with each call, `ca_file` is for https."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, ca_file: Path | None = None
    ) -> None:
        parts = urlsplit(url)
        self._address = parts.netloc
        self._headers = dict(headers or {})
        self._ssl = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._kept = threading.local()

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection for many calls, for `over` of `call`; the caller closes it."""
        if self._ssl:
            return http.client.HTTPSConnection(self._address, timeout=DEADLINE_S, context=self._ssl)
        return http.client.HTTPConnection(self._address, timeout=DEADLINE_S)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        over: http.client.HTTPConnection | None = None,
    ) -> Any:
        """Return the decoded JSON answer, or its text. RestError from status 400 on."""
        headers = {**self._headers, "Content-Type": content_type, "Accept": accept}
        payload = None if body is None else json.dumps(body)
        request = (method, path, payload, headers)
        if over is None and method == "GET":
            status, decoded = self._read(request)
        elif over is None:
            with closing(self.connect()) as connection:
                status, decoded = _exchange(connection, request)
        else:
            status, decoded = _exchange(over, request)
        if status >= 400:
            raise RestError(f"{method} {path}", status, decoded)
        return decoded

    def _read(self, request: Request) -> tuple[int, Any]:
        """Read over the kept connection, once more if the server has closed it meanwhile."""
        kept: http.client.HTTPConnection | None = self._kept.__dict__.pop("connection", None)
        if kept is not None:
            try:
                return self._read_over(kept, request)
            except (http.client.HTTPException, ConnectionError):
                kept.close()
        return self._read_over(self.connect(), request)

    def _read_over(
        self, connection: http.client.HTTPConnection, request: Request
    ) -> tuple[int, Any]:
        try:
            answer = _exchange(connection, request)
        except OSError:
            connection.close()
            raise
        self._kept.connection = connection
        return answer


def _exchange(connection: http.client.HTTPConnection, request: Request) -> tuple[int, Any]:
    connection.request(*request)
    answer = connection.getresponse()
    return answer.status, _decode(answer.read())


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
