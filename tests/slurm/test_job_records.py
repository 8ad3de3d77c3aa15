"""A listing reads each job record once, and as few as possible."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Confirmed, Job, ListingEnded, ListingStarted, Observed
from sunk_sync.core.model.job_identity import spell_identity
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.decode.jobs import JobRecord, with_replaced
from tests.kit.job_reader import ARRAY, CANCELLED, RUNNING, SOURCE, UIDS, Reader
from tests.slurm.listed import listed, reader_of
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, name_of

THEIRS = identity_of("u1", cluster="c2")


def own_records_first(slurm: SlurmJobs) -> None:
    slurm.records = dict(sorted(slurm.records.items(), reverse=True))


async def test_a_listing_and_its_rows_have_the_times_of_their_requests() -> None:
    _, _, reader = await listed(name=name_of("u1"))
    assert [type(news) for news in reader.news] == [ListingStarted, Observed, ListingEnded]
    assert reader.news[0] == ListingStarted(SOURCE, begun_s=100.0, order=100.0)
    (seen,) = [news for news in reader.news if isinstance(news, Observed)]
    assert seen.order == 102.0
    assert isinstance(seen.row, Job)
    assert seen.row.identity == identity_of("u1")


async def test_foreign_jobs_are_read_once_and_never_reported_P22() -> None:
    slurm = SlurmJobs()
    for comment in (THEIRS, identity_of("u1", scheduler="s2"), "", "{"):
        slurm.add(comment)
    array = slurm.add("", array=5, waiting=[0, 1, 2])
    reader = Reader(slurm)
    assert await reader.look() == {}
    assert sorted(reader.read) == [f"GET job/{number}" for number in range(1, 6)]
    assert await reader.look() == {}
    assert reader.read == []
    slurm.start(array, "n1", task=1)
    assert await reader.look() == {}
    assert reader.read == ["GET job/6"]


async def test_a_job_is_read_again_only_when_its_state_changes_P23() -> None:
    slurm, record, reader = await listed()
    assert list(await reader.look()) == ["1"]
    assert [type(news) for news in reader.news] == [Confirmed]
    assert reader.read == []
    slurm.start(record, "n[1-2]")
    (job,) = (await reader.look()).values()
    assert (job.state, job.slurm_nodes) == (RUNNING, ("n1", "n2"))
    assert reader.read == ["GET job/1"]


async def test_a_change_of_flags_needs_no_read() -> None:
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1")
    record.state = ["COMPLETED", "COMPLETING"]
    reader = await reader_of(slurm)
    record.state = ["COMPLETED"]
    assert (await reader.look())["1"].state == {"COMPLETED"}
    assert reader.read == []


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_job_is_read_again_when_it_is_no_longer_completing_P17(
    *, begun: bool
) -> None:
    """Until then its record may lack its hosts, or the signal of its script."""
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1" if begun else "")
    record.state = ["CANCELLED", "COMPLETING"]
    reader = await reader_of(slurm)
    record.state, record.nodes, record.signal = ["CANCELLED"], "n1", 15 * begun
    slurm.before = lambda path: SlurmError("unreachable", "") if "job/1" in path else None
    assert await reader.poll.poll() is not None
    slurm.before = lambda _: None
    (job,) = (await reader.look()).values()
    assert (job.slurm_nodes, job.signalled) == (("n1",), begun)
    assert reader.read == ["GET job/1"]
    await reader.look()
    assert reader.read == []


@pytest.mark.parametrize(
    ("signal", "signalled", "prolog_failed"),
    [(0, False, False), (15, True, False), (54, False, True)],
)
async def test_slurm_says_by_signal_54_that_a_prolog_failed_P17(
    signal: int, *, signalled: bool, prolog_failed: bool
) -> None:
    """With `PrologFlags=Alloc`: 4022, the number of the error, taken for a status of wait(2)."""
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1")
    record.state, record.signal = ["CANCELLED"], signal
    (job,) = (await Reader(slurm).look()).values()
    assert (job.signalled, job.prolog_failed) == (signalled, prolog_failed)


async def test_many_unknown_ids_at_the_start_are_read_by_one_listing() -> None:
    slurm = SlurmJobs()
    for i in range(300):
        slurm.add(identity_of(f"u{i}") if i % 3 else "")
    slurm.start(slurm.add(ARRAY), "n1", task=1)
    reader = Reader(slurm)
    assert len(await reader.look()) == 204
    assert reader.read == ["GET jobs/"], "arrays too are read by it"
    slurm.add(identity_of("new"))
    assert len(await reader.look()) == 205
    assert reader.read == ["GET job/303"]


async def test_many_new_jobs_among_very_many_are_read_one_by_one() -> None:
    """On a busy cluster hundreds start each second."""
    slurm = SlurmJobs()
    for _ in range(1000):
        slurm.add("")
    reader = await reader_of(slurm)
    for i in range(210):
        slurm.add(identity_of(f"u{i}"))
    assert len(await reader.look()) == 210
    assert len(reader.read) == 210


@pytest.mark.parametrize("version", ["v0.0.45", "v0.0.40"])
async def test_a_task_keeps_its_id_when_it_starts(version: str) -> None:
    """Slurm gives it another number, which v0.0.40 hides."""
    slurm, array, reader = await listed(ARRAY, version=version)
    jobs = reader.known
    assert {job.identity.uids for job in jobs.values()} == {(uid,) for uid in UIDS}
    assert reader.read == ["GET job/1"]
    slurm.start(array, "n1", task=2)
    jobs = await reader.look()
    assert sorted(jobs) == ["1_0", "1_1", "1_2", "1_3"]
    assert (jobs["1_2"].state, jobs["1_2"].slurm_nodes) == (RUNNING, ("n1",))
    assert jobs["1_1"].state == {"PENDING"}
    for task in (0, 1, 3):
        slurm.start(array, f"n{task}", task=task)
    jobs = await reader.look()
    assert [jobs[f"1_{i}"].slurm_nodes for i in range(4)] == [("n0",), ("n1",), ("n1",), ("n3",)]
    assert [jobs[f"1_{i}"].identity.uids for i in range(4)] == [(uid,) for uid in UIDS]
    assert reader.read == ["GET job/1"], "three that start are read by one"


async def test_the_order_of_an_arrays_records_does_not_matter() -> None:
    """v0.0.40 lists a running task as if it waited."""
    slurm = SlurmJobs(version="v0.0.40")
    array = slurm.add(ARRAY)
    slurm.start(array, "n1", task=2)
    array.comment = spell_identity(with_replaced(ARRAY, frozenset({1})))
    array.waiting.remove(1)
    expected = await Reader(slurm).look()
    assert expected["1_2"].state == {"RUNNING"}
    assert (expected["1_1"].state, expected["1_1"].identity.replaced) == (CANCELLED, True)
    own_records_first(slurm)
    assert await Reader(slurm).look() == expected


async def test_a_task_cancelled_while_it_waits_is_reported_as_cancelled_P17() -> None:
    """Slurm keeps no record of it: it is missing from its array."""
    _, array, reader = await listed(ARRAY)
    array.waiting.remove(1)
    for _ in range(2):
        jobs = await reader.look() or reader.jobs()
        if jobs:
            assert (jobs["1_1"].state, jobs["1_1"].identity.uids) == (CANCELLED, ("u1",))
            assert jobs["1_0"].state == {"PENDING"}
    assert (await Reader(reader.slurm).look())["1_1"].state == {"CANCELLED"}
    array.waiting, array.state = [], ["CANCELLED"]
    jobs = await reader.look()
    assert {job_id: job.state for job_id, job in jobs.items()} == {
        f"1_{i}": CANCELLED for i in range(4)
    }


async def test_a_started_task_that_slurm_forgot_was_not_cancelled_P17() -> None:
    """In seed 215780 its Pod was reported as cancelled by a user."""
    slurm = SlurmJobs()
    array = slurm.add(ARRAY)
    first = slurm.start(array, "n1", task=0)
    reader = await reader_of(slurm)
    first.state, first.nodes = ["CANCELLED"], "n1"
    assert (await reader.look())["1_0"].state == {"CANCELLED"}
    del slurm.records[first.number]
    assert "1_0" not in await reader.look()


async def test_a_job_known_from_its_submission_is_not_read_until_it_changes() -> None:
    slurm = SlurmJobs()
    reader = await reader_of(slurm)
    record = slurm.add(identity_of("u1"))
    (job,) = (await Reader(slurm).look()).values()
    reader.job_owners.learn(job)
    assert await reader.look() == {"1": job}
    assert reader.read == []
    slurm.start(record, "n1")
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


async def test_a_task_that_was_read_as_it_started_is_not_read_again() -> None:
    slurm, array, reader = await listed(ARRAY)
    waits = reader.known["1_2"]
    record = slurm.start(array, "n1", task=2)
    reader.job_owners.learn(replace(waits, state=RUNNING, slurm_nodes=("n1",)))
    reader.job_owners.learn_number(
        "1_2", JobRecord(number=record.number, state=RUNNING), asked_s=0.0
    )
    jobs = await reader.look()
    assert reader.read == []
    assert jobs.keys() == {"1_0", "1_1", "1_2", "1_3"}
    assert (jobs["1_2"].state, jobs["1_2"].slurm_nodes) == (RUNNING, ("n1",))
    record.state = ["CANCELLED"]
    assert (await reader.look())["1_2"].state == CANCELLED
    assert reader.read == ["GET job/2"]


async def test_a_task_that_starts_between_its_state_and_its_record_is_read_once() -> None:
    slurm = SlurmJobs()
    array = slurm.add(ARRAY)
    reader = Reader(slurm)

    def start_meanwhile(line: str) -> None:
        if line == "GET job/1" and len(slurm.records) == 1:
            slurm.start(array, "n1", task=2)

    slurm.before = start_meanwhile
    assert (await reader.look())["1_2"].slurm_nodes == ("n1",)
    assert (await reader.look())["1_2"].slurm_nodes == ("n1",)
    assert reader.read == []


async def test_a_record_that_others_read_during_the_listing_is_not_read_again() -> None:
    slurm = SlurmJobs()
    reader = Reader(slurm)
    records = [slurm.add(identity_of(f"u{number}")) for number in range(6)]
    jobs = await reader.look()

    def look(line: str) -> None:
        if line == "GET job/1":
            for job_id in ("5", "6"):
                seen = replace(jobs[job_id], state=frozenset({"RUNNING"}), slurm_nodes=("n1",))
                reader.job_owners.learn(seen, asked_s=slurm.now_s + 0.1)

    for record in records:
        slurm.start(record, "n1")
    slurm.before = look
    reported = await reader.look()
    assert {one.slurm_nodes for one in reported.values()} == {("n1",)}
    assert reader.read == [f"GET job/{number}" for number in range(1, 5)]


async def test_a_listing_does_not_undo_a_newer_read() -> None:
    slurm, record, reader = await listed()
    jobs = dict(reader.known)

    def look(line: str) -> None:
        if line == "GET job/2":
            slurm.start(record, "n1")
            seen = replace(jobs["1"], state=frozenset({"RUNNING"}), slurm_nodes=("n1",))
            reader.job_owners.learn(seen, asked_s=slurm.now_s + 0.1)

    slurm.add(identity_of("u2"))
    slurm.before = look
    assert (await reader.look())["1"].state == {"RUNNING"}
    slurm.now_s += 1
    assert (await reader.look())["1"].state == {"RUNNING"}
    assert reader.read == []
