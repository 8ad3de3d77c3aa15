"""What it costs to be seen: the history, open status pages, and scrapes, with 5,000 hosts."""

import contextlib
import http.client
import threading
import time
import tracemalloc
from collections.abc import Iterator

from sunk_sync.controller.history import KEPT, KEYS_MAX, History
from sunk_sync.core.model.actions import Drain
from sunk_sync.core.model.keys import Key, host_key
from sunk_sync.core.model.outcomes import Done
from tests.bench.event import event
from tests.bench.figures import Figure
from tests.bench.life import settled, step_s
from tests.bench.running import Running

HOSTS, PODS = 5_000, 2_000
PAGES = 3
SECONDS = 30.0
SCRAPES = 20
SHARE_MAX = 0.10
"""Of the work without it."""
LOOP_STEP_MAX_MS = 20.0


def watched() -> Iterator[Figure]:
    """5,000 hosts and 2,000 bound Pods at rest: what history, status pages and scrapes cost."""
    yield from _history()
    with settled(HOSTS, pods=PODS, bound=PODS) as (servers, service):
        for step in ("submit", "bind"):
            step_s(servers, step)
        service.wait_idle()
        yield from _pages(service)
        yield from _scrapes(service)
        yield Figure("longest recent step of the loop", service.longest_step_ms(), "ms")


def _history() -> Iterator[Figure]:
    """Note a decision and an answer of each host ten times, which fills the history."""
    keys = [host_key(f"host-{number:05d}") for number in range(KEYS_MAX)]
    outcomes = [Done(Drain(name, "k8s: node cordoned")) for _, name in keys]
    history = History()
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    _fill(history, keys, outcomes)
    held = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    begun_s = time.process_time()
    _fill(history, keys, outcomes)
    spent_us = (time.process_time() - begun_s) / (KEPT * KEYS_MAX) * 1e6
    whole_us = next(one.value for one in event() if "cordoned" in one.what)
    yield Figure("history: a new decision and its answer", spent_us, "µs")
    yield Figure("history: share of an event that changes a decision", spent_us / whole_us, "x")
    yield Figure(f"history: memory of {KEYS_MAX:,} keys", held / 2**20, "MiB")


def _fill(history: History, keys: list[Key], outcomes: list[Done]) -> None:
    for turn in range(KEPT):
        because = f"k8s: node cordoned {turn}"
        for key, outcome in zip(keys, outcomes, strict=True):
            history.decided(key, because, now=float(turn))
            history.answered(key, outcome, now=float(turn))


def _pages(service: Running) -> Iterator[Figure]:
    alone = _share(service)
    with open_pages(service.address("operators")) as pages:
        time.sleep(2)
        before = sum(page.received for page in pages)
        seen = _share(service)
        received = sum(page.received for page in pages) - before
    yield Figure("CPU at rest", 100 * alone, "%")
    yield Figure(f"CPU with {PAGES} status pages open", 100 * seen, "%")
    yield Figure("first event of a page", max(page.first_s for page in pages), "s")
    a_minute = received / PAGES / SECONDS * 60
    yield Figure("a page at rest, a minute", a_minute / 1024, "KiB")


def _scrapes(service: Running) -> Iterator[Figure]:
    spent_s = service.cpu_s()
    for _ in range(SCRAPES):
        service.text_of_metrics()
    spent_s = service.cpu_s() - spent_s
    yield Figure("CPU of a scrape", spent_s / SCRAPES * 1e3, "ms", LOOP_STEP_MAX_MS)


def _share(service: Running) -> float:
    """Return the CPU that the service uses, 1: a core."""
    spent_s = service.cpu_s()
    time.sleep(SECONDS)
    return (service.cpu_s() - spent_s) / SECONDS


class _Page:
    """Reads the events of a status page in a thread."""

    def __init__(self, address: str) -> None:
        self.received = 0
        self.first_s = 0.0
        self._connection = http.client.HTTPConnection(address, timeout=30)
        self._begun_s = time.monotonic()
        self._connection.request("GET", "/v1/live")
        self._answer = self._connection.getresponse()
        self._closed = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closed and (line := self._answer.readline()):
            self.received += len(line)
            if line == b"\n" and not self.first_s:
                self.first_s = time.monotonic() - self._begun_s
        self._connection.close()

    def close(self) -> None:
        """Stop at the next event, which comes within a second."""
        self._closed = True
        self._thread.join()


@contextlib.contextmanager
def open_pages(address: str) -> Iterator[list[_Page]]:
    pages = [_Page(address) for _ in range(PAGES)]
    try:
        yield pages
    finally:
        for page in pages:
            page.close()
