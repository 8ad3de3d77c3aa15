"""A record that cannot be read leaves the listing of jobs open; reused job ids are noticed."""

import asyncio

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Confirmed, Deleted, ListingEnded, ListingStarted, Lost
from sunk_sync.core.model.job_identity import spell_identity
from tests.kit.job_reader import ARRAY, CANCELLED, DOWN, RUNNING, SOURCE, Reader
from tests.slurm.listed import listed, reader_of
from tests.slurm.recorded.slurm_jobs import GONE, SlurmJobs, identity_of, name_of


async def test_a_failed_read_of_one_record_leaves_the_listing_open() -> None:
    slurm = SlurmJobs()
    slurm.add(identity_of("u1"))
    slurm.add(identity_of("u2"))
    slurm.before = lambda line: DOWN if line == "GET job/2" else None
    reader = Reader(slurm)
    failure = await reader.poll.poll()
    assert failure is not None
    assert "job 2: " in failure.text
    assert list(reader.jobs()) == ["1"]
    assert not any(isinstance(news, ListingEnded | Confirmed) for news in reader.news)
    assert reader.news[-1] == Lost(SOURCE, str(failure))
    slurm.before = lambda _: None
    assert list(await reader.look()) == ["1", "2"]


async def test_a_new_state_is_not_reported_before_its_record_was_read_P23() -> None:
    """In seed 71372 a job was reported as running without its nodes."""
    slurm, record, reader = await listed()
    slurm.start(record, "n1")
    slurm.before = lambda line: DOWN if line == "GET job/1" else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert [type(news) for news in reader.news] == [ListingStarted, Lost]
    slurm.before = lambda _: None
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


@pytest.mark.parametrize("fails", ["GET job/1", "GET diag/"])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_job_with_a_forgotten_end_is_live_until_read_F2(fails: str, restart: bool) -> None:
    """In seed 530388 its Pods got a second job."""
    slurm, array, reader = await listed(ARRAY)
    array.waiting, array.state = [], ["CANCELLED"]
    assert (await reader.look())["1_1"].state == CANCELLED
    array.waiting, array.state = [0, 1, 2, 3], ["PENDING"]
    slurm.counting += restart
    slurm.now_s += 5
    slurm.before = lambda line: DOWN if line == fails else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert {job.state for job in reader.jobs().values()} == {frozenset({"PENDING"})}
    assert len(reader.jobs()) == 4
    slurm.before = lambda _: None
    assert (await reader.look())["1_1"].state == {"PENDING"}


async def test_a_job_with_a_forgotten_end_is_live_while_other_records_are_slow_F2() -> None:
    """In seed 1795999487453 another record took 9 s, and the Pod got a second job meanwhile."""
    slurm, record, reader = await listed(state="CANCELLED")
    record.state = ["PENDING"]
    for number in range(2, 8):
        slurm.add(identity_of(f"u{number}"))
    slurm.counting, slurm.now_s = 2, slurm.now_s + 5
    told: list[object] = []

    def note(line: str) -> None:
        if line == "GET job/7":
            told.extend(job.state for job in reader.jobs().values())

    slurm.before = note
    reader.news.clear()
    await reader.poll.poll()
    assert told == [{"PENDING"}]


@pytest.mark.parametrize("fails", ["GET job/1", "GET diag/"])
async def test_an_ended_job_is_not_confused_with_the_next_job_of_its_number_F2(fails: str) -> None:
    """slurmctld lost all state, and only the submission reported the new job. In seed 7496 its Pods
    got a second job.
    """
    slurm, record, reader = await listed(state="CANCELLED")
    reported = reader.known
    record.comment, record.state = spell_identity(identity_of("u2")), ["SUSPENDED"]
    record.nodes = "n1"
    new = replace(reported["1"], identity=identity_of("u2"), state=RUNNING, slurm_nodes=("n1",))
    reader.job_owners.learn(new, asked_s=slurm.now_s + 1)
    slurm.counting, slurm.now_s = 2, slurm.now_s + 5
    slurm.before = lambda line: DOWN if line == fails else None
    reader.news.clear()
    for _ in range(2):
        assert await reader.poll.poll() is not None
    assert reader.jobs() == {}
    slurm.before = lambda _: None
    assert (await reader.look())["1"].identity == identity_of("u2")


@pytest.mark.parametrize(
    ("name", "replaced", "ours"),
    [("theirs", True, False), ("theirs", False, True), (name_of("u1"), True, True)],
    ids=["marked by mistake", "renamed", "marked"],
)
async def test_a_foreign_job_with_our_mark_stays_P23(name: str, replaced: bool, ours: bool) -> None:
    """In seed 554577 it was cancelled as a replaced job."""
    slurm = SlurmJobs()
    slurm.add(replace(identity_of("u1"), replaced=replaced), name=name)
    assert bool(await Reader(slurm).look()) == ours


