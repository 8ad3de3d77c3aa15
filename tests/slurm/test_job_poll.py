"""The reader of our jobs: what it tells, what it reads for it, how it fails and heals."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    Job,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
)
from sunk_sync.core.model.job_identity import Identity, spell_identity
from sunk_sync.slurm.api.answers import SlurmAnswer, SlurmError
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.decode.jobs import JobRecord, with_replaced
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.pacing import Time
from tests.slurm.recorded.job_world import GONE, JobWorld, Record, identity_of, is_mine, name_of

SOURCE: Final = "jobs"
DOWN = SlurmError("controller_down", "Unable to contact slurm controller (1800)", 1800)
UIDS = tuple(f"u{i}" for i in range(4))
ARRAY = Identity("c1", "s1", uids=UIDS)
RUNNING = frozenset({"RUNNING"})
CANCELLED = frozenset({"CANCELLED"})
THEIRS = identity_of("u1", cluster="c2")


class Reader:
    """A poll over a small world, its news, its waits."""

    def __init__(
        self,
        world: JobWorld,
        *,
        busy: bool = True,
        refresh_every: int = 1000,
        job_owners: JobOwners | None = None,
    ) -> None:
        self.world = world
        self.news: list[News] = []
        self.waits: list[float] = []
        self.known: dict[str, Job] = {}
        self.busy = busy
        self.job_owners = job_owners or JobOwners(is_mine)
        time = Time(clock=world.clock, sleep=self.sleep, random=lambda: 1.0)
        timing = JobPollTiming(busy=lambda: self.busy, refresh_every=refresh_every)
        self.poll = JobPoll(world, self.tell, job_owners=self.job_owners, timing=timing, time=time)

    async def tell(self, news: Sequence[News]) -> None:
        self.news.extend(news)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.world.now_s += seconds
        await asyncio.sleep(0)

    async def look(self) -> dict[str, Job]:
        """One listing: our jobs as whoever hears of them knows them then."""
        self.news.clear()
        self.world.asked.clear()
        assert await self.poll.poll() is None
        whole = any(isinstance(one, ListingStarted) for one in self.news)
        assert isinstance(self.news[-1], ListingEnded if whole else Confirmed)
        if whole:
            self.known.clear()
        for news in self.news:
            if isinstance(news, Deleted):
                del self.known[news.name]
        self.known |= self.jobs()
        return dict(self.known)

    def jobs(self) -> dict[str, Job]:
        rows = [news.row for news in self.news if isinstance(news, Observed)]
        return {row.job_id: row for row in rows if isinstance(row, Job)}

    @property
    def read(self) -> list[str]:
        """Records asked for."""
        return [
            line for line in self.world.asked if line.startswith("GET job") and "state" not in line
        ]


def job_of(name: str) -> Job:
    """Job 7, as the answer to a look showed it."""
    return Job(
        job_id="7", name=name, identity=identity_of("u1"), state=RUNNING, slurm_nodes=("n1",)
    )


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


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


def own_records_first(world: JobWorld) -> None:
    world.records = dict(sorted(world.records.items(), reverse=True))


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


async def test_an_id_whose_identity_cannot_be_read_leaves_the_listing_open() -> None:
    """Unknown is not absent; what was read is true."""
    world = JobWorld()
    world.add(identity_of("u1"))
    world.add(identity_of("u2"))
    world.before = lambda line: DOWN if line == "GET job/2" else None
    reader = Reader(world)
    failure = await reader.poll.poll()
    assert failure is not None
    assert "job 2: " in failure.text
    assert list(reader.jobs()) == ["1"]
    assert not any(isinstance(news, ListingEnded | Confirmed) for news in reader.news)
    assert reader.news[-1] == Lost(SOURCE, str(failure))
    world.before = lambda _: None
    assert list(await reader.look()) == ["1", "2"]


async def test_a_new_state_is_not_told_before_its_record_was_read_P23() -> None:
    """Found by the simulator: a job was told to run, and nobody knew where (71372)."""
    world = JobWorld()
    record = world.add(identity_of("u1"))
    reader = Reader(world)
    await reader.look()
    world.start(record, "n1")
    world.before = lambda line: DOWN if line == "GET job/1" else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert [type(news) for news in reader.news] == [ListingStarted, Lost]
    world.before = lambda _: None
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


@pytest.mark.parametrize("fails", ["GET job/1", "GET diag/"])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_job_whose_end_slurmctld_forgot_counts_as_live_until_it_is_read_F2(
    fails: str, restart: bool
) -> None:
    """Found by the simulator: its Pods got a second job (530388)."""
    world = JobWorld()
    array = world.add(ARRAY)
    reader = Reader(world)
    await reader.look()
    array.waiting, array.state = [], ["CANCELLED"]
    assert (await reader.look())["1_1"].state == CANCELLED
    array.waiting, array.state = [0, 1, 2, 3], ["PENDING"]
    world.counting += restart
    world.now_s += 5
    world.before = lambda line: DOWN if line == fails else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert {job.state for job in reader.jobs().values()} == {frozenset({"PENDING"})}
    assert len(reader.jobs()) == 4
    world.before = lambda _: None
    assert (await reader.look())["1_1"].state == {"PENDING"}


@pytest.mark.parametrize("fails", ["GET job/1", "GET diag/"])
async def test_an_ended_job_is_not_taken_for_the_next_of_its_number_F2(fails: str) -> None:
    """slurmctld lost all; the new job was told of by its submission alone.

    Found by the simulator: its row was the old one's, and its Pods got a second job (7496).
    """
    world = JobWorld()
    record = world.add(identity_of("u1"), "CANCELLED")
    reader = Reader(world)
    told = await reader.look()
    record.comment, record.state = spell_identity(identity_of("u2")), ["SUSPENDED"]
    record.nodes = "n1"
    new = replace(told["1"], identity=identity_of("u2"), state=RUNNING, slurm_nodes=("n1",))
    reader.job_owners.learn(new, asked_s=world.now_s + 1)
    world.counting, world.now_s = 2, world.now_s + 5
    world.before = lambda line: DOWN if line == fails else None
    reader.news.clear()
    for _ in range(2):
        assert await reader.poll.poll() is not None
    assert reader.jobs() == {}
    world.before = lambda _: None
    assert (await reader.look())["1"].identity == identity_of("u2")


@pytest.mark.parametrize(
    ("name", "replaced", "ours"),
    [("theirs", True, False), ("theirs", False, True), (name_of("u1"), True, True)],
    ids=["marked by mistake", "renamed", "marked"],
)
async def test_a_strangers_job_that_our_mark_met_is_none_of_ours_P23(
    name: str, replaced: bool, ours: bool
) -> None:
    """Found by the simulator: it was cancelled as one that we replace (554577)."""
    world = JobWorld()
    world.add(replace(identity_of("u1"), replaced=replaced), name=name)
    assert bool(await Reader(world).look()) == ours


async def test_an_ended_jobs_id_in_other_hands_is_not_taken_for_it_P23() -> None:
    """A stranger's job was read under it; the rest of the listing was not."""
    world = JobWorld()
    record = world.add(identity_of("u1"), "CANCELLED")
    reader = Reader(world)
    await reader.look()
    record.comment, record.state = "", ["RUNNING"]
    world.add(identity_of("u2"))
    world.before = lambda line: DOWN if line == "GET job/2" else None
    reader.news.clear()
    assert await reader.poll.poll() is not None
    assert reader.jobs() == {}


