"""The test beds of the real benchmarks, with the service."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.proxy import Proxy
from tests.bench.running import BenchError, Measured, Running
from tests.real.testbed import Bed, SlurmConf

TOKEN_S = 86_400


@dataclass(frozen=True)
class Site:
    """Real servers, the proxy in front of slurmrestd, and the converged service."""

    bed: Bed
    proxy: Proxy
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
        with Running(
            kubeconfig=bed.kube.admin_kubeconfig, slurm_url=proxy.url, token=token, flags=flags
        ) as service:
            service.wait_ready()
            service.wait_for_rest()
            yield Site(bed, proxy, service)


@contextmanager
def floor(bed: Bed, proxy: Proxy) -> Iterator[Measured]:
    """Start the floor as a process."""
    argv = [
        *(sys.executable, "-m", "tests.bench.floor"),
        *(f"127.0.0.1:{bed.kube.port}", str(bed.kube.ca_file), str(bed.kube.token_file)),
        *(proxy.url.removeprefix("http://"), bed.slurm.api_version, bed.slurm.token(TOKEN_S)),
    ]
    with Measured(argv) as process:
        assert process.process.stdout is not None
        if process.process.stdout.readline() != b"ready\n":
            raise BenchError("the floor did not start")
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
