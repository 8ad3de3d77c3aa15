"""The place of a job in Slurm's queue."""

import pytest

from sunk_sync.core.explain.queue import place_of
from sunk_sync.core.model.slurm_metrics import QueuedJob


def waits(job_id: int, priority: int, *partitions: str, tasks: int = 1) -> QueuedJob:
    starts_s = 1e9 if job_id == 3 else None
    return QueuedJob(
        job_id=job_id, partitions=partitions, priority=priority, tasks=tasks, starts_s=starts_s
    )


QUEUE = (
    waits(1, 10, "main"),
    waits(2, 99, "main", tasks=5),
    waits(3, 10, "main", "gpu"),
    waits(4, 50, "gpu"),
    waits(5, 5, "gpu"),
    waits(6, 1, "other"),
)


@pytest.mark.parametrize(
    ("job_id", "partition", "place", "of"),
    [(2, "main", 1, 7), (1, "main", 6, 7), (3, "gpu", 2, 3), (5, "gpu", 3, 3), (6, "other", 1, 1)],
)
def test_the_place_is_by_priority_then_age_in_the_best_partition(
    job_id: int, partition: str, place: int, of: int
) -> None:
    found = place_of(QUEUE, job_id)
    assert found is not None
    assert (found.partition, found.place, found.of) == (partition, place, of)
    assert found.starts_s == (1e9 if job_id == 3 else None)


def test_a_job_that_was_not_listed_has_no_place() -> None:
    assert place_of(QUEUE, 7) is None
