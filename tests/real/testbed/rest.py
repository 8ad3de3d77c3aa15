"""A small blocking JSON client for tests: a new connection for each call, no retries."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 30


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
        connection = over or self.connect()
        payload = None if body is None else json.dumps(body)
        headers = {**self._headers, "Content-Type": content_type, "Accept": accept}
        try:
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            decoded = _decode(answer.read())
        finally:
            if over is None:
                connection.close()
        if answer.status >= 400:
            raise RestError(f"{method} {path}", answer.status, decoded)
        return decoded


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
