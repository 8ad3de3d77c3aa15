"""Calls that slurmctld and job scripts would make: gates, starts, signals, ends.

Nothing waits here. A simulated PrologSlurmctld or script takes the calls and answers later.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sunk_sync.embedded.slurm.model.job import Job

CALLS_MAX: Final = 65_536
"""Limit of calls that nobody took; the oldest are dropped."""


class Call(Struct, frozen=True):
    """One call.

    - gate: PrologSlurmctld runs; the job waits for SlurmWorld.release_gate.
    - started: the script of a simulated batch job starts; SlurmWorld.exit_script ends it.
    - term: that script gets SIGTERM; it has KillWait to exit.
    - killed: that script is dead.
    - ended: EpilogSlurmctld runs: the job has ended, its script may still run.
    """

    kind: Literal["gate", "started", "term", "killed", "ended"]
    job: Job


class RequestLog:
    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=CALLS_MAX)

    def add(self, kind: Literal["gate", "started", "term", "killed", "ended"], job: Job) -> None:
        self._calls.append(Call(kind, job))

    def take(self) -> Sequence[Call]:
        taken = list(self._calls)
        self._calls.clear()
        return taken