async def test_a_foreign_job_under_the_id_of_an_ended_job_is_not_reported_P23() -> None:
    slurm, record, reader = await listed(state="CANCELLED")
    record.comment, record.state, record.submitted = "", ["RUNNING"], 1001
    slurm.add(identity_of("u2"))
    slurm.before = lambda line: DOWN if line == "GET job/2" else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert reader.jobs() == {}


async def test_a_listed_job_without_a_record_leaves_the_listing_open() -> None:
    slurm = SlurmJobs()
    record = slurm.add(identity_of("u1"))

    def become_a_task(line: str) -> None:
        if line == "GET job/1":
            record.array, record.task, record.comment = 1, 0, spell_identity(ARRAY)

    slurm.before = become_a_task
    reader = Reader(slurm)
    failure = await reader.poll.poll()
    assert failure is not None
    assert "job 1 " in failure.text
    assert isinstance(reader.news[-1], Lost)
    await reader.look()
    assert isinstance(reader.news[-1], ListingEnded)


async def test_a_job_purged_before_its_record_is_read_is_absent() -> None:
    slurm = SlurmJobs()
    slurm.add(identity_of("u1"))

    def purge(line: str) -> None:
        if line == "GET job/1":
            del slurm.records[1]

    slurm.before = purge
    assert await Reader(slurm).look() == {}


@pytest.mark.parametrize("known", [True, False])
async def test_a_listed_job_hidden_by_PrivateData_is_not_gone(known: bool) -> None:
    """Slurm answers 2017 to a token without rights, and lists the state."""
    slurm = SlurmJobs()
    record = slurm.add(identity_of("u1"))
    reader = Reader(slurm)
    if known:
        await reader.look()
        record.state = ["RUNNING"]
    slurm.before = lambda line: GONE if line == "GET job/1" else None
    failure = await reader.poll.poll()
    assert failure is not None
    assert "PrivateData" in failure.text
    assert [news for news in reader.news if isinstance(news, Deleted)] == []
    slurm.before = lambda _: None
    assert await reader.look()


async def test_a_job_that_leaves_the_listing_is_gone_and_read_again_when_it_returns() -> None:
    slurm, record, reader = await listed()
    del slurm.records[1]
    assert await reader.look() == {}
    assert [type(news) for news in reader.news] == [Deleted, Confirmed]
    slurm.records[1] = record
    record.comment = ""
    assert await reader.look() == {}
    assert reader.read == ["GET job/1"]


async def test_a_foreign_id_that_leaves_and_returns_is_read_again_P23() -> None:
    slurm, record, reader = await listed("no identity")
    del slurm.records[1]
    await reader.look()
    record.comment = spell_identity(identity_of("u1"))
    slurm.records[1] = record
    assert list(await reader.look()) == ["1"]


async def test_an_id_given_to_our_submission_is_ours_P23() -> None:
    """It was foreign until slurmctld forgot it, with no listing in between."""
    slurm, record, reader = await listed("no identity")
    record.comment = spell_identity(identity_of("u1"))
    (job,) = (await Reader(slurm).look()).values()
    reader.job_owners.learn(job)
    assert await reader.look() == {"1": job}
    slurm.start(record, "n1")
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


async def test_after_a_restart_of_slurmctld_every_record_is_read_again_P23() -> None:
    """It gave our id to a foreign job in the same state."""
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1")
    reader = Reader(slurm)
    assert list(await reader.look()) == ["1"]
    slurm.counting, record.comment = 2, ""
    slurm.now_s += 5
    assert await reader.look() == {}
    assert isinstance(reader.news[-1], ListingEnded)


async def test_a_requested_listing_checks_for_a_restart_and_is_complete_L7() -> None:
    slurm, _, reader = await listed()
    slurm.asked.clear()
    reader.news.clear()
    asked = asyncio.ensure_future(reader.poll.relist(slurm.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    assert await asked is None
    assert slurm.asked == ["GET jobs/state/", "GET diag/"]
    assert isinstance(reader.news[-1], ListingEnded)


async def test_one_id_of_ours_with_a_foreign_job_makes_the_reader_read_all_again_P23() -> None:
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1")
    slurm.add(identity_of("u2"))
    reader = await reader_of(slurm)
    record.comment, record.state, record.submitted = "", ["PENDING"], 1001
    assert await reader.poll.poll() is not None
    assert isinstance(reader.news[-1], Lost)
    assert list(await reader.look()) == ["2"]
    assert sorted(reader.read) == ["GET job/1", "GET job/2"]
