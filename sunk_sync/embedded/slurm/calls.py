"""What slurmctld and the scripts of jobs tell the outside: gates, starts, signals, ends. Pure.

Nothing here waits: who plays a PrologSlurmctld or a script takes the calls and answers later.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sunk_sync.embedded.slurm.model.job import Job

CALLS_MAX: Final = 65_536
"""Calls that nobody took are forgotten, the oldest first."""


class Call(Struct, frozen=True):
    """One of:

    gate: PrologSlurmctld was called; the job waits for SlurmWorld.release_gate.
    started: the script of an acted batch job begins; SlurmWorld.exit_script ends it.
    term: that script got SIGTERM; it has KillWait to exit.
    killed: that script is dead.
    ended: EpilogSlurmctld was called: the job runs no more, its script may.
    """

    kind: Literal["gate", "started", "term", "killed", "ended"]
    job: Job
    """As it is at the call."""


class RequestLog:
    """Those that nobody has taken yet."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=CALLS_MAX)

    def tell(self, kind: Literal["gate", "started", "term", "killed", "ended"], job: Job) -> None:
        """One more."""
        self._calls.append(Call(kind, job))

    def take(self) -> Sequence[Call]:
        """In the order in which they came; they are gone then."""
        taken = list(self._calls)
        self._calls.clear()
        return taken
