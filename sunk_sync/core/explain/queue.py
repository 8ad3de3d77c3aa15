"""The place of a job in Slurm's queue, from the last listing of all jobs."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from sunk_sync.core.model.slurm_metrics import QueuedJob


class Place(Struct, frozen=True, kw_only=True):
    partition: str
    place: int
    """1: it is the first."""
    of: int
    """Jobs that wait in this partition. The tasks of an array count one by one."""
    starts_s: float | None
    """Unix time at which Slurm expects the start; None: it says nothing."""


def place_of(queue: Sequence[QueuedJob], job_id: int) -> Place | None:
    """Return the best place of the job among the partitions that it may use; None: it is not there.

    Slurm tries jobs by priority. Which of them starts first also depends on what they ask for.
    """
    mine = next((job for job in queue if job.job_id == job_id), None)
    if mine is None:
        return None
    places = [_place_in(queue, mine, partition) for partition in mine.partitions]
    return min(places, key=lambda one: one.place, default=None)


def _place_in(queue: Iterable[QueuedJob], mine: QueuedJob, partition: str) -> Place:
    here = [job for job in queue if partition in job.partitions]
    ahead = sum(job.tasks for job in here if _rank(job) < _rank(mine))
    return Place(
        partition=partition,
        place=ahead + 1,
        of=sum(job.tasks for job in here),
        starts_s=mine.starts_s,
    )


def _rank(job: QueuedJob) -> tuple[int, int]:
    return (-job.priority, job.job_id)
