"""Many identical Pods at once on EXTERNAL hosts, compared with a floor.

kube-scheduler is measured last, with the same Pods on the same Nodes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.figures import Figure, percentile
from tests.bench.floors import FLOOR
from tests.bench.pod_site import OURS, PodSite, pod_site
from tests.bench.proxy import Exchanged
from tests.bench.running import BenchError, Measured
from tests.bench.site import floor
from tests.real.testbed import SlurmConf

CONF = SlurmConf(slurmds=1, external_nodes=49, cpus=20, extra_lines=("MinJobAge=2",))
"""50 hosts with room for 1,000 Pods. Slurm forgets ended jobs soon, so floods do not interact."""
KUBE = "default-scheduler"
ROUNDS = {300: 3, 1000: 1}
"""Number of Pods → rounds. The median counts, since Slurm's tick of a second matters for few Pods.
"""
SUBMISSIONS = (4, 8)
"""Concurrent submissions of the floor; the better result counts."""
RATIO_MAX = 1.25
REQUESTS_MAX, BYTES_MAX = 3.0, 30_000.0
DEADLINE_S = 90.0
FORGOTTEN_S = 60.0


@dataclass(frozen=True)
class Flood:
    """Seconds since the first create, and the cost for slurmrestd."""

    bound_s: float
    """Until the last Pod is bound."""
    created_s: float
    submitted_s: float
    read_s: float
    """Until the last response about where a job runs."""
    requests: int
    passed: int
    """Bytes in both directions."""
    cpu_s: float


def flood() -> Iterator[Figure]:
    """Create many Pods at once: kind external, 50 hosts; time to the last binding, and load."""
    with pod_site(CONF, hooks=(), flags=["--placeholder", "external"]) as here:
        for count, rounds in ROUNDS.items():
            yield from floods_beside_floor(here, count, rounds)
        here.bed.kube.start_scheduler()
        _flood(here, 1, KUBE)
        for count in ROUNDS:
            bound_s = _flood(here, count, KUBE).bound_s
            yield Figure(f"kube-scheduler, {count:,} of the same Pods", bound_s, "s")


def floods_beside_floor(here: PodSite, count: int, rounds: int, *script: str) -> Iterator[Figure]:
    """Compare with the floor, whose jobs run this script as arrays, or are EXTERNAL without one."""
    ours: list[Flood] = []
    floors: dict[int, list[Flood]] = {submissions: [] for submissions in SUBMISSIONS}
    for _ in range(rounds):
        for submissions, floods in floors.items():
            with floor(here, "flood", str(submissions), *script) as bare:
                floods.append(_flood(here, count, FLOOR, by=bare))
            here.end_floor_jobs()
        _wait_forgotten(here)
        ours.append(_of_ours(here, count))
    best = min(floors, key=lambda submissions: _median_s(floors[submissions]))
    yield from _times(f"{count:,} Pods", ours)
    yield from _times(f"{count:,}, the floor, {best} submissions at once", floors[best])
    ratio = _median_s(ours) / _median_s(floors[best])
    yield Figure(f"{count:,} Pods, all bound, of the floor", ratio, "x", RATIO_MAX)
    requests, passed = (max(one.requests for one in ours), max(one.passed for one in ours))
    yield Figure(f"{count:,}: requests to slurmrestd for each", requests / count, "", REQUESTS_MAX)
    yield Figure(f"{count:,}: bytes from and to it for each", passed / count, "B", BYTES_MAX)
    yield Figure(f"{count:,}: our CPU for each", ours[-1].cpu_s / count * 1e3, "ms")


def _times(who: str, floods: Sequence[Flood]) -> Iterator[Figure]:
    usual = next(one for one in floods if one.bound_s == _median_s(floods))
    yield Figure(f"{who}: all created", usual.created_s, "s")
    yield Figure(f"{who}: all submitted", usual.submitted_s, "s")
    yield Figure(f"{who}: read where all run", usual.read_s, "s")
    yield Figure(f"{who}: all bound", usual.bound_s, "s")


def _median_s(floods: Sequence[Flood]) -> float:
    return percentile([one.bound_s for one in floods], 50)


def _of_ours(here: PodSite, count: int) -> Flood:
    """Run after a single Pod, so that the service has seen the end of all others."""
    for number in (1, count):
        flooded = _flood(here, number, OURS, by=here.service)
        here.wait_no_jobs()
    return flooded


def _flood(here: PodSite, count: int, scheduler: str, *, by: Measured | None = None) -> Flood:
    """Create this many Pods at once; wait until all are bound, then remove them."""
    here.watch.clear()
    here.proxy.clear()
    cpu_s = here.service.cpu_s()
    names = here.new_names(count, scheduler)
    begun_s = here.create(names, scheduler=scheduler)
    created_s = time.monotonic()
    bound_s = here.watch.wait("bound", names, deadline_s=DEADLINE_S, by=by)
    seen = here.proxy.seen()
    flooded = Flood(
        bound_s=max(bound_s.values()) - begun_s,
        created_s=created_s - begun_s,
        submitted_s=_last_s(seen, begun_s, b"job/submit"),
        read_s=_last_s(seen, begun_s, b"?flags=ALL"),
        requests=len(seen),
        passed=here.proxy.passed,
        cpu_s=here.service.cpu_s() - cpu_s,
    )
    here.delete(*names)
    return flooded


def _last_s(seen: Sequence[Exchanged], begun_s: float, text: bytes) -> float:
    """Return when the last request with this text in its first line was answered."""
    found = (one.answered_s for one in seen if text in one.request.partition(b"\r\n")[0])
    return max(found, default=begun_s) - begun_s


def _wait_forgotten(here: PodSite) -> None:
    """Wait until Slurm knows no job any more."""
    by = time.monotonic() + FORGOTTEN_S
    path = here.bed.slurm.path("jobs/state/")
    while here.bed.slurm.rest.call("GET", path)["jobs"]:
        if time.monotonic() > by:
            raise BenchError("Slurm does not forget the jobs of the previous flood")
        time.sleep(0.5)
