"""Read one job now, by its own identity. Callers for tasks of one array share the answers.

Other tasks in an answer become known too, and need no further read.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.facts import Deleted, Job, Observed
from sunk_sync.core.translate.job_states import is_placed
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import SlurmCall, get_job, list_job_states
from sunk_sync.slurm.api.transport import CONNECTIONS_MAX
from sunk_sync.slurm.decode.jobs import (
    NO_SUCH_JOB,
    JobRecord,
    States,
    job_of,
    number_in,
    read_job,
    read_state,
    withdrawn,
)
from sunk_sync.slurm.read.job_owners import JobOwners

_WHOLE_ARRAY_FROM: Final = 3
_HIDDEN: Final = "it is listed, but PrivateData hides it from the user of our token"


class Enough(Struct, frozen=True):
    """Which earlier read is new enough for a caller."""

    after_s: float
    """One that began later than this."""
    placed_after_s: float = math.inf
    """One that began later than this and shows where the job runs."""

    def and_for(self, other: "Enough") -> "Enough":
        """Return what is enough for both callers."""
        return Enough(
            max(self.after_s, other.after_s), max(self.placed_after_s, other.placed_after_s)
        )


READ_NOW: Final = Enough(math.inf)
"""No earlier read is enough."""


class Found(Struct, frozen=True):
    """The result of a read of one id; job None: Slurm has no such job of sunk-sync."""

    job_id: str
    """As requested."""
    job: Job | None
    record: JobRecord | None
    """The record with the job; for a waiting task that of all waiting tasks."""
    asked_s: float
    others: tuple[Job, ...] = ()
    """Other tasks in the same answer."""

    @property
    def news(self) -> tuple[Observed | Deleted, ...]:
        """Return the result as facts."""
        others = tuple(Observed(job, self.asked_s) for job in self.others)
        if self.job is None:
            return (Deleted("jobs", "", self.job_id, "", self.asked_s), *others)
        return (Observed(self.job, self.asked_s), *others)


Read = TypeVar("Read")
Finds = dict[str, Found | SlurmError]


class _Shown(Struct, frozen=True):
    """Records of sunk-sync in one answer."""

    records: Sequence[JobRecord]
    asked_s: float


class _Round:
    """The callers for tasks of one array before its next read begins."""

    def __init__(self) -> None:
        self.job_ids: dict[str, Enough] = {}
        self.found: Finds = {}


class JobFinder:
    """Reads jobs; callers wait for a shared read."""

    def __init__(self, client: Slurm, clock: Clock, *, job_owners: JobOwners) -> None:
        self._client = client
        self._clock = clock
        self._job_owners = job_owners
        self._next: dict[str, _Round] = {}
        """By array."""
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        """A caller that gets its turn first checks whether it still needs a read."""

    async def find(self, job_id: str, enough: Enough = READ_NOW) -> Found | SlurmError:
        """Read the job of this id; a started task also has a record number of its own.

        The read begins after this call, and its result goes to JobOwners. An earlier read that is
        `enough` replaces it, without the record.
        """
        known = self._known(job_id, enough)
        if known is not None:
            return known
        number = self._job_owners.record_id(job_id)
        array, _, task = job_id.partition("_")
        if not number:
            return SlurmError("refused", f"no id of a job: {job_id}")
        if number == array and task:
            return await self._find_task(array, job_id, enough)
        async with self._slots:
            known = self._known(job_id, enough)
            return known or (await self._read({job_id: number}))[job_id]

    def _known(self, job_id: str, enough: Enough) -> Found | None:
        job = self._job_owners.at(job_id)
        if job is None:
            return None
        placed_after_s = enough.placed_after_s if is_placed(job) else math.inf
        read_s = self._job_owners.read_since(job_id, after_s=min(enough.after_s, placed_after_s))
        return None if read_s is None else Found(job_id, job, None, read_s)

    async def _find_task(self, array: str, job_id: str, enough: Enough) -> Found | SlurmError:
        """Read the task together with all other tasks requested before its turn."""
        mine = self._next.setdefault(array, _Round())
        mine.job_ids[job_id] = enough.and_for(mine.job_ids.get(job_id, enough))
        async with self._job_owners.reading(array):
            if not mine.found:
                async with self._slots:
                    await asyncio.sleep(0)  # callers of the same moment may still join
                    if self._next.get(array) is mine:
                        del self._next[array]
                    mine.found = await self._find_tasks(array, mine.job_ids)
        return mine.found[job_id]

    async def _find_tasks(self, array: str, wanted: Mapping[str, Enough]) -> Finds:
        """Read only the records of these tasks, unless most tasks of the array must be read anyway.

        A task that has just started has a record of its own: the states show its number.
        """
        found: Finds = {}
        left = self._take_known(wanted, found)
        numbers: Mapping[str, str] = dict.fromkeys(left, array)
        if left and _has_others(self._job_owners.arrays.get(array)):
            numbered = await self._numbers(array, left)
            if isinstance(numbered, SlurmError):
                return found | dict.fromkeys(left, numbered)
            numbers = numbered
            left = self._take_known({one: wanted[one] for one in left}, found)
        return found | await self._read({one: numbers[one] for one in left})

    def _take_known(self, wanted: Mapping[str, Enough], found: Finds) -> Sequence[str]:
        """Put the jobs that JobOwners knows by now into `found`; return the other ids."""
        known = {one: self._known(one, enough) for one, enough in wanted.items()}
        found.update({one: what for one, what in known.items() if what is not None})
        return [one for one in wanted if one not in found]

    async def _numbers(self, array: str, job_ids: Sequence[str]) -> Mapping[str, str] | SlurmError:
        """Return the number of each task's record."""
        _, listed = await _states(self._client, job_ids[0] if len(job_ids) == 1 else array)
        if isinstance(listed, SlurmError):
            return listed
        started = {one.partition("_")[2]: number_in(one) for one in listed}
        numbers = {one: started.get(one.partition("_")[2], array) for one in job_ids}
        if array in numbers.values() or self._pays_whole(array, listed, job_ids):
            return dict.fromkeys(job_ids, array)
        return numbers

    def _pays_whole(self, array: str, listed: Mapping[str, States], job_ids: Sequence[str]) -> bool:
        """Whether to read the whole array, because most of its running tasks are not read yet.

        The last task to start has the number of the array, and can be read only with all others.
        """
        own = {f"{array}_{one.partition('_')[2]}": number_in(one) for one in listed}
        unread = {one for one in own if not self._job_owners.is_placed(one)}
        shared = [one for one, number in own.items() if number == array]
        if len(shared) == 1 and "RUNNING" in listed.get(shared[0], ()) and shared[0] in unread:
            return True
        alone = own.keys() - {*shared}
        return pays_whole(len((unread | {*job_ids}) & alone), of=len(alone))

    async def _read(self, numbers: Mapping[str, str]) -> Finds:
        """Read each job in the record of this number."""
        distinct = list(dict.fromkeys(numbers.values()))
        shown = dict(zip(distinct, await anyio.gather(*map(self._show, distinct)), strict=True))
        found = {one: await self._pick(one, shown[number]) for one, number in numbers.items()}
        astray = [one for one, what in found.items() if _is_astray(what, number=numbers[one])]
        for one in found.keys() - astray:
            self._learn(one, found[one])
        for first, number in list(numbers.items())[:1]:
            found[first] = self._with_others(found[first], shown[number], asked=found)
        if astray:
            found |= await self._read({one: _array_of(one) for one in astray})
        return found

    async def _show(self, number: str) -> _Shown | SlurmError:
        asked_s = self._clock()
        records, answer = await _read_each(self._client, get_job(number), read_job)
        if isinstance(answer, SlurmError):
            why = await why_no_record(self._client, answer, number=number)
            return _Shown((), asked_s) if why is None else why
        mine = map(self._job_owners.owned, records)
        return _Shown([record for record in mine if record is not None], answer.asked_s)

    async def _pick(self, job_id: str, shown: _Shown | SlurmError) -> Found | SlurmError:
        if isinstance(shown, SlurmError):
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

    async def _find_waiting(self, record: JobRecord, *, job_id: str) -> Found | SlurmError:
        """A task without a record of its own waits, or was cancelled: the states show which."""
        asked_s, listed = await _states(self._client, job_id)
        if isinstance(listed, SlurmError):
            return listed
        task = int(job_id.partition("_")[2])
        if job_id in listed:
            return Found(job_id, job_of(record, task), record, asked_s)
        if any(one.endswith(f"_{task}") for one in listed):
            return SlurmError("garbage", f"job {job_id} started just now")
        return Found(job_id, withdrawn(record, task), record, asked_s)

    def _learn(self, job_id: str, found: Found | SlurmError) -> None:
        if isinstance(found, SlurmError) or self._job_owners.is_past(job_id, asked_s=found.asked_s):
            return
        if found.job is None or found.record is None:
            self._job_owners.learn_gone(job_id)
            return
        self._job_owners.learn(found.job, asked_s=found.asked_s)
        if found.record.task is not None:
            self._job_owners.learn_number(found.job.job_id, found.record, asked_s=found.asked_s)

    def _with_others(
        self, found: Found | SlurmError, shown: _Shown | SlurmError, *, asked: Finds
    ) -> Found | SlurmError:
        """Add the tasks in this answer that no caller requested."""
        if isinstance(found, SlurmError) or isinstance(shown, SlurmError):
            return found
        others: list[Job] = []
        for record in shown.records:
            job = job_of(record)
            if job is not None and not {job.job_id, str(record.number)} & asked.keys():
                self._learn(job.job_id, Found(job.job_id, job, record, shown.asked_s))
                others.append(job)
        return replace(found, others=tuple(others))


