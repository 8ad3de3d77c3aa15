"""Reads one job now, under its own identity; who asks for tasks of one array shares the answers.

What an answer shows of other tasks is known from then on, too: it need not be read again.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.facts import Deleted, Job, Observed
from sunk_sync.slurm.answers import Answer, Failure
from sunk_sync.slurm.calls import Call, get_job, list_job_states
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

_WHOLE_ARRAY_FROM: Final = 3
_HIDDEN: Final = "it is listed, but PrivateData hides it from the user of our token"


class Found(Struct, frozen=True):
    """What a read of one id showed; no job: Slurm has none so called that is ours."""

    job_id: str
    """As it was asked for."""
    job: Job | None
    record: JobRecord | None
    """Where it stands: of a task that waits the one for all such tasks."""
    asked_s: float
    others: tuple[Job, ...] = ()
    """Tasks that nobody asked for, of the same answer."""

    @property
    def news(self) -> tuple[Observed | Deleted, ...]:
        """The same as facts."""
        others = tuple(Observed(job, self.asked_s) for job in self.others)
        if self.job is None:
            return (Deleted("jobs", "", self.job_id, "", self.asked_s), *others)
        return (Observed(self.job, self.asked_s), *others)


Read = TypeVar("Read")
Finds = dict[str, Found | Failure]
"""By job id."""


class _Shown(Struct, frozen=True):
    """Records of ours in one answer."""

    records: Sequence[JobRecord]
    asked_s: float


class _Round:
    """Those who ask for tasks of one array before its next read begins."""

    def __init__(self) -> None:
        self.job_ids: dict[str, None] = {}
        self.found: Finds = {}


class JobLook:
    """Reads under way, and who waits for the next one."""

    def __init__(self, client: Slurm, clock: Clock, *, book: JobBook) -> None:
        self._client = client
        self._clock = clock
        self._book = book
        self._next: dict[str, _Round] = {}
        """By array."""
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, job_id: str) -> Found | Failure:
        """Read the job of this id, a task also by the id of its own that it has since it started.

        The read begins after this call, and the book knows what it showed.
        """
        number = self._book.record_id(job_id)
        array, _, task = job_id.partition("_")
        if not number:
            return Failure("refused", f"no id of a job: {job_id}")
        if number == array and task:
            return await self._find_task(array, job_id)
        return (await self._read({job_id: number}))[job_id]

    async def _find_task(self, array: str, job_id: str) -> Found | Failure:
        """Together with all others of its array that are asked for until it is their turn."""
        mine = self._next.setdefault(array, _Round())
        mine.job_ids[job_id] = None
        async with self._reading.setdefault(array, asyncio.Lock()):
            if not mine.found:
                await asyncio.sleep(0)  # who asks in the same moment may still join
                if self._next.get(array) is mine:
                    del self._next[array]
                mine.found = await self._read_tasks(array, list(mine.job_ids))
        return mine.found[job_id]

    async def _read_tasks(self, array: str, job_ids: Sequence[str]) -> Finds:
        """A task that has just started has a record of its own: the states say which, and spare
        the records of all others of its array, unless most of them are asked for.
        """
        numbers = dict.fromkeys(job_ids, array)
        if not _has_others(self._book.arrays.get(array)):
            return await self._read(numbers)
        _, listed = await _states(self._client, job_ids[0] if len(job_ids) == 1 else array)
        if isinstance(listed, Failure):
            return dict.fromkeys(job_ids, listed)
        started = {one.partition("_")[2]: number_in(one) for one in listed}
        numbers = {one: started.get(one.partition("_")[2], array) for one in job_ids}
        records = {number for number in started.values() if number != array}
        if array in numbers.values() or pays_whole(len(numbers), of=len(records)):
            numbers = dict.fromkeys(job_ids, array)
        return await self._read(numbers)

    async def _read(self, numbers: Mapping[str, str]) -> Finds:
        """Jobs by id, each in the record of this number."""
        distinct = list(dict.fromkeys(numbers.values()))
        shown = dict(zip(distinct, await asyncio.gather(*map(self._show, distinct)), strict=True))
        found = {one: await self._pick(one, shown[number]) for one, number in numbers.items()}
        for one, what in found.items():
            self._learn(one, what)
        for first, number in list(numbers.items())[:1]:
            found[first] = self._with_others(found[first], shown[number], asked=found)
        return found

    async def _show(self, number: str) -> _Shown | Failure:
        asked_s = self._clock()
        records, answer = await _read_each(self._client, get_job(number), read_job)
        if isinstance(answer, Failure):
            why = await why_no_record(self._client, answer, number=number)
            return _Shown((), asked_s) if why is None else why
        mine = [record for record in records if self._book.is_mine(record)]
        return _Shown(mine, answer.asked_s)

    async def _pick(self, job_id: str, shown: _Shown | Failure) -> Found | Failure:
        if isinstance(shown, Failure):
            return shown
        for record in shown.records:
            job = job_of(record)
            if job is not None and job_id in (job.job_id, str(record.number)):
                return Found(job_id, job, record, shown.asked_s)
        array, _, task = job_id.partition("_")
        for record in sorted(shown.records, key=_shared_first):
            if task.isdecimal() and str(record.array) == array:
                return await self._find_waiting(replace(record, task=None), job_id=job_id)
        return Found(job_id, None, None, shown.asked_s)

    async def _find_waiting(self, record: JobRecord, *, job_id: str) -> Found | Failure:
        """A task without a record of its own waits, or was cancelled: the states say which."""
        asked_s, listed = await _states(self._client, job_id)
        if isinstance(listed, Failure):
            return listed
        task = int(job_id.partition("_")[2])
        if job_id in listed:
            return Found(job_id, job_of(record, task), record, asked_s)
        if any(one.endswith(f"_{task}") for one in listed):
            return Failure("garbage", f"job {job_id} started just now")
        return Found(job_id, withdrawn(record, task), record, asked_s)

    def _learn(self, job_id: str, found: Found | Failure) -> None:
        if isinstance(found, Failure) or self._book.is_past(job_id, asked_s=found.asked_s):
            return
        if found.job is None or found.record is None:
            self._book.learn_gone(job_id)
            return
        self._book.learn(found.job, asked_s=found.asked_s)
        if found.record.task is not None:
            self._book.learn_number(found.job.job_id, found.record, asked_s=found.asked_s)

    def _with_others(
        self, found: Found | Failure, shown: _Shown | Failure, *, asked: Finds
    ) -> Found | Failure:
        """What the answer for this one shows of tasks that nobody asked for."""
        if isinstance(found, Failure) or isinstance(shown, Failure):
            return found
        others: list[Job] = []
        for record in shown.records:
            job = job_of(record)
            if job is not None and not {job.job_id, str(record.number)} & asked.keys():
                self._learn(job.job_id, Found(job.job_id, job, record, shown.asked_s))
                others.append(job)
        return replace(found, others=tuple(others))


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


async def _read_each(
    client: Slurm, call: Call, read: Callable[[bytes], Read | Failure]
) -> tuple[list[Read], Answer | Failure]:
    """What stands in one answer; a failure where one piece of it cannot be read."""
    found: list[Read] = []

    async def take(pieces: Sequence[bytes], asked_s: float) -> Failure | None:
        del asked_s
        for piece in pieces:
            one = read(piece)
            if isinstance(one, Failure):
                return one
            found.append(one)
        return None

    return found, await client.read_records(call, "jobs", take)


async def _states(client: Slurm, job_id: str) -> tuple[float, set[str] | Failure]:
    """Since when it is so, and the listed ids: of a task its own and perhaps those of others, of an
    array all.
    """
    states, answer = await _read_each(client, list_job_states(of=job_id), read_state)
    listed = {state.listed_id for state in states}
    return (answer.asked_s, listed) if isinstance(answer, Answer) else (0.0, answer)


def pays_whole(wanted: int, *, of: int) -> bool:
    """Whether one read of an array with so many records is better than so many reads of one each:
    it shows those that nobody asked for, too, at 9 kB each.
    """
    return wanted >= _WHOLE_ARRAY_FROM and 4 * wanted >= 3 * of


def _has_others(array: JobRecord | None) -> bool:
    return array is not None and array.identity is not None and len(array.identity.uids) > 1


def _shared_first(record: JobRecord) -> bool:
    """The record of the tasks that wait comes first: their marks stand in its text."""
    return record.number != record.array
