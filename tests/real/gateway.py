"""An HTTP proxy in front of slurmrestd, which answers 502 when slurmrestd does not.

It opens a connection for each request, so that the next one notices the end of slurmrestd.
"""

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from tests.real.testbed.closing import Closing

BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head></html>"
UPSTREAM_S = 30
HOPELESS = (OSError, http.client.HTTPException)

Loss = Literal["", "request", "answer"]
Lose = Callable[[str, str], Loss]
"""(Method, path without query) → what the proxy loses."""


class Gateway(Closing):
    """Runs in threads of its own and listens at `url`; it answers 502 for what it loses."""

    def __init__(self, server_url: str) -> None:
        self.lose: Lose = lambda _method, _path: ""
        self._upstream = urlsplit(server_url).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass_on()

            do_POST = do_DELETE = do_GET  # noqa: N815 - the names that http.server looks for

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, kind, answer = gateway.answer(
                    self.command, self.path, dict(self.headers), body
                )
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        loss = self.lose(method, path.partition("?")[0])
        upstream = http.client.HTTPConnection(self._upstream, timeout=UPSTREAM_S)
        try:
            if loss != "request":
                upstream.request(method, path, body or None, headers)
                found = upstream.getresponse()
                answer = found.read()
                if loss != "answer":
                    kind = found.headers.get("Content-Type", "application/json")
                    return found.status, kind, answer
        except HOPELESS:
            pass
        finally:
            upstream.close()
        return 502, "text/html", BAD_GATEWAY

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
