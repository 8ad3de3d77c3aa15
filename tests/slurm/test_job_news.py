"""The reader of jobs reports complete listings, changes and failures; callers share a listing."""

import asyncio

import pytest

from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    Job,
    ListingEnded,
    ListingStarted,
    Lost,
    Observed,
)
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from tests.kit.job_reader import DOWN, RUNNING, SOURCE, Reader, until
from tests.slurm.listed import listed, reader_of
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, name_of


def job_of(name: str) -> Job:
    """Return job 7 as a read showed it."""
    return Job(
        job_id="7", name=name, identity=identity_of("u1"), state=RUNNING, slurm_nodes=("n1",)
    )


class Distant(SlurmJobs):
    """Its answers take a moment to arrive."""

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        answer = await super().read_records(call, key, take)
        await asyncio.sleep(0)
        return answer


async def test_after_a_job_was_reported_gone_the_next_listing_is_complete() -> None:
    """A job that was reported gone may still be listed."""
    _, _, reader = await listed()
    reader.job_owners.learn_gone("1")
    assert list(await reader.look()) == ["1"]
    assert isinstance(reader.news[-1], ListingEnded)
    assert reader.read == ["GET job/1"]


async def test_a_job_known_only_from_its_submission_is_reported_gone_P30() -> None:
    """slurmctld lost the job after the submission and before the next listing."""
    slurm = SlurmJobs()
    reader = await reader_of(slurm)
    reader.job_owners.learn(job_of(name_of("u1")))
    await reader.poll.poll()
    assert [one.name for one in reader.news if isinstance(one, Deleted)] == ["7"]


async def test_an_absence_from_an_older_listing_is_reported_again_P30() -> None:
    """The graph does not believe a listing older than the answer that showed the job."""
    slurm = SlurmJobs()
    reader = await reader_of(slurm)
    learnt_s = slurm.now_s + 0.1

    def look(line: str) -> None:
        if line.startswith("GET jobs/state"):
            reader.job_owners.learn(job_of(name_of("u1")), asked_s=learnt_s)

    younger: list[list[bool]] = []
    for slurm.before in (look, lambda _: None, lambda _: None):
        reader.news.clear()
        await reader.poll.poll()
        younger.append([one.order > learnt_s for one in reader.news if isinstance(one, Deleted)])
    assert younger == [[False], [True], []]


async def test_after_a_restart_of_slurmctld_two_complete_listings_are_reported_P30() -> None:
    """An answer younger than the first listing may have shown a job that the reader then forgot."""
    slurm = SlurmJobs()
    reader = await reader_of(slurm)
    slurm.counting, slurm.now_s = 2, slurm.now_s + 5
    kinds = []
    for _ in range(3):
        await reader.look()
        kinds.append(type(reader.news[-1]))
        slurm.now_s += 1
    assert kinds == [ListingEnded, ListingEnded, Confirmed]


async def test_a_lost_job_is_reported_before_the_other_records_are_read_P30() -> None:
    """In seed 9493511 a Pod was bound to it while the other reads took three seconds."""
    told: list[str] = []

    class Slow(SlurmJobs):
        """The answer about job 2 comes last."""

        async def read_records(
            self, call: SlurmCall, key: str, take: Take
        ) -> SlurmResponse | SlurmError:
            if call.path == "job/2" and self.counting == 2:
                await until(lambda: bool(reader.news))
                told.extend(one.name for one in reader.news if isinstance(one, Deleted))
            return await super().read_records(call, key, take)

    slurm = Slow()
    for number in ("u1", "u2"):
        slurm.start(slurm.add(identity_of(number)), "n1")
    reader = await reader_of(slurm)
    slurm.counting, slurm.now_s = 2, slurm.now_s + 5

    def lose_the_first(line: str) -> None:
        if line == "GET job/1":
            slurm.records.pop(1, None)

    slurm.before = lose_the_first
    await reader.look()
    assert told == ["1"]


async def test_a_complete_listing_is_reported_every_ten_seconds_and_changes_in_between() -> None:
    slurm = SlurmJobs()
    records = [slurm.add(identity_of(f"u{i}")) for i in range(3)]
    reader = Reader(slurm)
    kinds: list[list[str]] = []
    for second in range(12):
        if second == 2:
            slurm.start(records[0], "n1")
        if second == 4:
            del slurm.records[2]
        await reader.look()
        kinds.append([type(news).__name__[:4] for news in reader.news])
        slurm.now_s = 100.0 + second + 1
    assert kinds[0] == ["List", "Obse", "Obse", "Obse", "List"]
    assert kinds[1:10] == [
        ["Conf"], ["Obse", "Conf"], ["Conf"], ["Dele", "Conf"], *[["Conf"]] * 5
    ]  # fmt: skip
    assert kinds[10] == ["List", "Obse", "Obse", "List"]
    assert kinds[11] == ["Conf"]


