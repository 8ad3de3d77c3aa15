"""From the cancellation of a job to the deletion of its Pod, by poll and by EpilogSlurmctld."""

import itertools
import random
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, percentile
from tests.bench.running import BenchError
from tests.bench.scheduled import GATE_LINES, OURS, PODS, Site, scheduled
from tests.real.testbed import SlurmConf

HOSTS = 20
FEW, MANY = 20, 300
CANCELS = 20
"""Cancellations of each kind."""
POLLED_MAX_MS, HOOKED_MAX_MS = 1200.0, 100.0
GROWTH_MAX = 1.5
NOWHERE = "http://127.0.0.1:1"
"""No server listens there: the hook fails, and the poll has to notice the end."""
PAUSE_S = (0.3, 1.1)


def cancelled() -> Iterator[Figure]:
    """Cancel jobs one after another, with 20 Pods bound and with 300."""
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS)
    flags = ["--placeholder", "external"]
    took: dict[tuple[str, int], float] = {}
    with scheduled(conf, hooks=GATE_LINES[1:], flags=flags) as here:
        bound: list[str] = []
        numbers = itertools.count()
        for count in (FEW, MANY):
            for how, url in (("polled", NOWHERE), ("with the hook", here.hooks.url)):
                here.point_gate(url)
                bound += _fill(here, count - len(bound), numbers)
                times = [_cancel_ms(here, bound.pop(0)) for _ in range(CANCELS)]
                took[how, count] = percentile(times, 50)
                most = POLLED_MAX_MS if how == "polled" else HOOKED_MAX_MS
                what = f"cancelled → being deleted, {how}, {count} bound"
                yield Figure(f"{what}, p50", took[how, count], "ms")
                yield Figure(f"{what}, p99", percentile(times, 99), "ms", most)
    for how in ("polled", "with the hook"):
        growth = took[how, MANY] / took[how, FEW]
        yield Figure(f"{how}, p50 with {MANY} bound, of {FEW}", growth, "x", GROWTH_MAX)


def _fill(here: Site, count: int, numbers: Iterator[int]) -> list[str]:
    """Create and bind this many more Pods."""
    names = [f"{OURS}-{next(numbers)}" for _ in range(count)]
    here.create_all(names)
    here.watch.wait_bound(names)
    time.sleep(3.0)
    return names


def _cancel_ms(here: Site, name: str) -> float:
    """Measure from the request to slurmrestd until the deletionTimestamp appears."""
    time.sleep(random.uniform(*PAUSE_S))
    pod = here.bed.kube.rest.call("GET", f"{PODS}/{name}")
    job_id = pod["metadata"]["annotations"]["sunk.coreweave.com/job-id"]
    begun_s = time.monotonic()
    here.bed.slurm.rest.call("DELETE", here.bed.slurm.path(f"job/{job_id}"))
    here.watch.wait(lambda: name in here.watch.deleting, f"{name} being deleted", deadline_s=20)
    took_s = here.watch.deleting[name] - begun_s
    if took_s < 0:
        raise BenchError(f"{name} is being deleted already")
    return took_s * 1e3
