"""Requeue jobs: those on a Slurm node that must go (N28), and whether a prolog may do so (L9)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from sunk_sync.core.model.node_set import Requeueing
from sunk_sync.core.model.node_set_actions import RequeueJobs
from sunk_sync.core.model.node_set_answers import RequeueTried
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.hostlist import expand
from sunk_sync.core.translate.node_states import is_busy, is_drained
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    Number,
    SlurmError,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import PROBE, get_job, requeue_jobs
from sunk_sync.slurm.api.versions import dialect_of, first_that
from sunk_sync.slurm.decode.nodes import state_of
from sunk_sync.slurm.read.all_jobs import read_all_jobs
from sunk_sync.slurm.read.one_node import Seen, is_node_name, read_nodes_now

RUNNING = "RUNNING"
INCOMPLETE = "Incomplete"
"""Without it Slurm also runs jobs again that have ended."""
NAMED = 3
"""Jobs that a text names."""


class _WireJob(Struct, frozen=True):
    job_id: int = 0
    array_job_id: Number = None
    array_task_id: Number = None
    het_job_id: Number = None
    job_state: list[str] | str | None = None
    nodes: str | None = None
    partition: str | None = None
    qos: str | None = None
    requeue: bool = False
    batch_flag: bool = False

    @property
    def name(self) -> str:
        """Return its name; the record number of a task could be the id of its whole array."""
        array, task = number_of(self.array_job_id), number_of(self.array_task_id)
        return f"{int(array)}_{int(task)}" if array and task is not None else str(self.job_id)


_job = msgspec.json.Decoder(_WireJob).decode
JobsOn = Mapping[str, Sequence[_WireJob]]
"""Slurm node → jobs that run there."""


class RequeuePush:
    """Requeues the jobs on Slurm nodes. Never raises."""

    def __init__(self, client: Slurm, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def push(self, actions: Sequence[RequeueJobs]) -> Sequence[Outcome]:
        """List all jobs once, then requeue those of each node; return the outcomes in order."""
        if not actions:
            return []
        answer = await self._client.call(PROBE)
        if isinstance(answer, SlurmError):
            return [Unsure(action, str(answer)) for action in actions]
        if not dialect_of(answer.version).requeue:
            needed = first_that(lambda one: one.requeue)
            why = (
                f"slurmrestd requeues jobs only from API {needed} on, and this is {answer.version}"
            )
            return [self._refused(action, why) for action in actions]
        names = {one.slurm_node for one in actions if is_node_name(one.slurm_node)}
        jobs = await self._jobs_on(names)
        if isinstance(jobs, SlurmError):
            return [Unsure(action, str(jobs)) for action in actions]
        reads = await read_nodes_now(self._client, names, bulk=False, clock=self._clock)
        return [
            await self._one(one, reads.get(one.slurm_node), jobs.get(one.slurm_node, ()))
            for one in actions
        ]

    async def _one(
        self, action: RequeueJobs, seen: Seen | SlurmError | None, jobs: Sequence[_WireJob]
    ) -> Outcome:
        if seen is None:
            return Refused(action, "the action does not name one Slurm node")
        if isinstance(seen, SlurmError):
            return Unsure(action, str(seen))
        if why := _why_not(seen):
            return Refused(action, why, seen.news)
        going = [job for job in jobs if not _why_stays(job, action.which)]
        left = _left([job for job in jobs if job not in going], action.which)
        if not going:
            return self._refused(action, left or "no job runs there yet, or all are ending")
        body = msgspec.json.encode({"jobs": [job.name for job in going], "flags": [INCOMPLETE]})
        asked_s = self._clock()
        answer = await self._client.call(requeue_jobs(body))
        if isinstance(answer, SlurmError):
            return Unsure(action, str(answer), seen=seen.news)
        return Done(action, (RequeueTried(action.slurm_node, asked_s, len(going), left),))

    def _refused(self, action: RequeueJobs, why: str) -> Refused:
        return Refused(action, why, (RequeueTried(action.slurm_node, self._clock(), 0, why),))

    async def _jobs_on(self, names: set[str]) -> JobsOn | SlurmError:
        """List all jobs; return those that run on one of these Slurm nodes."""
        jobs: defaultdict[str, list[_WireJob]] = defaultdict(list)

        def note(job: _WireJob) -> None:
            runs = RUNNING in state_of(job.job_state)
            for name in names.intersection(expand(job.nodes or "") if runs else ()):
                jobs[name].append(job)

        failure = await read_all_jobs(self._client, decode=_job, note=note)
        return jobs if failure is None else failure


def _why_not(seen: Seen) -> str:
    """Return why no job may be requeued there, or empty."""
    if seen.node is None:
        return "Slurm has no such node"
    if seen.too_old:
        return seen.too_old
    if not is_drained(seen.node.state):
        return "the node is not drained any more"
    return "" if is_busy(seen.node.state) else "no job runs there"


def _why_stays(job: _WireJob, which: Requeueing) -> str:
    """Return why this job is not requeued, or empty."""
    if which.method == "partition" and job.partition not in which.names:
        return f"is in partition {printable(job.partition or '')}"
    if which.method == "qos" and job.qos not in which.names:
        return f"has QOS {printable(job.qos or '')}"
    if not job.batch_flag or number_of(job.het_job_id):
        return "is no batch job by itself"
    return "" if job.requeue else "must not be requeued (--no-requeue)"


def _left(jobs: Sequence[_WireJob], which: Requeueing) -> str:
    """Return which jobs stay, and why."""
    texts = [f"job {job.name} {_why_stays(job, which)}" for job in jobs[:NAMED]]
    more = [f"{len(jobs) - NAMED} more"] if len(jobs) > NAMED else []
    return ", ".join(texts + more)


async def is_requeueable(client: Slurm, job_id: str) -> bool:
    """Whether Slurm can requeue this batch job; False if the read fails.

    slurmctld would end any other job whose prolog fails.
    """
    found: list[_WireJob] = []

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        try:
            found.extend(decoded(_job, record) for record in records)
        except UNREADABLE as error:
            return SlurmError("garbage", str(error))
        return None

    answer = await client.read_records(get_job(job_id.partition("_")[0]), "jobs", take)
    if isinstance(answer, SlurmError) or not found:
        return False
    return all(job.requeue and job.batch_flag for job in found)
