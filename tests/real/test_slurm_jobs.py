"""Placeholder jobs on real slurmctld and slurmrestd, 26.05 and 24.11."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from random import Random
from signal import SIGKILL
from typing import Literal

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, GetJob, SubmitJob, UpdateJob
from sunk_sync.core.model.facts import Confirmed, Deleted, Job, ListingEnded, News, Observed
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, job_name, workload_id
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.rules.workload.release import cancel
from sunk_sync.slurm.api.client import SlurmClient
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.slurm.read.pending_reasons import JobReasons
from sunk_sync.slurm.write.jobs import JobPush
from sunk_sync.slurm.write.submit import SubmitContext
from sunk_sync.telemetry.exchange import Exchange
from tests.kit.job_writer import pushed
from tests.real.conftest import for_each_slurm
from tests.real.test_slurm_client import connected
from tests.real.testbed import SlurmConf, SlurmServer
from tests.real.testbed.sandbox import wait_until

pytestmark = [
    pytest.mark.real,
    pytest.mark.both_slurms("each version speaks its own releases of the API"),
]

CONF = SlurmConf(slurmds=3, extra_lines=("SchedulerParameters=batch_sched_delay=0",))
SCRIPT = "#!/bin/sh\nexec sleep 600\n"
CONTEXT = SubmitContext(lambda _: SCRIPT, lambda _: True)
SMALL = JobDescription(cpus=4, memory_mb=100)
WHOLE = JobDescription(cpus=16, memory_mb=100)
THEIRS = {"name": "theirs", "current_working_directory": "/", "environment": ["A=b"]}
TICK_S = 3.0
"""Slurm's scheduler runs once a second."""
numbers = itertools.count(1)


class Side:
    """Reader and writer of one installation."""

    def __init__(self, client: SlurmClient, *, cluster: str = "") -> None:
        self.cluster = cluster = cluster or f"c{next(numbers)}"
        self.client = client
        self.news: list[News] = []
        self.job_owners = JobOwners(lambda one: (one.cluster, one.scheduler) == (cluster, "s1"))
        self.push = JobPush(client, time.monotonic, job_owners=self.job_owners, context=CONTEXT)
        self.moments = Time(clock=time.monotonic, sleep=asyncio.sleep, random=Random(1).random)
        timing = JobPollTiming(busy=lambda: True, refresh_every=1000)
        self.poll = JobPoll(
            client, self.tell, job_owners=self.job_owners, timing=timing, time=self.moments
        )

    def anew(self) -> "Side":
        """Return the same installation after a restart."""
        return Side(self.client, cluster=self.cluster)

    async def tell(self, news: Sequence[News]) -> None:
        self.news.extend(news)

    async def jobs(self) -> dict[str, Job]:
        self.news.clear()
        asked = asyncio.ensure_future(self.poll.relist(time.monotonic()))
        await asyncio.sleep(0)
        assert await self.poll.poll() is None
        assert await asked is None
        assert isinstance(self.news[-1], ListingEnded)
        rows = [news.row for news in self.news if isinstance(news, Observed)]
        return {row.job_id: row for row in rows if isinstance(row, Job)}

    async def do(self, *actions: Action) -> list[Outcome]:
        return await pushed(self.push, actions)

    async def do_all(self, *actions: Action) -> list[Outcome]:
        """As `do`; each one must succeed."""
        outcomes = await self.do(*actions)
        assert [type(one) for one in outcomes] == [Done] * len(actions), outcomes
        return outcomes

    async def refused(self, action: Action, number: int) -> None:
        (outcome,) = await self.do(action)
        assert isinstance(outcome, Refused)
        assert outcome.number == number

    async def fill(self) -> None:
        await self.make(self.want("allocation", replace(WHOLE, slurm_nodes=3)))

    async def make_tasks(self, count: int, description: JobDescription = WHOLE) -> list[Job]:
        """Submit equal jobs, which become the tasks of one array."""
        return await self.make(*(self.want(description=description) for _ in range(count)))

    def want(
        self,
        kind: Literal["allocation", "script", "external"] = "script",
        description: JobDescription = SMALL,
    ) -> SubmitJob:
        number = next(numbers)
        uid = f"uid-{number}"
        workload = workload_id([uid])
        return SubmitJob(
            created_s=number,
            name=job_name("ns", "p", workload=workload),
            identity=Identity(self.cluster, "s1", workload, (f"ns/p/{uid}",), digest="d1"),
            description=description,
            kind=kind,
        )

    async def make(self, *desired_writes: SubmitJob) -> list[Job]:
        return [job_in(one) for one in await self.do_all(*desired_writes)]

    async def until_state(self, state: str, *jobs: Job) -> dict[str, Job]:
        async with asyncio.timeout(TICK_S + 30):
            while True:
                seen = await self.jobs()
                if all({state} <= seen[job.job_id].state for job in jobs):
                    return seen
                await asyncio.sleep(0.1)


