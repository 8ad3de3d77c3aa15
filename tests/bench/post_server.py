"""A small HTTP server, and one that releases every job, for the jobs of the floors."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

GO, GONE = b'{"action":"go"}\n', b'{"action":"gone"}\n'


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    """Hundreds of scripts can call at once."""


class PostServer:
    """Answers each POST. `answer`: path and body of a request → body of the answer."""

    def __init__(self, answer: Callable[[str, bytes], bytes], *, port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                with suppress(BrokenPipeError):  # the script was killed
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class ReleaseAll(PostServer):
    """A hooks server that releases every job and script at once; records when the gate asked."""

    def __init__(self) -> None:
        self.gates_s: list[float] = []
        super().__init__(self._release)

    def _release(self, path: str, _: bytes) -> bytes:
        if path == "/v1/gate":
            self.gates_s.append(time.monotonic())
        return GONE if path.endswith("/stopping") else GO
