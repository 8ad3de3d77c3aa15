"""Turn the states of all jobs into jobs of sunk-sync: read records that are new or have changed.

Report at once where a job runs, that it runs there no more, or that it is gone: the rest may take
seconds. Without a needed record the listing is not complete, so that nothing is concluded from it.
"""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Final

import anyio
from msgspec.structs import replace

from sunk_sync.core.model.facts import Deleted, Job, Observed, Tell
from sunk_sync.core.translate.job_states import LIVE, is_live, left_no_trace
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import SlurmCall, get_job, list_jobs
from sunk_sync.slurm.decode.jobs import JobRecord, States, job_of, number_in, read_job, withdrawn
from sunk_sync.slurm.read.job_owners import JobOwners, base_of
from sunk_sync.slurm.read.one_job import pays_whole, why_no_record

LIST_ABOVE: Final = 200
"""One listing of all jobs replaces more reads than this,"""
_LIST_SHARE: Final = 2
"""if they are also more than half of all jobs: a listing includes known jobs."""
_AT_ONCE: Final = 4
_BREATH: Final = 2048


class Early:
    """The receiver of jobs before the listing is complete, and what was reported to it."""

    def __init__(self, tell: Tell, reported: dict[str, Job]) -> None:
        self.tell = tell
        self.reported = reported
        """Job id → job as last reported."""


