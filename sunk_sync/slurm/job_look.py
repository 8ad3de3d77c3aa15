"""Reads one job now, under its own identity."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.facts import Deleted, Job, Observed
from sunk_sync.slurm.answers import Answer, Failure
from sunk_sync.slurm.calls import get_job, list_job_states
from sunk_sync.slurm.client import Slurm
from sunk_sync.slurm.job_book import JobBook
from sunk_sync.slurm.jobs import (
    NO_SUCH_JOB,
    JobRecord,
    job_of,
    number_in,
    read_job,
    read_state,
    withdrawn,
)
from sunk_sync.slurm.wire import Clock

_HIDDEN: Final = "it is listed, but PrivateData hides it from the user of our token"


class Found(Struct, frozen=True):
    """What a read of one id showed; no job: Slurm has none so called that is ours."""

    job_id: str
    """As it was asked for."""
    job: Job | None
    record: JobRecord | None
    """Where it stands: of a task that waits the one for all such tasks."""
    asked_s: float

    @property
    def news(self) -> tuple[Observed | Deleted]:
        """The same as a fact."""
        if self.job is None:
            return (Deleted("jobs", "", self.job_id, "", self.asked_s),)
        return (Observed(self.job, self.asked_s),)


async def find_job(client: Slurm, book: JobBook, *, job_id: str, clock: Clock) -> Found | Failure:
    """Read the job of this id, a task also by the id of its own that it has since it started."""
    records: list[JobRecord] = []

    async def take(pieces: Sequence[bytes], asked_s: float) -> Failure | None:
        del asked_s
        for piece in pieces:
            record = read_job(piece)
            if isinstance(record, Failure):
                return record
            records.append(record)
        return None

    asked_s = clock()
    number = await _number_of(client, book, job_id)
    if isinstance(number, Failure):
        return number
    answer = await client.read_records(get_job(number), "jobs", take)
    if isinstance(answer, Failure):
        why = await why_no_record(client, answer, number=number)
        return Found(job_id, None, None, asked_s) if why is None else why
    mine = [record for record in records if book.is_mine(record)]
    return await _picked(client, mine, job_id=job_id, asked_s=answer.asked_s)


async def why_no_record(client: Slurm, answer: Failure, *, number: str) -> Failure | None:
    """None: Slurm has no such job. It says so too of one that PrivateData hides from our token,
    but the states show that one.
    """
    if answer.error_number != NO_SUCH_JOB:
        return answer
    _, listed = await _states(client, number)
    if isinstance(listed, Failure):
        return listed
    return Failure("auth", _HIDDEN) if listed else None


async def _number_of(client: Slurm, book: JobBook, job_id: str) -> str | Failure:
    """Of the record to read. A task that has just started has one of its own: the states say which,
    and spare the records of all others of its array.
    """
    number = book.record_id(job_id)
    array, _, task = job_id.partition("_")
    if not number:
        return Failure("refused", f"no id of a job: {job_id}")
    if number != array or not task or not _has_others(book.arrays.get(array)):
        return number
    _, listed = await _states(client, array)
    if isinstance(listed, Failure):
        return listed
    started = (number_in(one) for one in listed if one.endswith(f"_{task}"))
    return next(started, number)


def _has_others(array: JobRecord | None) -> bool:
    return array is not None and array.identity is not None and len(array.identity.uids) > 1


async def _picked(
    client: Slurm, records: Sequence[JobRecord], *, job_id: str, asked_s: float
) -> Found | Failure:
    for record in records:
        job = job_of(record)
        if job is not None and job_id in (job.job_id, str(record.number)):
            return Found(job_id, job, record, asked_s)
    array, _, task = job_id.partition("_")
    for record in sorted(records, key=_shared_first):
        if task.isdecimal() and str(record.array) == array:
            return await _waiting(client, replace(record, task=None), job_id=job_id)
    return Found(job_id, None, None, asked_s)


def _shared_first(record: JobRecord) -> bool:
    """The record of the tasks that wait comes first: their marks stand in its text."""
    return record.number != record.array


async def _waiting(client: Slurm, record: JobRecord, *, job_id: str) -> Found | Failure:
    """A task without a record of its own waits, or was cancelled: the states say which."""
    asked_s, listed = await _states(client, str(record.array))
    if isinstance(listed, Failure):
        return listed
    task = int(job_id.partition("_")[2])
    if job_id in listed:
        return Found(job_id, job_of(record, task), record, asked_s)
    if any(one.endswith(f"_{task}") for one in listed):
        return Failure("garbage", f"job {job_id} started just now")
    return Found(job_id, withdrawn(record, task), record, asked_s)


async def _states(client: Slurm, number: str) -> tuple[float, set[str] | Failure]:
    """Since when it is so, and the listed ids of the job or of all tasks."""
    listed: set[str] = set()

    async def take(pieces: Sequence[bytes], asked_s: float) -> Failure | None:
        del asked_s
        for piece in pieces:
            state = read_state(piece)
            if isinstance(state, Failure):
                return state
            listed.add(state.listed_id)
        return None

    answer = await client.read_records(list_job_states(of=number), "jobs", take)
    return (answer.asked_s, listed) if isinstance(answer, Answer) else (0.0, answer)
