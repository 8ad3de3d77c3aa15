"""Many identical Pods at once on EXTERNAL hosts, compared with a simple script.

kube-scheduler is measured last, with the same Pods on the same Nodes.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.figures import Figure, median
from tests.bench.proxy import Exchanged
from tests.bench.running import BenchError, Measured
from tests.bench.scheduled import FLOOR, OURS, Site, floor, scheduled
from tests.real.testbed import SlurmConf

CONF = SlurmConf(slurmds=1, external_nodes=49, cpus=20, extra_lines=("MinJobAge=2",))
"""50 hosts with room for 1,000 Pods. Slurm forgets ended jobs soon, so floods do not interact."""
KUBE = "default-scheduler"
ROUNDS = {300: 3, 1000: 1}
"""Number of Pods → rounds. The median counts, since Slurm's tick of a second matters for few Pods.
"""
LANES = (4, 8)
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
    with scheduled(CONF, hooks=(), flags=["--placeholder", "external"]) as here:
        for count, rounds in ROUNDS.items():
            yield from beside_floor(here, count, rounds)
        here.bed.kube.start_scheduler()
        _flood(here, 1, KUBE)
        for count in ROUNDS:
            bound_s = _flood(here, count, KUBE).bound_s
            yield Figure(f"kube-scheduler, {count:,} of the same Pods", bound_s, "s")


def beside_floor(here: Site, count: int, rounds: int, *script: str) -> Iterator[Figure]:
    """Compare with the floor, whose jobs run this script as arrays, or are EXTERNAL without one."""
    ours: list[Flood] = []
    floors: dict[int, list[Flood]] = {work_queues: [] for work_queues in LANES}
    for _ in range(rounds):
        for work_queues, those in floors.items():
            those.append(_of_floor(here, count, str(work_queues), *script))
        _wait_forgotten(here)
        ours.append(_of_ours(here, count))
    best = min(floors, key=lambda work_queues: _median_s(floors[work_queues]))
    yield from _told(f"{count:,} Pods", ours)
    yield from _told(f"{count:,}, the floor, {best} submissions at once", floors[best])
    ratio = _median_s(ours) / _median_s(floors[best])
    yield Figure(f"{count:,} Pods, all bound, of the floor", ratio, "x", RATIO_MAX)
    requests, passed = (max(one.requests for one in ours), max(one.passed for one in ours))
    yield Figure(f"{count:,}: requests to slurmrestd for each", requests / count, "", REQUESTS_MAX)
    yield Figure(f"{count:,}: bytes from and to it for each", passed / count, "B", BYTES_MAX)
    yield Figure(f"{count:,}: our CPU for each", ours[-1].cpu_s / count * 1e3, "ms")


def _told(who: str, floods: list[Flood]) -> Iterator[Figure]:
    """Describe the median run."""
    usual = next(one for one in floods if one.bound_s == _median_s(floods))
    yield Figure(f"{who}: all created", usual.created_s, "s")
    yield Figure(f"{who}: all submitted", usual.submitted_s, "s")
    yield Figure(f"{who}: read where all run", usual.read_s, "s")
    yield Figure(f"{who}: all bound", usual.bound_s, "s")


def _median_s(floods: list[Flood]) -> float:
    return median([one.bound_s for one in floods])


def _of_floor(here: Site, count: int, *argv: str) -> Flood:
    with floor(here, *argv, module="flood_floor") as bare:
        seen = _flood(here, count, FLOOR, by=bare)
    here.end_jobs(of=FLOOR)
    return seen


def _of_ours(here: Site, count: int) -> Flood:
    """Run after a single Pod, so that the service has seen the end of all others."""
    _flood(here, 1, OURS, by=here.service)
    here.wait_no_jobs()
    seen = _flood(here, count, OURS, by=here.service)
    here.wait_no_jobs()
    return seen


def _flood(here: Site, count: int, scheduler: str, *, by: Measured | None = None) -> Flood:
    """Create this many Pods at once; wait until all are bound, then remove them."""
    here.watch.clear()
    here.rest.clear()
    cpu_s = here.service.cpu_s()
    names = [f"{scheduler}-{number}" for number in range(count)]
    begun_s = here.create_all(names, scheduler=scheduler)
    created_s = time.monotonic()
    bound_s = here.watch.wait_bound(names, deadline_s=DEADLINE_S, by=by)
    seen = here.rest.seen()
    flooded = Flood(
        bound_s=bound_s - begun_s,
        created_s=created_s - begun_s,
        submitted_s=_last_s(seen, begun_s, b"job/submit"),
        read_s=_last_s(seen, begun_s, b"?flags=ALL"),
        requests=len(seen),
        passed=here.rest.passed,
        cpu_s=here.service.cpu_s() - cpu_s,
    )
    here.delete(*names)
    return flooded


def _last_s(seen: list[Exchanged], begun_s: float, *words: bytes) -> float:
    """Return when the last request with one of these words in its first line was answered."""
    told = [one.answered_s for one in seen if _is_about(one, words)]
    return max(told, default=begun_s) - begun_s


def _is_about(one: Exchanged, words: tuple[bytes, ...]) -> bool:
    line = one.request.partition(b"\r\n")[0]
    return any(word in line for word in words)


def _wait_forgotten(here: Site) -> None:
    """Wait until Slurm knows no job any more."""
    by = time.monotonic() + FORGOTTEN_S
    path = here.bed.slurm.path("jobs/state/")
    while here.bed.slurm.rest.call("GET", path)["jobs"]:
        if time.monotonic() > by:
            raise BenchError("Slurm does not forget the jobs of the previous flood")
        time.sleep(0.5)
