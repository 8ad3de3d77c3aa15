"""A hooks server that releases every job, for the jobs of the floors."""

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

GO, GONE = b'{"action":"go"}\n', b'{"action":"gone"}\n'


class ReleaseAll:
    """Releases every job and script at once; records when the gate asked."""

    def __init__(self) -> None:
        self.gates_s: list[float] = []
        server = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if self.path == "/v1/gate":
                    server.gates_s.append(time.monotonic())
                self.rfile.read(int(self.headers["Content-Length"]))
                told = GONE if self.path.endswith("/stopping") else GO
                with suppress(BrokenPipeError):  # the script was killed
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(told)))
                    self.end_headers()
                    self.wfile.write(told)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                del format, args

        self._server = _Server(("127.0.0.1", 0), Answer)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    """Hundreds of scripts may call at once."""
