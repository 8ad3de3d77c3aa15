"""From the creation of a Pod to its binding, one by one on an idle cluster, and for the floor."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from tests.bench.figures import Figure, percentile
from tests.bench.running import Measured
from tests.bench.scheduled import FLOOR, OURS, Site, floor, scheduled
from tests.real.testbed import SlurmConf

HOSTS = 4
PODS = 200
BLOCK = 20
P50_MAX, P99_MAX = 1.7, 2.5
PAUSE_S = (0.05, 0.15)
"""Random pause between two Pods, so that they do not follow a poll."""


def pods() -> Iterator[Figure]:
    """Create a Pod, wait for its binding: 200 Pods, in turns with the floor, kind allocation."""
    took: dict[str, list[float]] = {OURS: [], FLOOR: []}
    with scheduled(SlurmConf(slurmds=HOSTS), flags=["--gate", "on"]) as here, ExitStack() as stack:
        bare = stack.enter_context(floor(here))
        numbers = itertools.count()
        bare.pause()
        for _ in range(PODS // BLOCK):
            took[FLOOR] += _floor_block(here, bare, numbers)
            took[OURS] += _block(here, OURS, numbers, _created_to_bound_ms)
            here.wait_no_jobs()
    for percent, most in ((50, P50_MAX), (99, P99_MAX)):
        own, floors = (percentile(took[who], percent) for who in (OURS, FLOOR))
        yield Figure(f"created → bound, p{percent}", own, "ms")
        yield Figure(f"the floor, p{percent}", floors, "ms")
        yield Figure(f"created → bound, p{percent}, of the floor", own / floors, "x", most)
    yield Figure("Pods measured", len(took[OURS]), "")


def _floor_block(here: Site, bare: Measured, numbers: Iterator[int]) -> list[float]:
    bare.resume()
    took = _block(here, FLOOR, numbers, _created_to_bound_ms)
    bare.pause()
    here.end_jobs(of=FLOOR)
    return took


def _block(
    here: Site, scheduler: str, numbers: Iterator[int], measure: Callable[[Site, str, str], float]
) -> list[float]:
    names = [f"{scheduler}-{next(numbers)}" for _ in range(BLOCK)]
    took = []
    for name in names:
        time.sleep(random.uniform(*PAUSE_S))
        took.append(measure(here, name, scheduler))
    here.delete(*names)
    return took


def _created_to_bound_ms(here: Site, name: str, scheduler: str) -> float:
    begun_s = here.create(name, scheduler=scheduler)
    return (here.watch.wait_bound([name]) - begun_s) * 1e3
