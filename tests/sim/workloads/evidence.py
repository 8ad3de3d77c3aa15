"""The answers about jobs that one process got: the evidence for its bindings."""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.wire import Answer
from tests.sim.reads import whole_records
from tests.sim.wire import Exchange
from tests.sim.workloads.truth import is_live, spelled, workloads_of
from tests.sim.worlds import Worlds

What = Literal["listing", "job", "sibling"]
KEPT = 32
STATES = "state"
RECORDS = "jobs"
"""Last parts of the paths of all jobs' states and of all their records."""
NO_SUCH_JOB = b'"error_number":2017'
"""In the answer to a read of a job that Slurm does not have."""
SUBMITS = ("submit", "allocate")


class Sight(Struct, frozen=True):
    """One answered read of one job. `job=None`: the job does not exist."""

    asked_s: float
    served_s: float
    taken_s: float
    job: Job | None
    what: What
    """A listing of all, a read of this job, or a read that need not be used (sibling).

    The last is a read of another task of its array, half an answer, or all records: sunk-sync
    reads these to learn why jobs wait.
    """


class Evidence:
    """The evidence of one process. A new process has none."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._rows: dict[int, Mapping[int, Job]] = {}
        self.jobs: defaultdict[int, deque[Sight]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.ends: set[tuple[str, str]] = set()
        """UID of a Pod and its job that ran, whose end was read under its identity."""
        self.asked_s = -1.0
        """When the last listing of all jobs was sent."""

    def sent(self, exchange: Exchange) -> None:
        """Note a request. Listings follow one after the other."""
        if exchange.side == "slurm" and _is_listing(exchange):
            self.asked_s = exchange.sent_s

    def speaks_against(self, sight: Sight, *, sent_s: float, late_s: float) -> bool:
        """Whether a request had to respect this read.

        States are listed by job id alone, and sunk-sync then reads the owner of an id (P23). So a
        listing counts from the next request. A read of one task need not count for its siblings.
        """
        if sight.what == "sibling":
            return False
        told = sight.taken_s < self.asked_s or sight.taken_s < sent_s - late_s
        return sight.what == "job" or told

    def heard_of_end(self, number: int, *, after: Sight, since_s: float) -> bool:
        """Whether a later read, which has just arrived, reported the end of this job."""
        return any(
            one.taken_s >= since_s and one.asked_s > after.asked_s
            for one in self.jobs.get(number, ())
            if one.job is None or not is_live(one.job)
        )

    def served(self, exchange: Exchange) -> None:
        """Store the jobs when an answer leaves the server."""
        if exchange.side == "slurm" and "/job" in exchange.question.path:
            self._rows[exchange.number] = dict(self._worlds.slurm.jobs)

    def over(self, exchange: Exchange) -> None:
        self._rows.pop(exchange.number, None)

    def taken(self, exchange: Exchange) -> None:
        rows = self._rows.pop(exchange.number, None)
        answer = exchange.answer
        if rows is None or not isinstance(answer, Answer):
            return
        tail = _tail(exchange)
        if NO_SUCH_JOB in answer.body and not exchange.writes:
            # PrivateData may hide the job: sunk-sync asks for its state before it believes this.
            self._note(int(tail.partition("_")[0]), exchange, None, what="listing")
        if answer.status != 200 or b'"errors":[{' in answer.body:
            return
        if tail in (STATES, RECORDS) and not exchange.writes:
            self._take_many(exchange, rows)
        elif tail in SUBMITS:
            made = msgspec.json.decode(answer.body).get("job_id", 0)
            self._note(made, exchange, rows.get(made))
        elif tail.partition("_")[0].isdecimal():
            number = int(tail.partition("_")[0])
            self._note_family(number, exchange, rows, own="job")
            if number not in rows:
                self._note(number, exchange, None)

    def _take_many(self, exchange: Exchange, rows: Mapping[int, Job]) -> None:
        if _is_listing(exchange):
            for number in {**rows, **self.jobs}:
                self._note(number, exchange, rows.get(number), what="listing")
        elif _tail(exchange) == RECORDS:
            for number, job in rows.items():
                self._note(number, exchange, job, what="sibling")
        else:
            named = exchange.question.query["job_id"].partition("_")[0]
            self._note_family(int(named), exchange, rows, own="sibling")

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        """Note some records of one array. Complete records may be used, but need not be."""
        rows = self._rows.get(exchange.number)
        tail = _tail(exchange).partition("_")[0]
        if rows is None or exchange.writes or not tail.isdecimal():
            return
        exchange.taken_s = self._worlds.now_s
        for number in [record["job_id"] for record in whole_records(body, of="jobs")]:
            if number in rows:
                self._note(number, exchange, rows[number], what="sibling")

    def _note_family(
        self, number: int, exchange: Exchange, rows: Mapping[int, Job], *, own: What
    ) -> None:
        for each, job in rows.items():
            if number in (each, job.array_id):
                self._note(each, exchange, job, what=own if each == number else "sibling")

    def _note(
        self, number: int, exchange: Exchange, job: Job | None, *, what: What = "job"
    ) -> None:
        assert exchange.served_s is not None
        assert exchange.taken_s is not None
        sight = Sight(exchange.sent_s, exchange.served_s, exchange.taken_s, job, what)
        self.jobs[number].append(sight)
        if job is None:
            return
        if is_live(job):
            if self.ends and what != "sibling":
                self.ends -= _named(job)  # slurmctld has forgotten the end
        elif what == "job" and job.nodes:
            self.ends |= _named(job)


def _named(job: Job) -> set[tuple[str, str]]:
    return {(uid, spelled(job)) for uids in workloads_of(job) for uid in uids}


def _is_listing(exchange: Exchange) -> bool:
    """Whether it lists all jobs. With `job_id` it lists one array, for one of its tasks."""
    whole = "job_id" not in exchange.question.query
    return whole and not exchange.writes and _tail(exchange) == STATES


def _tail(exchange: Exchange) -> str:
    return exchange.question.path.rstrip("/").rpartition("/")[2]