async def test_a_listed_job_without_a_record_leaves_the_listing_open() -> None:
    """It may be ours; the id stands for something else since."""
    world = JobWorld()
    record = world.add(identity_of("u1"))

    def become_a_task(line: str) -> None:
        if line == "GET job/1":
            record.array, record.task, record.comment = 1, 0, spell_identity(ARRAY)

    world.before = become_a_task
    reader = Reader(world)
    failure = await reader.poll.poll()
    assert failure is not None
    assert "job 1 " in failure.text
    assert isinstance(reader.news[-1], Lost)
    await reader.look()
    assert isinstance(reader.news[-1], ListingEnded)


async def test_a_job_that_is_gone_before_its_record_is_read_is_absent() -> None:
    """Its record was purged between the two."""
    world = JobWorld()
    world.add(identity_of("u1"))

    def purge(line: str) -> None:
        if line == "GET job/1":
            del world.records[1]

    world.before = purge
    assert await Reader(world).look() == {}


@pytest.mark.parametrize("known", [True, False])
async def test_a_job_that_is_listed_but_hidden_is_not_gone(known: bool) -> None:
    """PrivateData: Slurm calls it unknown to a token without rights (2017), and lists its state."""
    world = JobWorld()
    record = world.add(identity_of("u1"))
    reader = Reader(world)
    if known:
        await reader.look()
        record.state = ["RUNNING"]
    world.before = lambda line: GONE if line == "GET job/1" else None
    failure = await reader.poll.poll()
    assert failure is not None
    assert "PrivateData" in failure.text
    assert [news for news in reader.news if isinstance(news, Deleted)] == []
    world.before = lambda _: None
    assert await reader.look()


