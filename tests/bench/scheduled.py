"""The test bed of benchmarks that schedule Pods: with the gate and with proxies on both paths."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

import msgspec

from sunk_sync.server.tokens import GATE, make_token, new_key
from tests.bench.proxy import Proxy
from tests.bench.real import TOKEN_S
from tests.bench.running import BenchError, Measured, Running
from tests.real.testbed import Bed, SlurmConf, kube_objects
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import RestError

SCRIPTS = Path(__file__).parents[2] / "deploy/slurm"
FOLDER = "/etc/slurm/sunk-sync"
QUICK = "SchedulerParameters=batch_sched_delay=0,default_queue_depth=10000"
GATE_LINES = (
    f"PrologSlurmctld={FOLDER}/sunk-sync-prolog.sh",
    f"EpilogSlurmctld={FOLDER}/sunk-sync-epilog.sh",
)
OURS, FLOOR = "default-slurm", "floor"
"""Scheduler names."""
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 60.0
ALIVE_S = 1.0
"""Interval of the check that the service, or the floor, still runs."""
Seen = dict[str, float]
"""Pod → time in monotonic seconds."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    deletion_timestamp: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Line(msgspec.Struct):
    type: str
    object: _Pod


_line = msgspec.json.Decoder(_Line).decode


class PodWatch:
    """When each Pod was created, bound, marked for deletion and gone, from a watch."""

    def __init__(self, bed: Bed) -> None:
        self._came = threading.Condition()
        self._bed = bed
        self.clear()
        self._version = bed.kube.rest.call("GET", f"{PODS}?limit=1")["metadata"]["resourceVersion"]
        self._lines = self._open()
        threading.Thread(target=self._read, daemon=True).start()

    def _open(self) -> HTTPResponse:
        connection = self._bed.kube.rest.connect()
        connection.timeout = None
        own = {"Authorization": f"Bearer {self._bed.kube.admin_token}"}
        path = f"{PODS}?watch=true&timeoutSeconds=86400&resourceVersion={self._version}"
        connection.request("GET", path, headers=own)
        return connection.getresponse()

    def clear(self) -> None:
        with self._came:
            self.bound: Seen = {}
            self.deleting: Seen = {}
            self.gone: Seen = {}

    def _read(self) -> None:
        """Read the watch; continue after the API server ends one that is read too slowly."""
        while True:
            try:
                while line := self._lines.readline():
                    self._note(_line(line), time.monotonic())
                self._lines = self._open()
            except (OSError, ValueError, AttributeError, HTTPException):
                return  # the benchmark is over

    def _note(self, line: _Line, now: float) -> None:
        name = line.object.metadata.name
        self._version = line.object.metadata.resource_version or self._version
        with self._came:
            if line.object.spec.node_name:
                self.bound.setdefault(name, now)
            if line.object.metadata.deletion_timestamp:
                self.deleting.setdefault(name, now)
            if line.type == "DELETED":
                self.gone.setdefault(name, now)
            self._came.notify_all()

    def wait(
        self,
        enough: Callable[[], bool],
        what: str,
        *,
        deadline_s: float = DEADLINE_S,
        by: Measured | None = None,
    ) -> None:
        """Wait until the condition holds; fail if the process `by` has ended."""
        end_s = time.monotonic() + deadline_s
        with self._came:
            while not self._came.wait_for(enough, min(deadline_s, ALIVE_S)):
                if by is not None and by.process.poll() is not None:
                    raise BenchError(f"the process ended before this: {what}")
                if time.monotonic() > end_s:
                    raise BenchError(f"not within {deadline_s:.0f} s: {what}")

    def wait_bound(
        self, names: Sequence[str], *, deadline_s: float = DEADLINE_S, by: Measured | None = None
    ) -> float:
        """Wait until all are bound; return the time of the last binding."""
        names_ = set(names)

        def bound() -> bool:
            return names_ <= self.bound.keys()

        try:
            self.wait(bound, "all bound", deadline_s=deadline_s, by=by)
        except BenchError as error:
            left = sorted(names_ - self.bound.keys())
            raise BenchError(f"{error}: {len(left)} are not bound: {left[:3]}") from error
        return max(self.bound[name] for name in names_)


