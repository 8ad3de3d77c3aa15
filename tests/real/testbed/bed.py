"""A real Kubernetes and a real Slurm that share hosts."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from tests.real.testbed import cache
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube import KubeServer
from tests.real.testbed.sandbox import sweep
from tests.real.testbed.slurm import SlurmServer
from tests.real.testbed.slurm_conf import SlurmConf

SLURM_DEFAULT = "26.05"


@dataclass(frozen=True)
class Bed(Closing):
    """`kube` and `slurm`, started in parallel. Close it, or use it as a context manager."""

    kube: KubeServer
    slurm: SlurmServer

    @classmethod
    def start(
        cls,
        *,
        slurm: str = SLURM_DEFAULT,
        kube: str = cache.KUBE_DEFAULT,
        conf: SlurmConf | None = None,
        hosts: bool = True,
    ) -> Self:
        """Start both. `hosts`: a Node and a slurmd Pod for each Slurm node of `conf`."""
        sweep()
        with ThreadPoolExecutor(2) as threads:
            futures = threads.submit(KubeServer, kube), threads.submit(SlurmServer, slurm, conf)
        bed = cls(*_both(*futures))
        try:
            if hosts:
                bed.kube.add_hosts(*bed.slurm.conf.names)
        except BaseException:
            bed.close()
            raise
        return bed

    def close(self) -> None:
        self.slurm.close()
        self.kube.close()


def _both(kube: Future[KubeServer], slurm: Future[SlurmServer]) -> tuple[KubeServer, SlurmServer]:
    """Return both servers, or stop the one that started."""
    if kube.exception() is None and slurm.exception() is not None:
        kube.result().close()
    if slurm.exception() is None and kube.exception() is not None:
        slurm.result().close()
    return kube.result(), slurm.result()
