"""Pods with required anti-affinity: one for each Node, and what ten thousand of them cost.

kube-scheduler is measured last, with the same Pods on the same Nodes.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.pod_spec import PodRules, PodTerm, Requirement
from sunk_sync.service import gc_pauses
from tests.bench.apart_server import TOKEN
from tests.bench.figures import Figure
from tests.bench.floors import PODS
from tests.bench.many import KINDS, costs_us
from tests.bench.pod_core import SPEC, PodCore
from tests.bench.pod_site import HOSTNAME, OURS, PodSite, pod_site
from tests.bench.running import BenchError, Measured, Running
from tests.real.testbed import SlurmConf

HOSTS = 300
"""Embedded."""
COUNT = 60
"""Hosts with slurmd and Pods on real servers."""
KUBE = "default-scheduler"
SUBMISSIONS_MAX = 1.3
COST_MAX = 3.0
"""Of an event among Pods with anti-affinity, compared with Pods without."""
WAITING, BOUND = 8_000, 2_000
GROUP = 100
"""Pods that may not run side by side."""
DEADLINE_S = 120.0
EVENTS = (
    "Pod that waits, its annotation",
    "Pod that is bound, its phase",
    "Pod that is bound, to end or not",
    "Slurm node, its state",
    "Node, cordoned or not",
)
"""Events of jobs are left out: most of these Pods have none."""


def apart() -> Iterator[Figure]:
    """One Pod for each host by anti-affinity: 300 embedded, 60 real; an event among 10,000."""
    yield from _costs()
    yield from _embedded()
    conf = SlurmConf(slurmds=COUNT, cpus=4)
    with pod_site(conf, flags=["--gate", "on"]) as here:
        _place(here, 1, OURS)
        took_s, submissions = _place(here, COUNT, OURS)
        yield Figure(f"{COUNT} Pods on {COUNT} real hosts, all bound", took_s, "s")
        yield Figure("submissions for each", submissions / COUNT, "", SUBMISSIONS_MAX)
        here.bed.kube.start_scheduler()
        _place(here, 1, KUBE)
        kube_s, _ = _place(here, COUNT, KUBE)
        yield Figure("kube-scheduler, the same Pods", kube_s, "s")
        yield Figure("all bound, of kube-scheduler", took_s / kube_s, "x")


def _embedded() -> Iterator[Figure]:
    with Measured("tests.bench.apart_server", str(HOSTS)) as server:
        config, url = server.line().split()
        with Running(Path(config), url, TOKEN, flags=["--placeholder", "allocation"]) as service:
            service.settle()
            begun_s = time.monotonic()
            shown = server.ask(f"create {HOSTS}").split()
            while shown[0] != str(HOSTS):
                if time.monotonic() > begun_s + DEADLINE_S:
                    raise BenchError(f"bound, Nodes, jobs: {shown}")
                time.sleep(0.05)
                shown = server.ask("shown").split()
            took_s = time.monotonic() - begun_s
    bound, nodes, jobs = map(int, shown)
    if nodes != bound:
        raise BenchError(f"{bound} Pods run on {nodes} Nodes")
    yield Figure(f"{HOSTS} Pods on {HOSTS} embedded hosts, all bound", took_s, "s")
    yield Figure("submissions for each of them", jobs / HOSTS, "", SUBMISSIONS_MAX)


def _place(here: PodSite, count: int, scheduler: str) -> tuple[float, int]:
    """Return the seconds until all run on Nodes of their own, and the submissions; remove them."""
    here.watch.clear()
    here.proxy.clear()
    names = here.new_names(count, scheduler)
    begun_s = here.create(names, scheduler=scheduler, apart=f"{scheduler}-{count}")
    bound_s = here.watch.wait("bound", names, deadline_s=DEADLINE_S)
    asked = [one.request.partition(b"\r\n")[0] for one in here.proxy.seen()]
    submissions = [line for line in asked if b"/job/submit" in line or b"/job/allocate" in line]
    listed = here.bed.kube.rest.call("GET", PODS)["items"]
    nodes = {pod["spec"]["nodeName"] for pod in listed if pod["metadata"]["name"] in names}
    if len(nodes) != count:
        raise BenchError(f"{count} Pods run on {len(nodes)} Nodes")
    here.delete(*names)
    here.wait_no_jobs()
    return max(bound_s.values()) - begun_s, len(submissions)


class ApartCore(PodCore):
    """The core with groups of Pods that may not run side by side.

    Of each group one Pod has a job that waits; the others wait for their turn.
    """

    def pod(self, number: int) -> Pod:
        label = ("group", str(number // GROUP))
        term = PodTerm(HOSTNAME, (Requirement("group", "In", label[1:]),))
        spec = replace(SPEC, rules=PodRules(apart=(term,)))
        return replace(super().pod(number), labels=(label,), spec=spec)

    def jobs(self) -> Iterator[Job]:
        numbers = range(self.waiting + self.bound)
        return (self.job(one) for one in numbers if one < self.bound or one % GROUP == 0)


def _costs() -> Iterator[Figure]:
    """Compare what one event costs among Pods with and without anti-affinity."""
    cores = {"without": PodCore(WAITING, BOUND), "apart": ApartCore(WAITING, BOUND)}
    with gc_pauses.in_pieces():  # as the service runs
        for what in EVENTS:
            objects, make = KINDS[what]
            cost_us = costs_us(cores, objects, make)
            yield Figure(f"{what}, with anti-affinity", cost_us["apart"], "µs")
            ratio = cost_us["apart"] / cost_us["without"]
            yield Figure(f"{what}, of the same without", ratio, "x", COST_MAX)
