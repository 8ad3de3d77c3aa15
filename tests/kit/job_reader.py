"""A reader of jobs over a small Slurm, with its facts and its waits."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    Job,
    ListingEnded,
    ListingStarted,
    Observed,
)
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.pacing import Time
from tests.kit.news import NewsLog
from tests.slurm.recorded.slurm_jobs import SlurmJobs, is_mine

SOURCE: Final = "jobs"
DOWN = SlurmError("controller_down", "Unable to contact slurm controller (1800)", 1800)
UIDS = tuple(f"u{i}" for i in range(4))
ARRAY = Identity("c1", "s1", uids=UIDS)
RUNNING = frozenset({"RUNNING"})
CANCELLED = frozenset({"CANCELLED"})


class Reader(NewsLog):
    """A poll of a small Slurm, its news, its waits."""

    def __init__(
        self,
        slurm: SlurmJobs,
        *,
        busy: bool = True,
        refresh_every: int = 1000,
        job_owners: JobOwners | None = None,
    ) -> None:
        super().__init__()
        self.slurm = slurm
        self.waits: list[float] = []
        self.known: dict[str, Job] = {}
        self.busy = busy
        self.job_owners = job_owners or JobOwners(is_mine)
        time = Time(clock=slurm.clock, sleep=self.sleep, random=lambda: 1.0)
        timing = JobPollTiming(busy=lambda: self.busy, refresh_every=refresh_every)
        self.poll = JobPoll(slurm, self.tell, job_owners=self.job_owners, timing=timing, time=time)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.slurm.now_s += seconds
        await asyncio.sleep(0)

    async def look(self) -> dict[str, Job]:
        """One listing: our jobs as whoever hears of them knows them then."""
        self.news.clear()
        self.slurm.asked.clear()
        assert await self.poll.poll() is None
        whole = any(isinstance(one, ListingStarted) for one in self.news)
        assert isinstance(self.news[-1], ListingEnded if whole else Confirmed)
        for news in self.news:
            if isinstance(news, Deleted):
                del self.known[news.name]
            elif isinstance(news, ListingStarted):
                self.known.clear()
        self.known |= self.jobs()
        return dict(self.known)

    def jobs(self) -> dict[str, Job]:
        rows = [news.row for news in self.news if isinstance(news, Observed)]
        return {row.job_id: row for row in rows if isinstance(row, Job)}

    @property
    def read(self) -> list[str]:
        """Records asked for."""
        return [
            line for line in self.slurm.asked if line.startswith("GET job") and "state" not in line
        ]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")
