"""Kills the service at a chosen write: a proxy in front of both servers sees each one pass.

`SUNK_SYNC_POINTS=100` for as many writes and ways at random, or `all`; by default three.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.real.service import Service
from tests.real.tap import Tap, tapped_kubeconfig
from tests.real.testbed import Bed

WAYS = ("before", "sent", "after")
"""Before the request reaches the server, right after that, or after the answer, which the service
does not see."""
POINTS = os.environ.get("SUNK_SYNC_POINTS", "3")
MANY = POINTS != "3"
SEED = int(os.environ.get("SUNK_SYNC_SEED", str(random.randrange(10**6))))
Spoken = Callable[[str, str], str]
"""(method, path) → the write in words; empty: it is not counted."""


def points(writes: int) -> list[tuple[int, str]]:
    """Return the writes to strike, by number from 1, and the way."""
    print(f"SUNK_SYNC_SEED={SEED}")
    every = [(number, way) for number in range(1, writes + 1) for way in WAYS]
    number = len(every) if POINTS == "all" else min(int(POINTS), len(every))
    return random.Random(SEED).sample(every, number)


class Trap:
    """Kills the service at one write and restarts it; counts all writes."""

    def __init__(self, spoken: Spoken) -> None:
        self.service: Service
        self.number, self.way = 0, ""
        self.seen: list[str] = []
        self.struck = ""
        self._spoken = spoken
        self._lock = threading.Lock()
        self._fell = threading.Event()
        self.stop = threading.Event()

    def arm(self, number: int, way: str) -> None:
        with self._lock:
            self.number, self.way, self.seen, self.struck = number, way, [], ""

    def disarm(self) -> None:
        self.arm(10**6, WAYS[0])

    def hook(self, when: str, method: str, path: str) -> bool:
        what = self._spoken(method, path)
        if not what:
            return True
        with self._lock:
            if when == "before":
                self.seen.append(what)
            if self.struck or when != self.way or len(self.seen) < self.number:
                return True
            self.struck = what
        self.service.kill9()
        self._fell.set()
        return False

    def revive(self) -> None:
        """Restart the service each time. The thread must outlive the service (PDEATHSIG)."""
        while not self.stop.is_set():
            if self._fell.wait(0.05):
                self._fell.clear()
                self.service.start()


@contextmanager
def trapped(bed: Bed, trap: Trap) -> Iterator[dict[str, str]]:
    """Open the proxies; yield the flags with which the service uses them.

    It restarts `trap.service`, which the caller sets before the first kill.
    """
    kube = bed.kube
    with (
        Tap(kube.url, trap.hook, ca_file=kube.ca_file) as to_kube,
        Tap(bed.slurm.url, trap.hook) as to_slurm,
    ):
        reviver = threading.Thread(target=trap.revive, daemon=True)
        reviver.start()
        kubeconfig = str(tapped_kubeconfig(bed, to_kube))
        try:
            yield {"kubeconfig": kubeconfig, "slurm_api_base": to_slurm.url}
        finally:
            trap.stop.set()
