"""Which job records a listing reads: each once, as few as possible."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Confirmed, Job, ListingEnded, ListingStarted, Observed
from sunk_sync.core.model.job_identity import spell_identity
from sunk_sync.slurm.decode.jobs import JobRecord, with_replaced
from tests.kit.job_reader import ARRAY, CANCELLED, RUNNING, SOURCE, UIDS, Reader
from tests.slurm.recorded.job_world import JobWorld, identity_of, name_of

THEIRS = identity_of("u1", cluster="c2")


def own_records_first(world: JobWorld) -> None:
    world.records = dict(sorted(world.records.items(), reverse=True))


async def test_a_listing_is_told_from_its_question_on() -> None:
    """Begun and ordered by the second of the states; a row that was read by that of its record."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    reader = Reader(world)
    assert await reader.poll.poll() is None
    assert [type(news) for news in reader.news] == [ListingStarted, Observed, ListingEnded]
    assert reader.news[0] == ListingStarted(SOURCE, begun_s=100.0, order=100.0)
    (seen,) = [news for news in reader.news if isinstance(news, Observed)]
    assert seen.order == 102.0
    assert isinstance(seen.row, Job)
    assert seen.row.identity == identity_of("u1")


async def test_no_jobs_at_all_is_a_listing() -> None:
    """Whether to believe it is for others to decide."""
    reader = Reader(JobWorld())
    assert await reader.look() == {}
    assert len(reader.news) == 2


async def test_jobs_of_others_are_read_once_and_never_told_P22() -> None:
    """Another cluster's, another scheduler's, a human's, an array's, a heterogeneous one's."""
    world = JobWorld()
    for comment in (THEIRS, identity_of("u1", scheduler="s2"), "", "{"):
        world.add(comment)
    array = world.add("", array=5, waiting=[0, 1, 2])
    reader = Reader(world)
    assert await reader.look() == {}
    assert sorted(reader.read) == [f"GET job/{number}" for number in range(1, 6)]
    assert await reader.look() == {}
    assert reader.read == []
    world.start(array, "n1", task=1)
    assert await reader.look() == {}
    assert reader.read == ["GET job/6"]


async def test_an_identity_is_read_once_P23() -> None:
    """Nothing is asked of a job that stands as it stood; what changed is read."""
    world = JobWorld()
    record = world.add(identity_of("u1"))
    reader = Reader(world)
    await reader.look()
    assert list(await reader.look()) == ["1"]
    assert [type(news) for news in reader.news] == [Confirmed]
    assert reader.read == []
    world.start(record, "n[1-2]")
    (job,) = (await reader.look()).values()
    assert (job.state, job.slurm_nodes) == (RUNNING, ("n1", "n2"))
    assert reader.read == ["GET job/1"]


async def test_flags_that_come_and_go_need_no_record() -> None:
    """COMPLETING and CONFIGURING stand in the listing."""
    world = JobWorld()
    record = world.start(world.add(identity_of("u1")), "n1")
    record.state = ["CANCELLED", "COMPLETING"]
    reader = Reader(world)
    await reader.look()
    record.state = ["CANCELLED"]
    assert (await reader.look())["1"].state == {"CANCELLED"}
    assert reader.read == []


async def test_many_unknown_ids_are_read_by_one_listing() -> None:
    """At the start; later ones by name again."""
    world = JobWorld()
    for i in range(300):
        world.add(identity_of(f"u{i}") if i % 3 else "")
    world.start(world.add(ARRAY), "n1", task=1)
    reader = Reader(world)
    assert len(await reader.look()) == 204
    assert reader.read == ["GET jobs/"], "arrays too are read by it"
    world.add(identity_of("new"))
    assert len(await reader.look()) == 205
    assert reader.read == ["GET job/303"]


async def test_many_among_very_many_are_read_one_by_one() -> None:
    """On a busy cluster hundreds start every second: not all jobs are listed for them."""
    world = JobWorld()
    for _ in range(1000):
        world.add("")
    reader = Reader(world)
    await reader.look()
    for i in range(210):
        world.add(identity_of(f"u{i}"))
    assert len(await reader.look()) == 210
    assert len(reader.read) == 210


@pytest.mark.parametrize("version", ["v0.0.45", "v0.0.40"])
async def test_a_task_keeps_its_name_when_it_starts(version: str) -> None:
    """Slurm gives it another number; v0.0.40 hides that."""
    world = JobWorld(version=version)
    array = world.add(ARRAY)
    reader = Reader(world)
    jobs = await reader.look()
    assert {job.identity.uids for job in jobs.values()} == {(uid,) for uid in UIDS}
    assert reader.read == ["GET job/1"]
    world.start(array, "n1", task=2)
    jobs = await reader.look()
    assert sorted(jobs) == ["1_0", "1_1", "1_2", "1_3"]
    assert (jobs["1_2"].state, jobs["1_2"].slurm_nodes) == (RUNNING, ("n1",))
    assert jobs["1_1"].state == {"PENDING"}
    for task in (0, 1, 3):
        world.start(array, f"n{task}", task=task)
    jobs = await reader.look()
    assert [jobs[f"1_{i}"].slurm_nodes for i in range(4)] == [("n0",), ("n1",), ("n1",), ("n3",)]
    assert [jobs[f"1_{i}"].identity.uids for i in range(4)] == [(uid,) for uid in UIDS]
    assert reader.read == ["GET job/1"], "three that start are read by one"


