"""The test bed of benchmarks that schedule Pods: with the gate and with proxies on both paths."""

import itertools
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path

from sunk_sync.server.tokens import GATE, make_token, new_key
from tests.bench.floors import FLOOR, PODS
from tests.bench.pod_watch import DEADLINE_S, PodWatch
from tests.bench.proxy import Proxy
from tests.bench.running import BenchError, Running
from tests.bench.site import TOKEN_S, Site
from tests.real.testbed import Bed, SlurmConf, kube_objects
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import RestError

SCRIPTS = Path(__file__).parents[2] / "deploy/slurm"
FOLDER = "/etc/slurm/sunk-sync"
QUICK = "SchedulerParameters=batch_sched_delay=0,default_queue_depth=10000"
EPILOG = f"EpilogSlurmctld={FOLDER}/sunk-sync-epilog.sh"
GATE_LINES = (f"PrologSlurmctld={FOLDER}/sunk-sync-prolog.sh", EPILOG)
HOSTNAME = "kubernetes.io/hostname"
OURS = "default-slurm"
"""Scheduler name."""


@dataclass(frozen=True, kw_only=True)
class PodSite(Site):
    """A Site with the hooks of slurmctld, and a watch of the Pods."""

    hooks: Proxy
    """In front of the hooks server of the service."""
    watch: PodWatch
    kubectl: HTTPConnection
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_names(self, count: int, scheduler: str) -> list[str]:
        return [f"{scheduler}-{next(self._numbers)}" for _ in range(count)]

    def create(self, names: Sequence[str], *, scheduler: str, apart: str = "") -> float:
        """Create Pods, many at once; return the time before the first POST.

        `apart`: a label of these Pods; no two of them may run on one Node.
        """
        pods = [workload(name, scheduler) for name in names]
        if apart:
            pods = [apart_from(pod, group=apart) for pod in pods]
        begun_s = time.monotonic()
        if len(pods) > 1:
            self.bed.kube.create(*pods)
        else:
            self.bed.kube.rest.call("POST", PODS, pods[0], over=self.kubectl)
        return begun_s

    def one_by_one(
        self, count: int, scheduler: str, *, pause_s: tuple[float, float]
    ) -> Iterator[tuple[float, float]]:
        """Create Pods after random pauses; yield when each was created and bound. Delete all."""
        names = self.new_names(count, scheduler)
        for name in names:
            time.sleep(random.uniform(*pause_s))
            begun_s = self.create([name], scheduler=scheduler)
            yield begun_s, self.watch.wait("bound", [name])[name]
        self.delete(*names)

    def delete(self, *names: str) -> None:
        """Delete all without grace period; wait until they are gone."""
        for name in set(names) - self.watch.first_s["gone"].keys():
            with suppress(RestError):
                options = {"gracePeriodSeconds": 0}
                self.bed.kube.rest.call("DELETE", f"{PODS}/{name}", options, over=self.kubectl)
        self.watch.wait("gone", names)

    def point_gate(self, url: str) -> None:
        """Let the scripts of slurmctld call this URL from now on."""
        text = f"url = {url}\ntoken-file = {FOLDER}/token\n"
        (_folder(self.bed) / "sunk-sync.conf").write_text(text)

    def end_floor_jobs(self) -> None:
        """Cancel all jobs of the floor; wait until none is alive."""
        self.bed.slurm.run_in_root("scancel", "--quiet", "--name", FLOOR)
        self.wait_no_jobs()

    def wait_no_jobs(self) -> None:
        """Wait until Slurm has no running and no pending job."""
        by = time.monotonic() + DEADLINE_S
        while self.bed.slurm.squeue("--noheader").strip():
            if time.monotonic() > by:
                raise BenchError(f"jobs left:\n{self.bed.slurm.squeue()[:500]}")
            time.sleep(0.2)


def workload(name: str, scheduler: str) -> Object:
    """Return a workload Pod of one CPU; without a memory request Slurm would give all memory."""
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    containers = [kube_objects.CONTAINER | {"resources": resources}]
    spec = {"schedulerName": scheduler, "containers": containers}
    return kube_objects.pod(name, spec=spec | {"terminationGracePeriodSeconds": 1})


def apart_from(pod: Object, *, group: str) -> Object:
    """Give the Pod required anti-affinity by hostname against its group."""
    labels = {"bench": group}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    affinity = {"podAntiAffinity": {kube_objects.REQUIRED: [term]}}
    metadata, spec = pod["metadata"] | {"labels": labels}, pod["spec"] | {"affinity": affinity}
    return pod | {"metadata": metadata, "spec": spec}


@contextmanager
def pod_site(
    conf: SlurmConf, *, hooks: Sequence[str] = GATE_LINES, flags: Sequence[str] = ()
) -> Iterator[PodSite]:
    """Start hosts with slurmd Pods, the service, and these hooks of slurmctld."""
    with (
        Bed.start(conf=conf) as bed,
        Proxy(bed.slurm.url) as proxy,
        _port() as port,
        Proxy(f"http://127.0.0.1:{port}") as hooks_proxy,
    ):
        key_file = (bed.slurm.root / "../hooks.key").resolve()
        key_file.write_bytes(_install(bed, conf, hooks))
        given = [
            *("--hooks-api-bind-address", f"127.0.0.1:{port}", "--hooks-url", hooks_proxy.url),
            *("--hooks-key-file", str(key_file), "--termination-offset", "0s", *flags),
        ]
        token = bed.slurm.token(TOKEN_S)
        with Running(bed.kube.admin_kubeconfig, proxy.url, token, flags=given) as service:
            here = PodSite(
                bed=bed,
                proxy=proxy,
                service=service,
                hooks=hooks_proxy,
                watch=PodWatch(bed.kube, "default"),
                kubectl=bed.kube.rest.connect(),
            )
            here.point_gate(hooks_proxy.url)
            service.settle()
            yield here


@contextmanager
def _port() -> Iterator[int]:
    ports = Ports()
    yield ports.take()
    ports.close()


def _folder(bed: Bed) -> Path:
    return bed.slurm.root / FOLDER.lstrip("/")


def _install(bed: Bed, conf: SlurmConf, hooks: Sequence[str]) -> bytes:
    """Install the scripts with their token in slurm.conf; return the key of all tokens."""
    key, folder = new_key(), _folder(bed)
    folder.mkdir()
    for script in SCRIPTS.glob("*.sh"):
        shutil.copy(script, folder)
    (folder / "token").write_text(make_token(key, GATE) + "\n")
    (folder / "sunk-sync.conf").write_text("")
    lines = (*conf.extra_lines, QUICK, *hooks)
    bed.slurm.reconfigure(replace(conf, extra_lines=lines))
    bed.slurm.wait_until_idle(deadline_s=60)
    return key