async def test_what_the_listing_does_not_name_is_not_told() -> None:
    """And its id is read anew when it comes again."""
    world = JobWorld()
    record = world.add(identity_of("u1"))
    reader = Reader(world)
    await reader.look()
    del world.records[1]
    assert await reader.look() == {}
    assert [type(news) for news in reader.news] == [Deleted, Confirmed]
    world.records[1] = record
    record.comment = ""
    assert await reader.look() == {}
    assert reader.read == ["GET job/1"]


async def test_an_id_that_comes_again_is_read_again_P23() -> None:
    """It was a stranger's before."""
    world = JobWorld()
    record = world.add("")
    reader = Reader(world)
    await reader.look()
    del world.records[1]
    await reader.look()
    record.comment = spell_identity(identity_of("u1"))
    world.records[1] = record
    assert list(await reader.look()) == ["1"]


async def test_an_id_that_we_were_given_is_ours_P23() -> None:
    """A stranger's until slurmctld forgot it; no listing was between."""
    world = JobWorld()
    record = world.add("")
    reader = Reader(world)
    await reader.look()
    record.comment = spell_identity(identity_of("u1"))
    (job,) = (await Reader(world).look()).values()
    reader.job_owners.learn(job)
    assert await reader.look() == {"1": job}
    world.start(record, "n1")
    assert (await reader.look())["1"].slurm_nodes == ("n1",)


async def test_after_a_restart_of_slurmctld_no_id_is_trusted_P23() -> None:
    """It forgot a second, and gave our id to somebody else in the very same state."""
    world = JobWorld()
    record = world.start(world.add(identity_of("u1")), "n1")
    reader = Reader(world)
    assert list(await reader.look()) == ["1"]
    world.counting, record.comment = 2, ""
    world.now_s += 5
    assert await reader.look() == {}
    assert isinstance(reader.news[-1], ListingEnded)


