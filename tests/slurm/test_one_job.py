"""Reads of single jobs: their requests, and the answers that simultaneous reads share."""

import asyncio
import math
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, Observed
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.decode.jobs import JobRecord, job_of
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.one_job import Enough, Found, JobFinder, pays_whole
from tests.slurm.listed import reader_of
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, is_mine

TASKS = 12
ARRAY = Identity("c1", "s1", uids=tuple(f"u{task}" for task in range(TASKS)))
PENDING, RUNNING = frozenset({"PENDING"}), frozenset({"RUNNING"})
STATES = "GET jobs/state/"


class Looks:
    """Reads of tasks of a new array whose first tasks have started."""

    def __init__(self, *, started: int) -> None:
        self.slurm = SlurmJobs()
        self.job_owners = JobOwners(is_mine)
        self.look = JobFinder(self.slurm, self.slurm.clock, job_owners=self.job_owners)
        self.slurm.add(ARRAY)
        self.job_owners.learn_array(JobRecord(number=1, array=1, identity=ARRAY, state=PENDING))
        self.start(started)

    def start(self, count: int) -> None:
        for task in range(count):
            self.slurm.start(self.slurm.records[1], "n1", task=task)

    def know(self, *tasks: int) -> None:
        """Learn these running tasks under their present numbers."""
        for task in tasks:
            read = JobRecord(number=task + 2, array=1, task=task, identity=ARRAY, state=RUNNING)
            record = replace(read, slurm_nodes=("n1",))
            job = job_of(record)
            assert job is not None
            self.job_owners.learn(job)

    async def at(self, *tasks: int) -> list[Found]:
        found = await asyncio.gather(*(self.look.find(f"1_{task}") for task in tasks))
        return [one for one in found if isinstance(one, Found)]

    async def asked_again(self, enough: Enough, *tasks: int) -> bool:
        """Whether reads with that demand send a request; all are answered."""
        before = len(self.slurm.asked)
        found = await asyncio.gather(*(self.look.find(f"1_{task}", enough) for task in tasks))
        assert [one.job.slurm_nodes for one in found if isinstance(one, Found) and one.job] == [
            ("n1",) for _ in tasks
        ]
        return len(self.slurm.asked) > before


