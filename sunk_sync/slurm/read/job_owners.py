"""Whose each job id is, as far as it was read: shared by the reader and the writer of jobs.

An identity is read once. What is known by id holds only while slurmctld keeps its state: one
that was killed forgets seconds, and hands the ids out again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, News, Observed
from sunk_sync.core.model.job_identity import Identity, is_named
from sunk_sync.core.translate.job_states import is_live
from sunk_sync.slurm.decode.jobs import JobRecord, job_of, number_in

Mine = Callable[[Identity], bool]
"""Whether cluster and scheduler of an identity are ours (P22)."""

_FLAGS: Final = frozenset({"COMPLETING", "CONFIGURING"})


class JobOwners:
    """Jobs by their listed id, which is how /jobs/state calls them."""

    def __init__(self, mine: Mine) -> None:
        self._mine = mine
        self.ours: dict[str, Job] = {}
        """Listed id → the job as it was last read."""
        self.foreign: set[str] = set()
        """Listed ids of jobs that are not ours."""
        self.arrays: dict[str, JobRecord] = {}
        """Id of an array of ours → a record of it, for its whole identity."""
        self.recorded: defaultdict[str, set[int]] = defaultdict(set)
        """Id of an array of ours → tasks that were seen with a record of their own."""
        self.touched = False
        """Others reported an end that no listing showed: report the next listing in full."""
        self._listed: dict[str, str] = {}
        """Job id → listed id."""
        self.read_s: dict[str, float] = {}
        """Listed id → when its record was asked for last."""
        self._started: dict[str, tuple[str, float]] = {}
        """Number of its own → job id and when it was asked for: tasks read since they started,
        until a listing shows them."""
        self._awaited: dict[str, set[str]] = {}
        """Workload → those learnt of all that are awaited with it."""
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_mine(self, record: JobRecord) -> bool:
        """It carries an identity of this cluster and this scheduler.

        A mark that was on its way while slurmctld lost its state may have met another's job under
        the number: what says that we replace it, and has no name of ours, is none of ours (P23).
        """
        identity = record.identity
        if identity is None or (identity.replaced and not is_named(record.name)):
            return False
        return self._mine(identity)

    def learn(self, job: Job, *, asked_s: float | None = None) -> None:
        """A job of ours as another answer showed it, or as we have just made it."""
        listed_id = self._listed.get(job.job_id, job.job_id)
        self.keep(listed_id, job)
        if asked_s is not None:
            self.read_s[listed_id] = asked_s

    def learn_written(self, job: Job, *, asked_s: float) -> Observed:
        """A job of ours whose identity we have just changed, and since when it stands like that.

        Where its record was read later than `asked_s`, that read knows how it stands.
        """
        known = self.known(job)
        read_s = self.read_since(job.job_id, after_s=asked_s)
        if known is not None and read_s is not None:
            job, asked_s = replace(known, identity=job.identity), read_s
        self.learn(job)
        return Observed(job, asked_s)

    def as_last_read(self, news: News) -> News:
        """What was seen of a job of ours, or what was read of it since."""
        if not isinstance(news, Observed) or not isinstance(news.row, Job):
            return news
        known = self.known(news.row)
        read_s = self.read_since(news.row.job_id, after_s=float("-inf"))
        if known is None or known is news.row or read_s is None:
            return news
        return Observed(known, read_s)

    def learn_number(self, job_id: str, record: JobRecord, *, asked_s: float) -> None:
        """The number that a task of ours has had since it started: a listing will call it by it.

        The last one to start has that of the array, and is called as before.
        """
        if record.task is not None:
            self.recorded[str(record.array)].add(record.task)
        if record.number != record.array:
            self._started[str(record.number)] = (job_id, asked_s)

    def find_started(self, listed_ids: Iterable[str], *, asked_s: float) -> None:
        """Know by their new listed ids those of them that were read since they started.

        A listing that was asked for before such a read need not show them yet.
        """
        for listed_id in listed_ids if self._started else ():
            job_id, read_s = self._started.get(number_in(listed_id), ("", 0.0))
            job = self.drop(self._listed.get(job_id, job_id))
            if job is not None:
                self.keep(listed_id, job)
                self.read_s[listed_id] = read_s
        self._started = {one: shown for one, shown in self._started.items() if shown[1] >= asked_s}

    def at(self, job_id: str) -> Job | None:
        """What is known of the job of this id."""
        return self.ours.get(self._listed.get(job_id, job_id))

    def known(self, job: Job) -> Job | None:
        """The very job as another answer has shown it already."""
        known = self.at(job.job_id)
        same = known is not None and known.identity.workload == job.identity.workload
        return known if same else None

    def is_past(self, job_id: str, *, asked_s: float) -> bool:
        """Its record was read, and asked for later than that."""
        return self.read_s.get(self._listed.get(job_id, job_id), asked_s) > asked_s

    def read_since(self, job_id: str, *, after_s: float) -> float | None:
        """When its record was asked for last, if that was later; it is known, too."""
        listed_id = self._listed.get(job_id, job_id)
        read_s = self.read_s.get(listed_id, after_s) if listed_id in self.ours else after_s
        return read_s if read_s > after_s else None

    def is_placed(self, job_id: str) -> bool:
        """It was read where it runs."""
        job = self.at(job_id)
        return job is not None and bool(job.slurm_nodes)

    def reading(self, array: str) -> asyncio.Lock:
        """Held while all of this array is read: who wants the same waits, and may not need it."""
        return self._reading.setdefault(array, asyncio.Lock())

    def learn_array(self, record: JobRecord) -> None:
        """An array of ours as we have just made or marked it."""
        self.arrays[str(record.array)] = record

    def relearn_array(self, record: JobRecord) -> None:
        """The same with another text: so is that of each task that waits, as listings tell now."""
        self.learn_array(record)
        uids = record.identity.uids if record.identity is not None else ()
        for task in range(len(uids)):
            known = self.at(f"{record.array}_{task}")
            shown = job_of(record, task)
            if known is not None and shown is not None and "PENDING" in known.state:
                self.learn(replace(known, identity=shown.identity))
        self.touched = True

    def learn_gone(self, job_id: str) -> None:
        """Another answer showed that it is no more, or not ours."""
        self.drop(self._listed.get(job_id, job_id))
        self.touched = True

    def keep(self, listed_id: str, job: Job) -> None:
        """A job of ours, under the id that a listing calls it by."""
        self.foreign.discard(listed_id)
        self.ours[listed_id] = job
        self._listed[job.job_id] = listed_id
        learnt = self._awaited.get(job.identity.workload)
        if learnt is not None and is_live(job) and not job.identity.replaced:
            learnt.add(job.identity.workload)

    @contextmanager
    def awaiting(self, workloads: Sequence[str]) -> Iterator[Set[str]]:
        """A job of each of these workloads is to be made; yields those of which one is learnt
        meanwhile: no second one.
        """
        learnt: set[str] = set()
        self._awaited.update(dict.fromkeys(workloads, learnt))
        try:
            yield learnt
        finally:
            for workload in workloads:
                self._awaited.pop(workload, None)

    def drop_array(self, array: str) -> None:
        """Nothing of it is left."""
        del self.arrays[array]
        self.recorded.pop(array, None)

    def drop(self, listed_id: str) -> Job | None:
        """No such id any more."""
        job = self.ours.pop(listed_id, None)
        self.read_s.pop(listed_id, None)
        if job is not None and self._listed.get(job.job_id) == listed_id:
            del self._listed[job.job_id]
        return job

    def record_id(self, job_id: str) -> str:
        """Under which number to ask for the record of a job: a task that started has its own."""
        return number_in(self._listed.get(job_id, job_id))

    def waits(self) -> bool:
        """A job of ours has not started yet."""
        return any("PENDING" in job.state for job in self.ours.values())

    def forget(self) -> None:
        """Trust no id any more: slurmctld may have lost its state and given it away."""
        self.ours.clear()
        self.foreign.clear()
        self.arrays.clear()
        self._listed.clear()
        self.read_s.clear()
        self.recorded.clear()
        self._started.clear()
        self.touched = True


def base_of(state: frozenset[str]) -> frozenset[str]:
    """The state without what comes and goes while it lasts."""
    return state - _FLAGS
