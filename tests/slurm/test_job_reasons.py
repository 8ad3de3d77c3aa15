"""P26: the reasons of many waiting jobs are read by one listing."""

import asyncio

import msgspec

from sunk_sync.core.model.job_identity import Identity
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.slurm.read.pending_reasons import AGAIN_S, FEW, LOOK_S, RECORDS_MAX, JobReasons
from tests.kit.news import NewsLog
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, is_mine

ARRAY = Identity("c1", "s1", uids=("u0", "u1", "u2"))


class Desk:
    """A small Slurm, its poll, and the reader of reasons."""

    def __init__(self, slurm: SlurmJobs) -> None:
        self.slurm = slurm
        self.job_owners = JobOwners(is_mine)
        self.time = Time(clock=slurm.clock, sleep=self.sleep, random=lambda: 1.0)
        timing = JobPollTiming(busy=lambda: True, refresh_every=10**6)
        self.poll = JobPoll(
            slurm, NewsLog().tell, job_owners=self.job_owners, timing=timing, time=self.time
        )
        self.reasons = JobReasons(slurm, job_owners=self.job_owners, time=self.time)
        self.until_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slurm.now_s += seconds
        if self.slurm.now_s >= self.until_s:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> list[str]:
        """Return what it asks in so many seconds."""
        self.slurm.asked.clear()
        self.until_s = self.slurm.now_s + seconds
        await asyncio.gather(self.reasons.run(), return_exceptions=True)
        return self.slurm.asked

    async def look(self) -> dict[str, str]:
        """Return the reason of each job of ours after the next poll."""
        assert await self.poll.poll() is None
        return {one.job_id: one.reason for one in self.job_owners.ours.values()}


async def desk_of(slurm: SlurmJobs, count: int = FEW + 1) -> Desk:
    """Add so many waiting jobs, and let the poll read them."""
    for i in range(count):
        slurm.add(identity_of(f"u{i}"), reason="Priority")
    desk = Desk(slurm)
    await desk.look()
    return desk


async def test_all_reasons_are_read_by_one_listing_P26() -> None:
    slurm = SlurmJobs()
    desk, records = await desk_of(slurm), [*slurm.records.values()]
    for record in records:
        record.reason = "Resources"
    slurm.start(records[0], "n1")
    await desk.pass_time(2 * LOOK_S + 1)
    reasons = await desk.look()
    assert set(reasons.values()) == {"Resources"}
    assert slurm.asked.count("GET jobs/") == 1


async def test_reasons_of_a_new_burst_are_not_listed_P26() -> None:
    """The jobs may be about to start, and a listing would only cost."""
    slurm = SlurmJobs()
    desk, records = await desk_of(slurm), [*slurm.records.values()]
    assert await desk.pass_time(LOOK_S + 1) == []
    for record in records:
        slurm.start(record, "n1")
    await desk.look()
    assert await desk.pass_time(2 * LOOK_S + 1) == []


async def test_reasons_of_few_jobs_are_not_listed_P26() -> None:
    slurm = SlurmJobs()
    desk = await desk_of(slurm, FEW)
    assert await desk.pass_time(120) == []
    assert desk.reasons.age_s() == 0


async def test_an_array_is_listed_once_its_first_task_runs_P26() -> None:
    """The waiting tasks share one record; a requeued task has its own."""
    slurm = SlurmJobs()
    array = slurm.add(ARRAY)
    desk = Desk(slurm)
    await desk.look()
    assert await desk.pass_time(60) == [], "its record is read in turn"
    slurm.start(array, "n1", task=0)
    again = slurm.start(array, "", task=1)
    again.state, again.reason, array.reason = ["PENDING"], "BeginTime", "Resources"
    await desk.look()
    await desk.pass_time(2 * LOOK_S + 1)
    assert await desk.look() == {"1_0": "", "1_1": "BeginTime", "1_2": "Resources"}


async def test_while_nothing_changes_only_changes_are_requested_P26() -> None:
    """A kilobyte proves that every reason is at most a minute old."""
    slurm = SlurmJobs(changed_s=50)
    desk = await desk_of(slurm)
    await desk.pass_time(200)
    since = [call.query.get("update_time") for call in slurm.calls if call.path == "jobs/"]
    assert since[0] is None
    assert all(since[1:])
    assert len(since) >= 5
    assert desk.reasons.age_s() <= AGAIN_S + LOOK_S + 1


async def test_listings_of_a_busy_slurm_stay_below_the_limit_of_bytes_P26() -> None:
    slurm = SlurmJobs(changed_s=10**9)
    slurm.weight = "x" * 8000
    desk = await desk_of(slurm, 500)
    asked = await desk.pass_time(600)
    listings = asked.count("GET jobs/")
    each = len(msgspec.json.encode(slurm.records[1].wire() | {"weight": slurm.weight}))
    assert 500 * each * listings / 600 <= 40 * 500 + 15_000 + 500 * each / 600
    assert listings >= 4
    assert desk.reasons.age_s() <= 150


async def test_with_very_many_jobs_in_slurm_no_reasons_are_listed_P26() -> None:
    """slurmrestd has to build foreign records, too."""
    slurm = SlurmJobs()
    desk = await desk_of(slurm)
    desk.job_owners.foreign |= {f"{10**6}_{number}" for number in range(RECORDS_MAX)}
    assert await desk.pass_time(2 * LOOK_S + 1), "an array that waits is one record"
    desk.job_owners.foreign |= {str(10**6 + number) for number in range(RECORDS_MAX)}
    assert await desk.pass_time(120) == []


async def test_after_a_failure_all_reasons_are_listed_again_P26() -> None:
    slurm = SlurmJobs()
    desk = await desk_of(slurm)
    await desk.pass_time(2 * LOOK_S + 1)
    slurm.before = lambda _: SlurmError("timeout", "slow")
    await desk.pass_time(100)
    assert desk.reasons.age_s() > 90
    slurm.calls.clear()
    slurm.before = lambda _: None
    await desk.pass_time(60)
    assert slurm.calls[0].query.get("update_time") is None
    assert desk.reasons.age_s() < 60
