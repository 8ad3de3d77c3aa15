"""A test bed on which Slurm schedules Pods: preempting partitions, our gate, and the service."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from typing import Any

from sunk_sync.server.tokens import GATE, make_token, new_key
from tests.real.service import NAMESPACE, QUICK, Service, install
from tests.real.stage import annotation, eventually, prefixed
from tests.real.testbed import Bed, RestError, SlurmConf, SlurmServer, kube_objects
from tests.real.testbed.closing import Closing
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.kubelet import END_DELAY
from tests.real.testbed.ports import Ports

SCHEDULER = "slurm-slurm"
CPUS = 16
"""All CPUs of a host: no other job fits beside such a Pod."""
FOLDER = "/etc/slurm/sunk-sync"
OUT = "/tmp/out"
GATE_LINES = (
    f"PrologSlurmctld={FOLDER}/sunk-sync-prolog.sh",
    f"EpilogSlurmctld={FOLDER}/sunk-sync-epilog.sh",
)
COMMON_LINES = (
    "SchedulerParameters=batch_sched_delay=0,default_queue_depth=10000,sched_interval=1",
    "PreemptMode=REQUEUE",
    "SlurmdTimeout=6",
)
EXTRA_LINES = (*COMMON_LINES, "PreemptType=preempt/partition_prio")
QOS_LINES = (
    *COMMON_LINES,
    "PreemptType=preempt/qos",
    "AccountingStorageEnforce=associations,limits,qos",
)
PARTITIONS = (
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF",
    "PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=CANCEL",
    "PartitionName=grace Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=4",
    "PartitionName=again Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE",
)
QOS = {
    "low": ("PreemptMode=cancel",),
    "grace": ("PreemptMode=cancel", "GraceTime=4"),
    "again": ("PreemptMode=requeue",),
    "high": ("Preempt=low,grace,again",),
    "single": ("MaxJobsPerUser=1",),
}


def copy_scripts(slurm: SlurmServer, key: bytes) -> None:
    """Copy our scripts, write their token, and make room for stamps."""
    folder, out = slurm.root / FOLDER.lstrip("/"), slurm.root / OUT.lstrip("/")
    folder.mkdir(exist_ok=True)
    for script in (REPOSITORY / "deploy" / "slurm").glob("*.sh"):
        shutil.copy(script, folder)
    (folder / "token").write_text(make_token(key, GATE) + "\n")
    out.mkdir(exist_ok=True)
    out.chmod(0o777)


def configure_scripts(slurm: SlurmServer, **settings: str) -> None:
    """Write sunk-sync.conf."""
    given = {"token-file": f"{FOLDER}/token", **settings}
    lines = [f"{name.replace('_', '-')} = {value}\n" for name, value in given.items()]
    (slurm.root / FOLDER.lstrip("/") / "sunk-sync.conf").write_text("".join(lines))


def stamp(name: str) -> str:
    """Return a script that records when it starts, then sleeps."""
    return f"#!/bin/sh\ndate +%s.%N >{OUT}/{name}\nexec sleep 600\n"


def stamped(slurm: SlurmServer, name: str) -> float | None:
    """Return when such a script started; None if it has not."""
    path = slurm.root / OUT.lstrip("/") / name
    text = path.read_text() if path.exists() else ""
    return float(text) if text.endswith("\n") else None


def pod_conf(slurmds: int, *, kill_wait_s: int = 4, **more: Any) -> SlurmConf:
    """Return a Slurm with preemption by partition: main preempts low, grace and again."""
    return SlurmConf(
        slurmds=slurmds,
        kill_wait_s=kill_wait_s,
        partitions=PARTITIONS,
        extra_lines=EXTRA_LINES,
        **more,
    )


class PodBed(Closing):
    """Pods and jobs on one test bed, created and read without our code."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self._lines = bed.slurm.conf.extra_lines
        self.key = new_key()
        self._ports = Ports()
        self.hooks_port = self._ports.take()
        self.key_file = bed.kube.directory / "hooks.key"
        self.key_file.write_bytes(self.key)
        self._connections: dict[str, HTTPConnection] = {}
        install(bed)
        copy_scripts(bed.slurm, self.key)
        configure_scripts(bed.slurm, url=f"http://127.0.0.1:{self.hooks_port}")

    @property
    def version(self) -> str:
        return self.bed.slurm.version

    def close(self) -> None:
        self._ports.close()

    def say(self, text: str) -> None:
        print(f"{self.version}: {text}")

    def set_gate(self, *, on: bool) -> None:
        """Install our scripts in slurm.conf, or remove them."""
        lines = (*self._lines, *(GATE_LINES if on else ()))
        slurm = self.bed.slurm
        if lines == slurm.conf.extra_lines:
            return
        slurm.reconfigure(replace(slurm.conf, extra_lines=lines))
        slurm.wait_until_idle(deadline_s=40)

    def service(self, *, gate: bool, **flags: str) -> Service:
        """Return the service, not started; its hooks server has the port of the gate's scripts."""
        address = f"127.0.0.1:{self.hooks_port}"
        ours = {
            "scheduler_name": SCHEDULER,
            "hooks_api_bind_address": address,
            "hooks_url": f"http://{address}",
            "hooks_key_file": str(self.key_file),
            "gate": "on" if gate else "off",
            "slurm_kill_wait": f"{self.bed.slurm.conf.kill_wait_s}s",  # 24.11 does not report it
            "termination_offset": "0s",
        }
        return Service(self.bed, **{**QUICK, **ours, **flags})

    def make_pod(
        self,
        name: str,
        *,
        cpus: int = CPUS,
        end_s: float | str = 0,
        host: str = "",
        tolerations: list[Any] | None = None,
        **annotations: str,
    ) -> str:
        """Create a Pod of ours and return its UID; its kubelet takes `end_s` to end it.

        `tolerations`: only these; None: it tolerates everything. `annotations` are ours, without
        prefix and with `_` for `-`. The Pod can run on `host` only.
        """
        spec = {**_spec(cpus), **({} if tolerations is None else {"tolerations": tolerations})}
        pod = kube_objects.pod(name, namespace=NAMESPACE, spec=spec)
        if host:
            annotations["required_nodes"] = host
        pod["metadata"]["annotations"] = {END_DELAY: str(end_s), **prefixed(annotations)}
        return self.bed.kube.create_pod(pod)

    def pod(self, name: str) -> Any:
        return self.bed.kube.pod_if_any(name, NAMESPACE)

    def annotate(self, name: str, **annotations: str) -> None:
        self.bed.kube.annotate_pod(name, NAMESPACE, prefixed(annotations))

    def delete_pod(self, name: str, *, grace_s: int | None = None) -> None:
        with contextlib.suppress(RestError):
            self.bed.kube.delete_pod(name, NAMESPACE, grace_s=grace_s)

    def host_of(self, name: str) -> str:
        """Return the Node of the Pod; empty if it is not bound."""
        pod = self.pod(name)
        return str(pod["spec"].get("nodeName", "")) if pod else ""

    def job_of(self, name: str) -> str:
        pod = self.pod(name)
        return (annotation(pod, "job-id") or "") if pod else ""

    def ours(self) -> list[Any]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        items = self._call("kube", "GET", path)["items"]
        return [one for one in items if one["spec"].get("schedulerName") == SCHEDULER]

    def until(self, claim: Callable[[], Any], what: str, *, within_s: float = 30) -> None:
        eventually(claim, f"{self.version}: {what}", within_s=within_s, show=self.states)

    def until_bound(self, *names: str, within_s: float = 30) -> None:
        what = f"{', '.join(names[:5])} bound"
        self.until(lambda: all(map(self.host_of, names)), what, within_s=within_s)

    def submit(self, name: str, host: str, **fields: Any) -> str:
        """Submit a foreign job for a whole host; its script records its start for `began`."""
        where = {"partition": "main", "required_nodes": [host], "cpus_per_task": CPUS}
        return self.bed.slurm.submit(stamp(name), **{"name": name, **where, **fields})

    def began(self, name: str) -> float | None:
        return stamped(self.bed.slurm, name)

    def cancel(self, job: str) -> None:
        with contextlib.suppress(RestError):
            self.bed.slurm.cancel(job)

    def jobs(self) -> list[Any]:
        """Return all jobs that Slurm knows, also ended ones."""
        return list(self._call("slurm", "GET", self.bed.slurm.path("jobs/"))["jobs"])

    def states(self) -> dict[str, frozenset[str]]:
        path = self.bed.slurm.path("jobs/state/")
        rows = self._call("slurm", "GET", path)["jobs"]
        return {str(row["job_id"]): frozenset(row["state"]) for row in rows}

    def placeholders(self, pod: str) -> list[Any]:
        """Return the jobs of a Pod of this name, without refused allocations (P11a)."""
        prefix = f"k8s/{NAMESPACE}/{pod}/"
        found = [job for job in self.jobs() if job["name"].startswith(prefix)]
        return [job for job in found if not ("FAILED" in job["job_state"] and not job["nodes"])]

    def live(self, pod: str) -> list[Any]:
        wanted = {"PENDING", "RUNNING", "SUSPENDED"}
        return [job for job in self.placeholders(pod) if wanted & set(job["job_state"])]

    def clear(self) -> None:
        """Remove all our Pods and all jobs, while the service still runs."""
        for name in [str(pod["metadata"]["name"]) for pod in self.ours()]:
            with contextlib.suppress(RestError):  # it can be gone since the listing
                self.bed.kube.annotate_pod(name, NAMESPACE, {END_DELAY: "0"})
            self.delete_pod(name, grace_s=0)
        for job, state in self.states().items():
            if {"PENDING", "RUNNING", "SUSPENDED"} & state:
                self.cancel(job)
        self.until(lambda: not self.ours(), "no Pod of ours")
        self.bed.slurm.wait_until_idle(deadline_s=60)

    def _call(self, whose: str, method: str, path: str) -> Any:
        """Send a request on an open connection: many reads a second."""
        rest = self.bed.kube.rest if whose == "kube" else self.bed.slurm.rest
        over = self._connections.pop(whose, None) or rest.connect()
        try:
            answer = rest.call(method, path, over=over)
        except (OSError, HTTPException):
            over.close()  # the server closed the connection or was restarted
            return rest.call(method, path)
        self._connections[whose] = over
        return answer


