"""P26: why jobs wait, read for all of them at once where they are many."""

import asyncio

import msgspec

from sunk_sync.core.model.job_identity import Identity
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.slurm.read.pending_reasons import AGAIN_S, FEW, LOOK_S, RECORDS_MAX, JobReasons
from tests.kit.news import NewsLog
from tests.slurm.recorded.job_world import JobWorld, Record, identity_of, is_mine

ARRAY = Identity("c1", "s1", uids=("u0", "u1", "u2"))


class Desk:
    """A small world, the book that the poll fills, and the reader of reasons."""

    def __init__(self, world: JobWorld) -> None:
        self.world = world
        self.job_owners = JobOwners(is_mine)
        self.time = Time(clock=world.clock, sleep=self.sleep, random=lambda: 1.0)
        timing = JobPollTiming(busy=lambda: True, refresh_every=10**6)
        self.poll = JobPoll(
            world, NewsLog().tell, job_owners=self.job_owners, timing=timing, time=self.time
        )
        self.reasons = JobReasons(world, job_owners=self.job_owners, time=self.time)
        self.until_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.world.now_s += seconds
        if self.world.now_s >= self.until_s:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> list[str]:
        """What it asks in so many seconds."""
        self.world.asked.clear()
        self.until_s = self.world.now_s + seconds
        await asyncio.gather(self.reasons.run(), return_exceptions=True)
        return self.world.asked

    async def look(self) -> dict[str, str]:
        """Reason of each job of ours, as the poll's next look tells it."""
        assert await self.poll.poll() is None
        return {one.job_id: one.reason for one in self.job_owners.ours.values()}


def many(world: JobWorld, count: int = FEW + 1) -> list[Record]:
    return [world.add(identity_of(f"u{i}"), reason="Priority") for i in range(count)]


async def test_every_reason_is_read_by_one_listing_P26() -> None:
    """Of all that wait, while those that are known stay as they are."""
    world = JobWorld()
    records = many(world)
    desk = Desk(world)
    await desk.look()
    for record in records:
        record.reason = "Resources"
    world.start(records[0], "n1")
    await desk.pass_time(2 * LOOK_S + 1)
    reasons = await desk.look()
    assert set(reasons.values()) == {"Resources"}
    assert world.asked.count("GET jobs/") == 1


async def test_who_has_just_come_may_be_about_to_start_P26() -> None:
    """A listing amid a burst would only cost; their reasons are as old as the wait for it."""
    world = JobWorld()
    records = many(world)
    desk = Desk(world)
    await desk.look()
    assert await desk.pass_time(LOOK_S + 1) == []
    for record in records:
        world.start(record, "n1")
    await desk.look()
    assert await desk.pass_time(2 * LOOK_S + 1) == []


async def test_few_are_read_in_turn_without_it_P26() -> None:
    """A listing of all would cost more."""
    world = JobWorld()
    many(world, FEW)
    desk = Desk(world)
    await desk.look()
    assert await desk.pass_time(120) == []
    assert desk.reasons.age_s() == 0


async def test_an_array_whose_first_task_runs_is_among_it_P26() -> None:
    """Of those that wait, one record tells; one that was requeued has its own."""
    world = JobWorld()
    array = world.add(ARRAY)
    desk = Desk(world)
    await desk.look()
    assert await desk.pass_time(60) == [], "its record is read in turn"
    world.start(array, "n1", task=0)
    again = world.start(array, "", task=1)
    again.state, again.reason, array.reason = ["PENDING"], "BeginTime", "Resources"
    await desk.look()
    await desk.pass_time(2 * LOOK_S + 1)
    assert await desk.look() == {"1_0": "", "1_1": "BeginTime", "1_2": "Resources"}


async def test_while_nothing_changes_it_is_asked_for_changes_only_P26() -> None:
    """Every reason is proved, for a kilobyte; none is older than a minute then."""
    world = JobWorld(changed_s=50)
    many(world)
    desk = Desk(world)
    await desk.look()
    await desk.pass_time(200)
    since = [call.query.get("update_time") for call in world.calls if call.path == "jobs/"]
    assert since[0] is None
    assert all(since[1:])
    assert len(since) >= 5
    assert desk.reasons.age_s() <= AGAIN_S + LOOK_S + 1


async def test_a_busy_slurm_is_asked_as_often_as_its_bytes_allow_P26() -> None:
    """120 bytes a job and 30 kB a second are the limit for everything."""
    world = JobWorld(changed_s=10**9)
    world.weight = "x" * 8000
    records = many(world, 500)
    desk = Desk(world)
    await desk.look()
    asked = await desk.pass_time(600)
    listings = asked.count("GET jobs/")
    each = len(msgspec.json.encode(records[0].wire() | {"weight": world.weight}))
    assert 500 * each * listings / 600 <= 40 * 500 + 15_000 + 500 * each / 600
    assert listings >= 4
    assert desk.reasons.age_s() <= 150


async def test_of_very_many_jobs_none_is_listed_P26() -> None:
    """Somebody else's count: it is slurmrestd that has to make it."""
    world = JobWorld()
    many(world)
    desk = Desk(world)
    await desk.look()
    desk.job_owners.foreign |= {f"{10**6}_{number}" for number in range(RECORDS_MAX)}
    assert await desk.pass_time(2 * LOOK_S + 1), "an array that waits is one record"
    desk.job_owners.foreign |= {str(10**6 + number) for number in range(RECORDS_MAX)}
    assert await desk.pass_time(120) == []


async def test_a_failure_is_no_proof_P26() -> None:
    """Asked again after a while, for everything."""
    world = JobWorld()
    many(world)
    desk = Desk(world)
    await desk.look()
    await desk.pass_time(2 * LOOK_S + 1)
    world.before = lambda _: SlurmError("timeout", "slow")
    await desk.pass_time(100)
    assert desk.reasons.age_s() > 90
    world.calls.clear()
    world.before = lambda _: None
    await desk.pass_time(60)
    assert world.calls[0].query.get("update_time") is None
    assert desk.reasons.age_s() < 60
