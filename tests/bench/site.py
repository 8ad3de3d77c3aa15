"""The test bed of the benchmarks with real servers: the servers, the service and the floor."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.proxy import Proxy
from tests.bench.running import Measured, Running
from tests.real.testbed import Bed, SlurmConf

TOKEN_S = 86_400


@dataclass(frozen=True, kw_only=True)
class Site:
    """Real servers, the proxy in front of slurmrestd, and the converged service."""

    bed: Bed
    proxy: Proxy
    """For the service and the floors."""
    service: Running

    @property
    def hosts(self) -> list[str]:
        return self.bed.slurm.conf.external_names


@contextmanager
def site(external_nodes: int, *, pods: bool = True, flags: Sequence[str] = ()) -> Iterator[Site]:
    """Start this many hosts without slurmd, and one with; start the service and wait for it.

    `pods=False`: Nodes without slurmd Pods, named like the Slurm nodes.
    """
    conf = SlurmConf(slurmds=1, external_nodes=external_nodes)
    with Bed.start(conf=conf, hosts=pods) as bed, Proxy(bed.slurm.url) as proxy:
        if not pods:
            bed.kube.ensure_namespace("slurm")
            bed.kube.add_nodes(*conf.names)
        token = bed.slurm.token(TOKEN_S)
        with Running(bed.kube.admin_kubeconfig, proxy.url, token, flags=flags) as service:
            service.settle()
            yield Site(bed=bed, proxy=proxy, service=service)


@contextmanager
def floor(here: Site, name: str, *argv: str) -> Iterator[Measured]:
    """Start a floor (see floors.py) as a process."""
    kube, slurm = here.bed.kube, here.bed.slurm
    with Measured(
        f"tests.bench.{name}_floor",
        *(f"127.0.0.1:{kube.port}", str(kube.ca_file), str(kube.token_file)),
        *(here.proxy.url.removeprefix("http://"), slurm.api_version, slurm.token(TOKEN_S)),
        *argv,
    ) as process:
        process.line()
        yield process


@contextmanager
def only(running: Measured, *, after_s: float = 0.0) -> Iterator[None]:
    """Let the process run inside, and stop it outside."""
    running.resume()
    time.sleep(after_s)
    try:
        yield
    finally:
        running.pause()
