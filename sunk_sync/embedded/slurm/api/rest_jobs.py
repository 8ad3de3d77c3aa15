"""Routes of slurmrestd that read jobs, and those about slurmctld itself."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from sunk_sync.embedded.slurm.api.body import refusal, warning
from sunk_sync.embedded.slurm.api.job_shape import job_shape, job_state_shapes
from sunk_sync.embedded.slurm.api.reply import Replies, RestCall, SlurmAnswer
from sunk_sync.embedded.slurm.api.shapes import number
from sunk_sync.embedded.slurm.api.status import conf_shape, diag_shape, ping_shape
from sunk_sync.embedded.slurm.model.array import family
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.release import (
    BAD_QUERY,
    INVALID_JOB,
    NO_CONTROLLER,
    UNSPECIFIED,
    SlurmError,
)
from sunk_sync.embedded.slurm.slurm import SlurmWorld

JOB_ID_MAX: Final = 67_043_328
"""The largest id that slurmrestd accepts (MaxJobId)."""
_WHOLE_ARRAY: Final = warning(
    "Job array Ids are not currently supported for job searches. Showing all jobs in array "
    "instead.",
    "_handle_job_get",
)
_is_id = re.compile(r"[0-9]+(?:_[0-9]+)?").fullmatch


class JobRoutes:
    """One method for each route."""

    def __init__(self, world: SlurmWorld, replies: Replies) -> None:
        self._world = world
        self._memory = world.memory
        self._replies = replies

    def jobs(self, asked: RestCall) -> SlurmAnswer:
        """GET /jobs/; flags have no effect here."""
        if asked.unavailable is not None:
            text = "Unable to query jobs"
            return self._no_jobs(asked, asked.unavailable, text, source="slurm_load_jobs()")
        records = self._records(self._world.jobs.values(), asked)
        none = () if records else (warning("Zero jobs to dump", ""),)
        return self._replies.listed(asked, "jobs", records=records, warnings=none)

    def jobs_state(self, asked: RestCall) -> SlurmAnswer:
        """GET /jobs/state/."""
        if asked.unavailable is None:
            jobs = [
                shape
                for job in self._asked_for(asked)
                for shape in job_state_shapes(job, asked.version)
            ]
            return self._replies.with_payload(asked, {"jobs": jobs})
        error, source = _unspecified(asked.unavailable), "slurm_load_job_state()"
        entry = refusal(error, "Unable to query job states", source=source)
        return self._replies.with_payload(asked, {"jobs": None}, errors=[entry])

    def job(self, asked: RestCall) -> SlurmAnswer:
        """GET /job/{id}; for the id of an array or of one task: all tasks of the array."""
        known = self._world.jobs.get(int(asked.name.partition("_")[0]))
        if asked.unavailable is None and known is not None:
            found = family(self._world.jobs, known)
            entry = [_WHOLE_ARRAY] if "_" in asked.name else []
            records = self._records(found, asked)
            return self._replies.listed(asked, "jobs", records=records, warnings=entry)
        error = _unspecified(asked.unavailable or INVALID_JOB)
        text = f"Unable to query JobId={asked.name}"
        return self._no_jobs(asked, error, text, source="_handle_job_get")

    def ping(self, asked: RestCall) -> SlurmAnswer:
        """GET /ping/: answered at once, even while slurmctld is down."""
        return self._replies.with_payload(
            asked, {"pings": [ping_shape(asked.version, asked.unavailable)]}
        )

    def diag(self, asked: RestCall) -> SlurmAnswer:
        """GET /diag/."""
        if asked.unavailable is None:
            return self._replies.with_payload(asked, {"statistics": diag_shape(self._memory)})
        text = "slurm_get_statistics() failed to get slurmctld statistics"
        return self._replies.failed(asked, asked.unavailable, text=text, source="op_handler_diag")

    def conf(self, asked: RestCall) -> SlurmAnswer:
        """GET /conf, from v0.0.45 on."""
        if asked.unavailable is None:
            return self._replies.with_payload(asked, conf_shape(self._memory))
        text = "slurm_load_ctl_conf() failed"
        return self._replies.failed(asked, asked.unavailable, text=text, source="_dump_config")

    def reconfigure(self, asked: RestCall) -> SlurmAnswer:
        """GET /reconfigure/ reconfigures slurmctld."""
        if asked.unavailable is not None:
            text = "slurm_reconfigure() failed"
            return self._replies.failed(
                asked, asked.unavailable, text=text, source="op_handler_reconfigure"
            )
        self._world.reconfigure(now_s=self._world.now_s)
        return self._replies.without_payload(asked)

    def checked(
        self, route: Callable[[RestCall], SlurmAnswer]
    ) -> Callable[[RestCall], SlurmAnswer]:
        """Wrap a route so that slurmrestd refuses names that are no job id."""

        def checked(asked: RestCall) -> SlurmAnswer:
            return self._rejected(asked) or route(asked)

        return checked

    def _rejected(self, asked: RestCall) -> SlurmAnswer | None:
        if not _is_id(asked.name):
            text = "Rejecting request. Failure parsing parameters"
            entry = refusal(BAD_QUERY, text, source="op_handler_job")
            return self._replies.without_payload(asked, errors=[entry], status=422)
        if int(asked.name.partition("_")[0]) <= JOB_ID_MAX:
            return None
        text = f"Invalid JobID={asked.name} rejected"
        return self._replies.failed(asked, INVALID_JOB, text=text, source="op_handler_job")

    def _asked_for(self, asked: RestCall) -> Iterable[Job]:
        """Return the jobs of the request: all, or those of `?job_id=`.

        The id of an array selects all its tasks. A waiting task selects the record of all waiting
        tasks.
        """
        word = asked.question.query.get("job_id", "")
        if not _is_id(word):
            return self._world.jobs.values()
        number, _, task = word.partition("_")
        known = self._world.jobs.get(int(number))
        found = () if known is None else family(self._world.jobs, known)
        return [job for job in found if not task or int(task) in (job.task, *job.waiting_tasks)]

    def _records(self, jobs: Iterable[Job], asked: RestCall) -> Sequence[bytes]:
        every = (job_shape(job, asked.version, memory=self._memory) for job in jobs)
        return [msgspec.json.encode(shape) for shape in every]

    def _no_jobs(
        self, asked: RestCall, error: SlurmError, text: str, *, source: str
    ) -> SlurmAnswer:
        payload = {"jobs": [], "last_backfill": number(0), "last_update": number(0)}
        entry = refusal(error, text, source=source)
        return self._replies.with_payload(asked, payload, errors=[entry])


def _unspecified(error: SlurmError) -> SlurmError:
    """Replace the error of reads that do not report that slurmctld is down."""
    return UNSPECIFIED if error == NO_CONTROLLER else error
