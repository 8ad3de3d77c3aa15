"""Job arrays: spelling of their tasks, and lookup of jobs by such a spelling."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from sunk_sync.embedded.slurm.model.job import Job

TASKS_MAX: Final = 1001
"""MaxArraySize: limit of tasks; the highest task id is one less."""


class ArrayError(ValueError):
    """The text is no list of tasks."""


class Target(Struct, frozen=True):
    """A job, or one waiting task in the record of an array."""

    job: Job
    task: int | None = None


def read_tasks(text: str) -> tuple[tuple[int, ...], int]:
    """Parse `0-7:2,9%3` into sorted task ids and the limit of running tasks (0: none).

    Raises ArrayError.
    """
    ids, _, most = text.partition("%")
    try:
        tasks = tuple(sorted({task for part in ids.split(",") for task in _range(part)}))
        most_tasks = int(most) if most else 0
    except ValueError as error:
        raise ArrayError(text) from error
    if not tasks or tasks[-1] >= TASKS_MAX or tasks[0] < 0 or most_tasks < 0:
        raise ArrayError(text)
    return tasks, most_tasks


def spelled(tasks: Iterable[int], most: int = 0) -> str:
    """Spell tasks as `0-3,7`, with `%2` if only two may run at a time."""
    runs: list[list[int]] = []
    for task in tasks:
        if runs and task == runs[-1][-1] + 1:
            runs[-1].append(task)
        else:
            runs.append([task])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ",".join(parts) + (f"%{most}" if most and parts else "")


def state_ids(job: Job, *, by_array: bool = False) -> Sequence[str]:
    """Return the ids in /jobs/state/: the id of the job, not of the array, then the task.

    `by_array`: use the id of the array, as v0.0.40 does.
    """
    if not job.array_id:
        return [str(job.job_id)]
    if job.task is not None:
        return [f"{job.array_id if by_array else job.job_id}_{job.task}"]
    return [f"{job.job_id}_{task}" for task in job.waiting_tasks] or [f"{job.job_id}_*"]


def targets(jobs: Mapping[int, Job], word: str) -> Sequence[Target]:
    """Return the targets of `7`, `7_3` or `7_[2-3]`; none if there is no such job.

    The id of an array means all its tasks, also if one of them has the same id.
    """
    number, _, task = word.partition("_")
    job = jobs.get(int(number)) if number.isdecimal() else None
    if not task:
        return [Target(each) for each in family(jobs, job)] if job else []
    try:
        wanted, _ = read_tasks(task.strip("[]"))
    except ArrayError:
        return []
    array = [each for each in jobs.values() if each.array_id == int(number)]
    return [found for one in wanted for found in _of_task(array, one)]


def family(jobs: Mapping[int, Job], job: Job) -> Sequence[Job]:
    """Return the jobs of an id: for the id of an array all its jobs, its own record first."""
    if not job.array_id or job.array_id != job.job_id:
        return [job]
    others = [each for each in jobs.values() if each.array_id == job.job_id and each is not job]
    return [job, *reversed(others)]


def _of_task(array: Iterable[Job], task: int) -> Sequence[Target]:
    for job in array:
        if job.task == task:
            return [Target(job)]
        if task in job.waiting_tasks:
            return [Target(job, task)]
    return []


def _range(part: str) -> Iterable[int]:
    span, _, step = part.partition(":")
    first, _, last = span.partition("-")
    if not first.isdecimal():
        raise ArrayError(part)
    ids = range(int(first), int(last or first) + 1, int(step or 1))
    if not ids or len(ids) > TASKS_MAX:
        raise ArrayError(part)
    return ids
