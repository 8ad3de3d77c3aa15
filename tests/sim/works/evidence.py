"""What one process was told of jobs: the evidence that its bindings rest on."""

from collections import defaultdict, deque
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm_job import Job
from sunk_sync.embedded.wire import Answer
from tests.sim.wire import Exchange
from tests.sim.worlds import Worlds

KEPT = 32
SUBMITS = ("submit", "allocate")


class Sight(Struct, frozen=True):
    """One answered read of one job; `job` None: there was none."""

    asked_s: float
    served_s: float
    taken_s: float
    job: Job | None


class Evidence:
    """Of one process; a new one begins with nothing."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._rows: dict[int, Mapping[int, Job]] = {}
        self.jobs: defaultdict[int, deque[Sight]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.listed_s = -1.0
        """When the latest listing of all jobs that was taken had been asked."""

    def served(self, exchange: Exchange) -> None:
        """What the world was like when an answer left."""
        if exchange.side == "slurm" and "/job" in exchange.question.path:
            self._rows[exchange.number] = dict(self._worlds.slurm.jobs)

    def over(self, exchange: Exchange) -> None:
        """Its answer will not come any more."""
        self._rows.pop(exchange.number, None)

    def taken(self, exchange: Exchange) -> None:
        """The answer is here."""
        rows = self._rows.pop(exchange.number, None)
        answer = exchange.answer
        if rows is None or not isinstance(answer, Answer) or answer.status != 200:
            return
        if b'"errors":[{' in answer.body:
            return
        tail = exchange.question.path.rstrip("/").rpartition("/")[2]
        if tail in ("jobs", "state") and not exchange.writes:
            self.listed_s = max(self.listed_s, exchange.sent_s)
            for number in {**rows, **self.jobs}:
                self._note(number, exchange, rows.get(number))
        elif tail in SUBMITS:
            made = msgspec.json.decode(answer.body).get("job_id", 0)
            self._note(made, exchange, rows.get(made))
        elif tail.partition("_")[0].isdecimal():
            number = int(tail.partition("_")[0])
            for each, job in rows.items():
                if number in (each, job.array_id):
                    self._note(each, exchange, job)
            if number not in rows:
                self._note(number, exchange, None)

    def _note(self, number: int, exchange: Exchange, job: Job | None) -> None:
        assert exchange.served_s is not None
        assert exchange.taken_s is not None
        sight = Sight(exchange.sent_s, exchange.served_s, exchange.taken_s, job)
        self.jobs[number].append(sight)
