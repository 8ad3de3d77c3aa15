"""What being seen adds to the service at work: status pages with scrapes, and traces of Pods."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import fmean

from tests.bench.figures import Figure
from tests.bench.life import STEPS, settled, step_s
from tests.bench.running import Running
from tests.bench.watched import LOOP_STEP_MAX_MS, PAGES, SHARE_MAX, open_pages

HOSTS, PODS, BOUND = 500, 6_000, 3_000
ROUNDS = 2
SCRAPE_EVERY_S = 5.0
"""Prometheus asks every 15 to 60 s."""
# Traces are off by default, so they have no limit.
ALONE, WATCHED, TRACED = "alone", f"{PAGES} status pages and scrapes", "traces of all Pods"


def seen() -> Iterator[Figure]:
    """Submit, bind and end 6,000 Pods on 500 hosts: alone, watched, and traced, in turns."""
    runs: dict[str, list[_Run]] = {ALONE: [], WATCHED: [], TRACED: []}
    for _ in range(ROUNDS):
        for name, found in runs.items():
            found.append(_run(name))
    alone_s = fmean(one.cpu_s for one in runs[ALONE])
    for name, found in runs.items():
        cpu_s = fmean(one.cpu_s for one in found)
        yield Figure(f"{name}: CPU", cpu_s, "s")
        if name != ALONE:
            most = 1 + SHARE_MAX if name == WATCHED else None
            yield Figure(f"{name}: CPU, of that alone", cpu_s / alone_s, "x", most)
        yield Figure(f"{name}: peak RSS", max(one.peak_mib for one in found), "MiB")
        longest_ms = max(one.longest_step_ms for one in found)
        yield Figure(f"{name}: longest step of the loop", longest_ms, "ms", LOOP_STEP_MAX_MS)


class _Run:
    def __init__(self, service: Running, *, since_s: float) -> None:
        self.cpu_s = service.cpu_s() - since_s
        self.peak_mib = service.peak_mib()
        self.longest_step_ms = service.longest_step_ms()


def _run(name: str) -> _Run:
    with ExitStack() as stack:
        traces = stack.enter_context(_collector()) if name == TRACED else ""
        flags = ("--traces-endpoint", traces) if traces else ()
        work = settled(HOSTS, pods=PODS, bound=BOUND, flags=flags)
        servers, service = stack.enter_context(work)
        since_s = service.cpu_s()
        with _watched(service) if name == WATCHED else nullcontext():
            for step in STEPS:
                step_s(servers, step)
            return _Run(service, since_s=since_s)


@contextmanager
def _watched(service: Running) -> Iterator[None]:
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(SCRAPE_EVERY_S):
            service.text_of_metrics()

    scraper = threading.Thread(target=scrape, daemon=True)
    with open_pages(service.address("operators")):
        scraper.start()
        yield
        ended.set()
        scraper.join()


class _Take(BaseHTTPRequestHandler):
    """Takes what comes, and decodes nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _collector() -> Iterator[str]:
    """A collector of traces; yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Take)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