async def test_callers_share_the_first_listing_that_begins_after_their_call() -> None:
    slurm = SlurmJobs()
    reader = Reader(slurm)
    late: list[asyncio.Future[SlurmError | None]] = []

    def ask_meanwhile(line: str) -> SlurmError | None:
        if line == "GET jobs/state/" and not late:
            late.extend(asyncio.ensure_future(reader.poll.relist(slurm.now_s)) for _ in range(3))
        return None

    slurm.before = ask_meanwhile
    early = asyncio.ensure_future(reader.poll.relist(slurm.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    await asyncio.sleep(0)
    assert early.done()
    assert not any(one.done() for one in late)
    await reader.poll.poll()
    assert [await one for one in late] == [None] * 3
    assert slurm.asked.count("GET jobs/state/") == 2


@pytest.mark.parametrize(
    ("while_it_asks", "joins"), [("GET jobs/state/", True), ("GET diag/", False)]
)
async def test_a_call_joins_the_listing_until_its_diag_L7(while_it_asks: str, joins: bool) -> None:
    slurm = Distant()
    reader = Reader(slurm)
    asked: list[asyncio.Future[SlurmError | None]] = []

    def ask_meanwhile(line: str) -> SlurmError | None:
        if line == while_it_asks and not asked:
            asked.append(asyncio.ensure_future(reader.poll.relist(slurm.now_s - 0.001)))
        return None

    await reader.look()
    slurm.now_s += 10.0
    slurm.asked.clear()
    slurm.before = ask_meanwhile
    await reader.poll.poll()
    await asyncio.sleep(0)
    assert asked[0].done() is joins
    assert slurm.asked == ["GET jobs/state/", "GET diag/"]
    await reader.poll.poll()
    assert await asked[0] is None


async def test_a_caller_is_answered_when_the_listing_fails_or_the_reader_ends() -> None:
    slurm = SlurmJobs(before=lambda _: DOWN)
    reader = Reader(slurm)
    asked = asyncio.ensure_future(reader.poll.relist(slurm.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    assert await asked == DOWN
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) > 2)
    asked = asyncio.ensure_future(reader.poll.relist(slurm.now_s))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await asked is not None


async def test_a_failure_is_reported_once_and_once_more_as_blind_after_a_minute() -> None:
    slurm = SlurmJobs(before=lambda _: DOWN)
    reader = Reader(slurm)
    for _ in range(3):
        await reader.poll.poll()
    assert reader.news == [Lost(SOURCE, str(DOWN))]
    slurm.now_s += 60
    await reader.poll.poll()
    assert reader.news[1:] == [Lost(SOURCE, str(DOWN), blind=True)]


async def test_after_a_failure_the_next_listing_is_complete() -> None:
    slurm = SlurmJobs()
    reader = await reader_of(slurm)
    slurm.before = lambda _: DOWN
    await reader.poll.poll()
    slurm.before = lambda _: None
    await reader.look()
    assert [type(news) for news in reader.news] == [ListingStarted, ListingEnded]


async def test_a_start_is_reported_before_the_other_records_are_read() -> None:
    """Once; and not by a first listing, which is reported as a whole."""
    slurm = SlurmJobs()
    records = [slurm.add(identity_of(uid)) for uid in ("u1", "u2")]
    reader = await reader_of(slurm)
    reported: list[list[str]] = []
    for record in records:
        slurm.start(record, "n1")
    slurm.before = lambda line: reported.append(list(reader.jobs())) if "job/" in line else None
    jobs = await reader.look()
    assert reported == [[], ["1"]]
    assert [type(news) for news in reader.news] == [Observed, Observed, Confirmed]
    assert [job.slurm_nodes for job in jobs.values()] == [("n1",), ("n1",)]
    other = Reader(slurm)
    await other.look()
    assert isinstance(other.news[0], ListingStarted)


@pytest.mark.parametrize("lost", [False, True], ids=["", "after a listing that failed"])
async def test_an_end_is_reported_before_the_other_records_are_read(lost: bool) -> None:
    """A killed slurmctld forgot the start. In seed 410164 the Pod was bound seconds later."""
    slurm = SlurmJobs()
    records = [slurm.add(identity_of(uid)) for uid in ("u1", "u2")]
    reader = Reader(slurm)
    for record in records:
        slurm.start(record, "n1")
    await reader.look()
    if lost:
        slurm.before = lambda _: SlurmError("timeout", "x")
        await reader.poll.poll()
    reported: list[dict[str, Job]] = []
    for record in records:
        record.state, record.nodes = ["PENDING"], ""
    slurm.before = lambda line: reported.append(reader.jobs()) if "job/" in line else None
    reader.news.clear()
    await reader.look()
    assert [list(jobs) for jobs in reported] == [[], ["1"]]
    assert reported[1]["1"].state == {"PENDING"}
