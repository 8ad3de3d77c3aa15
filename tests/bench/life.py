"""25,000 Pods with the service as a process: jobs for all, 5,000 bound, all ended."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.bench.figures import Figure
from tests.bench.life_servers import TOKEN
from tests.bench.running import BenchError, Measured, Running

HOSTS = 500
WAITING, BOUND = 20_000, 5_000
STEPS = {
    "submit": f"{WAITING + BOUND:,} created, all have jobs",
    "bind": f"{BOUND:,} of them bound",
    "end": "all deleted, no job lives",
}
STEP_MAX_S = 180
RSS_MAX_MIB = 300.0
FLAGS = ("--placeholder", "script", "--hooks-url", "http://127.0.0.1:1")
"""The scripts do not call the hooks; the `extra` of their job says that they started."""


def life() -> Iterator[Figure]:
    """Submit, bind and end 25,000 Pods on 500 embedded hosts, kind script, in one run."""
    with settled(HOSTS, pods=WAITING + BOUND, bound=BOUND) as (servers, service):
        yield from _measure(servers, service)


@contextmanager
def settled(
    hosts: int, *, pods: int, bound: int, flags: Sequence[str] = ()
) -> Iterator[tuple[Measured, Running]]:
    """Start both embedded servers and the service, and wait until it is idle."""
    counts = map(str, (hosts, pods, bound, STEP_MAX_S))
    with Measured("tests.bench.life_servers", *counts) as servers:
        kubeconfig, slurm = json.loads(servers.line())
        with Running(kubeconfig, slurm, TOKEN, flags=[*FLAGS, *flags]) as service:
            service.settle()
            yield servers, service


def _measure(servers: Measured, service: Running) -> Iterator[Figure]:
    begun_s = service.cpu_s()
    for step, what in STEPS.items():
        cpu_s = service.cpu_s()
        yield Figure(f"{what}: time", step_s(servers, step), "s")
        yield Figure(f"{what}: our CPU", service.cpu_s() - cpu_s, "s")
    yield Figure("all together: our CPU", service.cpu_s() - begun_s, "s")
    yield Figure("all together: peak RSS", service.peak_mib(), "MiB", RSS_MAX_MIB)
    yield Figure("longest recent step of the loop", service.longest_step_ms(), "ms")


def step_s(servers: Measured, step: str) -> float:
    """Let the servers do a step; return its seconds."""
    answer = servers.ask(step)
    try:
        return float(answer)
    except ValueError as error:
        raise BenchError(f"{step}: not within {STEP_MAX_S} s: {answer}") from error
