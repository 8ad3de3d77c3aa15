"""A bed on which Slurm places Pods: partitions that preempt, our gate, and the service on it."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from sunk_sync.server.tokens import GATE, make_token, new_key
from tests.real.service import NAMESPACE, QUICK, Service, install
from tests.real.stage import PREFIX, eventually
from tests.real.testbed import Bed, RestError, SlurmConf, kube_objects
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.kubelet import END_DELAY
from tests.real.testbed.ports import Ports

SCHEDULER = "slurm-slurm"
CPUS = 16
"""All of a host of the bed: no other job fits beside such a Pod."""
FOLDER = "/etc/slurm/sunk-sync"
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
Row = Mapping[str, Any]


def pod_conf(slurmds: int, *, kill_wait_s: int = 4, **more: Any) -> SlurmConf:
    """A Slurm that preempts by partition; low, grace and again are what main preempts."""
    return SlurmConf(
        slurmds=slurmds,
        kill_wait_s=kill_wait_s,
        partitions=PARTITIONS,
        extra_lines=EXTRA_LINES,
        **more,
    )


class PodBed:
    """Pods and jobs on one bed, made and read without our code."""

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
        self._install_scripts()

    @property
    def version(self) -> str:
        return self.bed.slurm.version

    def close(self) -> None:
        self._ports.close()

    def say(self, text: str) -> None:
        print(f"{self.version}: {text}")

    # --- the gate and the service

    def _install_scripts(self) -> None:
        folder = self.bed.slurm.root / FOLDER.lstrip("/")
        folder.mkdir(exist_ok=True)
        for script in (REPOSITORY / "deploy" / "slurm").glob("*.sh"):
            shutil.copy(script, folder)
        (folder / "token").write_text(make_token(self.key, GATE) + "\n")
        url = f"http://127.0.0.1:{self.hooks_port}"
        (folder / "sunk-sync.conf").write_text(f"url = {url}\ntoken-file = {FOLDER}/token\n")
        self.out.mkdir(exist_ok=True)
        self.out.chmod(0o777)

    def set_gate(self, *, on: bool) -> None:
        """Install our scripts in slurm.conf, or take them out."""
        lines = (*self._lines, *(GATE_LINES if on else ()))
        slurm = self.bed.slurm
        if lines == slurm.conf.extra_lines:
            return
        slurm.reconfigure(replace(slurm.conf, extra_lines=lines))
        slurm.wait_until_idle(deadline_s=40)

    def service(self, *, gate: bool, **flags: str) -> Service:
        """Not started yet; its door is where the gate's scripts look for it."""
        address = f"127.0.0.1:{self.hooks_port}"
        ours = {
            "scheduler_name": SCHEDULER,
            "hooks_api_bind_address": address,
            "hooks_url": f"http://{address}",
            "hooks_key_file": str(self.key_file),
            "gate": "on" if gate else "off",
            "slurm_kill_wait": f"{self.bed.slurm.conf.kill_wait_s}s",  # 24.11 does not tell it
            "termination_offset": "0s",
        }
        return Service(self.bed, **{**QUICK, **ours, **flags})

    # --- Pods

    def make_pod(
        self,
        name: str,
        *,
        cpus: int = CPUS,
        end_s: float | str = 0,
        host: str = "",
        **annotations: str,
    ) -> str:
        """UID of a new Pod of ours, whose kubelet takes `end_s` to end it.

        `annotations` are ours, without prefix and `_` for `-`; `host`: it may run there only.
        """
        pod = kube_objects.pod(name, namespace=NAMESPACE, spec=_spec(cpus))
        ours = {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        if host:
            ours[PREFIX + "required-nodes"] = host
        pod["metadata"]["annotations"] = {END_DELAY: str(end_s), **ours}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return str(self.bed.kube.rest.call("POST", path, pod)["metadata"]["uid"])

    def pod(self, name: str) -> Any:
        """As it stands; None where it is gone."""
        try:
            return self.bed.kube.pod(name, NAMESPACE)
        except RestError as error:
            if error.status != 404:
                raise
            return None

    def delete_pod(self, name: str, *, grace_s: int | None = None) -> None:
        with contextlib.suppress(RestError):
            self.bed.kube.delete_pod(name, NAMESPACE, grace_s=grace_s)

    def host_of(self, name: str) -> str:
        """Node that the Pod is bound to; empty: none."""
        pod = self.pod(name)
        return str(pod["spec"].get("nodeName", "")) if pod else ""

    def job_of(self, name: str) -> str:
        """What annotation job-id says."""
        pod = self.pod(name)
        annotations = pod["metadata"].get("annotations", {}) if pod else {}
        return str(annotations.get(PREFIX + "job-id", ""))

    def ours(self) -> list[Any]:
        """All Pods of ours."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        items = self._call("kube", "GET", path)["items"]
        return [one for one in items if one["spec"].get("schedulerName") == SCHEDULER]

    def until(self, claim: Callable[[], Any], what: str, *, within_s: float = 30) -> None:
        """What jobs there are is said where the claim does not come true."""
        try:
            eventually(claim, f"{self.version}: {what}", within_s=within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; jobs: {self.states()}") from None

    def until_bound(self, *names: str, within_s: float = 30) -> None:
        what = f"{', '.join(names[:5])} bound"
        self.until(lambda: all(map(self.host_of, names)), what, within_s=within_s)

    # --- jobs

    @property
    def out(self) -> Path:
        """Where jobs of `submit` leave the time at which their script began."""
        return self.bed.slurm.root / "tmp/out"

    def submit(self, name: str, host: str, **fields: Any) -> str:
        """Somebody else's job for a whole host; its script leaves its start in `out`/name."""
        script = f"#!/bin/sh\ndate +%s.%N >/tmp/out/{name}\nexec sleep 600\n"
        job = {
            "name": name,
            "current_working_directory": "/tmp",
            "environment": ["PATH=/usr/bin:/bin"],
            "standard_output": "/dev/null",
            "standard_error": "/dev/null",
            "partition": "main",
            "required_nodes": [host],
            "cpus_per_task": CPUS,
            "memory_per_node": {"set": True, "number": 100},
            "requeue": False,
            **fields,
        }
        path = self.bed.slurm.path("job/submit")
        return str(self.bed.slurm.rest.call("POST", path, {"script": script, "job": job})["job_id"])

    def began(self, name: str) -> float | None:
        """Wall clock second at which the script of such a job began; None: not yet."""
        path = self.out / name
        text = path.read_text() if path.exists() else ""
        return float(text) if text.endswith("\n") else None

    def cancel(self, job: str) -> None:
        with contextlib.suppress(RestError):
            self.bed.slurm.rest.call("DELETE", self.bed.slurm.path(f"job/{job}"))

    def jobs(self) -> list[Any]:
        """Every job that Slurm knows, also those that ended."""
        return list(self._call("slurm", "GET", self.bed.slurm.path("jobs/"))["jobs"])

    def states(self) -> dict[str, frozenset[str]]:
        """State of every job, by its id."""
        path = self.bed.slurm.path("jobs/state/")
        rows = self._call("slurm", "GET", path)["jobs"]
        return {str(row["job_id"]): frozenset(row["state"]) for row in rows}

    def placeholders(self, pod: str) -> list[Any]:
        """Jobs made for a Pod of this name; not records of refused attempts (P11a)."""
        prefix = f"k8s/{NAMESPACE}/{pod}/"
        found = [job for job in self.jobs() if job["name"].startswith(prefix)]
        return [job for job in found if not ("FAILED" in job["job_state"] and not job["nodes"])]

    def live(self, pod: str) -> list[Any]:
        wanted = {"PENDING", "RUNNING", "SUSPENDED"}
        return [job for job in self.placeholders(pod) if wanted & set(job["job_state"])]

    def clear(self) -> None:
        """No Pod of ours, no job, every node free, while the service still runs."""
        for name in [str(pod["metadata"]["name"]) for pod in self.ours()]:
            with contextlib.suppress(RestError):  # it may be gone since it was listed
                self.bed.kube.annotate_pod(name, NAMESPACE, {END_DELAY: "0"})
            self.delete_pod(name, grace_s=0)
        for job, state in self.states().items():
            if {"PENDING", "RUNNING", "SUSPENDED"} & state:
                self.cancel(job)
        self.until(lambda: not self.ours(), "no Pod of ours")
        self.bed.slurm.wait_until_idle(deadline_s=60)

    def _call(self, whose: str, method: str, path: str) -> Any:
        """Over a connection that stays: many reads a second."""
        rest = self.bed.kube.rest if whose == "kube" else self.bed.slurm.rest
        over = self._connections.pop(whose, None) or rest.connect()
        try:
            answer = rest.call(method, path, over=over)
        except (OSError, HTTPException):
            over.close()  # closed by the server meanwhile, or the server was restarted
            return rest.call(method, path)
        self._connections[whose] = over
        return answer


def _spec(cpus: int) -> Row:
    requests = {"cpu": str(cpus), "memory": "1Gi"}
    container = {**kube_objects.CONTAINER, "resources": {"requests": requests}}
    return {
        "containers": [container],
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 1,
    }


@contextlib.contextmanager
def pod_bed(version: str, conf: SlurmConf) -> Iterator[PodBed]:
    """Both servers and what is installed on them; all gone afterwards."""
    with Bed.start(slurm=version, conf=conf) as bed:
        made = PodBed(bed)
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def qos_bed(version: str, slurmds: int, *lines: str, kill_wait_s: int = 4) -> Iterator[PodBed]:
    """A Slurm with accounting that preempts by QOS: high preempts low, grace and again.

    Of the users that its hosts know, alice has an account and no rights. `lines`: of slurm.conf.
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
