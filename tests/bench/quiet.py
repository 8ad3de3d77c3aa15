"""Requests and writes of the service in a cluster where nothing happens."""

import time
from collections.abc import Iterator
from dataclasses import replace

from tests.bench.figures import Figure
from tests.bench.proxy import Exchanged
from tests.bench.running import Running
from tests.bench.site import Site, site

HOSTS = 99
WATCHED_S = 60.0
REQUESTS_PER_S_MAX = 1.0
POLL_SHARE_MAX = 0.2


def quiet() -> Iterator[Figure]:
    """100 hosts on real servers, nothing changes for a minute: syncer, then with the scheduler."""
    yield from _watched("--components=syncer")
    for figure in _watched("--components=syncer,scheduler"):
        limit = None if figure.unit == "1/s" else figure.limit
        yield replace(figure, what=f"with the scheduler: {figure.what}", limit=limit)


def _watched(components: str) -> Iterator[Figure]:
    with site(HOSTS, flags=(components,)) as here:
        versions = _versions(here)
        here.proxy.clear()
        yield from watch_quiet(here.service)
        seen = here.proxy.seen()
        now = _versions(here)
    posts = sum(one.writes for one in seen)
    yield Figure("requests as the proxy saw them", _per_s(seen), "1/s", REQUESTS_PER_S_MAX)
    yield Figure("writes to Slurm as the proxy saw them", posts, "", 0)
    changed = sum(now.get(name) != version for name, version in versions.items())
    yield Figure("Nodes and slurmd Pods rewritten", changed, "", 0)


def watch_quiet(service: Running) -> Iterator[Figure]:
    """Yield what the service counts during a minute."""
    before, begun_s, cpu_s = service.metrics(), time.monotonic(), service.cpu_s()
    time.sleep(WATCHED_S)
    after, spent_s = service.metrics(), time.monotonic() - begun_s

    def grown(name: str, **labels: str) -> float:
        return after.total(name, **labels) - before.total(name, **labels)

    asked = (grown("rest_client_requests_total", host="slurm") - 1) / spent_s  # fence posts
    waited = grown("rest_client_request_duration_seconds_sum", host="slurm") / spent_s
    yield Figure("requests to slurmrestd", asked, "1/s", REQUESTS_PER_S_MAX)
    yield Figure("share of the time waiting on a poll", waited, "", POLL_SHARE_MAX)
    yield Figure("writes to either side", grown("sunk_sync_writes_total"), "", 0)
    yield Figure("our CPU", (service.cpu_s() - cpu_s) / spent_s * 100, "%")


def _per_s(seen: list[Exchanged]) -> float:
    """Return the rate from first to last; the edges of a window would count one too many."""
    return (len(seen) - 1) / (seen[-1].asked_s - seen[0].asked_s)


def _versions(here: Site) -> dict[str, str]:
    found = {}
    for path in ("/api/v1/nodes", "/api/v1/namespaces/slurm/pods"):
        for item in here.bed.kube.rest.call("GET", path)["items"]:
            found[f"{path}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found