def job_in(outcome: Outcome) -> Job:
    seen = outcome.seen[0]
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Job)
    return seen.row


def get_job_now(job_id: str) -> GetJob:
    """Read the job; earlier reads do not count."""
    return GetJob(job_id, time.monotonic())


server = for_each_slurm(lambda version: SlurmServer(version, CONF), kube=None)


@pytest.fixture
async def side(server: SlurmServer) -> AsyncIterator[Side]:
    async with connected(server) as client:
        yield Side(client)
    clean(server)


def clean(server: SlurmServer) -> None:
    server.run_in_root("scancel", "--user=root")
    wait_until(lambda: not server.squeue("-h"), "no jobs", deadline_s=20)
    server.wait_until_idle()


def foreign_allocation(server: SlurmServer) -> int:
    job = {**THEIRS, "immediate": True, "memory_per_node": {"set": True, "number": 100}}
    answer = server.rest.call("POST", server.path("job/allocate"), {"job": job})
    return int(answer["job_id"])


async def test_a_submitted_script_waits_and_runs(side: Side) -> None:
    (made,) = await side.make(side.want())
    assert made.state == {"PENDING"}
    seen = (await side.until_state("RUNNING", made))[made.job_id]
    assert len(seen.slurm_nodes) == 1
    assert seen.script
    assert not seen.started
    assert (seen.identity, seen.name) == (made.identity, made.name)
    assert abs(seen.submitted_at - time.time()) < 60


async def test_the_start_of_the_script_is_read_P24(side: Side, server: SlurmServer) -> None:
    (made,) = await side.make(side.want())
    await side.until_state("RUNNING", made)
    server.scontrol("update", f"JobId={made.job_id}", "extra=k8s: started")
    (outcome,) = await side.do(get_job_now(made.job_id))
    assert job_in(outcome).started


async def test_an_allocated_job_runs_on_its_nodes_in_the_response_P11a(side: Side) -> None:
    three = side.want("allocation", replace(SMALL, slurm_nodes=3))
    one, gang = await side.make(side.want("allocation"), three)
    assert one.state == gang.state == {"RUNNING"}
    assert gang.slurm_nodes == ("n1", "n2", "n3")
    assert not gang.script
    assert await side.jobs() == {one.job_id: one, gang.job_id: gang}


async def test_a_busy_cluster_refuses_an_allocation_P11a(side: Side) -> None:
    await side.fill()
    desired = side.want("allocation", WHOLE)
    await side.refused(desired, 2016)
    (left,) = [job for job in (await side.jobs()).values() if "FAILED" in job.state]
    assert (left.identity, left.slurm_nodes, left.script) == (desired.identity, (), False)


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"partition": "none-such"}, 2000),
        ({"constraints": "none-such"}, 2029),
        ({"reservation": "none-such"}, 2053),
    ],
)
async def test_a_refused_submission_has_slurms_number_P10(
    side: Side, fields: dict[str, str], number: int
) -> None:
    for kind in ("script", "allocation"):
        await side.refused(side.want(kind, replace(SMALL, **fields)), number)


async def test_external_jobs_need_v0_0_43(side: Side, server: SlurmServer) -> None:
    """An older version would ignore the flag and make a batch job: nothing is sent."""
    (outcome,) = await side.do(side.want("external"))
    if server.version == "24.11":
        assert isinstance(outcome, Refused)
        assert await side.jobs() == {}
        return
    made = job_in(outcome)
    seen = await side.until_state("RUNNING", made)
    assert not seen[made.job_id].script


