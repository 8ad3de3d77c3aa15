"""A test bed whose Slurm runs placeholder jobs, and workload Pods on it.

A nodeSelector pins each Pod to its own host, so tests do not disturb each other and need not clean
up.
"""

import itertools
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.real.service import NAMESPACE
from tests.real.stage import HOSTS, Host, Stage, annotation, eventually, prefixed
from tests.real.testbed import Bed, SlurmConf, kube_objects
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import RestError

KILL_WAIT_S = 6
SCHEDULER = "sunk"
HOSTNAME = "kubernetes.io/hostname"
FOREVER = {"testbed/end-delay-s": "inf"}
SCHEDULING = {
    "scheduler_name": SCHEDULER,
    "termination_offset": "0s",
    "slurm_kill_wait": f"{KILL_WAIT_S}s",
}
CONF = (
    "ReturnToService=1",
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
)
PARTITIONS = (
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF",
    "PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=CANCEL State=UP",
    "PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP",
    "PartitionName=off Nodes=ALL PreemptMode=OFF State=DOWN",
)
_names = itertools.count(1)
Job = dict[str, Any]

OVER = ("Succeeded", "Failed")


class Load:
    """A workload Pod: its state on both servers, and operations of users."""

    def __init__(self, bed: Bed, name: str, *, namespace: str = NAMESPACE, uid: str = "") -> None:
        self.bed = bed
        self.name = name
        self.namespace = namespace
        self.uid = uid

    def __repr__(self) -> str:
        known: dict[str, Any] = {"jobs": [brief(job) for job in self.jobs]}
        with suppress(RestError):
            known["node"] = self.node
            known["conditions"] = self.pod["status"].get("conditions")
            known["annotations"] = self.pod["metadata"].get("annotations")
        with suppress(RestError):
            known["events"] = self.events
        return f"{self.path}: {known}"

    def until(self, claim: Any, *, within_s: float = 15.0) -> None:
        eventually(claim, f"not within {within_s} s", within_s=within_s, show=self.__repr__)

    def until_bound(self, *, within_s: float = 15.0) -> str:
        """Wait for the binding; return its job id."""
        self.until(lambda: self.node, within_s=within_s)
        return self.annotation("job-id") or ""

    def until_waits(self) -> Job:
        """Return its one job when it is pending and the Pod shows it."""
        self.until(lambda: self.live and self.message.startswith("Slurm job"))
        (job,) = self.live
        return job

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pod(self) -> Any:
        return self.bed.kube.pod(self.name, self.namespace)

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName", ""))

    @property
    def gone(self) -> bool:
        """Whether no Pod of this UID is left."""
        try:
            return bool(self.pod["metadata"]["uid"] != self.uid)
        except RestError as error:
            return error.status == 404

    @property
    def stopped(self) -> bool:
        """Whether its containers have ended: the kubelet says so right before the Pod is gone."""
        try:
            pod = self.pod
        except RestError as error:
            return error.status == 404
        return pod["metadata"]["uid"] != self.uid or pod["status"]["phase"] in OVER

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Return status, reason and message; empty if there is none."""
        one = kube_objects.conditions(self.pod).get(kind, {})
        return one.get("status", ""), one.get("reason", ""), one.get("message", "")

    @property
    def waits_for(self) -> str:
        """Return the reason of PodScheduled while the Pod waits, or empty."""
        status, reason, _ = self.condition("PodScheduled")
        return reason if status == "False" else ""

    @property
    def message(self) -> str:
        status, _, message = self.condition("PodScheduled")
        return message if status == "False" else ""

    @property
    def disruption(self) -> tuple[str, str]:
        status, reason, message = self.condition("DisruptionTarget")
        return (reason, message) if status == "True" else ("", "")

    def annotation(self, name: str) -> str | None:
        return annotation(self.pod, name)

    def annotate(self, **annotations: str | None) -> None:
        self.bed.kube.annotate_pod(self.name, self.namespace, prefixed(annotations))

    @property
    def events(self) -> list[tuple[str, str]]:
        """Return reason and message of each Event on it, oldest first."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found = self.bed.kube.rest.call(
            "GET", f"{path}?fieldSelector=involvedObject.uid%3D{self.uid}"
        )
        return [(one["reason"], one["message"]) for one in found["items"]]

    def events_of(self, reason: str) -> list[str]:
        """Return the messages of its Events with this reason."""
        return [message for one, message in self.events if one == reason]

    def delete(self, *, now: bool = False) -> None:
        """Delete the Pod; `now`: force it, without waiting for its containers."""
        self.bed.kube.delete_pod(self.name, self.namespace, grace_s=0 if now else None)

    def let_end(self) -> None:
        self.bed.kube.annotate_pod(self.name, self.namespace, {"testbed/end-delay-s": "0"})

    def bind_to(self, host: Host, *, dry_run: bool = False) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": host.name}
        binding = {"metadata": {"name": self.name}, "target": target}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/binding"
        self.bed.kube.rest.call("POST", path + "?dryRun=All" * dry_run, binding)

    @property
    def jobs(self) -> list[Job]:
        """Return every job that names this Pod, oldest first, also ended ones.

        Somebody may have overwritten its admin_comment.
        """
        texts = ("admin_comment", "command")
        return [job for job in all_jobs(self.bed) if any(self.uid in job[one] for one in texts)]

    @property
    def live(self) -> list[Job]:
        return [job for job in self.jobs if lives(job)]

    @property
    def job(self) -> Job:
        return self.jobs[-1]

    def ended(self) -> bool:
        """Whether it had jobs and none is left, not even a completing one."""
        jobs = self.jobs
        busy = {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING"}
        return bool(jobs) and all(busy.isdisjoint(job["job_state"]) for job in jobs)


class PodStage(Stage):
    """A stage for Pods: `load` creates one, `serve` starts the service that schedules them."""

    def __init__(self, slurm: str, *, hosts: int = HOSTS, crowd: int = 0) -> None:
        self._ports = Ports()
        port = self._ports.take()
        super().__init__(slurm, hosts=hosts, crowd=crowd)
        # Scripts outlive the service: a random key would invalidate their tokens.
        key = self.bed.kube.directory / "hooks.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(32))
        self.hooks = {
            "hooks_api_bind_address": f"127.0.0.1:{port}",
            "hooks_url": f"http://127.0.0.1:{port}",
            "hooks_key_file": str(key),
        }

    def conf(self) -> SlurmConf:
        return SlurmConf(
            slurmds=self.hosts, kill_wait_s=KILL_WAIT_S, partitions=PARTITIONS, extra_lines=CONF
        )

    def settings(self, flags: Mapping[str, str]) -> dict[str, str]:
        return super().settings({**SCHEDULING, **self.hooks, **flags})

    def load(
        self,
        on: Host | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        namespace: str = NAMESPACE,
        knobs: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Load:
        """Create a Pod of ours for host `on` only; annotations without prefix, `_` for `-`."""
        name = spec.pop("name", f"w{next(_names)}")
        labels = spec.pop("labels", None)
        pinned = {} if on is None else {"nodeSelector": {HOSTNAME: on.name}}
        made = kube_objects.pod(
            name,
            namespace=namespace,
            labels=labels,
            annotations={**prefixed(annotations or {}), **(knobs or {})},
            spec={**workload_spec(), **pinned, **spec},
        )
        uid = self.bed.kube.create_pod(made)
        return Load(self.bed, name, namespace=namespace, uid=uid)

    def pool(self, name: str, size: int = 2) -> list[Host]:
        """Take hosts and label their Nodes `pool`: a nodeSelector chooses among them."""
        hosts = [self.take() for _ in range(size)]
        for host in hosts:
            self.bed.kube.kubectl("label", "node", host.name, f"pool={name}")
        return hosts

    def occupy(self, host: Host) -> str:
        """Submit another user's job that holds the whole host; return its id."""
        job = self.submit_above(host)
        host.until(lambda: state_of(self.bed, job) == "RUNNING")
        return job

    def waiting(self, host: Host, **more: Any) -> tuple[Load, str]:
        """Create a Pod whose job waits for a full host; return it and the job that fills it."""
        blocker = self.occupy(host)
        load = self.load(host, **more)
        load.until_waits()
        return load, blocker

    def submit_above(self, host: Host) -> str:
        return self.submit("--exclusive", "-p", "high", "-w", host.name)

    def submit(self, *options: str) -> str:
        """Submit another user's job; return its id."""
        argv = ["sbatch", "--parsable", *options, "-o", "/dev/null", "--wrap", "exec sleep 600"]
        return self.bed.slurm.run_in_root(*argv).strip()

    def impostor(self, admin_comment: str, *, name: str, on: Host | None = None) -> str:
        """Submit a foreign job with this name and identity; return its id.

        It reports that its script has started, as ours do. It waits in a partition that is down, or
        runs `on` a host.
        """
        job = self.bed.slurm.submit(
            "#!/bin/sh\nexec sleep 600\n",
            name=name,
            admin_comment=admin_comment,
            extra=": started",
            time_limit={"set": True, "number": 60},
            partition="off" if on is None else "high",
            **({"required_nodes": [on.name]} if on is not None else {}),
        )
        if on is not None:
            eventually(lambda: state_of(self.bed, job) == "RUNNING", "the impostor runs")
        return job

    def expand(self, listed: str | list[str]) -> set[str]:
        text = listed if isinstance(listed, str) else ",".join(listed)
        return set(self.bed.slurm.scontrol("show", "hostnames", text).split()) if text else set()

    def scancel(self, *jobs: str | int) -> None:
        self.bed.slurm.run_in_root("scancel", *map(str, jobs))

    def close(self) -> None:
        super().close()
        self._ports.close()


def workload_spec(cpu: str = "1", memory: str = "64Mi") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {**kube_objects.CONTAINER, "resources": {"requests": requests}}
    return {
        "schedulerName": SCHEDULER,
        "containers": [container],
        "terminationGracePeriodSeconds": 3,
        "tolerations": [],
    }


def with_port(port: int) -> dict[str, Any]:
    """Return a part of a spec: its container needs this port of the Node."""
    (container,) = workload_spec()["containers"]
    ports = [{"containerPort": 80, "hostPort": port}]
    return {"containers": [{**container, "ports": ports}]}


def pod_term(app: str, key: str = HOSTNAME) -> dict[str, Any]:
    """Return a term of affinity between Pods: those with label `app`, by this label of Nodes."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def all_jobs(bed: Bed) -> list[Job]:
    found = bed.slurm.rest.call("GET", bed.slurm.path("jobs/?flags=ALL"))["jobs"]
    return sorted(found, key=lambda job: int(job["job_id"]))


def state_of(bed: Bed, job: str) -> str:
    return bed.slurm.squeue("-h", "-j", job, "-o", "%T").strip()


def lives(job: Job) -> bool:
    return not {"PENDING", "RUNNING", "SUSPENDED"}.isdisjoint(job["job_state"])


def replaced(job: Job) -> bool:
    """Whether we marked the job before we cancelled it (P17)."""
    return bool(json.loads(job["admin_comment"])["sunk-sync"].get("replaced"))


def brief(job: Job) -> str:
    state, reason = "+".join(job["job_state"]), job["state_reason"]
    return f"{job['job_id']} {job['name']} {state} {reason} {job['nodes']}"