async def test_a_listing_that_was_asked_for_always_looks_for_a_restart_L7() -> None:
    """And is told in full."""
    world = JobWorld()
    world.add(identity_of("u1"))
    reader = Reader(world)
    await reader.look()
    world.asked.clear()
    reader.news.clear()
    asked = asyncio.ensure_future(reader.poll.relist(world.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    assert await asked is None
    assert world.asked == ["GET jobs/state/", "GET diag/"]
    assert isinstance(reader.news[-1], ListingEnded)


async def test_an_id_of_ours_in_other_hands_ends_the_trust_in_all_P23() -> None:
    """Seen because its state differs."""
    world = JobWorld()
    record = world.start(world.add(identity_of("u1")), "n1")
    world.add(identity_of("u2"))
    reader = Reader(world)
    await reader.look()
    record.comment, record.state = "", ["PENDING"]
    assert await reader.poll.poll() is not None
    assert isinstance(reader.news[-1], Lost)
    assert list(await reader.look()) == ["2"]
    assert sorted(reader.read) == ["GET job/1", "GET job/2"]


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


async def test_an_end_that_others_were_told_of_is_answered_by_the_whole() -> None:
    """What was told as gone may still be listed."""
    world = JobWorld()
    world.add(identity_of("u1"))
    reader = Reader(world)
    await reader.look()
    reader.job_owners.learn_gone("1")
    assert list(await reader.look()) == ["1"]
    assert isinstance(reader.news[-1], ListingEnded)
    assert reader.read == ["GET job/1"]


async def test_what_only_others_told_of_is_told_as_gone_P30() -> None:
    """A submission's answer came between two listings; slurmctld lost the job before the second."""
    world = JobWorld()
    reader = Reader(world)
    await reader.look()
    reader.job_owners.learn(job_of(name_of("u1")))
    await reader.poll.poll()
    assert [one.name for one in reader.news if isinstance(one, Deleted)] == ["7"]


async def test_it_is_told_again_where_the_listing_was_older_P30() -> None:
    """Who knows the job by the younger answer does not believe the older listing."""
    world = JobWorld()
    reader = Reader(world)
    await reader.look()
    learnt_s = world.now_s + 0.1

    def look(line: str) -> None:
        if line.startswith("GET jobs/state"):
            reader.job_owners.learn(job_of(name_of("u1")), asked_s=learnt_s)

    younger: list[list[bool]] = []
    for world.before in (look, lambda _: None, lambda _: None):
        reader.news.clear()
        await reader.poll.poll()
        younger.append([one.order > learnt_s for one in reader.news if isinstance(one, Deleted)])
    assert younger == [[False], [True], []]


async def test_after_a_restart_of_slurmctld_the_whole_is_told_twice_P30() -> None:
    """An answer younger than the first listing told of a job that the book then forgot with all."""
    world = JobWorld()
    reader = Reader(world)
    await reader.look()
    world.counting, world.now_s = 2, world.now_s + 5
    kinds = []
    for _ in range(3):
        await reader.look()
        kinds.append(type(reader.news[-1]))
        world.now_s += 1
    assert kinds == [ListingEnded, ListingEnded, Confirmed]


async def test_the_whole_is_told_every_ten_seconds() -> None:
    """In between what changed and what is gone."""
    world = JobWorld()
    records = [world.add(identity_of(f"u{i}")) for i in range(3)]
    reader = Reader(world)
    kinds: list[list[str]] = []
    for second in range(12):
        if second == 2:
            world.start(records[0], "n1")
        if second == 4:
            del world.records[2]
        await reader.look()
        kinds.append([type(news).__name__[:4] for news in reader.news])
        world.now_s = 100.0 + second + 1
    assert kinds[0] == ["List", "Obse", "Obse", "Obse", "List"]
    assert kinds[1:10] == [
        ["Conf"], ["Obse", "Conf"], ["Conf"], ["Dele", "Conf"], *[["Conf"]] * 5
    ]  # fmt: skip
    assert kinds[10] == ["List", "Obse", "Obse", "List"]
    assert kinds[11] == ["Conf"]


async def test_callers_share_the_listing_that_begins_after_they_asked() -> None:
    """One that runs already is too old."""
    world = JobWorld()
    reader = Reader(world)
    late: list[asyncio.Future[SlurmError | None]] = []

    def ask_meanwhile(line: str) -> SlurmError | None:
        if line == "GET jobs/state/" and not late:
            late.extend(asyncio.ensure_future(reader.poll.relist(world.now_s)) for _ in range(3))
        return None

    world.before = ask_meanwhile
    early = asyncio.ensure_future(reader.poll.relist(world.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    await asyncio.sleep(0)
    assert early.done()
    assert not any(one.done() for one in late)
    await reader.poll.poll()
    assert [await one for one in late] == [None] * 3
    assert world.asked.count("GET jobs/state/") == 2


class Distant(JobWorld):
    """Its answers take a moment to arrive."""

    async def read_records(self, call: SlurmCall, key: str, take: Take) -> SlurmAnswer | SlurmError:
        answer = await super().read_records(call, key, take)
        await asyncio.sleep(0)
        return answer


@pytest.mark.parametrize(
    ("while_it_asks", "joins"), [("GET jobs/state/", True), ("GET diag/", False)]
)
async def test_a_call_since_a_listing_began_joins_it_L7(while_it_asks: str, joins: bool) -> None:
    """Until that looks for a restart: a gate that called a moment earlier waits for no second."""
    world = Distant()
    reader = Reader(world)
    asked: list[asyncio.Future[SlurmError | None]] = []

    def ask_meanwhile(line: str) -> SlurmError | None:
        if line == while_it_asks and not asked:
            asked.append(asyncio.ensure_future(reader.poll.relist(world.now_s - 0.001)))
        return None

    await reader.look()
    world.now_s += 10.0
    world.asked.clear()
    world.before = ask_meanwhile
    await reader.poll.poll()
    await asyncio.sleep(0)
    assert asked[0].done() is joins
    assert world.asked == ["GET jobs/state/", "GET diag/"]
    await reader.poll.poll()
    assert await asked[0] is None


async def test_a_caller_learns_that_the_listing_failed() -> None:
    """And one that waits when the reader ends does not wait for ever."""
    world = JobWorld(before=lambda _: DOWN)
    reader = Reader(world)
    asked = asyncio.ensure_future(reader.poll.relist(world.now_s))
    await asyncio.sleep(0)
    await reader.poll.poll()
    assert await asked == DOWN
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) > 2)
    asked = asyncio.ensure_future(reader.poll.relist(world.now_s))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await asked is not None


async def test_a_failure_is_told_once() -> None:
    """After a minute it is told that nothing may be shown as true."""
    world = JobWorld(before=lambda _: DOWN)
    reader = Reader(world)
    for _ in range(3):
        await reader.poll.poll()
    assert reader.news == [Lost(SOURCE, str(DOWN))]
    world.now_s += 60
    await reader.poll.poll()
    assert reader.news[1:] == [Lost(SOURCE, str(DOWN), blind=True)]


async def test_after_a_failure_the_whole_is_told() -> None:
    """However little changed."""
    world = JobWorld()
    reader = Reader(world)
    await reader.look()
    world.before = lambda _: DOWN
    await reader.poll.poll()
    world.before = lambda _: None
    await reader.look()
    assert [type(news) for news in reader.news] == [ListingStarted, ListingEnded]


async def test_idle_it_looks_seldom_and_wakes_when_it_is_wanted() -> None:
    """Every 30 s; once a second from the moment something is awaited."""
    world = JobWorld()
    reader = Reader(world, busy=False)
    running = asyncio.ensure_future(reader.poll.run())
    began: list[float] = []
    world.before = lambda line: began.append(world.now_s) if line == "GET jobs/state/" else None
    await until(lambda: len(began) >= 3)
    assert 29 <= began[2] - began[1] <= 32
    reader.busy = True
    await until(lambda: len(began) >= 5)
    assert began[4] - began[3] < 12
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_burst_is_looked_at_more_often_until_it_rests() -> None:
    """Five times a second while some start and others wait; once a second when nothing moves."""
    world = JobWorld(takes_s=0.001)
    records = [world.add(identity_of(f"u{i}")) for i in range(3)]
    began: list[float] = []
    world.before = lambda line: began.append(world.now_s) if line == "GET jobs/state/" else None
    reader = Reader(world)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(began) >= 5)
    first_s = await _start(world, records[0])
    assert sum(1 < one - first_s < 3 for one in began) >= 9
    assert sum(5 < one - first_s < 10 for one in began) <= 6
    await _start(world, records[1])
    last_s = await _start(world, records[2])
    assert sum(1 < one - last_s < 10 for one in began) <= 10, "nothing waits any more"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _start(world: JobWorld, record: Record) -> float:
    """When it started, which is ten seconds ago."""
    began_s = world.now_s
    world.start(record, "n1")
    await until(lambda: world.now_s > began_s + 10)
    return began_s


async def test_the_reason_of_what_waits_is_read_now_and_then_P26() -> None:
    """In turn, one record in two listings."""
    world = JobWorld()
    records = [world.add(identity_of(f"u{i}")) for i in range(3)]
    reader = Reader(world, refresh_every=2)
    await reader.look()
    read: list[str] = []
    for record in records:
        record.reason = "Resources"
    for _ in range(8):
        await reader.look()
        read += reader.read
    assert sorted(read) == ["GET job/1", "GET job/2", "GET job/3"]
    assert {job.reason for job in reader.job_owners.ours.values()} == {"Resources"}


async def test_a_job_that_runs_nobody_knows_where_is_read_again() -> None:
    """Found by the simulator: its record could not be read when it started, and never was again."""
    world = JobWorld()
    reader = Reader(world)
    record = world.add(identity_of("u1"))
    (waiting,) = (await reader.look()).values()
    reader.job_owners.learn(replace(waiting, state=RUNNING))
    world.start(record, "n1")
    (job,) = (await reader.look()).values()
    assert job.slurm_nodes == ("n1",)


async def test_where_a_job_runs_is_told_before_the_rest_is_read() -> None:
    """Once: the end of the listing repeats only what has changed again. Not to who knows nothing
    yet: a first listing is told as a whole.
    """
    world = JobWorld()
    records = [world.add(identity_of(uid)) for uid in ("u1", "u2")]
    reader = Reader(world)
    await reader.look()
    told: list[list[str]] = []
    for record in records:
        world.start(record, "n1")
    world.before = lambda line: told.append(list(reader.jobs())) if "job/" in line else None
    jobs = await reader.look()
    assert told == [[], ["1"]]
    assert [type(news) for news in reader.news] == [Observed, Observed, Confirmed]
    assert [job.slurm_nodes for job in jobs.values()] == [("n1",), ("n1",)]
    other = Reader(world)
    await other.look()
    assert isinstance(other.news[0], ListingStarted)


@pytest.mark.parametrize("lost", [False, True], ids=["", "after a listing that failed"])
async def test_that_a_job_runs_no_more_is_told_before_the_rest_is_read(lost: bool) -> None:
    """A slurmctld that was killed forgot that it had begun. Found by the simulator: its Pod was
    bound seconds after, while another record was waited for (410164).
    """
    world = JobWorld()
    records = [world.add(identity_of(uid)) for uid in ("u1", "u2")]
    reader = Reader(world)
    for record in records:
        world.start(record, "n1")
    await reader.look()
    if lost:
        world.before = lambda _: SlurmError("timeout", "x")
        await reader.poll.poll()
    told: list[dict[str, Job]] = []
    for record in records:
        record.state, record.nodes = ["PENDING"], ""
    world.before = lambda line: told.append(reader.jobs()) if "job/" in line else None
    reader.news.clear()
    await reader.look()
    assert [list(jobs) for jobs in told] == [[], ["1"]]
    assert told[1]["1"].state == {"PENDING"}


@pytest.mark.parametrize("awaited", [True, False])
async def test_whom_a_prolog_awaits_rests_no_longer_than_the_share_of_time_asks_L7(
    awaited: bool,
) -> None:
    """What else would like to have news gives them time to become more."""
    world = JobWorld(takes_s=0.001)
    reader = Reader(world)

    async def sleep(seconds: float) -> None:
        reader.waits.append(seconds)
        if seconds > 0.02:
            await asyncio.Event().wait()
        world.now_s += seconds

    reader.poll._loop._time = Time(clock=world.clock, sleep=sleep, random=lambda: 0.0)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) >= 2)
    assert reader.waits == [pytest.approx(0.004), pytest.approx(0.046)]
    asked = asyncio.ensure_future(reader.poll.relist(world.now_s)) if awaited else None
    reader.poll.poll_now()
    for _ in range(50):
        await asyncio.sleep(0)
    assert world.asked.count("GET jobs/state/") == 1 + awaited
    running.cancel()
    if asked is not None:
        assert await asked is None
