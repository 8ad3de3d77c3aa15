"""Many identical Pods at once on EXTERNAL hosts, beside a straight script that does the same."""

from collections.abc import Iterator, Mapping

from tests.bench.figures import Figure
from tests.bench.scheduled import FLOOR, OURS, Site, floor, scheduled
from tests.real.testbed import SlurmConf

HOSTS = 62
"""Of 16 CPUs each, one more with a slurmd: room for 1,008 Pods."""
COUNTS = (300,)
LANES = (4, 8)
"""Submissions at once of the floor: the better one counts."""
RATIO_MAX = 1.25
REQUESTS_MAX, BYTES_MAX = 3.0, 30_000.0
DEADLINE_S = 240.0


def flood() -> Iterator[Figure]:
    """Kind external, 26.05; first create to last bound, and what it costs slurmrestd."""
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS)
    with scheduled(conf, hooks=(), flags=["--placeholder", "external"]) as here:
        for count in COUNTS:
            floors = {lanes: _floor_s(here, count, lanes) for lanes in LANES}
            yield from _ours(here, count, floors)


def _ours(here: Site, count: int, floors: Mapping[int, float]) -> Iterator[Figure]:
    cpu_s = here.service.cpu_s()
    here.rest.clear()
    spent_s = _flood_s(here, count, OURS)
    seen, passed, cpu_s = here.rest.seen(), here.rest.passed, here.service.cpu_s() - cpu_s
    _clear(here, count, OURS)
    here.wait_no_jobs()
    yield Figure(f"{count:,} Pods at once, all bound", spent_s, "s")
    for lanes, floor_s in floors.items():
        yield Figure(f"the floor, {lanes} submissions at once", floor_s, "s")
    best_s = min(floors.values())
    yield Figure(f"{count:,} Pods, all bound, of the floor", spent_s / best_s, "x", RATIO_MAX)
    yield Figure("requests to slurmrestd for each", len(seen) / count, "", REQUESTS_MAX)
    yield Figure("bytes from and to slurmrestd for each", passed / count, "B", BYTES_MAX)
    yield Figure("our CPU for each", cpu_s / count * 1e3, "ms")
    for name in ("job/submit", "jobs/state", "GET"):
        asked = [one for one in seen if name.encode() in one.request[:60]]
        waited_s = sum(one.answered_s - one.asked_s for one in asked)
        yield Figure(f"of them {name}", len(asked), "")
        yield Figure(f"waiting for {name}, all together", waited_s, "s")


def _floor_s(here: Site, count: int, lanes: int) -> float:
    with floor(here, str(lanes), module="flood_floor"):
        spent_s = _flood_s(here, count, FLOOR)
        _clear(here, count, FLOOR)
    here.end_jobs(of=FLOOR)
    return spent_s


def _flood_s(here: Site, count: int, scheduler: str) -> float:
    """From the first create to the last Pod bound."""
    here.watch.clear()
    names = _names(count, scheduler)
    begun_s = here.create_all(names, scheduler=scheduler)
    return here.watch.wait_bound(names, deadline_s=DEADLINE_S) - begun_s


def _clear(here: Site, count: int, scheduler: str) -> None:
    here.delete(*_names(count, scheduler))


def _names(count: int, scheduler: str) -> list[str]:
    return [f"{scheduler}-{number}" for number in range(count)]