async def test_the_order_of_an_arrays_records_does_not_matter() -> None:
    """v0.0.40 lists a task that runs as if it waited; the marks stand in the shared record."""
    world = JobWorld(version="v0.0.40")
    array = world.add(ARRAY)
    world.start(array, "n1", task=2)
    array.comment = spell_identity(with_replaced(ARRAY, frozenset({1})))
    array.waiting.remove(1)
    expected = await Reader(world).look()
    assert expected["1_2"].state == {"RUNNING"}
    assert (expected["1_1"].state, expected["1_1"].identity.replaced) == (CANCELLED, True)
    own_records_first(world)
    assert await Reader(world).look() == expected


async def test_a_task_cancelled_while_it_waits_is_told_as_cancelled_P17() -> None:
    """Slurm keeps no record of it; its absence from its array says so."""
    world = JobWorld()
    array = world.add(ARRAY)
    reader = Reader(world)
    await reader.look()
    array.waiting.remove(1)
    for _ in range(2):
        jobs = await reader.look() or reader.jobs()
        if jobs:
            assert (jobs["1_1"].state, jobs["1_1"].identity.uids) == (
                frozenset({"CANCELLED"}),
                ("u1",),
            )
            assert jobs["1_0"].state == {"PENDING"}
    fresh = Reader(world)
    assert (await fresh.look())["1_1"].state == {"CANCELLED"}
    array.waiting, array.state = [], ["CANCELLED"]
    jobs = await reader.look()
    assert {job_id: set(job.state) for job_id, job in jobs.items()} == {
        f"1_{i}": {"CANCELLED"} for i in range(4)
    }


async def test_a_task_whose_record_is_forgotten_before_its_array_was_not_cancelled_P17() -> None:
    """Found by the simulator: its Pod was told that a human had cancelled it (215780)."""
    world = JobWorld()
    array = world.add(ARRAY)
    first = world.start(array, "n1", task=0)
    reader = Reader(world)
    await reader.look()
    first.state, first.nodes = ["CANCELLED"], "n1"
    assert (await reader.look())["1_0"].state == {"CANCELLED"}
    del world.records[first.number]
    assert "1_0" not in await reader.look()


async def test_what_was_learnt_elsewhere_is_not_asked_again() -> None:
    """What a submission made needs no record until it changes."""
    world = JobWorld()
    reader = Reader(world)
    await reader.look()
    record = world.add(identity_of("u1"))
    (job,) = (await Reader(world).look()).values()
    reader.job_owners.learn(job)
    assert await reader.look() == {"1": job}
    assert reader.read == []
    world.start(record, "n1")
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


async def test_a_task_that_was_looked_at_as_it_started_is_not_read_again() -> None:
    """Under the id that listings call it by since then; what others it has are read as ever."""
    world = JobWorld()
    array = world.add(ARRAY)
    reader = Reader(world)
    waits = (await reader.look())["1_2"]
    record = world.start(array, "n1", task=2)
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


async def test_a_task_that_starts_between_the_states_and_its_record_is_read_once() -> None:
    """The record shows it running, and the next listing calls it by its new id."""
    world = JobWorld()
    array = world.add(ARRAY)
    reader = Reader(world)

    def start_meanwhile(line: str) -> None:
        if line == "GET job/1" and len(world.records) == 1:
            world.start(array, "n1", task=2)

    world.before = start_meanwhile
    assert (await reader.look())["1_2"].slurm_nodes == ("n1",)
    assert (await reader.look())["1_2"].slurm_nodes == ("n1",)
    assert reader.read == []


async def test_what_others_read_while_a_listing_goes_on_is_not_asked_again() -> None:
    """Six jobs started; before its turn came, a look had read two of them."""
    world = JobWorld()
    reader = Reader(world)
    records = [world.add(identity_of(f"u{number}")) for number in range(6)]
    jobs = await reader.look()

    def look(line: str) -> None:
        if line == "GET job/1":
            for job_id in ("5", "6"):
                seen = replace(jobs[job_id], state=frozenset({"RUNNING"}), slurm_nodes=("n1",))
                reader.job_owners.learn(seen, asked_s=world.now_s + 0.1)

    for record in records:
        world.start(record, "n1")
    world.before = look
    told = await reader.look()
    assert {one.slurm_nodes for one in told.values()} == {("n1",)}
    assert reader.read == [f"GET job/{number}" for number in range(1, 5)]


async def test_a_listing_says_nothing_against_what_others_have_read_since() -> None:
    """Its states are older: they would make the next one read it again."""
    world = JobWorld()
    reader = Reader(world)
    record = world.add(identity_of("u1"))
    jobs = await reader.look()

    def look(line: str) -> None:
        if line == "GET job/2":
            world.start(record, "n1")
            seen = replace(jobs["1"], state=frozenset({"RUNNING"}), slurm_nodes=("n1",))
            reader.job_owners.learn(seen, asked_s=world.now_s + 0.1)

    world.add(identity_of("u2"))
    world.before = look
    assert (await reader.look())["1"].state == {"RUNNING"}
    world.now_s += 1
    assert (await reader.look())["1"].state == {"RUNNING"}
    assert reader.read == []
