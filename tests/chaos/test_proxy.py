"""The proxy of chaos: what passes in each mode."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.chaos.proxy import Proxy

SHORT_S = 0.5
BUSY_S = 60.0
"""Wait so long for what happens at once on a quiet machine."""


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_PATCH = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    made.daemon_threads = True
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with Proxy([server], writer="a") as made:
        yield made


def connected(proxy: Proxy, *, timeout_s: float = BUSY_S) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=timeout_s)


def asked(over: http.client.HTTPConnection, method: str = "GET", path: str = "/x") -> bytes:
    over.request(method, path, b"body")
    return over.getresponse().read()


def until(claim: Callable[[], bool]) -> None:
    end_s = time.monotonic() + BUSY_S
    while not claim():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@contextlib.contextmanager
def held(proxy: Proxy) -> Iterator[None]:
    """Meanwhile the proxy looks at nothing, however fast it is."""
    begun, ended = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        ended.wait()

    proxy._loop.call_soon_threadsafe(hold)
    begun.wait()
    try:
        yield
    finally:
        ended.set()


def test_an_open_proxy_passes_requests_on_and_notes_writes(proxy: Proxy) -> None:
    over = connected(proxy)
    assert asked(over) == b"ok"
    assert asked(over, "PATCH", "/api/v1/nodes/n1") == b"ok"
    assert asked(over, "PATCH", "/namespaces/slurm/leases/x") == b"ok"
    (write,) = proxy.writes
    assert (write.writer, write.what) == ("a", "PATCH /api/v1/nodes/n1")


def test_a_cut_proxy_breaks_connections_and_refuses_new_ones(proxy: Proxy) -> None:
    over = connected(proxy)
    assert asked(over) == b"ok"
    proxy.set("cut")
    for one in (over, connected(proxy)):
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(one)
    proxy.set("open")
    assert asked(connected(proxy)) == b"ok"


def test_what_is_sent_to_a_frozen_proxy_never_arrives(proxy: Proxy) -> None:
    """As packets that are lost: a write must not arrive a minute later."""
    over = connected(proxy)
    assert asked(over) == b"ok"
    over.sock.settimeout(SHORT_S)
    proxy.set("frozen")
    for one in (over, connected(proxy, timeout_s=SHORT_S)):
        with pytest.raises(TimeoutError):
            asked(one, "POST")
    until(lambda: len(proxy.links) == 3)
    proxy.set("open")
    until(lambda: not proxy.links)
    assert proxy.writes == []
    assert asked(connected(proxy)) == b"ok"


def test_a_slow_proxy_is_late(proxy: Proxy) -> None:
    proxy.set("slow", delay_s=0.1)
    begun_s = time.monotonic()
    assert asked(connected(proxy)) == b"ok"
    assert time.monotonic() - begun_s > 0.15


def test_a_slow_proxy_sends_nothing_for_a_client_that_has_given_up(proxy: Proxy) -> None:
    """The deadline of a write is a promise: it must not arrive later."""
    over = connected(proxy)
    assert asked(over) == b"ok"
    proxy.set("slow", delay_s=SHORT_S)
    with held(proxy):
        over.request("POST", "/x", b"body")
        over.close()
    until(lambda: not proxy.links)
    assert proxy.writes == []


def test_of_several_servers_one_that_listens_is_used(server: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with Proxy([away, server]) as proxy:
            for _ in range(6):
                assert asked(connected(proxy)) == b"ok"
