"""From the creation of a Pod to its binding, one by one on an idle cluster, and for the floor."""

from collections.abc import Iterator

from tests.bench.figures import Figure, beside_floor
from tests.bench.floors import FLOOR
from tests.bench.pod_site import OURS, PodSite, pod_site
from tests.bench.site import floor, only
from tests.real.testbed import SlurmConf

HOSTS = 4
PODS = 200
BLOCK = 20
LIMITS = {50: 1.7, 99: 2.5}
PAUSE_S = (0.05, 0.15)
"""Random pause between two Pods, so that they do not follow a poll."""


def pods() -> Iterator[Figure]:
    """Create a Pod, wait for its binding: 200 Pods, in turns with the floor, kind allocation."""
    ours_ms: list[float] = []
    floor_ms: list[float] = []
    conf = SlurmConf(slurmds=HOSTS)
    with pod_site(conf, flags=["--gate", "on"]) as here, floor(here, "bind") as bare:
        bare.pause()
        for _ in range(PODS // BLOCK):
            with only(bare):
                floor_ms += _block_ms(here, FLOOR)
            here.end_floor_jobs()
            ours_ms += _block_ms(here, OURS)
            here.wait_no_jobs()
    yield from beside_floor("created → bound", ours_ms, floor_ms, limits=LIMITS)
    yield Figure("Pods measured", len(ours_ms), "")


def _block_ms(here: PodSite, scheduler: str) -> list[float]:
    times = here.one_by_one(BLOCK, scheduler, pause_s=PAUSE_S)
    return [(bound_s - begun_s) * 1e3 for begun_s, bound_s in times]
