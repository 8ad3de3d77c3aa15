"""What the checkers see of each side in one read: plain rows, without sunk-sync's code."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tests.real.stage import annotation

ENDED_PHASES = {"Succeeded", "Failed"}
LIVE = {"PENDING", "RUNNING", "SUSPENDED"}
STARTING = {"CONFIGURING", "COMPLETING"}
_RANGES = re.compile(r"([^\[,]+)(?:\[([^\]]*)\])?,?")


class PodRow(Struct, frozen=True, kw_only=True):
    uid: str
    name: str
    node: str = ""
    phase: str = "Pending"
    terminating: bool = False
    ready: bool = False
    cpus: float = 0.0
    owner: str = ""
    """UID of its controller."""
    gang: bool = False
    cancelled: str = ""
    """Id of the cancelled job after which it gets no other, until somebody asks for one."""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED_PHASES

    @property
    def alive(self) -> bool:
        """Whether its containers can run: it is bound and has not ended."""
        return bool(self.node) and not self.ended

    @property
    def waits(self) -> bool:
        return not self.node and not self.ended and not self.terminating


class KubeView(Struct, frozen=True, kw_only=True):
    """Between request and answer (monotonic seconds) the state was as it says at some moment."""

    asked_s: float
    answered_s: float
    pods: Mapping[str, PodRow]
    """Ours, by UID."""
    cordoned: frozenset[str] = frozenset()
    """Names of Nodes."""
    complete: frozenset[str] = frozenset()
    """UIDs of Jobs that have all the Pods that they want."""
    holder: str = ""
    """Who holds the Lease; empty: nobody, or there is none."""
    acquired_s: float = 0.0
    """When, in wall clock."""


class JobRow(Struct, frozen=True, kw_only=True):
    job_id: str
    name: str = ""
    states: frozenset[str]
    hosts: frozenset[str] = frozenset()
    cpus_per_host: float = 0.0
    pods: frozenset[str] = frozenset()
    """UIDs of the Pods that it stands for; empty: a plain job of a user."""
    held: bool = False
    """Slurm does not start it until somebody releases it."""
    began: bool = True
    """Its script has said so, or it has none."""
    submitted_s: float = 0.0
    """Wall clock."""
    started_s: float = 0.0
    """Wall clock."""

    @property
    def body(self) -> tuple[str, float]:
        """Name one run of the job: a requeued one has another."""
        return self.job_id, self.started_s

    @property
    def live(self) -> bool:
        return bool(LIVE & self.states) and "COMPLETING" not in self.states

    @property
    def runs(self) -> bool:
        """Whether its body has started: a job that waits at the gate is CONFIGURING."""
        return "RUNNING" in self.states and not STARTING & self.states


class SlurmNodeRow(Struct, frozen=True, kw_only=True):
    name: str
    states: frozenset[str] = frozenset()
    reason: str = ""
    cpus: float = 0.0


class SlurmView(Struct, frozen=True, kw_only=True):
    asked_s: float
    answered_s: float
    jobs: tuple[JobRow, ...]
    nodes: Mapping[str, SlurmNodeRow]


def pod_row(pod: Any) -> PodRow:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    requests = [one.get("resources", {}).get("requests", {}) for one in spec["containers"]]
    conditions = status.get("conditions") or ()
    owners = metadata.get("ownerReferences") or [{"uid": ""}]
    cancelled, _, asked = (annotation(pod, "cancelled") or "").partition("/")
    return PodRow(
        uid=metadata["uid"],
        name=metadata["name"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        terminating="deletionTimestamp" in metadata,
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
        cpus=sum(float(one.get("cpu", 0)) for one in requests),
        owner=owners[0]["uid"],
        gang=annotation(pod, "gang") is not None,
        cancelled=cancelled if asked == (annotation(pod, "resubmit") or "") else "",
    )


def is_complete(job: Any) -> bool:
    """Whether this Job has the Pods that it wants: its controller may wait before it makes them."""
    spec, status = job["spec"], job.get("status", {})
    left = spec["completions"] - status.get("succeeded", 0)
    return bool(status.get("active", 0) >= min(spec["parallelism"], left))


def job_row(job: Any) -> JobRow:
    hosts = frozenset(expand(job["nodes"]))
    return JobRow(
        job_id=str(job["job_id"]),
        name=job["name"],
        states=frozenset(job["job_state"]),
        hosts=hosts,
        cpus_per_host=job["cpus"]["number"] / max(1, job["node_count"]["number"]),
        pods=_pods_of(job),
        began=not job["batch_flag"] or ": started" in job["extra"],
        held=job["state_reason"].startswith("JobHeld"),
        submitted_s=float(job["submit_time"]["number"]),
        started_s=float(job["start_time"]["number"]),
    )


def slurm_node_row(node: Any) -> SlurmNodeRow:
    return SlurmNodeRow(
        name=node["name"],
        states=frozenset(node["state"]),
        reason=node["reason"],
        cpus=float(node["cpus"]),
    )


def _pods_of(job: Any) -> frozenset[str]:
    """Return the UIDs in the identity of a placeholder: of its task, if it is one of an array.

    A site may overwrite the comment, but nobody the command line.
    """
    identity = _identity(job["admin_comment"]) or _identity(job["command"])
    uids = identity.get("uids")
    if not uids:
        return frozenset(pod.rpartition("/")[2] for pod in identity.get("pods", ()))
    task = job["array_task_id"]
    if task["set"]:
        return frozenset({uids[task["number"]]})
    tasks = expand(f"[{job['array_task_string'].partition('%')[0]}]")
    return frozenset(uids[int(one)] for one in tasks)


def _identity(text: str) -> Any:
    try:
        return json.loads(text)["sunk-sync"]
    except (ValueError, KeyError, TypeError):
        return {}


def expand(hostlist: str) -> Iterator[str]:
    """Yield the names in `n[1-3,7],x2`."""
    if hostlist.startswith("["):
        yield from _numbers(hostlist.strip("[]"))
        return
    for prefix, ranges in _RANGES.findall(hostlist):
        yield from (f"{prefix}{number}" for number in _numbers(ranges)) if ranges else (prefix,)


def _numbers(ranges: str) -> Iterator[str]:
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from map(str, range(int(first), int(last or first) + 1))
