"""Routes of slurmrestd that change jobs: submissions, allocations, updates, cancels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.api.body import Complaint, refusal, warning
from sunk_sync.embedded.slurm.api.filter import Filter, id_error, mismatch, read_filter
from sunk_sync.embedded.slurm.api.reply import Replies, RestCall, SlurmAnswer
from sunk_sync.embedded.slurm.api.shapes import UNSET, number
from sunk_sync.embedded.slurm.api.submit import (
    Description,
    change_of,
    decoded,
    read_job,
    request_of,
)
from sunk_sync.embedded.slurm.check import is_kept_out, no_room
from sunk_sync.embedded.slurm.model.array import Target, targets
from sunk_sync.embedded.slurm.model.job import ALIVE, JobRequest
from sunk_sync.embedded.slurm.model.release import (
    BAD_EXTERNAL,
    BAD_QUERY,
    FILTERED,
    INVALID_JOB,
    JOB_HELD,
    NO_CONTROLLER,
    NO_DIRECTORY,
    NO_FILTER,
    NO_RESERVATION,
    NOT_AVAILABLE,
    SlurmError,
)
from sunk_sync.embedded.slurm.slurm import SlurmWorld

_UNREADABLE: Final = 422
"""Status of a request that slurmrestd cannot parse; slurmctld does not see it."""


class ChangeRoutes:
    def __init__(self, world: SlurmWorld, replies: Replies) -> None:
        self._world = world
        self._replies = replies

    def submit(self, asked: RestCall) -> SlurmAnswer:
        """POST /job/submit."""
        given, found = self._described(asked, verb="submit")
        if isinstance(found, SlurmAnswer):
            return found
        script = str(given.get("script") or found.script)
        found.script = script
        if not script and found.fields.get("kind") != "external":
            text = 'Populated "script" field is required for job submission'
            found.errors.append(refusal(BAD_QUERY, text, source="_job_post"))
            status = 500 if len(found.errors) > 1 else _UNREADABLE
            return self._replies.without_payload(
                asked, errors=found.errors, warnings=found.warnings, status=status
            )
        text, source = "Batch job submission failed", "slurm_submit_batch_job()"
        request = self._request(found, asked)
        error = self._prevented(asked, found) or self._unfit_batch(found, request)
        made = error or self._world.submit(request, now_s=self._world.now_s)
        if isinstance(made, SlurmError):
            found.errors.append(refusal(made, text, source=source))
            return self._replies.without_payload(
                asked, errors=found.errors, warnings=found.warnings
            )
        found.warnings += self._cannot_start(made, source)
        payload = {"job_id": made, "step_id": "batch", "job_submit_user_msg": ""}
        return self._replies.with_payload(
            asked, payload, errors=found.errors, warnings=found.warnings
        )

    def allocate(self, asked: RestCall) -> SlurmAnswer:
        """POST /job/allocate with `"immediate":true`: the job runs at once or is refused."""
        _, found = self._described(asked, verb="allocate")
        if isinstance(found, SlurmAnswer):
            return found
        if not found.fields.get("immediate"):
            return self._absent("an allocation that waits (no immediate:true)")
        text, source = "Job allocation request failed", "slurm_allocate_resources_blocking()"
        request = self._request(found, asked)
        if request.kind == "batch":
            request = replace(request, kind="allocation", duration_s=None, acted=False)
        # The job always belongs to the user of the token.
        request = replace(request, user_id=None, group_id=0)
        error = self._prevented(asked, found) or _unfit(found, request)
        made = error or self._world.allocate(request, now_s=self._world.now_s)
        if isinstance(made, SlurmError):
            found.errors.append(refusal(made, text, source=source))
            return self._replies.without_payload(
                asked, errors=found.errors, warnings=found.warnings
            )
        payload = {"job_id": made, "job_submit_user_msg": ""}
        return self._replies.with_payload(
            asked, payload, errors=found.errors, warnings=found.warnings
        )

    def _described(
        self, asked: RestCall, *, verb: str
    ) -> tuple[Mapping[str, Any], Description | SlurmAnswer]:
        """Parse the job description in the body; return it or the error response."""
        if (rejected := self._wrong_type(asked)) is not None:
            return {}, rejected
        try:
            given = decoded(asked.question.body)
        except ValueError:
            return {}, self._replies.unreadable_body()
        if not isinstance(given, dict):
            found = read_job(given, asked.version, path="#/")
            return {}, self._replies.without_payload(asked, errors=found.errors)
        if "job" not in given:
            return given, self._without_job(asked, verb)
        found = read_job(given["job"], asked.version)
        if not found.fatal:
            return given, found
        status = 0 if found.errors else _UNREADABLE
        return given, self._replies.without_payload(
            asked, errors=found.errors, warnings=found.warnings, status=status
        )

    def _prevented(self, asked: RestCall, found: Description) -> SlurmError | None:
        return asked.unavailable or found.refused or self._world.plugin_refusal

    def _request(self, found: Description, asked: RestCall) -> JobRequest:
        acted = self._world.setup.knobs.acted_script
        return request_of(found, user=asked.user, acted_script=acted)

    def _unfit_batch(self, found: Description, request: JobRequest) -> SlurmError | None:
        error = _unfit(found, request)
        if error is not None:
            return error
        if request.kind == "external":
            return BAD_EXTERNAL if found.script else None
        return None if "environment" in found.has else self._world.setup.release.no_environment

    def _cannot_start(self, job_id: int, source: str) -> Sequence[Complaint]:
        """Return the warnings for a held job, and for one whose nodes are down or drained."""
        memory = self._world.memory
        job = memory.jobs[job_id]
        if job.held:
            text = JOB_HELD.text
        elif is_kept_out(job, memory) or no_room(job, memory) == NOT_AVAILABLE:
            text = NOT_AVAILABLE.text
        else:
            return []
        said = f"Job submission resulted in non-zero return code: {text}"
        return [warning(said, source), warning(text, source)]

    def update(self, asked: RestCall) -> SlurmAnswer:
        """POST /job/{id} with a job description; of an array only the record with that id."""
        if (rejected := self._wrong_type(asked)) is not None:
            return rejected
        if "_" in asked.name:
            text = (
                "Rejecting request. Submit job update against Array Job's JobID instead of array "
                "task id."
            )
            entry = refusal(BAD_QUERY, text, source="_job_post_update")
            return self._updated(asked, Description(errors=[entry]), status=_UNREADABLE)
        try:
            found = read_job(decoded(asked.question.body), asked.version, path="#/")
        except ValueError:
            return self._replies.unreadable_body()
        if found.fatal:
            text = "Rejecting request. Failure parsing job update request."
            status = 0 if found.errors else _UNREADABLE
            found.errors.append(refusal(BAD_QUERY, text, source="_job_post_update"))
            return self._updated(asked, found, status=status)
        error = self._prevented(asked, found) or self._changed(asked, found)
        if error is not None:
            text, source = "Job update requested failed", "slurm_update_job2()"
            found.errors.append(refusal(error, text, source=source))
        return self._updated(asked, found)

    def _changed(self, asked: RestCall, found: Description) -> SlurmError | None:
        job = self._world.jobs.get(int(asked.name))
        if job is None:
            return INVALID_JOB
        if "reservation" in found.has and job.state in ALIVE:
            return NO_RESERVATION
        update = change_of(found, job.request)
        now_s = self._world.now_s
        return self._world.update_job(job.job_id, update, now_s=now_s, user=asked.user)

    def _updated(self, asked: RestCall, found: Description, *, status: int = 0) -> SlurmAnswer:
        return self._replies.with_payload(
            asked, {"results": None}, errors=found.errors, warnings=found.warnings, status=status
        )

    def cancel_one(self, asked: RestCall) -> SlurmAnswer:
        """DELETE /job/{id}: 200 also for an unknown job."""
        if asked.unavailable is not None:
            return self._replies.with_payload(
                asked, {"status": []}, errors=[_kill_refused(asked.unavailable)]
            )
        failed = self._each(asked.name, self._world.cancel_target)
        return self._replies.with_payload(asked, {"status": failed})

    def cancel(self, asked: RestCall) -> SlurmAnswer:
        """DELETE /jobs/: cancel each job that matches all filters; `status` lists failures only."""
        if (rejected := self._wrong_type(asked)) is not None:
            return rejected
        found = read_filter(asked.question.body, asked.version)
        if found is None:
            return self._replies.unreadable_body()
        if found.absent:
            return self._absent(f"the filter {found.absent}")
        error = None if found.fatal else asked.unavailable or _refused(found)
        if error is not None:
            found.errors.append(_kill_refused(error))
        failed = [] if found.fatal or error is not None else self._cancelled(found)
        status = 500 if found.fatal and not found.errors else 0
        return self._replies.with_payload(
            asked, {"status": failed}, errors=found.errors, warnings=found.warnings, status=status
        )

    def _cancelled(self, found: Filter) -> Sequence[Mapping[str, Any]]:
        """Cancel the jobs; report failures only for ids in the request."""
        if found.ids is not None:

            def kill(target: Target) -> SlurmError | str | None:
                why = mismatch(target.job, found) if target.job.state in ALIVE else ""
                return why or self._world.cancel_target(target)

            return [failure for word in found.ids for failure in self._each(word, kill)]
        for job in list(self._world.jobs.values()):
            if job.state in ALIVE and not mismatch(job, found):
                self._world.cancel_target(Target(job))
        return []

    def _each(
        self, word: str, kill: Callable[[Target], SlurmError | str | None]
    ) -> Sequence[Mapping[str, Any]]:
        """Return the failures for one id; `kill` returns an error or a mismatch."""
        aims = targets(self._world.jobs, word)
        if not aims:
            return [_failure(word, INVALID_JOB, INVALID_JOB.text, job_id=None)]
        failed = []
        for aim in aims:
            error = kill(aim)
            name, job_id = _step(aim), aim.job.job_id
            if isinstance(error, str):
                said = f"{error}: {FILTERED.text}"
                failed.append(_failure(name, FILTERED, said, job_id=job_id))
            elif error is not None:
                failed.append(_failure(name, error, error.text, job_id=job_id))
        return failed

    def _without_job(self, asked: RestCall, verb: str) -> SlurmAnswer:
        word = "Specifying" if self._replies.modern else "Specifing"
        text = f'{word} either "job" or "hetjob" fields are required to {verb} job'
        entry = refusal(BAD_QUERY, text, source="op_handler_alloc_job")
        return self._replies.without_payload(asked, errors=[entry], status=_UNREADABLE)

    def _wrong_type(self, asked: RestCall) -> SlurmAnswer | None:
        kind = asked.question.headers.get("content-type", "").partition(";")[0].strip()
        if asked.question.body.strip() and kind != "application/json":
            return self._replies.unreadable_type(kind)
        return None

    def _absent(self, what: str) -> SlurmAnswer:
        """Refuse a feature that only the real slurmrestd has."""
        return self._replies.text(501, f"not in this world: {what}")


def _unfit(found: Description, request: JobRequest) -> SlurmError | None:
    if not request.directory:
        return NO_DIRECTORY
    return NO_RESERVATION if "reservation" in found.has else None


def _refused(found: Filter) -> SlurmError | None:
    if found.is_empty:
        return NO_FILTER
    return next(filter(None, map(id_error, found.ids or ())), None)


def _kill_refused(error: SlurmError) -> Complaint:
    error = SlurmError(1, "Operation not permitted") if error == NO_CONTROLLER else error
    return refusal(error, "Signal request failed", source="slurm_kill_jobs()")


def _step(aim: Target) -> str:
    job = aim.job
    task = job.task if aim.task is None else aim.task
    return str(job.job_id) if task is None else f"{job.array_id}_{task}"


def _failure(name: str, error: SlurmError, said: str, *, job_id: int | None) -> Mapping[str, Any]:
    return {
        "error": {"string": error.text, "code": error.number, "message": said},
        "step_id": name,
        "job_id": UNSET if job_id is None else number(job_id),
        "federation": {"sibling": ""},
    }
