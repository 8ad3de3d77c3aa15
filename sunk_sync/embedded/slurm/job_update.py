"""Updates of jobs, as slurmctld performs them."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.check import invalid
from sunk_sync.embedded.slurm.memory import Memory
from sunk_sync.embedded.slurm.model.job import ALIVE, Job
from sunk_sync.embedded.slurm.model.release import (
    INVALID_USER,
    JOB_FINISHED,
    JOB_HELD,
    NOT_ALLOWED,
    NOT_PENDING,
    SlurmError,
)
from sunk_sync.embedded.slurm.model.tokens import OPERATORS

JobUpdate = Mapping[str, Any]
"""Fields of JobRequest with their new values; `hold` is True or False."""

_ANY_TIME: Final = frozenset(
    {"name", "comment", "admin_comment", "extra", "priority", "time_limit_min", "hold", "requeue"}
)  # fmt: skip
_NEVER: Final = frozenset({"user_id"})
_TOLERATED: Final = frozenset(
    {"account", "array", "array_most", "command", "group_id", "kind", "qos"}
)  # fmt: skip
"""Fields that are accepted without effect."""


def updated_job(job: Job, update: JobUpdate, *, memory: Memory, user: str) -> Job | SlurmError:
    given = {name: value for name, value in update.items() if name not in _TOLERATED}
    error = _refusal(job, given, user)
    if error is not None:
        return error
    hold = given.pop("hold", None)
    partition = given.get("partition") or job.partition
    changed = replace(job, request=replace(job.request, **given), partition=partition)
    error = invalid(changed.request, memory)
    if error is not None:
        return error
    if hold is not None:
        return _held(changed) if hold else _released(changed)
    looked_at_anew = changed.state == "PENDING" and not changed.held
    return (
        replace(changed, state_reason="None", state_description="") if looked_at_anew else changed
    )


def _refusal(job: Job, given: JobUpdate, user: str) -> SlurmError | None:
    if user not in (*OPERATORS, job.request.user):
        return INVALID_USER
    if job.state not in ALIVE:
        return JOB_FINISHED
    if "admin_comment" in given and user not in OPERATORS:
        return NOT_ALLOWED
    if given.keys() & _NEVER:
        return INVALID_USER
    if job.state != "PENDING" and given.keys() - _ANY_TIME:
        return NOT_PENDING
    return JOB_HELD if "priority" in given and job.held else None


def _held(job: Job) -> Job:
    """Hold a job; a running one continues to run."""
    return replace(
        job,
        request=replace(job.request, priority=0),
        state_reason="JobHeldAdmin",
        state_description="",
    )


def _released(job: Job) -> Job:
    if job.request.priority:
        return job
    return replace(job, request=replace(job.request, priority=1), state_reason="None")
