"""The world of a run: both servers, the gate, and one or two replicas behind proxies."""

import json
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.chaos import site
from tests.chaos.checkers import Write
from tests.chaos.proxy import Proxy
from tests.real.pod_bed import SCHEDULER, PodBed, configure_scripts, pod_conf
from tests.real.service import NAMESPACE, QUICK, Service
from tests.real.testbed import Bed, BedError, SlurmConf
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.ports import Ports
from tests.real.testbed.sandbox import wait_until

HOSTS = 9
KILL_WAIT_S = 4
RESTART_S = 1.0
TOKEN_S = 86_400
"""Longer than any run."""
READY_S = 180.0
USUAL_START_S = 6.0
LEASE_S = "6s"
SCRIPTS = {"busy": "10m", "busy_max": "30m", "silent": "30m=requeue"}
"""The gate does not give up within a run: what it lets pass unchecked would be no defect."""


class Replica(Closing):
    """One process of sunk-sync with its own ways to both servers, started again if it ends."""

    def __init__(self, bed: PodBed, name: str, flags: Mapping[str, str]) -> None:
        kube, slurm = bed.bed.kube, bed.bed.slurm
        self.name = name
        self._ports = Ports()
        self.hooks = f"127.0.0.1:{self._ports.take()}"
        self.to_kube = Proxy([kube.url], ca_file=kube.ca_file, writer=name)
        self.to_slurm = Proxy([slurm.url], writer=name)
        self.service = Service(
            bed.bed,
            **{
                **flags,
                "kubeconfig": str(self._kubeconfig(bed.bed)),
                "slurm_api_base": self.to_slurm.url,
                "hooks_api_bind_address": self.hooks,
            },
        )
        self.held = threading.Event()
        """Set: a fault keeps it ended."""
        self._ended_by_fault = True
        self.starts: list[float] = []
        """Wall clock."""
        self.exits: list[int] = []

    def _kubeconfig(self, bed: Bed) -> Path:
        path = bed.kube.kubeconfig_for("sunk-sync", NAMESPACE)
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"] = {"server": self.to_kube.url}
        made = path.with_name(f"{self.name}.kubeconfig")
        made.touch(mode=0o600)
        made.write_text(json.dumps(config))
        return made

    def start(self) -> None:
        """Start it; it ends with the thread that calls this (PDEATHSIG)."""
        self.starts.append(time.time())
        self.service.start()

    def hold(self) -> None:
        """A fault is about to end it."""
        self._ended_by_fault = True
        self.held.set()

    def keep_running(self) -> None:
        """Start it again if it ended, as a kubelet does."""
        if self.service.running or self.held.is_set():
            return
        if not self._ended_by_fault:
            self.exits.append(self.service.wait_end())
            time.sleep(RESTART_S)
        self._ended_by_fault = False
        self.start()

    @property
    def ready(self) -> bool:
        with suppress(OSError, AssertionError, BedError):
            return self.service.running and self.service.readyz()[0] == 200
        return False

    def writes(self) -> list[Write]:
        return sorted([*self.to_kube.writes, *self.to_slurm.writes])

    def close(self) -> None:
        self.hold()
        with suppress(ProcessLookupError, AssertionError):
            self.service.send(signal.SIGCONT)
        self.service.kill9()
        self.to_kube.close()
        self.to_slurm.close()
        self._ports.close()


