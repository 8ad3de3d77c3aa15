"""1,000 hosts cordoned at once with the real Slurm, compared with bare requests.

The bare requests use the same concurrency.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from sunk_sync.service.wiring import SLURM_LIMITS
from tests.bench.figures import Figure
from tests.bench.floors import Slurm
from tests.bench.proxy import Exchanged
from tests.bench.site import Site, site
from tests.real.testbed.kube_api import MERGE_PATCH

HOSTS = 1000
ROUNDS = 2
RATIO_MAX = 1.5
CORDONERS = 16
DEADLINE_S = 60.0


def burst() -> Iterator[Figure]:
    """The service sees all cordons at once; the bare requests are measured first."""
    with site(HOSTS, pods=False) as here:
        here.service.pause()
        bare_s = min(_bare_s(here) for _ in range(ROUNDS))
        here.service.resume()
        here.service.wait_idle()
        drained_s, requests = _ours_s(here)
    yield Figure(f"{HOSTS:,} Nodes cordoned at once, all drained", drained_s, "s")
    yield Figure("requests to slurmrestd meanwhile", requests, "")
    yield Figure(f"bare GET and POST of each, {SLURM_LIMITS.concurrency} at once", bare_s, "s")
    yield Figure("all drained, of the bare requests", drained_s / bare_s, "x", RATIO_MAX)


def _ours_s(here: Site) -> tuple[float, int]:
    """Return the time until all are drained, and the requests during it.

    The API server takes seconds for 1,000 cordons, so the service is stopped during them.
    """
    here.service.pause()
    _cordon_all(here)
    here.proxy.clear()
    begun_s = time.monotonic()
    here.service.resume()
    wanted = set(here.hosts)
    seen = here.proxy.wait(
        lambda all_: wanted <= _drained(all_), "all drained", deadline_s=DEADLINE_S
    )
    return max(one.answered_s for one in seen if one.drains) - begun_s, len(seen)


def _drained(seen: Sequence[Exchanged]) -> set[str]:
    return set().union(*(one.names for one in seen if one.drains))


def _bare_s(here: Site) -> float:
    """Send GET and POST for each node, with as many threads and connections as the service uses."""
    address, slurm = here.proxy.url.removeprefix("http://"), here.bed.slurm
    token = slurm.token()

    def drain(names: Sequence[str]) -> None:
        rest = Slurm(address, slurm.api_version, token)
        for name in names:
            rest.ask("GET", f"node/{name}")
            rest.ask("POST", f"node/{name}", {"state": ["DRAIN"], "reason": "bench: bare"})

    took_s = _in_parallel(drain, here.hosts, SLURM_LIMITS.concurrency)
    here.bed.slurm.update_slurm_node(f"x[1-{HOSTS}]", state=["UNDRAIN"], reason="bench: bare")
    return took_s


def _cordon_all(here: Site) -> None:
    rest, patch = here.bed.kube.rest, {"spec": {"unschedulable": True}}

    def cordon(names: Sequence[str]) -> None:
        connection = rest.connect()
        for name in names:
            path = f"/api/v1/nodes/{name}"
            rest.call("PATCH", path, patch, content_type=MERGE_PATCH, over=connection)
        connection.close()

    _in_parallel(cordon, here.hosts, CORDONERS)


def _in_parallel(act: Callable[[Sequence[str]], None], names: Sequence[str], threads: int) -> float:
    """Act on a share of the names in each thread; return the seconds."""
    begun_s = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(act, (names[nth::threads] for nth in range(threads))))
    return time.monotonic() - begun_s
