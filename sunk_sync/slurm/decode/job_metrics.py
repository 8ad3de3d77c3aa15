"""Count jobs by state, and by partition, account and user, from records of jobs."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Final

from sunk_sync.core.model.slurm_metrics import JobNumbers, JobRow, JobSet, QueuedJob
from sunk_sync.slurm.api.answers import UNREADABLE, number_of
from sunk_sync.slurm.decode.job_record import JobRecord, label, read_record, tasks_in
from sunk_sync.slurm.decode.nodes import state_of
from sunk_sync.slurm.decode.pending_jobs import PendingSums

SETS_MAX: Final = 1000
"""Sets of partition, account and user with a series of their own, the largest ones."""
SETS_KEPT: Final = 10_000
"""Sets among which these are chosen."""
ROWS_MAX: Final = 20_000
QUEUE_MAX: Final = 20_000
"""Pending records whose place is known."""
OTHER: Final = JobSet("other", "other", "other")

# The first match counts, as squeue shows one state: flags before the state that they belong to.
_STATES: Final = (
    ("COMPLETING", "completing"),
    ("CONFIGURING", "configuring"),
    ("PENDING", "pending"),
    ("RUNNING", "running"),
    ("SUSPENDED", "suspended"),
    ("COMPLETED", "completed"),
    ("CANCELLED", "canceled"),
    ("TIMEOUT", "timeout"),
    ("NODE_FAIL", "node_fail"),
    ("PREEMPTED", "preempted"),
    ("FAILED", "failed"),
    ("OUT_OF_MEMORY", "failed"),
    ("BOOT_FAIL", "failed"),
    ("DEADLINE", "failed"),
)
STATES: Final = tuple(dict.fromkeys(word for _, word in _STATES))
_COUNTED_BY_SET: Final = ("running", "pending")
_HOLDING: Final = frozenset({"running", "configuring", "completing", "suspended"})
"""States in which a job holds nodes."""
_ALLOCATED_GPUS: Final = re.compile(r"(?:^|,)gres/gpu=(\d{1,9})").search
_ASKED_GPUS: Final = re.compile(r"(?:^|,)gres[/:]gpu(?::[^:,=]+)?[:=](\d{1,9})").findall
"""In `gres/gpu:a100:4,gres/gpu=1`."""


class JobSums:
    """Takes records of jobs one by one."""

    def __init__(self, partitions: Sequence[str], *, rows: bool) -> None:
        """`rows`: also keep one row for each record."""
        self._pending = PendingSums(partitions)
        self._states = dict.fromkeys(STATES, 0)
        self._dependent = 0
        self._sets: dict[str, Counter[JobSet]] = {word: Counter() for word in _COUNTED_BY_SET}
        self._keeps_rows = rows
        self._holding: list[JobRow] = []
        self._others: list[JobRow] = []
        self._queue: list[QueuedJob] = []

    def add(self, record: bytes) -> None:
        """Count the job; ignore a record that is unreadable or in no known state."""
        try:
            job = read_record(record)
        except UNREADABLE:
            return
        state = job_state_of(state_of(job.job_state))
        if state is None:
            return
        count = tasks_in(job.array_task_string or "")
        jobs = _set_of(job)
        self._states[state] += count
        if state in self._sets:
            _note(self._sets[state], jobs, count)
        if state == "pending":
            self._dependent += count if job.state_reason == "Dependency" else 0
            self._pending.add(job, jobs=count)
            if len(self._queue) < QUEUE_MAX:
                self._queue.append(_queued(job, tasks=count))
        if self._keeps_rows:
            kept = self._holding if state in _HOLDING else self._others
            if len(kept) < ROWS_MAX:
                kept.append(_row(job, jobs, state=state))

    def result(self) -> JobNumbers:
        return JobNumbers(
            pending=self._pending.result(),
            states=self._states,
            pending_dependency=self._dependent,
            sets={state: _largest(counts) for state, counts in self._sets.items()},
            rows=(self._holding + self._others)[:ROWS_MAX],
            queue=self._queue,
        )


def job_state_of(flags: frozenset[str]) -> str | None:
    """Return the one state in which a job counts; None if Slurm names none of them."""
    return next((word for flag, word in _STATES if flag in flags), None)


def _set_of(job: JobRecord) -> JobSet:
    """Slurm has no name for a user that its hosts do not know."""
    user = job.user_name or str(job.user_id)
    return JobSet(label(job.partition or ""), label(job.account or ""), label(user))


def _note(counts: Counter[JobSet], jobs: JobSet, more: int) -> None:
    known = jobs in counts or len(counts) < SETS_KEPT
    counts[jobs if known else OTHER] += more


def _largest(counts: Counter[JobSet]) -> Mapping[JobSet, int]:
    """Sum up all but the largest sets."""
    if len(counts) <= SETS_MAX:
        return counts
    kept = dict(nlargest(SETS_MAX, counts.items(), key=itemgetter(1)))
    rest = counts.total() - sum(kept.values())
    kept[OTHER] = kept.get(OTHER, 0) + rest
    return kept


def _queued(job: JobRecord, *, tasks: int) -> QueuedJob:
    return QueuedJob(
        job_id=int(number_of(job.array_job_id) or 0) or job.job_id,
        partitions=tuple(label(job.partition or "").split(",")),
        priority=int(number_of(job.priority) or 0),
        tasks=tasks,
        starts_s=number_of(job.start_time) or None,
    )


def _row(job: JobRecord, jobs: JobSet, *, state: str) -> JobRow:
    name = label(job.name or "")
    if state not in _HOLDING:
        return JobRow(job_id=job.job_id, name=name, jobs=jobs, state=state)
    return JobRow(
        job_id=job.job_id,
        name=name,
        jobs=jobs,
        state=state,
        started_s=number_of(job.start_time) or 0.0,
        cpus=int(number_of(job.cpus) or 0),
        gpus=_gpus_of(job),
    )


def _gpus_of(job: JobRecord) -> int:
    """Slurm tells the GPUs in use only if AccountingStorageTRES names them: else what it asked."""
    allocated = _ALLOCATED_GPUS(job.tres_alloc_str or "")
    if allocated is not None:
        return int(allocated[1])
    nodes, tasks = (int(number_of(number) or 1) for number in (job.node_count, job.tasks))
    asked = ((job.tres_per_job, 1), (job.tres_per_node, nodes), (job.tres_per_task, tasks))
    return sum(times * sum(map(int, _ASKED_GPUS(text or ""))) for text, times in asked)
