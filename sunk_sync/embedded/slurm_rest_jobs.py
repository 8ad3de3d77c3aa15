"""What slurmrestd answers about jobs, and about slurmctld itself."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sunk_sync.embedded.slurm import SlurmWorld
from sunk_sync.embedded.slurm_body import Complaint, refusal, warning
from sunk_sync.embedded.slurm_job import JobRequest
from sunk_sync.embedded.slurm_release import INVALID_JOB, NO_CONTROLLER, UNSPECIFIED, SlurmError
from sunk_sync.embedded.slurm_reply import Asked, Replies, SlurmAnswer
from sunk_sync.embedded.slurm_shapes import UNSET, job_shape, job_state_shape, number
from sunk_sync.embedded.slurm_status import conf_shape, diag_shape, ping_shape
from sunk_sync.embedded.slurm_submit import read_job

NOT_AVAILABLE: Final = "Required node not available (down, drained or reserved)"
JOB_ID_MAX: Final = 67_043_328
"""slurmrestd itself refuses to ask for more (MaxJobId)."""


class JobRoutes:
    """One method for each path and method."""

    def __init__(self, world: SlurmWorld, replies: Replies) -> None:
        self._world = world
        self._memory = world.memory
        self._replies = replies

    # --- jobs

    def jobs(self, asked: Asked) -> SlurmAnswer:
        """GET /jobs/; flags change nothing here."""
        if asked.trouble is not None:
            text = "Unable to query jobs"
            return self._no_jobs(asked, asked.trouble, text, source="slurm_load_jobs()")
        every = self._world.jobs.values()
        records = [msgspec.json.encode(job_shape(job, memory=self._memory)) for job in every]
        none = () if records else (warning("Zero jobs to dump", ""),)
        return self._replies.listed(asked, "jobs", records=records, warnings=none)

    def jobs_state(self, asked: Asked) -> SlurmAnswer:
        """GET /jobs/state/."""
        if asked.trouble is None:
            jobs = [job_state_shape(job) for job in self._world.jobs.values()]
            return self._replies.told(asked, {"jobs": jobs})
        error, source = _unspecified(asked.trouble), "slurm_load_job_state()"
        told = refusal(error, "Unable to query job states", source=source)
        return self._replies.told(asked, {"jobs": None}, errors=[told])

    def job(self, asked: Asked) -> SlurmAnswer:
        """GET /job/{id}."""
        if (rejected := self._rejected(asked)) is not None:
            return rejected
        known = self._world.jobs.get(int(asked.name)) if asked.name.isdecimal() else None
        if asked.trouble is None and known is not None:
            record = msgspec.json.encode(job_shape(known, memory=self._memory))
            return self._replies.listed(asked, "jobs", records=[record])
        error = _unspecified(asked.trouble or INVALID_JOB)
        text = f"Unable to query JobId={asked.name}"
        return self._no_jobs(asked, error, text, source="_handle_job_get")

    def submit(self, asked: Asked) -> SlurmAnswer:
        """POST /job/submit; see slurm_submit for what is read of it."""
        text, source = "Batch job submission failed", "slurm_submit_batch_job()"
        request = read_job(asked.question.body, user=asked.user)
        if request is None:
            return self._replies.unreadable_body()
        job_id: int | SlurmError | None = asked.trouble
        if job_id is None:
            job_id = self._world.submit(request, now_s=self._world.now_s)
        if isinstance(job_id, SlurmError):
            return self._replies.failed(asked, job_id, text=text, source=source)
        payload = {"job_id": job_id, "step_id": "batch", "job_submit_user_msg": ""}
        warnings = (
            _cannot_start(text=NOT_AVAILABLE, source=source) if self._blocked(request) else []
        )
        return self._replies.told(asked, payload, warnings=warnings)

    def cancel(self, asked: Asked) -> SlurmAnswer:
        """DELETE /job/{id}: 200 also for a job that is not there."""
        if (rejected := self._rejected(asked)) is not None:
            return rejected
        if asked.trouble is not None:
            away = asked.trouble == NO_CONTROLLER
            error = SlurmError(1, "Operation not permitted") if away else asked.trouble
            told = refusal(error, "Signal request failed", source="slurm_kill_jobs()")
            return self._replies.told(asked, {"status": []}, errors=[told])
        job_id = int(asked.name) if asked.name.isdecimal() else 0
        refused = self._world.cancel(job_id, now_s=self._world.now_s)
        status = [] if refused is None else [_refused(asked.name, refused)]
        return self._replies.told(asked, {"status": status})

    # --- slurmctld itself

    def ping(self, asked: Asked) -> SlurmAnswer:
        """GET /ping/: answered at once, whatever happened to slurmctld."""
        return self._replies.told(asked, {"pings": [ping_shape(asked.version, asked.trouble)]})

    def diag(self, asked: Asked) -> SlurmAnswer:
        """GET /diag/."""
        if asked.trouble is None:
            return self._replies.told(asked, {"statistics": diag_shape(self._memory)})
        text = "slurm_get_statistics() failed to get slurmctld statistics"
        return self._replies.failed(asked, asked.trouble, text=text, source="op_handler_diag")

    def conf(self, asked: Asked) -> SlurmAnswer:
        """GET /conf, from v0.0.45 on."""
        if asked.trouble is None:
            return self._replies.told(asked, conf_shape(self._memory))
        text = "slurm_load_ctl_conf() failed"
        return self._replies.failed(asked, asked.trouble, text=text, source="_dump_config")

    def reconfigure(self, asked: Asked) -> SlurmAnswer:
        """GET /reconfigure/ does what it says."""
        if asked.trouble is not None:
            text = "slurm_reconfigure() failed"
            return self._replies.failed(
                asked, asked.trouble, text=text, source="op_handler_reconfigure"
            )
        self._world.reconfigure(now_s=self._world.now_s)
        return self._replies.wrote(asked)

    def _rejected(self, asked: Asked) -> SlurmAnswer | None:
        """A number that no job can have is not even asked for."""
        if not asked.name.isdecimal() or int(asked.name) <= JOB_ID_MAX:
            return None
        text = f"Invalid JobID={asked.name} rejected"
        return self._replies.failed(asked, INVALID_JOB, text=text, source="op_handler_job")

    def _blocked(self, request: JobRequest) -> bool:
        """Nodes that it must have are down or drained."""
        nodes = (self._world.nodes[name] for name in request.required_nodes)
        return any(node.base != "IDLE" or node.flags & {"DRAIN", "FAIL"} for node in nodes)

    def _no_jobs(self, asked: Asked, error: SlurmError, text: str, *, source: str) -> SlurmAnswer:
        payload = {"jobs": [], "last_backfill": number(0), "last_update": number(0)}
        told = refusal(error, text, source=source)
        return self._replies.told(asked, payload, errors=[told])


def _cannot_start(*, text: str, source: str) -> Sequence[Complaint]:
    said = f"Job submission resulted in non-zero return code: {text}"
    return [warning(said, source), warning(text, source)]


def _unspecified(error: SlurmError) -> SlurmError:
    """Some reads do not say that slurmctld is down."""
    return UNSPECIFIED if error == NO_CONTROLLER else error


def _refused(job_id: str, error: SlurmError) -> Mapping[str, Any]:
    return {
        "error": {"string": error.text, "code": error.number, "message": error.text},
        "step_id": job_id,
        "job_id": UNSET,
        "federation": {"sibling": ""},
    }
