"""Requests to slurmrestd while many Pods wait and many are bound."""

import time
from collections.abc import Iterator

from tests.bench.figures import Figure
from tests.bench.pod_site import OURS, PodSite, pod_site
from tests.real.testbed import SlurmConf

HOSTS, CPUS = 50, 20
BOUND, WAITING = HOSTS * CPUS, 500
WATCHED_S = 30.0
SETTLE_S = 30.0
"""The last of 500 Pods shows why it waits after 25 s (20 a second, P26)."""
FILLED_S = 120.0
"""Time until all that fit are bound: seconds on a quiet machine."""
REQUESTS_MAX = 3.0
BYTES_PER_JOB, BYTES = 120, 30_000


def waiting() -> Iterator[Figure]:
    """Wait half a minute with 1,000 Pods bound and 500 waiting; nothing starts or ends."""
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS - 1, cpus=CPUS)
    with pod_site(conf, hooks=(), flags=["--placeholder", "external"]) as here:
        here.create(here.new_names(BOUND + WAITING, OURS), scheduler=OURS)
        bound = here.watch.first_s["bound"]
        here.watch.wait_until(
            lambda: len(bound) >= BOUND, lambda: f"{len(bound)} bound", deadline_s=FILLED_S
        )
        time.sleep(SETTLE_S)
        yield from _measure(here)


def _measure(here: PodSite) -> Iterator[Figure]:
    cpu_s = here.service.cpu_s()
    here.proxy.clear()
    begun_s = time.monotonic()
    time.sleep(WATCHED_S)
    spent_s = time.monotonic() - begun_s
    jobs = len(here.bed.slurm.rest.call("GET", here.bed.slurm.path("jobs/state/"))["jobs"])
    asked, passed = len(here.proxy.seen()), here.proxy.passed
    yield Figure("jobs that Slurm knows", jobs, "")
    yield Figure("requests to slurmrestd", asked / spent_s, "1/s", REQUESTS_MAX)
    yield Figure("bytes from and to it", passed / spent_s, "B/s", BYTES_PER_JOB * jobs + BYTES)
    yield Figure("our CPU", (here.service.cpu_s() - cpu_s) / spent_s * 100, "%")
