"""A hooks server that has nothing against anything: for the jobs of floors."""

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

GO, GONE = b'{"action":"go"}\n', b'{"action":"gone"}\n'


class OpenDoor:
    """Lets every job through, and its script end, at once; notes when the gate was asked."""

    def __init__(self) -> None:
        self.gates_s: list[float] = []
        door = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if self.path == "/v1/gate":
                    door.gates_s.append(time.monotonic())
                self.rfile.read(int(self.headers["Content-Length"]))
                told = GONE if self.path.endswith("/stopping") else GO
                with suppress(BrokenPipeError):  # the script was killed meanwhile
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
    """Hundreds of scripts may call in one moment."""