def _spec(cpus: int) -> Mapping[str, Any]:
    requests = {"cpu": str(cpus), "memory": "1Gi"}
    container = {**kube_objects.CONTAINER, "resources": {"requests": requests}}
    return {
        "containers": [container],
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
    }


@contextlib.contextmanager
def pod_bed(version: str, conf: SlurmConf) -> Iterator[PodBed]:
    """Start both servers with everything installed; remove all afterwards."""
    with Bed.start(slurm=version, conf=conf) as bed, PodBed(bed) as made:
        yield made


@contextlib.contextmanager
def qos_bed(version: str, slurmds: int, *lines: str, kill_wait_s: int = 4) -> Iterator[PodBed]:
    """Start a Slurm with accounting and preemption by QOS: high preempts low, grace and again.

    alice has an account and no rights. `lines` are lines of slurm.conf.
    """
    conf = SlurmConf(
        slurmds=slurmds,
        kill_wait_s=kill_wait_s,
        extra_lines=(*QOS_LINES, *lines),
        accounting=True,
        users={"alice": 1001},
    )
    with pod_bed(version, conf) as made:
        slurm = made.bed.slurm
        for name, what in QOS.items():
            slurm.sacctmgr("add", "qos", name, *what)
        slurm.sacctmgr("modify", "account", "root", "set", f"QOS=normal,{','.join(QOS)}")
        slurm.sacctmgr("add", "account", "games")
        slurm.sacctmgr("add", "user", "alice", "account=games")
        slurm.sacctmgr("add", "user", "root", "account=games")
        yield made