async def test_equal_submissions_become_an_array_with_a_task_for_each_pod(side: Side) -> None:
    desired_writes = [side.want(description=WHOLE) for _ in range(6)]
    made = await side.make(*desired_writes)
    array = made[0].job_id.partition("_")[0]
    assert [job.job_id for job in made] == [f"{array}_{task}" for task in range(6)]
    seen = await side.until_state("RUNNING", *made[:3])
    assert sorted(seen[job.job_id].slurm_nodes for job in made[:3]) == [("n1",), ("n2",), ("n3",)]
    assert {seen[job.job_id].state for job in made[3:]} == {frozenset({"PENDING"})}
    for desired, job in zip(desired_writes, made, strict=True):
        uid = desired.identity.pods[0].rpartition("/")[2]
        assert seen[job.job_id].identity == job.identity
        assert (job.identity.uids, job.identity.workload) == ((uid,), desired.identity.workload)
    assert await side.anew().jobs() == await side.jobs()


async def test_a_task_is_cancelled_and_marked_alone_P17_P23(side: Side) -> None:
    """Slurm keeps no record of a waiting task that was cancelled."""
    made = await side.make_tasks(7)
    await side.until_state("RUNNING", *made[:3])
    marked = [cancel(made[number], replaced=True) for number in (2, 6)]
    await side.do_all(cancel(made[1]), *marked, cancel(made[5]))
    for one in (side, side.anew()):
        seen = await one.jobs()
        ended = [number for number in range(7) if "CANCELLED" in seen[made[number].job_id].state]
        assert ended == [1, 2, 5, 6]
        replaced = [number for number in ended if seen[made[number].job_id].identity.replaced]
        assert replaced == [2, 6]
    (read,) = await side.do(get_job_now(made[6].job_id))
    assert job_in(read).state == {"CANCELLED"}
    assert job_in(read).identity.replaced
    (again,) = await side.do_all(cancel(made[1]))
    assert "CANCELLED" in job_in(again).state


async def test_each_task_of_a_cancelled_array_is_reported(side: Side, server: SlurmServer) -> None:
    await side.fill()
    made = await side.make_tasks(4)
    await side.jobs()
    server.run_in_root("scancel", made[0].job_id.partition("_")[0])
    for one in (side, side.anew()):
        seen = await one.jobs()
        assert {seen[job.job_id].state for job in made} == {frozenset({"CANCELLED"})}
        assert len(seen) == 5


async def test_a_cancel_of_waiting_jobs_does_not_end_started_ones_P19(side: Side) -> None:
    (running,) = await side.make(side.want("allocation", replace(WHOLE, slurm_nodes=2)))
    made = await side.make_tasks(3)
    await side.until_state("RUNNING", made[0])
    ends = [cancel(job, waiting=True) for job in (running, made[0], made[1])]
    outcomes = await side.do_all(*ends)
    assert [job_in(one).state for one in outcomes[:2]] == [{"RUNNING"}] * 2
    seen = await side.anew().jobs()
    states = [min(seen[job.job_id].state) for job in (running, *made)]
    assert states == ["RUNNING", "RUNNING", "CANCELLED", "PENDING"]


async def test_our_own_cancel_differs_from_a_humans_P17(side: Side) -> None:
    (theirs,) = await side.make(side.want("allocation"))
    (ours,) = await side.make(side.want())
    await side.do(cancel(ours, replaced=True), cancel(theirs))
    seen = await side.anew().jobs()
    assert seen[ours.job_id].identity == replace(ours.identity, replaced=True)
    assert not seen[theirs.job_id].identity.replaced
    assert all("CANCELLED" in job.state for job in seen.values())


async def test_a_waiting_job_is_updated_if_slurm_allows_it_P20(side: Side) -> None:
    await side.fill()
    (made,) = await side.make(side.want(description=WHOLE))
    new = replace(made.identity, digest="d2")
    description = replace(WHOLE, comment="hello", time_limit_min=7)
    update = UpdateJob(job_id=made.job_id, name=made.name, identity=new, description=description)
    (outcome,) = await side.do_all(update)
    assert job_in(outcome).identity == new
    assert (await side.anew().jobs())[made.job_id].identity == new
    bad = replace(update, identity=made.identity, description=replace(WHOLE, constraints="none"))
    await side.refused(bad, 2029)
    assert (await side.jobs())[made.job_id].identity == new


