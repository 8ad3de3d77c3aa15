"""From a cordon of a Node to slurmctld's answer to DRAIN, compared with a floor."""

import itertools
import random
import time
from collections.abc import Iterator
from http.client import HTTPConnection

from tests.bench.figures import Figure, beside_floor
from tests.bench.site import Site, floor, only, site
from tests.real.testbed.kube_api import MERGE_PATCH

HOSTS = 20
CYCLES = 200
BLOCK = 20
SETTLE_S = 1.0
"""Time after a stop, in which the service writes what it missed."""
PAUSE_S = (0.12, 0.25)
"""Random pause between two cordons, so that they do not follow the poll."""
LIMITS = {50: 1.5, 95: 2.0}


def cordon() -> Iterator[Figure]:
    """Cordon a Node, wait for the answered DRAIN: 200 cycles, in turns of 20 with the floor."""
    with site(HOSTS) as here, floor(here, "drain") as bare:
        names = itertools.cycle(here.hosts)
        kubectl = here.bed.kube.rest.connect()
        here.service.pause()
        bare.pause()
        ours_ms: list[float] = []
        floor_ms: list[float] = []
        for _ in range(CYCLES // BLOCK):
            for took_ms, process in ((floor_ms, bare), (ours_ms, here.service)):
                with only(process, after_s=SETTLE_S):
                    took_ms += [_cycle_ms(here, kubectl, next(names)) for _ in range(BLOCK)]
    yield from beside_floor("cordon → DRAIN answered", ours_ms, floor_ms, limits=LIMITS)
    yield Figure("cordons measured", len(ours_ms), "")


def _cycle_ms(here: Site, kubectl: HTTPConnection, name: str) -> float:
    """Measure from the PATCH to the answer; then undo both."""
    here.proxy.clear()
    begun_s = time.monotonic()
    _cordon(here, kubectl, name, unschedulable=True)
    seen = here.proxy.wait(lambda all_: any(one.drains for one in all_), f"{name} drained")
    took_s = next(one.answered_s for one in seen if one.drains) - begun_s
    _cordon(here, kubectl, name, unschedulable=False)
    here.proxy.wait(lambda all_: any(one.undrains for one in all_), f"{name} undrained")
    time.sleep(random.uniform(*PAUSE_S))
    return took_s * 1e3


def _cordon(here: Site, kubectl: HTTPConnection, name: str, *, unschedulable: bool) -> None:
    """Send the PATCH on an open connection; a new one would add its handshake."""
    patch = {"spec": {"unschedulable": unschedulable or None}}
    path = f"/api/v1/nodes/{name}"
    here.bed.kube.rest.call("PATCH", path, patch, content_type=MERGE_PATCH, over=kubectl)
