"""Jobs as slurmrestd writes them, in every API version."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from sunk_sync.embedded.slurm.api.shapes import INFINITE, UNSET, Shape, number
from sunk_sync.embedded.slurm.memory import Memory
from sunk_sync.embedded.slurm.model.array import spelled, state_ids
from sunk_sync.embedded.slurm.model.gres import Gres
from sunk_sync.embedded.slurm.model.job import ALIVE, ON_NODES, Job, JobRequest, states_of
from sunk_sync.embedded.slurm.model.names import ranged as spelled_names

_ZERO: Final = number(0)
_NAMES_KEPT: Final = 1024
_YEAR_S: Final = 365 * 86_400
"""Expected duration of a job without a time limit."""


def job_shape(job: Job, version: str, *, memory: Memory) -> Shape:
    """Return one element of `jobs`, without fields for schedulers and accounting."""
    return {
        **_asked(job.request, version),
        **_array(job),
        **_state(job),
        **_size(job, memory),
        **_times(job, memory.setup.epoch_s),
        "cluster": memory.setup.cluster,
        "job_id": job.job_id,
        "partition": job.partition,
        "hold": job.request.priority == 0,
        "priority": number(job.request.priority),
    }


def _asked(request: JobRequest, version: str) -> Shape:
    uid = _uid(request)
    shared = request.shared or ("none" if request.exclusive else "")
    return {
        "account": request.account,
        "admin_comment": request.admin_comment,
        "batch_flag": request.kind == "batch",
        "command": request.command,
        "comment": request.comment,
        "cpus_per_task": number(request.cpus_per_task),
        "current_working_directory": request.directory,
        "excluded_nodes": ranged(request.excluded_nodes),
        "extra": request.extra,
        "features": "&".join(request.features),
        "flags": ["EXTERNAL_JOB"] if request.kind == "external" else [],
        "group_id": request.group_id,
        "memory_per_node": number(request.memory_mb),
        "name": request.name,
        "prefer": request.prefer,
        "qos": request.qos,
        "required_nodes": ranged(request.required_nodes),
        "requeue": request.requeue,
        "shared": [shared] if shared and version < "v0.0.45" else [],
        "tasks": number(request.tasks or request.nodes),
        "tasks_per_node": number(request.tasks_per_node),
        "time_limit": INFINITE
        if request.time_limit_min is None
        else number(request.time_limit_min),
        "tres_per_node": request.tres_per_node,
        "user_id": uid,
        "user_name": {0: "root", 65534: "nobody"}.get(uid, request.user if uid == 1000 else ""),
    }


@lru_cache(maxsize=_NAMES_KEPT)
def ranged(names: tuple[str, ...]) -> str:
    return spelled_names(names)


def _uid(request: JobRequest) -> int:
    if request.user_id is not None:
        return request.user_id
    return {"root": 0, "nobody": 65534, "slurm": 64030}.get(request.user, 1000)


def _array(job: Job) -> Shape:
    task = UNSET if job.task is None else number(job.task)
    return {
        "array_job_id": number(job.array_id),
        "array_task_id": task,
        "array_task_string": spelled(job.waiting_tasks, job.request.array_most),
        "array_max_tasks": number(job.request.array_most),
    }


def _state(job: Job) -> Shape:
    return {
        "job_state": states_of(job),
        "state_reason": job.state_reason,
        "state_description": job.state_description,
        "restart_cnt": job.restarts,
        "exit_code": {
            "status": [_exit_status(job)],
            "return_code": number(job.exit_code),
            "signal": {"id": UNSET, "name": ""},
        },
    }


def _exit_status(job: Job) -> str:
    return "SIGNALED" if job.signalled else "ERROR" if job.exit_code else "SUCCESS"


def _size(job: Job, memory: Memory) -> Shape:
    request, nodes = job.request, len(job.nodes) or job.request.nodes
    on_nodes = [memory.nodes[name] for name in job.nodes if name in memory.nodes]
    whole = request.exclusive and on_nodes
    cpus = sum(node.spec.cpus for node in on_nodes) if whole else request.cpus * nodes
    return {
        "batch_host": job.nodes[0] if job.nodes else "",
        "cpus": number(cpus),
        "gres_detail": list(_details(job.gres)) if job.state in ON_NODES else [],
        "node_count": number(nodes),
        "nodes": ranged(job.nodes),
        "job_resources": {"nodes": {"count": len(job.nodes), "list": ranged(job.nodes)}}
        if job.nodes
        else {},
    }


def _details(gres: Iterable[Gres]) -> Iterable[str]:
    """Yield one text for each node, without numbers of devices."""
    for each in gres:
        if each:
            yield ",".join(f"{kind}:{count}" for kind, count in each)


def _times(job: Job, epoch_s: float) -> Shape:
    times = {
        "submit_time": job.submitted_s,
        "eligible_time": job.eligible_s,
        "start_time": _start_s(job),
        "end_time": _end_s(job),
        "preempt_time": job.preempted_s,
    }
    return {
        name: _ZERO if world_s is None else number(int(epoch_s + world_s))
        for name, world_s in times.items()
    }


def _start_s(job: Job) -> float | None:
    waits = job.state == "PENDING" and not job.ending
    return (job.eligible_s if job.restarts else None) if waits else job.started_s


def _end_s(job: Job) -> float | None:
    if job.state not in ALIVE:
        return job.ended_s
    if job.state not in ON_NODES or job.started_s is None:
        return None
    limit_min = job.request.time_limit_min
    limit_s = _YEAR_S if limit_min is None else 60.0 * limit_min
    return job.ends_by_s if job.ends_by_s is not None else job.started_s + limit_s


def job_state_shapes(job: Job, version: str) -> Sequence[Shape]:
    """Return the elements of /jobs/state/ for a job: one for each waiting task of an array."""
    names = state_ids(job, by_array=version <= "v0.0.40")
    return [{"job_id": name, "state": states_of(job)} for name in names]
