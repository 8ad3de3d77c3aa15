"""1,000 hosts cordoned at once with the real Slurm, compared with plain requests.

The plain requests use the same concurrency.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from sunk_sync.service.wiring import SLURM_LIMITS
from tests.bench.figures import Figure
from tests.bench.proxy import Exchanged
from tests.bench.real import Site, site
from tests.real.testbed.kube_api import MERGE_PATCH

HOSTS = 1000
ROUNDS = 2
RATIO_MAX = 1.5
CORDONERS = 16
DEADLINE_S = 60.0


def burst() -> Iterator[Figure]:
    """The service sees all cordons at once; the plain requests are measured first."""
    with site(HOSTS, pods=False) as here:
        here.service.pause()
        bare_s = min(_bare_s(here, here.hosts) for _ in range(ROUNDS))
        here.service.resume()
        here.service.wait_for_rest()
        drained_s, requests = _ours_s(here, here.hosts)
    yield Figure(f"{HOSTS:,} Nodes cordoned at once, all drained", drained_s, "s")
    yield Figure("requests to slurmrestd meanwhile", requests, "")
    yield Figure(f"bare GET and POST of each, {SLURM_LIMITS.concurrency} at once", bare_s, "s")
    yield Figure("all drained, of the bare requests", drained_s / bare_s, "x", RATIO_MAX)


def _ours_s(here: Site, names: Sequence[str]) -> tuple[float, int]:
    """Return the time until all are drained, and the requests during it.

    The API server takes seconds for 1,000 cordons, so the service is stopped during them.
    """
    here.service.pause()
    _cordon_all(here, names)
    here.proxy.clear()
    begun_s = time.monotonic()
    here.service.resume()
    wanted = set(names)
    seen = here.proxy.wait(
        lambda all_: wanted <= _drained(all_), "all drained", deadline_s=DEADLINE_S
    )
    return max(one.answered_s for one in seen if one.drains) - begun_s, len(seen)


def _drained(seen: Sequence[Exchanged]) -> set[str]:
    """Return the nodes whose DRAIN was answered."""
    return set().union(*(one.names for one in seen if one.drains))


def _bare_s(here: Site, names: Sequence[str]) -> float:
    """Send GET and POST for each node, with as many threads and connections as the service uses."""
    token = here.bed.slurm.token()
    headers = {"Content-Type": "application/json", "X-SLURM-USER-TOKEN": token}
    body = json.dumps({"state": ["DRAIN"], "reason": "bench: bare"})

    def drain(some: Sequence[str]) -> None:
        rest = http.client.HTTPConnection(here.proxy.url.removeprefix("http://"))
        for name in some:
            path = here.bed.slurm.path(f"node/{name}")
            rest.request("GET", path, headers=headers)
            json.loads(rest.getresponse().read())
            rest.request("POST", path, body, headers)
            json.loads(rest.getresponse().read())
        rest.close()

    took_s = _side_by_side(drain, names, SLURM_LIMITS.concurrency)
    here.bed.slurm.update_slurm_node(f"x[1-{HOSTS}]", state=["UNDRAIN"], reason="bench: bare")
    return took_s


def _cordon_all(here: Site, names: Sequence[str]) -> None:
    patch = {"spec": {"unschedulable": True}}

    def cordon(some: Sequence[str]) -> None:
        rest = here.bed.kube.rest
        connection = rest.connect()
        for name in some:
            path = f"/api/v1/nodes/{name}"
            rest.call("PATCH", path, patch, content_type=MERGE_PATCH, over=connection)
        connection.close()

    _side_by_side(cordon, names, CORDONERS)


def _side_by_side(
    workload: Callable[[Sequence[str]], None], names: Sequence[str], work_queues: int
) -> float:
    begun_s = time.monotonic()
    with ThreadPoolExecutor(work_queues) as threads:
        list(
            threads.map(
                workload, [names[work_queue::work_queues] for work_queue in range(work_queues)]
            )
        )
    return time.monotonic() - begun_s