class World(Closing):
    """Start everything, and wait until one replica is ready."""

    def __init__(
        self,
        *,
        slurm: str,
        replicas: int,
        sources: Path = REPOSITORY,
        conf: SlurmConf | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._numbers = count(1)
        try:
            conf = conf or _conf()
            self.bed = self._stack.enter_context(Bed.start(slurm=slurm, conf=conf))
            self.pods = self._stack.enter_context(PodBed(self.bed))
            self.site = site.Site(self.bed.slurm)
            self._stop = threading.Event()
            self._start(replicas, sources)
        except BaseException:
            self._stack.close()
            raise

    def _start(self, replicas: int, sources: Path) -> None:
        self._flags = {
            **QUICK,
            "scheduler_name": SCHEDULER,
            "hooks_key_file": str(self.pods.key_file),
            "gate": "on",
            "slurm_kill_wait": f"{KILL_WAIT_S}s",
            "termination_offset": "0s",
            "lost_job": "end",
            **(
                {"leader_elect": "true", "leader_elect_lease_duration": LEASE_S}
                if replicas > 1
                else {}
            ),
        }
        self.replicas: list[Replica] = []
        self.all_replicas: list[Replica] = []
        """With those that were replaced."""
        self.to_hooks = self._stack.enter_context(Proxy([]))
        configure_scripts(self.bed.slurm, url=self.to_hooks.url, **SCRIPTS)
        self.pods.set_gate(on=True)
        for _ in range(replicas):
            self.add(sources)
        keeper = threading.Thread(target=self._keep, daemon=True)
        keeper.start()
        self._stack.callback(keeper.join)
        self._stack.callback(self._stop.set)
        begun_s = time.monotonic()
        self.all_ready(deadline_s=READY_S)
        took_s = time.monotonic() - begun_s
        self.slack = max(1.0, took_s / USUAL_START_S)
        """How many times longer than usual their start took: the machine may be busy."""
        wait_until(self._writes, "one replica writes", deadline_s=READY_S)

    def add(self, sources: Path = REPOSITORY) -> Replica:
        """Add a replica that runs the sources of this checkout; the keeper starts it."""
        made = Replica(self.pods, f"replica-{next(self._numbers)}", self._flags)
        self._stack.callback(made.close)
        made.service.sources = sources
        made.service.put_token(self.bed.slurm.token(TOKEN_S))
        made.service.settings["hooks_url"] = self.to_hooks.url
        self.all_replicas = [*self.all_replicas, made]
        self._serve([*self.replicas, made])
        return made

    def retire(self, replica: Replica) -> int:
        """End a replica by SIGTERM, as Kubernetes ends a Pod; return its exit code."""
        replica.hold()
        self._serve([one for one in self.replicas if one is not replica])
        replica.service.send(signal.SIGTERM)
        return replica.service.wait_end()

    def _serve(self, replicas: list[Replica]) -> None:
        """Let the hooks reach these replicas, as the endpoints of their Service."""
        self.replicas = replicas
        self.to_hooks.reach([f"http://{one.hooks}" for one in replicas])

    def _writes(self) -> bool:
        return any(one.writes() for one in self.replicas)

    def starts(self) -> list[float]:
        """Return when each process was started, in wall clock."""
        return [at_s for one in self.all_replicas for at_s in one.starts]

    def _keep(self) -> None:
        """Start the replicas; this thread lives as long as they may."""
        while not self._stop.wait(0.1):
            for one in self.replicas:
                one.keep_running()

    def owner_of(self, holder: str) -> str:
        """Return the replica whose hooks server the holder of the Lease names."""
        return next((one.name for one in self.all_replicas if holder.endswith(one.hooks)), "")

    def check_servers(self) -> None:
        """BedError: a server ended that no fault ended."""
        for side in (self.bed.kube, self.bed.slurm):
            for name, daemon in side.daemons.items():
                if not daemon.running:
                    raise daemon.failed(f"({name}) has ended by itself")

    def all_ready(self, *, deadline_s: float) -> None:
        wait_until(
            lambda: all(one.ready for one in self.replicas),
            "all replicas ready",
            deadline_s=deadline_s,
        )

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all servers and replicas."""
        folder.mkdir(parents=True, exist_ok=True)
        for side in (self.bed.kube.directory, self.bed.slurm.directory):
            for log in side.glob("*.log"):
                (folder / log.name).write_bytes(log.read_bytes())

    def close(self) -> None:
        self._stack.close()


def _conf() -> SlurmConf:
    """Return the Slurm of chaos, with the prolog of a site."""
    conf = pod_conf(HOSTS, kill_wait_s=KILL_WAIT_S)
    return replace(conf, extra_lines=(*conf.extra_lines, *site.LINES))
