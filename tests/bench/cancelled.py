"""From the cancellation of a job to the deletion of its Pod, by poll and by EpilogSlurmctld."""

import random
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, percentile
from tests.bench.floors import PODS
from tests.bench.pod_site import EPILOG, OURS, PodSite, pod_site
from tests.bench.running import BenchError
from tests.real.testbed import SlurmConf

HOSTS = 20
FEW, MANY = 20, 300
CANCELS = 20
"""Cancellations of each kind."""
LIMITS_MS = {"polled": 1200.0, "with the hook": 100.0}
GROWTH_MAX = 1.5
NOWHERE = "http://127.0.0.1:1"
"""No server listens there: the hook fails, and the poll has to notice the end."""
PAUSE_S = (0.3, 1.1)


def cancelled() -> Iterator[Figure]:
    """Cancel jobs one after another, with 20 Pods bound and with 300."""
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS)
    took: dict[tuple[str, int], float] = {}
    with pod_site(conf, hooks=(EPILOG,), flags=["--placeholder", "external"]) as here:
        bound: list[str] = []
        for count in (FEW, MANY):
            for how, limit_ms in LIMITS_MS.items():
                here.point_gate(NOWHERE if how == "polled" else here.hooks.url)
                bound += _fill(here, count - len(bound))
                times = [_cancel_ms(here, bound.pop(0)) for _ in range(CANCELS)]
                took[how, count] = percentile(times, 50)
                what = f"cancelled → being deleted, {how}, {count} bound"
                yield Figure(f"{what}, p50", took[how, count], "ms")
                yield Figure(f"{what}, p99", percentile(times, 99), "ms", limit_ms)
    for how in LIMITS_MS:
        growth = took[how, MANY] / took[how, FEW]
        yield Figure(f"{how}, p50 with {MANY} bound, of {FEW}", growth, "x", GROWTH_MAX)


def _fill(here: PodSite, count: int) -> list[str]:
    """Create and bind this many more Pods."""
    names = here.new_names(count, OURS)
    here.create(names, scheduler=OURS)
    here.watch.wait("bound", names)
    time.sleep(3.0)
    return names


def _cancel_ms(here: PodSite, name: str) -> float:
    """Measure from the request to slurmrestd until the deletionTimestamp appears."""
    time.sleep(random.uniform(*PAUSE_S))
    pod = here.bed.kube.rest.call("GET", f"{PODS}/{name}")
    job_id = pod["metadata"]["annotations"]["sunk.coreweave.com/job-id"]
    begun_s = time.monotonic()
    here.bed.slurm.rest.call("DELETE", here.bed.slurm.path(f"job/{job_id}"))
    took_s = here.watch.wait("deleting", [name], deadline_s=20)[name] - begun_s
    if took_s < 0:
        raise BenchError(f"{name} is being deleted already")
    return took_s * 1e3