async def test_new_exclusions_keep_the_place_of_a_waiting_job_P7(
    side: Side, server: SlurmServer
) -> None:
    await side.fill()
    (one,) = await side.make(side.want(description=WHOLE))
    tasks = await side.make_tasks(3)
    numbers = (one.job_id, tasks[0].job_id.partition("_")[0])

    def places() -> list[tuple[object, ...]]:
        records = [server.rest.call("GET", server.path(f"job/{one}"))["jobs"] for one in numbers]
        fields = ("job_id", "priority", "submit_time", "array_task_string")
        return [tuple(record[field] for field in fields) for (record,) in records]

    before = places()
    desired_writes = [
        UpdateJob(
            job_id=job.job_id, name=job.name, identity=replace(job.identity, hosts="h2"),
            description=WHOLE, excluded=("n1", "n2"), change="exclusions",
        )
        for job in (one, *tasks)
    ]  # fmt: skip
    for desired in desired_writes:
        await side.refused(replace(desired, excluded=("n1", "nosuch")), 2018)
    await side.do_all(*desired_writes)
    assert places() == before
    for number in numbers:
        assert "ExcNodeList=n[1-2]" in server.scontrol("show", "job", number)
    seen = await side.anew().jobs()
    assert {seen[job.job_id].identity.hosts for job in (one, *tasks)} == {"h2"}
    empty = [
        replace(one, excluded=(), identity=replace(one.identity, hosts="h3"))
        for one in desired_writes
    ]
    await side.do(*empty)
    for number in numbers:
        assert "ExcNodeList=(null)" in server.scontrol("show", "job", number)


async def test_the_reasons_of_all_waiting_jobs_are_read_at_once_P26(server: SlurmServer) -> None:
    heard: list[Exchange] = []
    async with connected(server, heard=heard) as client:
        side = Side(client)
        tasks = await side.make_tasks(6)
        await side.until_state("RUNNING", tasks[0])
        await asyncio.sleep(TICK_S)
        reasons = JobReasons(client, job_owners=side.job_owners, time=side.moments)
        heard.clear()
        await reasons.read()
        jobs = await side.jobs()
        waiting = {one: job.reason for one, job in jobs.items() if "PENDING" in job.state}
        assert len(waiting) == 3
        for job_id, reason in waiting.items():
            assert reason == server.squeue("-h", "-r", "-j", job_id, "-o", "%r").strip()
        await reasons.read()
    full, unchanged = [one.received_bytes for one in heard if one.path.endswith("jobs/")]
    assert unchanged < 2_000 < full
    clean(server)


async def test_reading_an_unknown_or_foreign_job(side: Side, server: SlurmServer) -> None:
    theirs = foreign_allocation(server)
    for job_id in ("99999", str(theirs)):
        (outcome,) = await side.do_all(get_job_now(job_id))
        assert isinstance(outcome.seen[0], Deleted)
        assert abs(outcome.seen[0].order - time.monotonic()) < 5


async def test_two_clusters_on_one_slurm_see_only_their_own_jobs_P22(
    side: Side, server: SlurmServer
) -> None:
    other = Side(side.client)
    foreign_allocation(server)
    mine = await side.make(side.want("allocation"))
    theirs = await other.make(other.want("allocation"))
    mine += await side.make_tasks(3, SMALL)
    theirs += await other.make_tasks(3, SMALL)
    assert set(await side.jobs()) == {job.job_id for job in mine}
    assert set(await other.jobs()) == {job.job_id for job in theirs}
    for replaced in (False, True):
        pairs = zip(mine[:1] + mine[2:], theirs, strict=False)
        await side.do_all(
            *(replace(cancel(job, replaced=replaced), job_id=it.job_id) for job, it in pairs)
        )
        assert not any("CANCELLED" in job.state for job in (await other.jobs()).values())
    assert not any(job.identity.replaced for job in (await other.jobs()).values())


