"""Pure functions that read workload Pods and placeholder jobs from the servers."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sunk_sync.embedded.slurm.model.job import ALIVE, ON_NODES, Job
from tests.sim import words
from tests.sim.words import Object
from tests.sim.worlds import Worlds

Uids = frozenset[str]
Run = tuple[int, float | None]
"""Job id and start time. Job ids are reused."""


@lru_cache(10_000)
def identity_in(comment: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(comment)["sunk-sync"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def is_ours(job: Job, cluster: str) -> bool:
    """Whether the identity of the job names this cluster and our scheduler.

    Nobody can change its command line; impostors have an admin_comment alone.
    """
    found = identity_in(job.request.command or job.request.admin_comment)
    return found.get("cluster") == cluster and found.get("scheduler") == words.SCHEDULER


def workloads_of(job: Job) -> Sequence[Uids]:
    """Return the workloads of this record: one, or one for each waiting task."""
    tasks = job.waiting_tasks if job.task is None else (job.task,)
    return _workloads(job.request.command or job.request.admin_comment, tuple(tasks))


@lru_cache(10_000)
def _workloads(comment: str, tasks: tuple[int, ...]) -> Sequence[Uids]:
    found = identity_in(comment)
    if pods := found.get("pods"):
        return (frozenset(pod.rpartition("/")[2] for pod in pods),)
    uids = [uid.removeprefix("-") for uid in found.get("uids", ())]  # "-": we replace it
    return tuple(frozenset({uids[task]}) for task in tasks if task < len(uids))


def is_replaced(job: Job) -> bool:
    return bool(identity_in(job.request.admin_comment).get("replaced"))


def run_of(job: Job) -> Run:
    return (job.job_id, job.started_s)


def spelled(job: Job) -> str:
    return f"{job.array_id}_{job.task}" if job.array_id else str(job.job_id)


def is_live(job: Job) -> bool:
    return job.state in ALIVE


def holds(job: Job, slurm_node: str) -> bool:
    """Whether the job holds resources there, or its script keeps other jobs away."""
    return slurm_node in job.nodes and (job.state in ON_NODES or job.lingers)


def runs(job: Job, slurm_node: str) -> bool:
    """Whether the script of the job can run there."""
    return slurm_node in job.nodes and job.state == "RUNNING" and not job.configuring


def workload(worlds: Worlds) -> Iterator[Object]:
    return (pod for pod in worlds.kube.pods() if words.is_workload(pod))


def placed(worlds: Worlds) -> Iterator[Object]:
    """Yield the living Pods on a Node, also those of other schedulers."""
    for pod in worlds.kube.pods():
        if (words.is_workload(pod) or words.is_of_others(pod)) and is_alive(pod) and place_of(pod):
            yield pod


def live_jobs(worlds: Worlds, uid: str) -> list[Job]:
    return [
        job
        for job in worlds.slurm.jobs.values()
        if is_live(job)
        and is_ours(job, worlds.cluster_uid)
        and any(uid in uids for uids in workloads_of(job))
    ]


def slurm_node_of(node_name: str) -> str:
    """Return Slurm node n3 for Node k3."""
    return f"n{node_name[1:]}"


def node_of(slurm_node: str) -> str:
    """Return Node k3 for Slurm node n3."""
    return f"k{slurm_node[1:]}"


def uid_of(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def is_alive(pod: Object) -> bool:
    return not words.is_finished(pod)


def place_of(pod: Object) -> str:
    """Return the name of its Node. Empty if it is not bound."""
    return str(pod["spec"].get("nodeName", ""))


def clash(one: Object, other: Object) -> bool:
    """Whether a rule of one of the two Pods forbids both on one Node (P8)."""
    return bool(_forbids(one) & _shows(other) or _forbids(other) & _shows(one))


def _shows(pod: Object) -> set[str]:
    """Return what other Pods may mind: ports of the Node, and labels."""
    labels = pod["metadata"].get("labels") or {}
    return _ports(pod) | {f"{key}={value}" for key, value in labels.items()}


def _forbids(pod: Object) -> set[str]:
    """Return what it minds. Rules that select Namespaces are judged in group_checks."""
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    here = [term for term in terms if term["topologyKey"] == "kubernetes.io/hostname"]
    here = [term for term in here if "namespaceSelector" not in term]
    pairs = [term["labelSelector"]["matchLabels"].items() for term in here]
    return _ports(pod) | {f"{key}={value}" for each in pairs for key, value in each}


def _ports(pod: Object) -> set[str]:
    every = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    ports = [port.get("hostPort", 0) for one in every for port in one.get("ports") or ()]
    return {f"port {one}" for one in ports if one}


def cpus_of(pod: Object) -> int:
    every = pod["spec"]["containers"]
    return sum(int(one.get("resources", {}).get("requests", {}).get("cpu", 0)) for one in every)
