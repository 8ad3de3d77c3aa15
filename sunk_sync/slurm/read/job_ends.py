"""When the Slurm nodes of a NodeSet are free, by the time limits of their jobs (N6)."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from sunk_sync.core.model.node_set_actions import GetJobEnds
from sunk_sync.core.model.node_set_answers import ENDLESS, JobEnds
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.translate.hostlist import expand
from sunk_sync.slurm.api.answers import Number, SlurmError, number_of
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.decode.nodes import state_of
from sunk_sync.slurm.read.all_jobs import read_all_jobs

HOLDING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING"})
"""States of jobs that have their nodes."""


class _WireJob(Struct, frozen=True):
    job_state: list[str] | str | None = None
    nodes: str | None = None
    end_time: Number = None
    """Of a job that runs: its start and its time limit, or a year."""


_job = msgspec.json.Decoder(_WireJob).decode


class JobEndsRead:
    """Lists all jobs once for all NodeSets that ask. Never raises."""

    def __init__(self, client: Slurm, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def push(self, actions: Sequence[GetJobEnds]) -> Sequence[Outcome]:
        """Answer each also if the listing fails: then nothing is known, and nobody waits."""
        if not actions:
            return []
        asked_s = self._clock()
        names = {name for action in actions for name in action.slurm_nodes}
        ends = await self._ends(names)
        if isinstance(ends, SlurmError):
            return [
                Refused(action, str(ends), (JobEnds(action.node_set, asked_s),))
                for action in actions
            ]
        return [Done(action, (_of(action, ends, asked_s=asked_s),)) for action in actions]

    async def _ends(self, names: set[str]) -> Mapping[str, int] | SlurmError:
        ends: dict[str, int] = {}

        def note(job: _WireJob) -> None:
            if HOLDING.isdisjoint(state_of(job.job_state)):
                return
            end_s = int(number_of(job.end_time) or 0) or ENDLESS
            for name in names.intersection(expand(job.nodes or "")):
                ends[name] = max(ends.get(name, 0), end_s)

        failure = await read_all_jobs(self._client, decode=_job, note=note)
        return ends if failure is None else failure


def _of(action: GetJobEnds, ends: Mapping[str, int], *, asked_s: float) -> JobEnds:
    found = tuple((name, ends[name]) for name in action.slurm_nodes if name in ends)
    return JobEnds(action.node_set, asked_s, found)
