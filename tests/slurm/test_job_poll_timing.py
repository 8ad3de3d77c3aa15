"""When the reader of jobs lists them again."""

import asyncio

import pytest
from msgspec.structs import replace

from sunk_sync.slurm.read.pacing import Time
from tests.kit.job_reader import RUNNING, Reader, until
from tests.slurm.listed import reader_of
from tests.slurm.recorded.slurm_jobs import Record, SlurmJobs, identity_of


async def _start(slurm: SlurmJobs, record: Record) -> float:
    """Start the job, let ten seconds pass, and return the time of the start."""
    began_s = slurm.now_s
    slurm.start(record, "n1")
    await until(lambda: slurm.now_s > began_s + 10)
    return began_s


async def test_jobs_are_listed_every_30_s_when_idle_and_each_second_when_busy() -> None:
    slurm = SlurmJobs()
    reader = Reader(slurm, busy=False)
    running = asyncio.ensure_future(reader.poll.run())
    began: list[float] = []
    slurm.before = lambda line: began.append(slurm.now_s) if line == "GET jobs/state/" else None
    await until(lambda: len(began) >= 3)
    assert 29 <= began[2] - began[1] <= 32
    reader.busy = True
    await until(lambda: len(began) >= 5)
    assert began[4] - began[3] < 12
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_jobs_are_listed_five_times_a_second_while_a_burst_starts() -> None:
    slurm = SlurmJobs(takes_s=0.001)
    records = [slurm.add(identity_of(f"u{i}")) for i in range(3)]
    began: list[float] = []
    slurm.before = lambda line: began.append(slurm.now_s) if line == "GET jobs/state/" else None
    reader = Reader(slurm)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(began) >= 5)
    first_s = await _start(slurm, records[0])
    assert sum(1 < one - first_s < 3 for one in began) >= 9
    assert sum(5 < one - first_s < 10 for one in began) <= 6
    await _start(slurm, records[1])
    last_s = await _start(slurm, records[2])
    assert sum(1 < one - last_s < 10 for one in began) <= 10, "nothing waits any more"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_reasons_of_waiting_jobs_are_read_in_turn_P26() -> None:
    slurm = SlurmJobs()
    records = [slurm.add(identity_of(f"u{i}")) for i in range(3)]
    reader = await reader_of(slurm, refresh_every=2)
    read: list[str] = []
    for record in records:
        record.reason = "Resources"
    for _ in range(8):
        await reader.look()
        read += reader.read
    assert sorted(read) == ["GET job/1", "GET job/2", "GET job/3"]
    assert {job.reason for job in reader.job_owners.ours.values()} == {"Resources"}


async def test_a_running_job_without_nodes_is_read_again() -> None:
    """In a simulation its record could not be read when it started, and was not read again."""
    slurm = SlurmJobs()
    reader = Reader(slurm)
    record = slurm.add(identity_of("u1"))
    (waiting,) = (await reader.look()).values()
    reader.job_owners.learn(replace(waiting, state=RUNNING))
    slurm.start(record, "n1")
    (job,) = (await reader.look()).values()
    assert job.slurm_nodes == ("n1",)


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_listing_for_a_prolog_waits_only_for_the_share_of_time_L7(awaited: bool) -> None:
    slurm = SlurmJobs(takes_s=0.001)
    reader = Reader(slurm)

    async def sleep(seconds: float) -> None:
        reader.waits.append(seconds)
        if seconds > 0.02:
            await asyncio.Event().wait()
        slurm.now_s += seconds

    reader.poll._loop._time = Time(clock=slurm.clock, sleep=sleep, random=lambda: 0.0)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) >= 2)
    assert reader.waits == [pytest.approx(0.004), pytest.approx(0.046)]
    asked = asyncio.ensure_future(reader.poll.relist(slurm.now_s)) if awaited else None
    reader.poll.poll_now()
    for _ in range(50):
        await asyncio.sleep(0)
    assert slurm.asked.count("GET jobs/state/") == 1 + awaited
    running.cancel()
    if asked is not None:
        assert await asked is None