async def why_no_record(client: Slurm, answer: SlurmError, *, number: str) -> SlurmError | None:
    """Return why there is no record; None: Slurm has no such job.

    Slurm also answers so for a job that PrivateData hides from the token, but the states show that
    job.
    """
    if answer.error_number != NO_SUCH_JOB:
        return answer
    _, listed = await _states(client, number)
    if isinstance(listed, SlurmError):
        return listed
    return SlurmError("auth", _HIDDEN) if listed else None


async def _read_each(
    client: Slurm, call: SlurmCall, read: Callable[[bytes], Read | SlurmError]
) -> tuple[list[Read], SlurmResponse | SlurmError]:
    """Read all records of one answer; fail if one of them is unreadable."""
    found: list[Read] = []

    async def take(pieces: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        for piece in pieces:
            one = read(piece)
            if isinstance(one, SlurmError):
                return one
            found.append(one)
        return None

    return found, await client.read_records(call, "jobs", take)


async def _states(client: Slurm, job_id: str) -> tuple[float, dict[str, States] | SlurmError]:
    """Return since when it is so, and states by listed id.

    Of a task: its own state, perhaps also that of others. Of an array: those of all tasks.
    """
    states, answer = await _read_each(client, list_job_states(of=job_id), read_state)
    listed = {state.listed_id: state.state for state in states}
    return (answer.asked_s, listed) if isinstance(answer, SlurmResponse) else (0.0, answer)


def pays_whole(wanted: int, *, of: int) -> bool:
    """Whether one read of an array of `of` records is better than `wanted` reads of one record.

    It also returns the others, at 9 kB each.
    """
    return wanted >= _WHOLE_ARRAY_FROM and 4 * wanted >= 3 * of


def _has_others(array: JobRecord | None) -> bool:
    return array is not None and array.identity is not None and len(array.identity.uids) > 1


def _array_of(job_id: str) -> str:
    return job_id.partition("_")[0]


def _is_astray(found: Found | SlurmError, *, number: str) -> bool:
    """Whether the task's number belongs to no job, or to another: then read it by its array.

    If slurmctld lost its last seconds, the task waits again.
    """
    if not isinstance(found, Found) or found.job is not None:
        return False
    return number != _array_of(found.job_id)


def _shared_first(record: JobRecord) -> bool:
    """Sort the record of the waiting tasks first: its text has their marks."""
    return record.number != record.array