@dataclass
class Site:
    """Real servers, their proxies, the service, and a watch of the Pods."""

    bed: Bed
    rest: Proxy
    """In front of slurmrestd, for the service and the floors."""
    hooks: Proxy
    """In front of the hooks server of the service."""
    service: Running
    watch: PodWatch
    key: bytes
    kubectl: HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.kubectl = self.bed.kube.rest.connect()

    def create(self, name: str, *, scheduler: str = OURS) -> float:
        """Create a Pod; return the time before the POST."""
        begun_s = time.monotonic()
        self.bed.kube.rest.call("POST", PODS, workload(name, scheduler), over=self.kubectl)
        return begun_s

    def create_all(self, names: Sequence[str], *, scheduler: str = OURS) -> float:
        """Create all at once on several connections; return the time before the first POST."""
        begun_s = time.monotonic()
        self.bed.kube.create(*(workload(name, scheduler) for name in names))
        return begun_s

    def delete(self, *names: str) -> None:
        """Delete all without grace period; wait until they are gone."""
        for name in names:
            if name not in self.watch.gone:
                with suppress(RestError):
                    self._delete(name)
        self.watch.wait(lambda: set(names) <= self.watch.gone.keys(), "Pods gone")

    def _delete(self, name: str) -> None:
        path, options = f"{PODS}/{name}", {"gracePeriodSeconds": 0}
        self.bed.kube.rest.call("DELETE", path, options, over=self.kubectl)

    def point_gate(self, url: str) -> None:
        """Let the scripts of slurmctld call this URL from now on."""
        text = f"url = {url}\ntoken-file = {FOLDER}/token\n"
        (self.bed.slurm.root / FOLDER.lstrip("/") / "sunk-sync.conf").write_text(text)

    def end_jobs(self, *, of: str) -> None:
        """Cancel all jobs with this name; wait until none is alive."""
        self.bed.slurm.run_in_root("scancel", "--quiet", "--name", of)
        self.wait_no_jobs()

    def wait_no_jobs(self, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until Slurm has no running and no pending job."""
        by = time.monotonic() + deadline_s
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


@contextmanager
def scheduled(
    conf: SlurmConf, *, hooks: Sequence[str] = GATE_LINES, flags: Sequence[str] = ()
) -> Iterator[Site]:
    """Start hosts with slurmd Pods, the service, and these hooks of slurmctld."""
    with (
        Bed.start(conf=conf) as bed,
        Proxy(bed.slurm.url) as rest,
        _ports() as port,
        Proxy(f"http://127.0.0.1:{port}") as hooks_proxy,
    ):
        key = _install(bed, conf, hooks)
        (bed.slurm.root / "../hooks.key").resolve().write_bytes(key)
        given = [
            *("--hooks-api-bind-address", f"127.0.0.1:{port}", "--hooks-url", hooks_proxy.url),
            *("--hooks-key-file", str((bed.slurm.root / "../hooks.key").resolve())),
            *("--termination-offset", "0s", *flags),
        ]
        with Running(
            kubeconfig=bed.kube.admin_kubeconfig,
            slurm_url=rest.url,
            token=bed.slurm.token(TOKEN_S),
            flags=given,
        ) as service:
            here = Site(bed, rest, hooks_proxy, service, PodWatch(bed), key)
            here.point_gate(hooks_proxy.url)
            service.wait_ready()
            service.wait_for_rest()
            try:
                yield here
            except BenchError as error:
                raise BenchError(f"{error}\n{service.tail()}") from error


@contextmanager
def _ports() -> Iterator[int]:
    ports = Ports()
    yield ports.take()
    ports.close()


def _install(bed: Bed, conf: SlurmConf, hooks: Sequence[str]) -> bytes:
    """Install the scripts with their token in slurm.conf; return the key of all tokens."""
    key = new_key()
    folder = bed.slurm.root / FOLDER.lstrip("/")
    folder.mkdir()
    for script in SCRIPTS.glob("*.sh"):
        shutil.copy(script, folder)
    (folder / "token").write_text(make_token(key, GATE) + "\n")
    (folder / "sunk-sync.conf").write_text("")
    lines = (QUICK, *hooks)
    bed.slurm.reconfigure(replace(conf, extra_lines=(*conf.extra_lines, *lines)))
    bed.slurm.wait_until_idle(deadline_s=60)
    return key


@contextmanager
def floor(here: Site, *argv: str, module: str = "pod_floor") -> Iterator[Measured]:
    """Start a floor as a process."""
    bed = here.bed
    process = Measured(
        [
            *(sys.executable, "-m", f"tests.bench.{module}"),
            *(f"127.0.0.1:{bed.kube.port}", str(bed.kube.ca_file), str(bed.kube.token_file)),
            *(here.rest.url.removeprefix("http://"), bed.slurm.api_version),
            *(bed.slurm.token(TOKEN_S), *argv),
        ]
    )
    with process:
        assert process.process.stdout is not None
        if process.process.stdout.readline() != b"ready\n":
            raise BenchError("the floor did not start")
        yield process
