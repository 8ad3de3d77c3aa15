"""Text about the Pods and jobs on a machine, and about waiting Pods."""

from collections.abc import Sequence

from sunk_sync.core.model.names import JOB_ID, SCHEDULED_CONDITION
from sunk_sync.demo.stage.reading import annotation, whole_condition
from sunk_sync.demo.stage.users import Users, is_ours, place_of
from sunk_sync.embedded.kubernetes.store.kinds import Object
from sunk_sync.embedded.slurm.model.job import ALIVE, Job


def pods_on(users: Users, host: str) -> Sequence[Object]:
    return [pod for pod in users.pods() if place_of(pod) == host]


def on_host(users: Users, host: str) -> str:
    """Describe the jobs of a host: `5 train` is a job and its Pod, or a job and its user."""
    pods = pods_on(users, host)
    bound = {annotation(pod, JOB_ID) for pod in pods}
    jobs = [job for job in users.jobs_on(host) if str(job.job_id) not in bound]
    return ", ".join([*map(_pod, pods), *map(_job, jobs)]) or "-"


def _pod(pod: Object) -> str:
    ends = " ends" if "deletionTimestamp" in pod["metadata"] else ""
    return f"{annotation(pod, JOB_ID)} {pod['metadata']['name']}{ends}"


def _job(job: Job) -> str:
    """Describe a job; a placeholder is named `k8s/<namespace>/<pod>/<workload>`."""
    who = job.request.name.split("/")[2] if is_ours(job) else job.request.user
    state = " at gate" if job.configuring else "" if job.state in ALIVE else " ends"
    return f"{job.job_id} {who}{state}"


def waiting(users: Users) -> Sequence[str]:
    """Describe waiting Pods: `low (job 13: Priority)`. Pods of one job share an entry."""
    of_job: dict[str, list[str]] = {}
    others = []
    for pod in users.pods():
        if place_of(pod) or "deletionTimestamp" in pod["metadata"]:
            continue
        name = pod["metadata"]["name"]
        job = users.job_of(pod)
        if job is not None:
            of_job.setdefault(f"job {job.job_id}: {_reason(job)}", []).append(name)
        else:
            others.append(_alone(pod))
    return [*(f"{_join(names)} ({why})" for why, names in of_job.items()), *others]


def _reason(job: Job) -> str:
    if job.state == "PENDING":
        return job.state_reason
    return "at the gate" if job.configuring else "about to be bound"


def _alone(pod: Object) -> str:
    message = whole_condition(pod, SCHEDULED_CONDITION).get("message", "no job yet")
    return f"{pod['metadata']['name']}: {message}"


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
