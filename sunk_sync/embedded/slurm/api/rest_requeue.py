"""POST /jobs/requeue of slurmrestd, from v0.0.45 on, with the flag Incomplete."""

from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.api.body import Complaint, refusal
from sunk_sync.embedded.slurm.api.reply import Replies, RestCall, SlurmAnswer
from sunk_sync.embedded.slurm.model.array import Target, targets
from sunk_sync.embedded.slurm.model.release import INVALID_JOB, WAITING_JOB, SlurmError
from sunk_sync.embedded.slurm.slurm import SlurmWorld

SINCE: Final = "v0.0.45"
_SOURCE: Final = "op_handler_jobs_requeue"
_REFUSED: Final = 422


class _Body(Struct, frozen=True):
    jobs: list[str] = []


_body = msgspec.json.Decoder(_Body).decode


class RequeueRoute:
    def __init__(self, world: SlurmWorld, replies: Replies) -> None:
        self._world = world
        self._replies = replies

    def requeue(self, asked: RestCall) -> SlurmAnswer:
        """Requeue each job that runs. Those that may not be requeued are named, the others go."""
        if asked.version < SINCE:
            return self._replies.unserved()
        try:
            names = _body(asked.question.body).jobs
        except msgspec.DecodeError:
            return self._replies.unreadable_body()
        if asked.unavailable is not None or not names:
            error = asked.unavailable or INVALID_JOB
            return self._replies.failed(asked, error, text="Query missing JobIds", source=_SOURCE)
        errors = [complaint for name in names for complaint in self._one(name)]
        status = _REFUSED if len(errors) > 1 else 0
        return self._replies.with_payload(asked, {"status": []}, errors=errors, status=status)

    def _one(self, name: str) -> list[Complaint]:
        aims = targets(self._world.jobs, name)
        found = [self._requeued(aim) for aim in aims] or [INVALID_JOB]
        text = f"Requeue JobId={name} failed"
        return [refusal(error, text, source=_SOURCE) for error in found if error is not None]

    def _requeued(self, aim: Target) -> SlurmError | None:
        job = aim.job
        if job.state == "PENDING":
            return WAITING_JOB
        if job.state != "RUNNING":
            return None
        return self._world.requeue_job(job.job_id, now_s=self._world.now_s)