class Kept:
    """Pieces of an answer that arrive later."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Sequence[bytes], float]] = []

    async def keep(self, pieces: Sequence[bytes], asked_s: float) -> None:
        self.pieces.append((pieces, asked_s))

    async def hand_to(self, take: Take) -> None:
        for pieces, asked_s in self.pieces:
            await take(pieces, asked_s)


@pytest.mark.parametrize(
    ("tasks", "reads"),
    [((2, 5), ["GET job/4", "GET job/7"]), (range(8), ["GET job/1"]), ((1, 11), ["GET job/1"])],
    ids=["few", "most that run", "one that waits"],
)
async def test_reads_at_one_time_share_requests(tasks: tuple[int, ...], reads: list[str]) -> None:
    """The whole array is read where that is better than a record for each task."""
    looks = Looks(started=10)
    looks.know(*range(10))
    found = await looks.at(*tasks)
    assert [one.job.job_id for one in found if one.job] == [f"1_{task}" for task in tasks]
    assert [one.job.slurm_nodes for one in found if one.job] == [
        ("n1",) if task < 10 else () for task in tasks
    ]
    asked = looks.slurm.asked
    assert sorted(one for one in asked if one != STATES) == reads
    assert asked.count(STATES) == 1 + (11 in tasks)


async def test_the_whole_array_is_read_if_most_running_tasks_were_never_read() -> None:
    looks = Looks(started=10)
    looks.know(2, 3)
    await looks.at(4, 5)
    assert looks.slurm.asked == [STATES, "GET job/1"]
    few = Looks(started=10)
    few.know(2, 3, 6)
    await few.at(4, 5)
    assert few.slurm.asked == [STATES, "GET job/6", "GET job/7"]


async def test_a_read_of_the_last_task_to_start_answers_for_all_tasks() -> None:
    looks = Looks(started=TASKS)
    looks.know(*range(4, TASKS - 1))
    await looks.at(2, 3)
    assert looks.slurm.asked == [STATES, "GET job/1"]
    assert not await looks.asked_again(Enough(0.0), *range(TASKS))


@pytest.mark.parametrize(
    ("after", "placed_after", "again"),
    [(-1, math.inf, False), (1, math.inf, True), (1, -1, False), (1, 1, True)],
    ids=["read since", "read before", "placed since", "placed before"],
)
async def test_a_read_by_another_is_used_if_it_is_new_enough_or_shows_the_placement(
    after: float, placed_after: float, *, again: bool
) -> None:
    looks = Looks(started=10)
    (found,) = await looks.at(2)
    enough = Enough(found.asked_s + after, found.asked_s + placed_after)
    assert await looks.asked_again(enough, 2) == again


@pytest.mark.parametrize("taken", [False, True], ids=["nobody's", "another's"])
@pytest.mark.parametrize("known", [False, True])
async def test_a_task_without_its_number_is_read_as_array_F2(*, taken: bool, known: bool) -> None:
    """slurmctld lost its last seconds. In seed 568120 the task counted as gone, and its Pod got
    another job.
    """
    looks = Looks(started=10)
    records = looks.slurm.records
    if known:
        looks.know(2)

    def lose(line: str) -> None:
        if line == "GET job/4":
            records[1].waiting = sorted([*records[1].waiting, 2])
            del records[4]
            if taken:
                looks.slurm.next_id = 4
                looks.slurm.add(identity_of("another"))

    looks.slurm.before = lose
    (found,) = await looks.at(2)
    assert found.job is not None
    assert (found.job.job_id, found.job.state) == ("1_2", PENDING)
    assert looks.job_owners.at("1_2") == found.job


async def test_a_task_that_slurm_forgot_is_gone() -> None:
    looks = Looks(started=TASKS)
    looks.know(2)
    looks.slurm.records.clear()
    (found,) = await looks.at(2)
    assert found.job is None
    assert looks.job_owners.at("1_2") is None


async def test_a_read_before_the_start_does_not_answer_a_read_after_it() -> None:
    looks = Looks(started=0)
    (found,) = await looks.at(2)
    looks.start(10)
    assert await looks.asked_again(Enough(found.asked_s + 1, found.asked_s - 1), 2)


async def test_a_read_under_way_answers_a_later_read_that_demands_less() -> None:
    looks = Looks(started=10)
    late: list[asyncio.Task[bool]] = []

    def ask_meanwhile(line: str) -> None:
        if line == "GET job/4" and not late:
            late.append(asyncio.ensure_future(looks.asked_again(Enough(looks.slurm.now_s, 0), 2)))

    looks.know(*range(3, 10))
    looks.slurm.before = ask_meanwhile
    await looks.at(2)
    await asyncio.gather(*late)
    assert looks.slurm.asked == [STATES, "GET job/4"]


async def test_an_answer_reports_all_tasks_it_shows_and_the_poll_does_not_read_them_again() -> None:
    looks = Looks(started=0)
    reader = await reader_of(looks.slurm, job_owners=looks.job_owners)
    looks.start(TASKS)
    (found,) = await looks.at(TASKS - 1)
    rows = [one.row for one in found.news if isinstance(one, Observed)]
    reported = {row.job_id: row for row in rows if isinstance(row, Job)}
    assert next(iter(reported)) == f"1_{TASKS - 1}"
    assert reported.keys() == {f"1_{task}" for task in range(TASKS)}
    assert await reader.look() == reported
    assert reader.read == []


async def test_a_read_does_not_share_one_that_began_before_it() -> None:
    looks = Looks(started=10)
    late: list[asyncio.Task[list[Found]]] = []

    def ask_meanwhile(line: str) -> None:
        if line.startswith("GET job/") and not late:
            late.append(asyncio.ensure_future(looks.at(2)))

    looks.slurm.before = ask_meanwhile
    (first,) = await looks.at(2)
    ((second,),) = await asyncio.gather(*late)
    assert looks.slurm.asked == [STATES, "GET job/4"] * 2
    assert second.asked_s > first.asked_s


async def test_a_read_that_waited_for_a_cancelled_one_reads_itself() -> None:
    looks = Looks(started=10)
    first = asyncio.ensure_future(looks.at(2))
    hangs = looks.slurm.read_records

    async def hang(*_: object) -> object:
        looks.slurm.read_records = hangs  # type: ignore[method-assign]
        return await asyncio.Event().wait()

    looks.slurm.read_records = hang  # type: ignore[method-assign,assignment]
    second = asyncio.ensure_future(looks.at(3))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    (found,) = await second
    assert found.job is not None
    assert found.job.job_id == "1_3"


async def test_all_who_share_a_failed_read_get_the_failure() -> None:
    looks = Looks(started=10)
    looks.slurm.before = lambda line: SlurmError("timeout", "x") if line == STATES else None
    found = await asyncio.gather(*(looks.look.find(f"1_{task}") for task in (1, 2)))
    assert [type(one) for one in found] == [SlurmError, SlurmError]
    assert looks.slurm.asked == [STATES]


async def test_a_read_newer_than_the_listing_under_way_is_kept_for_the_next_one() -> None:
    looks = Looks(started=0)
    reader = await reader_of(looks.slurm, job_owners=looks.job_owners)
    begun_s = looks.slurm.now_s
    looks.slurm.start(looks.slurm.records[1], "n1", task=2)
    await looks.at(2)
    looks.job_owners.find_started(set(), asked_s=begun_s)
    assert (await reader.look())["1_2"].slurm_nodes == ("n1",)
    assert reader.read == []
    looks.job_owners.find_started(set(), asked_s=looks.slurm.now_s)
    assert not looks.job_owners._started


@pytest.mark.parametrize(
    ("wanted", "of", "pays"), [(2, 2, False), (3, 3, True), (3, 4, True), (3, 5, False)]
)
def test_an_array_is_read_whole_for_most_of_its_tasks(wanted: int, of: int, pays: bool) -> None:
    assert pays_whole(wanted, of=of) is pays


async def test_a_late_read_undoes_no_newer_listing_P11(monkeypatch: pytest.MonkeyPatch) -> None:
    """In seed 216152 the job was reported as running, and its Pod was bound."""
    slurm = SlurmJobs()
    record = slurm.start(slurm.add(identity_of("u1")), "n1")
    reader = await reader_of(slurm)
    at_once, asked, released = slurm.read_records, asyncio.Event(), asyncio.Event()

    async def late(call: SlurmCall, name: str, take: Take) -> SlurmResponse | SlurmError:
        kept = Kept()
        answer = await at_once(call, name, kept.keep)
        asked.set()
        await released.wait()
        await kept.hand_to(take)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(slurm, "read_records", late)
        look = JobFinder(slurm, slurm.clock, job_owners=reader.job_owners)
        looking = asyncio.ensure_future(look.find("1"))
        await asked.wait()
    record.state = ["NODE_FAIL"]
    await reader.look()
    released.set()
    found = await looking
    assert isinstance(found, Found)
    assert found.job is not None
    assert found.job.state == {"RUNNING"}
    known = reader.job_owners.at("1")
    assert known is not None
    assert known.state == {"NODE_FAIL"}


async def test_half_an_answer_undoes_no_start_P18(monkeypatch: pytest.MonkeyPatch) -> None:
    """In seed 220714 its job was cancelled as that of a Pod bound elsewhere."""
    slurm = SlurmJobs()
    array = slurm.add(ARRAY)
    reader = await reader_of(slurm, refresh_every=1)
    look = JobFinder(slurm, slurm.clock, job_owners=reader.job_owners)
    at_once = slurm.read_records
    found: list[Found | SlurmError] = []

    async def cut(call: SlurmCall, name: str, take: Take) -> SlurmResponse | SlurmError:
        """The task starts after the states; of its array's records only the first arrives."""
        kept = Kept()
        answer = await at_once(call, name, kept.keep)
        if call.path == "jobs/state/":
            await kept.hand_to(take)
            monkeypatch.setattr(slurm, "read_records", at_once)
            slurm.start(array, "n1", task=0)
            found.append(await look.find("1_0"))
            monkeypatch.setattr(slurm, "read_records", cut)
            return answer
        pieces, asked_s = kept.pieces[0]
        await take(pieces[:1], asked_s)
        return SlurmError("broken", "connection reset in the middle")

    monkeypatch.setattr(slurm, "read_records", cut)
    unread = replace(reader.job_owners.ours["1_2"], state=frozenset({"SUSPENDED"}))
    reader.job_owners.keep("1_2", unread)
    reader.news.clear()
    assert isinstance(await reader.poll.poll(), SlurmError)
    (seen,) = found
    assert isinstance(seen, Found)
    assert seen.job is not None
    assert seen.job.state == {"RUNNING"}
    news = [one for one in reader.news if isinstance(one, Observed)]
    reported = {one.row.job_id: (one.row, one.order) for one in news if isinstance(one.row, Job)}
    assert reported["1_1"][0].state == {"PENDING"}
    job, order = reported.get("1_0", (seen.job, seen.asked_s))
    assert "RUNNING" in job.state or order < seen.asked_s