class JobReading:
    """One listing: `states` by listed id, requested at `asked_s`."""

    def __init__(
        self,
        client: Slurm,
        job_owners: JobOwners,
        *,
        early: Early | None,
        states: Mapping[str, States],
        asked_s: float,
    ) -> None:
        self.jobs: dict[str, tuple[Job, float]] = {}
        """Job id → job of sunk-sync, and since when it is known to be so."""
        self.left: dict[str, tuple[Job, float]] = {}
        """Job id → known job that is not listed any more, and the start of the latest read of its
        record."""
        self.failure: SlurmError | None = None
        """Why the listing is not complete."""
        self.reused = False
        """An id of a known job belongs to another job now."""
        self.moved = False
        """A known job changed its state, or is gone."""
        self._client = client
        self._job_owners = job_owners
        self._early = early
        self._states = states
        self._asked_s = asked_s
        self._read_s: dict[str, float] = {}
        """Listed id → start of the read of its record."""
        self._news: dict[str, tuple[Job, float]] = {}
        """Jobs in the current answer, to report now."""
        self._wants: Set[str] = frozenset()
        """Listed ids whose record must be read."""
        self._gone: set[str] = set()
        """Numbers that Slurm does not know any more."""
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._numbers = {listed_id.partition("_")[0] for listed_id in states}
        self._by_number: defaultdict[str, list[str]] = defaultdict(list)

    async def read(self, *, refresh: Sequence[str] = ()) -> None:
        """Read new and changed records and those in `refresh` (listed ids); collect the jobs."""
        unknown = [one for one in self._states if one not in self._job_owners.ours]
        self._job_owners.find_started(unknown, asked_s=self._asked_s)
        self._job_owners.ask_again(self._states)
        left = self._forget_absent()
        await asyncio.sleep(0)
        wanted = self._wanted()
        self.moved = bool(left) or not self._job_owners.ours.keys().isdisjoint(wanted)
        wanted |= {one for one in refresh if one in self._states}
        await asyncio.sleep(0)
        if wanted:
            await self._read_wanted(wanted, left)
        await self._settle()

    async def _read_wanted(self, wanted: Set[str], left: Sequence[Job]) -> None:
        for listed_id in self._states:
            self._by_number[number_in(listed_id)].append(listed_id)
        if len(wanted) > max(LIST_ABOVE, len(self._states) // _LIST_SHARE):
            await self._ask(list_jobs())
        self._wants = wanted
        arrays = _Arrays(self._job_owners, self._unread(wanted), left, asked_s=self._asked_s)
        await anyio.gather(*(self._read_array(one, arrays) for one in sorted(arrays.numbers)))
        numbers = {number_in(one) for one in self._unread(wanted)}
        await anyio.gather(*map(self._read_number, sorted(numbers)))
        for listed_id in self._unread(wanted):
            self._give_up(listed_id)

    def _unread(self, listed_ids: Iterable[str]) -> set[str]:
        """Return the wanted ids that no answer since the listing contained."""
        return {one for one in listed_ids if one in self._wants and one not in self._read_s}

    def _forget_absent(self) -> Sequence[Job]:
        """Forget ids that the listing does not contain; return the jobs of sunk-sync among them."""
        self._job_owners.foreign &= self._states.keys()
        for array in [one for one in self._job_owners.arrays if one not in self._numbers]:
            self._job_owners.drop_array(array)
        for listed_id in [one for one in self._job_owners.ours if one not in self._states]:
            self._leave(listed_id)
        return [job for job, _ in self.left.values()]

    def _leave(self, listed_id: str) -> None:
        read_s = self._job_owners.read_s.get(listed_id, math.inf)  # else sunk-sync has just made it
        job = self._job_owners.drop(listed_id)
        if job is not None:
            self.left[job.job_id] = (job, read_s)

    def _wanted(self) -> set[str]:
        """Return listed ids whose record must be read: unknown, or known in another state."""
        ours, foreign = self._job_owners.ours, self._job_owners.foreign
        return {
            listed_id
            for listed_id, state in self._states.items()
            if listed_id not in foreign
            and (listed_id not in ours or _is_stale(ours[listed_id], state))
            and not self._is_hollow(listed_id)
        }

    def _is_hollow(self, listed_id: str) -> bool:
        """Whether it is the rest of an array whose waiting tasks were all cancelled."""
        return listed_id.endswith("_*") and number_in(listed_id) in self._job_owners.arrays

    async def _read_array(self, array: str, arrays: "_Arrays") -> None:
        """Read an array, unless other reads have made this one unnecessary by now."""
        async with self._slots, self._job_owners.reading(array):
            if self._is_unread(array) or arrays.pays(array):
                await self._ask_number(array)

    async def _read_number(self, number: str) -> None:
        async with self._slots:
            if self._is_unread(number):
                await self._ask_number(number)

    async def _ask_number(self, number: str) -> None:
        if self.failure is None:
            await self._ask(get_job(number, bulk=True), number=number)

    def _is_unread(self, number: str) -> bool:
        """Whether no other caller has read it since the listing was requested."""
        listed_ids = self._by_number.get(number, ())
        unknown = [one for one in listed_ids if one not in self._job_owners.ours]
        self._job_owners.find_started(unknown, asked_s=self._asked_s)
        for listed_id in listed_ids:
            self._note_read(listed_id)
        return bool(self._unread(listed_ids))

    def _note_read(self, listed_id: str) -> None:
        """Note a read by another caller since the listing: it is newer than the listing."""
        read_s = self._job_owners.read_s.get(listed_id, self._asked_s)
        if read_s > self._asked_s and listed_id in self._job_owners.ours:
            self._read_s.setdefault(listed_id, read_s)

    async def _ask(self, call: SlurmCall, *, number: str = "") -> None:
        asked = await self._client.read_records(call, "jobs", self._take)
        if not isinstance(asked, SlurmError):
            return
        why = await why_no_record(self._client, asked, number=number) if number else asked
        if why is None:
            self._gone.add(number)
            await self._tell_gone(number)
        else:
            what = f"job {number}" if number else "all jobs"
            self.failure = replace(why, text=f"{what}: {why.text}")

    async def _tell_gone(self, number: str) -> None:
        """Slurm may have lost a job that was reported: no Pod must be bound to it meanwhile."""
        if self._early is not None and self._early.reported.pop(number, None) is not None:
            await self._early.tell([Deleted("jobs", "", number, "", self._asked_s)])

    async def _take(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        for one in records:
            record = read_job(one)
            if isinstance(record, SlurmError):
                return record
            owned = self._job_owners.owned(record)
            if owned is not None:
                self._note(owned, asked_s)
            else:
                self._note_foreign(record, asked_s)
        await self._tell_early()
        return None

    async def _tell_early(self) -> None:
        news, self._news = self._news, {}
        if news and self._early is not None and not self.reused:
            self._early.reported |= {job_id: job for job_id, (job, _) in news.items()}
            await self._early.tell([Observed(job, asked_s) for job, asked_s in news.values()])

    def _note_foreign(self, record: JobRecord, asked_s: float) -> None:
        for number in {str(record.number), str(record.array)}:
            for listed_id in self._by_number.get(number, ()):
                self.reused = self.reused or self._job_owners.drop(listed_id) is not None
                self._job_owners.foreign.add(listed_id)
                self._read_s[listed_id] = asked_s

    def _note(self, record: JobRecord, asked_s: float) -> None:
        if not record.array:
            self._keep([str(record.number)], job_of(record), asked_s)
            return
        array, number = str(record.array), str(record.number)
        if array == number or array not in self._job_owners.arrays:
            self._job_owners.arrays[array] = record
        if record.task is not None:
            listed_ids = [f"{number}_{record.task}", f"{array}_{record.task}"]
            job = job_of(record)
            self._job_owners.recorded[array].add(record.task)
            self._keep(listed_ids, job, asked_s)
            if job is not None and listed_ids[0] not in self._states:  # it is newer
                self._job_owners.learn_number(job.job_id, record, asked_s=asked_s)
        else:
            self._note_waiting(record, asked_s)

    def _note_waiting(self, record: JobRecord, asked_s: float) -> None:
        """Take in the one record of all waiting tasks; the listing shows which tasks wait."""
        for listed_id in self._by_number.get(str(record.array), ()):
            task = listed_id.partition("_")[2]
            if not task.isdecimal():
                self._read_s[listed_id] = asked_s
            elif listed_id not in self._read_s:  # a record of its own may follow, or be lost
                self._keep([listed_id], job_of(record, int(task)), self._asked_s)

    def _keep(self, listed_ids: Sequence[str], job: Job | None, asked_s: float) -> None:
        """Keep the job under the first of these ids in the listing; unlisted jobs are newer."""
        for listed_id in listed_ids:
            if listed_id in self._states:
                self._read_s[listed_id] = asked_s
                if job is not None and not self._job_owners.is_past(job.job_id, asked_s=asked_s):
                    self.reused = self.reused or _is_another(
                        self._job_owners.ours.get(listed_id), job
                    )
                    self._job_owners.keep(listed_id, job)
                    self._job_owners.read_s[listed_id] = asked_s
                    if job.slurm_nodes or self._was_placed_or_ended(job):
                        self._news[job.job_id] = (job, asked_s)
                return

    def _was_placed_or_ended(self, job: Job) -> bool:
        """Whether waiting Pods may have been bound by it, or get another job: its end is undone."""
        known = None if self._early is None else self._early.reported.get(job.job_id)
        if known is None:
            return False
        return bool(known.slurm_nodes) or (is_live(job) and not is_live(known))

    def _give_up(self, listed_id: str) -> None:
        """Handle an id whose number was read without finding a record of it."""
        if number_in(listed_id) in self._gone:
            self._leave(listed_id)
        elif self.failure is None:
            self.failure = SlurmError("garbage", f"job {listed_id} is listed, but has no record")

    async def _settle(self) -> None:
        for place, (listed_id, job) in enumerate(list(self._job_owners.ours.items())):
            await _breathe(place)
            state = self._states.get(listed_id)
            if state is None:
                continue
            self._note_read(listed_id)
            asked_s = self._read_s.get(listed_id, self._asked_s)
            if listed_id not in self._read_s and job.state != state:
                if self.failure is not None and _is_changed(job, state):
                    continue  # its present owner and its hosts are unknown
                job = replace(job, state=state)
                self._job_owners.keep(listed_id, job)
            self.jobs[job.job_id] = (job, asked_s)
        if self.failure is None:
            await self._add_withdrawn()

    async def _add_withdrawn(self) -> None:
        """Add tasks that neither wait nor ever had a record: they were cancelled while they waited.

        Slurm forgets the record of a task some minutes after its end, even if the array still
        exists.
        """
        for place, (array, record) in enumerate(list(self._job_owners.arrays.items())):
            await _breathe(64 * place)
            identity = record.identity
            if identity is None or array not in self._numbers:
                continue
            had = self._job_owners.recorded.get(array, ())
            for task in range(len(identity.uids)):
                known = task in had or f"{array}_{task}" in self.jobs
                job = None if known else withdrawn(record, task)
                if job is not None:
                    self.jobs[job.job_id] = (job, self._asked_s)


class _Arrays:
    """Arrays to read first, because such a read also shows their tasks.

    These are arrays that must be read anyway, and arrays of which several tasks seem to have
    started, each with a new id.
    """

    def __init__(
        self, job_owners: JobOwners, wanted: Collection[str], left: Sequence[Job], *, asked_s: float
    ) -> None:
        self._job_owners = job_owners
        self._asked_s = asked_s
        started = {one.partition("_")[2] for one in wanted if one not in job_owners.ours}
        self._seem: defaultdict[str, list[str]] = defaultdict(list)
        """Array → its jobs that seem to have started."""
        for job in left:
            array, _, task = job.job_id.partition("_")
            if task in started and array in job_owners.arrays:
                self._seem[array].append(job.job_id)
        self._there = self._records()
        must = {number_in(one) for one in wanted if number_in(one) in job_owners.arrays}
        self.numbers = must | {array for array in self._seem if self.pays(array)}

    def pays(self, array: str) -> bool:
        """Whether most of its records were not read since the listing."""
        seem = self._seem.get(array, ())
        unread = [
            one for one in seem if self._job_owners.read_since(one, after_s=self._asked_s) is None
        ]
        return pays_whole(len(unread), of=len(seem) + self._there[array])

    def _records(self) -> Counter[str]:
        """Count the tasks of each array that have a record of their own."""
        if not self._seem:
            return Counter()
        placed = (
            job.job_id.partition("_")[0]
            for job in self._job_owners.ours.values()
            if job.slurm_nodes
        )
        return Counter(array for array in placed if array in self._seem)


def revived(
    states: Mapping[str, States], known: Mapping[str, Job], *, foreign: Set[str]
) -> Iterable[Job]:
    """Return ended jobs (by listed id) that a listing shows live and whose record was not read.

    A killed slurmctld forgets ends. The owner of the id is unknown, but the end is not certain:
    until the record is read, the job counts as live, and as running nowhere.
    """
    for listed_id, job in known.items():
        state = states.get(listed_id, job.state)
        ended = not is_live(job) and listed_id not in foreign
        if ended and not LIVE.isdisjoint(state):
            yield replace(job, state=state, slurm_nodes=())


async def _breathe(place: int) -> None:
    """Let other tasks run now and then: there may be tens of thousands of jobs."""
    if place % _BREATH == 0:
        await asyncio.sleep(0)


def _is_stale(job: Job, state: States) -> bool:
    """Whether the state changed, or a running job was read without its hosts."""
    return _is_changed(job, state) or ("RUNNING" in state and not job.slurm_nodes)


def _is_changed(job: Job, state: States) -> bool:
    """Whether the state differs in more than flags that come and go.

    The record of a job that was COMPLETING may have lacked its hosts, and the signal of its script.
    """
    if job.state == state:
        return False
    return base_of(job.state) != base_of(state) or left_no_trace(job)


def _is_another(before: Job | None, job: Job) -> bool:
    """Whether the id has another job now; a requeued job has a later submit time."""
    if before is None:
        return False
    return (
        before.identity.workload != job.identity.workload or before.submitted_at > job.submitted_at
    )
