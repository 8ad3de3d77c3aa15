"""The owner of each job id, for the jobs read so far. The reader and the writer of jobs share it.

Each identity is read once. An id is valid only while slurmctld keeps its state: if slurmctld is
killed, it forgets the last seconds and gives ids out again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from sunk_sync.core.model.claims import Claim, Vouched
from sunk_sync.core.model.facts import Job, News, Observed
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.translate.job_states import LIVE, is_live
from sunk_sync.slurm.decode.jobs import JobRecord, States, job_of, number_in
from sunk_sync.slurm.read.job_proof import Known, Mine, by_claim, known_array, known_job, proven

Vouch = Callable[[Claim], Vouched]


def _nobody_vouches(_: Claim) -> Vouched:
    return "unknown"


_FLAGS: Final = frozenset({"COMPLETING", "CONFIGURING"})


class JobOwners:
    """Jobs of this sunk-sync by listed id, which is their id in /jobs/state."""

    def __init__(
        self, mine: Mine, *, operator: Callable[[], str] = str, vouch: Vouch = _nobody_vouches
    ) -> None:
        """`operator` returns the name of the user of our token."""
        self._mine = mine
        self._operator = operator
        self._vouch = vouch
        self.claims: dict[str, Claim] = {}
        """Record number → a job of which the Pods do not say yet whose it is."""
        self.ours: dict[str, Job] = {}
        """Listed id → job, as last read."""
        self.foreign: set[str] = set()
        """Listed ids of other jobs."""
        self.arrays: dict[str, JobRecord] = {}
        """Array id → a record of it, for its whole identity."""
        self.recorded: defaultdict[str, set[int]] = defaultdict(set)
        """Array id → tasks that were seen with a record of their own."""
        self.touched = False
        """Another read found an end that no listing showed: report the next listing in full."""
        self._listed: dict[str, str] = {}
        """Job id → listed id."""
        self.read_s: dict[str, float] = {}
        """Listed id → start of the latest read of its record."""
        self._started: dict[str, tuple[str, float]] = {}
        """Record number → job id and start of the read: tasks read since they started, until a
        listing contains them."""
        self._awaited: dict[str, dict[str, Job]] = {}
        """Workload → workloads of the same submission that turned out to have a job, with it."""
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def owned(self, record: JobRecord) -> JobRecord | None:
        """Return the record with the identity of its job; None: it is no job of sunk-sync (P23).

        Note a claim that the Pods neither prove nor disprove.
        """
        known = self._known_of(record)
        found = proven(record, known, mine=self._mine, operator=self._operator())
        if not isinstance(found, Claim):
            return found
        said = self._vouch(found)
        if said == "unknown":
            self.claims[str(record.number)] = found
        return by_claim(record, said) if isinstance(said, Identity) else None

    def ask_again(self, states: Mapping[str, States]) -> None:
        """Ask the Pods of each claim again; a job that they decide about is read anew."""
        if not self.claims:
            return
        numbers = {number_in(one): not LIVE.isdisjoint(state) for one, state in states.items()}
        self.claims = {
            number: replace(claim, live=numbers[number])
            for number, claim in self.claims.items()
            if number in numbers
        }
        decided = {one for one, claim in self.claims.items() if self._vouch(claim) != "unknown"}
        for number in decided:
            del self.claims[number]
        if decided:
            self.foreign = {one for one in self.foreign if number_in(one) not in decided}

    def _known_of(self, record: JobRecord) -> Known | None:
        array = self.arrays.get(str(record.array)) if record.array else None
        if record.array and (array is None or record.task is None):
            return None if array is None else known_array(array)
        job = self.at(f"{record.array}_{record.task}" if record.array else str(record.number))
        if job is None:
            return None if array is None else known_array(array)
        return known_job(job, array)

    def learn(self, job: Job, *, asked_s: float | None = None) -> None:
        """Take in a job from another answer, or a job that sunk-sync has just made."""
        listed_id = self._listed.get(job.job_id, job.job_id)
        self.keep(listed_id, job)
        if asked_s is not None:
            self.read_s[listed_id] = asked_s

    def learn_written(self, job: Job, *, asked_s: float) -> Observed:
        """Take in a job whose identity sunk-sync has changed at `asked_s`; return it as a fact.

        A later read of its record has precedence.
        """
        known = self.known(job)
        read_s = self.read_since(job.job_id, after_s=asked_s)
        if known is not None and read_s is not None:
            job, asked_s = replace(known, identity=job.identity), read_s
        self.learn(job)
        return Observed(job, asked_s)

    def as_last_read(self, news: News) -> News:
        """Return the fact, or the result of a later read of the same job."""
        if not isinstance(news, Observed) or not isinstance(news.row, Job):
            return news
        known = self.known(news.row)
        read_s = self.read_since(news.row.job_id, after_s=float("-inf"))
        if known is None or known is news.row or read_s is None:
            return news
        return Observed(known, read_s)

    def learn_number(self, job_id: str, record: JobRecord, *, asked_s: float) -> None:
        """Note the record number of a started task, which listings will use for it.

        The last task to start has the number of the array, and keeps its listed id.
        """
        if record.task is not None:
            self.recorded[str(record.array)].add(record.task)
        if record.number != record.array:
            self._started[str(record.number)] = (job_id, asked_s)

    def find_started(self, listed_ids: Iterable[str], *, asked_s: float) -> None:
        """Move jobs that were read since they started to their new listed ids.

        A listing requested before such a read may not contain them yet.
        """
        for listed_id in listed_ids if self._started else ():
            job_id, read_s = self._started.get(number_in(listed_id), ("", 0.0))
            job = self.drop(self._listed.get(job_id, job_id))
            if job is not None:
                self.keep(listed_id, job)
                self.read_s[listed_id] = read_s
        self._started = {one: shown for one, shown in self._started.items() if shown[1] >= asked_s}

    def at(self, job_id: str) -> Job | None:
        return self.ours.get(self._listed.get(job_id, job_id))

    def known(self, job: Job) -> Job | None:
        """Return the same job as already known from another answer."""
        known = self.at(job.job_id)
        same = known is not None and known.identity.workload == job.identity.workload
        return known if same else None

    def is_past(self, job_id: str, *, asked_s: float) -> bool:
        """Whether a later request than `asked_s` has read the record."""
        return self.read_s.get(self._listed.get(job_id, job_id), asked_s) > asked_s

    def read_since(self, job_id: str, *, after_s: float) -> float | None:
        """Return the start of the latest read of a known job, if it was later than `after_s`."""
        listed_id = self._listed.get(job_id, job_id)
        read_s = self.read_s.get(listed_id, after_s) if listed_id in self.ours else after_s
        return read_s if read_s > after_s else None

    def is_placed(self, job_id: str) -> bool:
        """Whether a read has shown where the job runs."""
        job = self.at(job_id)
        return job is not None and bool(job.slurm_nodes)

    def reading(self, array: str) -> asyncio.Lock:
        """Return the lock for reads of a whole array: a waiting caller may then need no read."""
        return self._reading.setdefault(array, asyncio.Lock())

    def learn_array(self, record: JobRecord) -> None:
        """Take in an array that sunk-sync has just made or marked."""
        self.arrays[str(record.array)] = record

    def relearn_array(self, record: JobRecord) -> None:
        """Take in a new text of an array: all its waiting tasks share it."""
        self.learn_array(record)
        uids = record.identity.uids if record.identity is not None else ()
        for task in range(len(uids)):
            known = self.at(f"{record.array}_{task}")
            shown = job_of(record, task)
            if known is not None and shown is not None and "PENDING" in known.state:
                self.learn(replace(known, identity=shown.identity))
        self.touched = True

    def learn_gone(self, job_id: str) -> None:
        """Another answer showed that the job is gone, or of another owner."""
        self.drop(self._listed.get(job_id, job_id))
        self.touched = True

    def keep(self, listed_id: str, job: Job) -> None:
        """Keep a job under its listed id."""
        self.foreign.discard(listed_id)
        self.ours[listed_id] = job
        self._listed[job.job_id] = listed_id
        learnt = self._awaited.get(job.identity.workload)
        if learnt is not None and is_live(job) and not job.identity.replaced:
            learnt[job.identity.workload] = job

    @contextmanager
    def awaiting(self, workloads: Sequence[str]) -> Iterator[Mapping[str, Job]]:
        """Announce submissions for these workloads; yield those that get a job meanwhile, with it.

        Those need no second job.
        """
        learnt: dict[str, Job] = {}
        self._awaited.update(dict.fromkeys(workloads, learnt))
        try:
            yield learnt
        finally:
            for workload in workloads:
                self._awaited.pop(workload, None)

    def drop_array(self, array: str) -> None:
        del self.arrays[array]
        self.recorded.pop(array, None)

    def drop(self, listed_id: str) -> Job | None:
        job = self.ours.pop(listed_id, None)
        self.read_s.pop(listed_id, None)
        if job is not None and self._listed.get(job.job_id) == listed_id:
            del self._listed[job.job_id]
        return job

    def record_id(self, job_id: str) -> str:
        """Return the number of a job's record: a started task has its own."""
        return number_in(self._listed.get(job_id, job_id))

    def waits(self) -> bool:
        """Whether some job has not started yet."""
        return any("PENDING" in job.state for job in self.ours.values())

    def forget(self) -> None:
        """Forget all ids: slurmctld may have lost its state and given them out again."""
        self.ours.clear()
        self.foreign.clear()
        self.arrays.clear()
        self._listed.clear()
        self.read_s.clear()
        self.recorded.clear()
        self.claims.clear()
        self._started.clear()
        self.touched = True


def base_of(state: frozenset[str]) -> frozenset[str]:
    """Return the state without flags that come and go."""
    return state - _FLAGS