async def test_after_sigkill_slurmctld_reuses_our_job_id_P23(server: SlurmServer) -> None:
    async with connected(server) as client:
        side = Side(client)
        await asyncio.sleep(6)
        foreign_allocation(server)  # slurmctld saves once in 5 s: perhaps this one, not the next
        await asyncio.sleep(0.5)
        (made,) = await side.make(side.want("allocation"))
        assert made.job_id in await side.jobs()
        server.stop_slurmctld(SIGKILL)
        server.start_slurmctld()
        wait_until(lambda: is_ready(server), "all nodes answer", deadline_s=20)
        while (given := foreign_allocation(server)) < int(made.job_id):
            pass
        assert given == int(made.job_id)
        assert made.job_id not in await side.jobs()
        (outcome,) = await side.do_all(cancel(made))
        assert isinstance(outcome.seen[0], Deleted)
        assert f"{given} RUNNING" in server.squeue("-h", "-o", "%i %T").splitlines()
    clean(server)


OLDER = {"26.05": ("v0.0.44", "v0.0.43", "v0.0.42"), "24.11": ("v0.0.41", "v0.0.40")}


async def test_each_api_version_reports_the_same_jobs(side: Side, server: SlurmServer) -> None:
    """v0.0.40 spells started tasks differently."""
    made = await side.make_tasks(6)
    await side.until_state("RUNNING", *made[:3])
    await side.do(cancel(made[5]))
    expected = await side.jobs()
    assert len(expected) == 6
    for version in OLDER[server.version]:
        async with connected(server, version=version) as client:
            older = Side(client, cluster=side.cluster)
            assert await older.jobs() == expected
            read = await older.do(*(get_job_now(job.job_id) for job in made))
            assert {job_in(one).job_id: job_in(one) for one in read} == expected


@pytest.mark.usefixtures("side")
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_each_api_version_submits_and_ends_jobs(server: SlurmServer, place: int) -> None:
    version = dict(enumerate(OLDER[server.version])).get(place)
    if version is None:
        pytest.skip("24.11 has two older ones")
    async with connected(server, version=version) as client:
        older = Side(client)
        (allocated,) = await older.do(older.want("allocation"))
        assert isinstance(allocated, Refused if version == "v0.0.40" else Done)
        (single,) = await older.make(older.want())
        tasks = await older.make_tasks(3, SMALL)
        await older.until_state("RUNNING", single, *tasks)
        await older.do_all(cancel(single, replaced=True), cancel(tasks[1], replaced=True))
        seen = await older.anew().jobs()
        ended = {single.job_id, tasks[1].job_id}
        assert {one for one, job in seen.items() if "CANCELLED" in job.state} == ended
        assert {one for one, job in seen.items() if job.identity.replaced} == ended


def is_ready(server: SlurmServer) -> bool:
    return not any({"UNKNOWN", "NOT_RESPONDING"} & set(state) for state in server.states().values())


@pytest.fixture
def thousand(server: SlurmServer) -> Iterator[None]:
    body = {"script": SCRIPT, "job": {**THEIRS, "hold": True, "array": "0-999"}}
    server.rest.call("POST", server.path("job/submit"), body)
    yield
    clean(server)


@pytest.mark.usefixtures("thousand")
async def test_the_size_of_a_listing_of_a_thousand_jobs(server: SlurmServer) -> None:
    heard: list[Exchange] = []
    async with connected(server, heard=heard) as client:
        side = Side(client)
        (made,) = await side.make(side.want("allocation"))
        await side.jobs()
        heard.clear()
        took: list[float] = []
        for _ in range(20):
            began_s, cpu_s = time.monotonic(), time.process_time()
            side.news.clear()
            assert await side.poll.poll() is None
            took.append(time.monotonic() - began_s)
            cpu_s = time.process_time() - cpu_s
        assert isinstance(side.news[-1], Confirmed | ListingEnded)
        assert {one.path for one in heard} <= {"/slurm/jobs/state/", "/slurm/diag/"}
        listed = [one for one in heard if one.path == "/slurm/jobs/state/"]
        jobs = 1000 + len(server.squeue("-h", "-o", "%i").split())
        assert listed[-1].received_bytes < 120 * jobs
        print(
            f"\n{server.version}: {listed[-1].received_bytes} bytes, {1000 * min(took):.1f} to "
            f"{1000 * max(took):.1f} ms a listing, {1000 * cpu_s:.1f} ms of them our CPU; "
            f"job {made.job_id}, {os.cpu_count()} cores"
        )
