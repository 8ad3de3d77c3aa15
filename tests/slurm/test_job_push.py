"""Desired writes about jobs to requests: what is sent, what an answer or its absence comes to."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Action,
    CancelJob,
    Done,
    Drain,
    GetJob,
    Outcome,
    Refused,
    SubmitJob,
    Unsure,
    UpdateJob,
    shown_by,
)
from sunk_sync.core.model.facts import Attempt, Deleted, Job, Observed, SubmitRefused
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, read_identity, spell_identity, workload_id
from sunk_sync.core.rules.workload.release import cancel as cancel_of
from sunk_sync.slurm.api.answers import SlurmAnswer, SlurmError
from sunk_sync.slurm.api.client import BULK_MAX
from sunk_sync.slurm.api.requests import PING, SlurmCall
from sunk_sync.slurm.decode.jobs import JobRecord
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.write.concurrency import Throttle
from sunk_sync.slurm.write.jobs import JobPush
from sunk_sync.slurm.write.submit import ALLOCATED_MAX, ARRAY_MAX, SubmitContext
from tests.slurm.recorded.job_world import GONE, JobWorld, identity_of, is_mine, name_of
from tests.slurm.test_job_poll import Reader

Kind = Literal["allocation", "script", "external"]
SCRIPT = "#!/bin/sh\nexec sleep 1\n"
BUSY = SlurmError("refused", "Requested nodes are busy (2016)", 2016)
UIDS = tuple(f"u{i}" for i in range(4))
RUNNING = frozenset({"RUNNING"})


class Writer:
    """A push over a small world, and the book that it shares with a reader."""

    def __init__(self, world: JobWorld) -> None:
        self.world = world
        self.job_owners = JobOwners(is_mine)
        self.is_wanted: Callable[[SubmitJob], bool] = lambda _: True
        context = SubmitContext(lambda _: SCRIPT, lambda one: self.is_wanted(one))
        self.push = JobPush(world, world.clock, job_owners=self.job_owners, context=context)

    async def do(self, *actions: Action) -> list[Outcome]:
        return list(await self.push.push(actions))


def desired(uid: str, kind: Kind = "script", **fields: Any) -> SubmitJob:
    description = fields.pop("description", JobDescription(cpus=2))
    identity = fields.pop("identity", identity_of(uid))
    return SubmitJob(
        name=name_of(uid), identity=identity, description=description, kind=kind, **fields
    )


def known_job(identity: Identity, state: str) -> Job:
    """As a listing has shown it."""
    return Job(job_id="7", name="x", identity=identity, state=frozenset({state}))


def cancel(uid: str, job_id: str = "1", **fields: Any) -> CancelJob:
    return CancelJob(job_id=job_id, name=name_of(uid), identity=identity_of(uid), **fields)


def job_in(outcome: Outcome) -> Job:
    """The one that was asked for."""
    seen = outcome.seen[0]
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Job)
    return seen.row


def sent(world: JobWorld, place: int = -1) -> Any:
    """Body of one request."""
    return json.loads(world.calls[place].body)


async def test_a_script_is_submitted_and_waits() -> None:
    """One request once the version is known; what was made is news at once."""
    world = JobWorld()
    writer = Writer(world)
    (outcome,) = await writer.do(desired("u1"))
    assert outcome == Done(desired("u1"), outcome.seen)
    job = job_in(outcome)
    assert (job.job_id, job.identity, job.script) == ("1", identity_of("u1"), True)
    assert job.state == {"PENDING"}
    assert [line.split(" {")[0] for line in world.asked] == ["GET ping/", "POST job/submit"]
    body = sent(world)
    assert body["script"] == SCRIPT
    assert read_identity(body["job"]["admin_comment"]) == identity_of("u1")
    assert writer.job_owners.ours == {"1": job}
    await writer.do(desired("u2"))
    assert len(world.asked) == 3


async def test_a_late_answer_tells_what_a_listing_has_read_but_not_told_F2() -> None:
    """Found by the simulator: the workload was submitted again meanwhile (60182)."""
    world = JobWorld()
    writer = Writer(world)
    (first,) = await writer.do(desired("u1"))
    known = replace(job_in(first), state=RUNNING)
    writer.job_owners.learn(known)
    world.next_id = 1
    (late,) = await writer.do(desired("u1"))
    assert job_in(late) == known


async def test_an_answer_later_than_that_to_another_job_of_its_number_tells_nothing_F2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm lost its state meanwhile; found by the simulator: the job that stood there was taken
    for gone and submitted again (214976).
    """
    world = JobWorld()
    writer = Writer(world)
    at_once, made, released = world.call, asyncio.Event(), asyncio.Event()

    async def keeps_one(call: SlurmCall) -> SlurmAnswer | SlurmError:
        answer = await at_once(call)
        if b"u1" in (call.body or b""):
            made.set()
            await released.wait()
        return answer

    monkeypatch.setattr(world, "call", keeps_one)
    first = asyncio.ensure_future(writer.do(desired("u1")))
    await made.wait()
    world.next_id = 1
    (second,) = await writer.do(desired("u2"))
    released.set()
    (late,) = await first
    attempt = Attempt(identity_of("u1").workload, world.now_s)
    assert isinstance(late, Unsure)
    assert late.seen == (attempt,)
    assert writer.job_owners.ours == {"1": job_in(second)}


async def test_an_allocation_is_placed_when_it_is_told_P11a() -> None:
    """The answer names no nodes, so its record is read."""
    world = JobWorld()
    (outcome,) = await Writer(world).do(desired("u1", "allocation"))
    assert job_in(outcome).slurm_nodes == ("n1",)
    assert job_in(outcome).state == {"RUNNING"}
    assert sent(world, 1)["job"]["immediate"] is True
    assert [line.split(" {")[0] for line in world.asked[1:]] == ["POST job/allocate", "GET job/1"]


async def test_an_allocation_whose_record_is_not_read_is_left_to_the_listing() -> None:
    """It runs, who knows where: that makes the reader look (test_slurm_job_poll)."""
    world = JobWorld()
    world.before = lambda line: GONE if line.startswith("GET job/") else None
    writer = Writer(world)
    (outcome,) = await writer.do(desired("u1", "allocation"))
    assert isinstance(outcome, Done)
    assert "RUNNING" in job_in(outcome).state
    assert job_in(outcome).slurm_nodes == ()


@pytest.mark.parametrize("number", [2013, 2014, 2015, 2016, 2068, 2000, 2045])
async def test_a_refusal_carries_slurms_number_and_text_P10(number: int) -> None:
    """Busy is one of them: whoever reads it chooses another kind."""
    world = JobWorld()
    no = SlurmError("refused", f"No ({number})", number)
    world.before = lambda line: no if line.startswith("POST") else None
    (outcome,) = await Writer(world).do(desired("u1", "allocation"))
    assert outcome == Refused(desired("u1", "allocation"), f"refused: No ({number})", number=number)


async def test_the_version_is_asked_for_once() -> None:
    """Also by many at once, and after a refusal; anew where another address may answer."""
    world = JobWorld(before=lambda line: BUSY if line.startswith("POST") else None)
    writer = Writer(world)
    await writer.do(*(desired(f"u{i}", excluded=(f"n{i}",)) for i in range(5)))
    await writer.do(desired("u9"))
    assert world.asked.count("GET ping/") == 1
    world.before = lambda line: SlurmError("broken", "x") if line.startswith("POST") else None
    await writer.do(desired("u9"))
    await writer.do(desired("u9"))
    assert world.asked.count("GET ping/") == 2


async def test_a_job_made_beside_an_error_is_not_lost() -> None:
    """An unknown flag is an error; the job stands."""
    world = JobWorld()
    error = SlurmError("refused", 'Unknown flag "NOPE" (9207)', 9207, job_id=1)
    world.after = lambda line: error if line.startswith("POST") else None
    (outcome,) = await Writer(world).do(desired("u1"))
    assert isinstance(outcome, Done)
    assert job_in(outcome).job_id == "1"


@pytest.mark.parametrize("kind", ["timeout", "broken", "controller_down", "garbage", "too_large"])
async def test_without_an_answer_it_may_have_happened_F2(kind: Any) -> None:
    """The attempt is told, with a second by which nothing more was sent."""
    world = JobWorld()
    world.after = lambda line: SlurmError(kind, "x") if line.startswith("POST") else None
    (outcome,) = await Writer(world).do(desired("u1"))
    assert isinstance(outcome, Unsure)
    assert outcome.seen == (Attempt(identity_of("u1").workload, world.now_s),)


@pytest.mark.parametrize(
    "failure",
    [
        SlurmError("unreachable", "x"),
        SlurmError("unserved", "x"),
        SlurmError("auth", "x"),
        SlurmError("controller_down", "connect failure", 1800),
        SlurmError("garbage", "502 of a proxy to the question before", sent=False),
    ],
    ids=str,
)
async def test_what_never_reached_slurm_is_no_attempt_F2(failure: SlurmError) -> None:
    """It is just tried again."""
    world = JobWorld(before=lambda _: failure)
    (outcome,) = await Writer(world).do(desired("u1"))
    assert isinstance(outcome, Unsure)
    assert outcome.seen == ()


@pytest.mark.parametrize(
    ("learnt", "sent"),
    [
        (known_job(identity_of("u1"), "PENDING"), False),
        (known_job(identity_of("u1"), "COMPLETED"), True),
        (known_job(replace(identity_of("u1"), replaced=True), "RUNNING"), True),
        (known_job(identity_of("u2"), "RUNNING"), True),
    ],
    ids=["it lives", "it has ended", "it is given up", "another's"],
)
async def test_a_wish_whose_job_was_read_while_it_waited_is_not_sent_F2(
    monkeypatch: pytest.MonkeyPatch, learnt: Job, sent: bool
) -> None:
    """An earlier one without an answer: a listing knows it by now (520287, 541931)."""
    world = JobWorld()
    writer, at_once = Writer(world), world.call

    async def meanwhile(call: SlurmCall) -> SlurmAnswer | SlurmError:
        if call is PING:
            writer.job_owners.learn(learnt)
        return await at_once(call)

    monkeypatch.setattr(world, "call", meanwhile)
    (outcome,) = await writer.do(desired("u1"))
    assert isinstance(outcome, Done) == sent
    assert bool(outcome.seen) == sent
    assert len(world.asked) == 1 + sent
    (again,) = await writer.do(desired("u1"))
    assert isinstance(again, Done)


async def test_what_is_wished_no_more_when_its_turn_comes_is_not_sent_P13() -> None:
    """Its Pod was deleted or edited while Slurm was slow; the others of the array go on."""
    world = JobWorld()
    writer = Writer(world)
    desired_writes = [desired(uid) for uid in UIDS]
    writer.is_wanted = lambda one: one != desired_writes[1]
    outcomes = await writer.do(*desired_writes)
    assert [isinstance(one, Done) for one in outcomes] == [True, False, True, True]
    assert outcomes[1] == Unsure(
        desired_writes[1], "unwanted: not sent: its job has been read, or is wished no more"
    )
    assert sent(world)["job"]["array"] == "0-2"
    assert [job_in(one).identity.workload for one in outcomes if isinstance(one, Done)] == [
        one.identity.workload for one in desired_writes if one != desired_writes[1]
    ]


async def test_what_was_not_sent_is_no_measure_of_slurms_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was wished when its turn came, and no more when a connection was free."""
    noted: list[float] = []
    monkeypatch.setattr(Throttle, "note", lambda _, took_s: noted.append(took_s))
    writer, stands = Writer(JobWorld()), iter([True, False, True, True])
    writer.is_wanted = lambda _: next(stands)
    (unsent,) = await writer.do(desired("u1"))
    assert isinstance(unsent, Unsure)
    assert noted == []
    (made,) = await writer.do(desired("u1"))
    assert isinstance(made, Done)
    assert len(noted) == 1


async def test_of_many_tried_one_by_one_one_whose_job_was_read_meanwhile_is_not_sent_F2() -> None:
    """The array was too large: the first goes, and while it does the last is read."""
    world = JobWorld()
    writer = Writer(world)
    *_, last = desired_writes = [desired(uid) for uid in UIDS]

    def before(line: str) -> SlurmError | None:
        if '"array"' in line:
            return SlurmError("refused", "too many (2050)", 2050)
        if line.startswith("POST"):
            writer.job_owners.learn(known_job(last.identity, "PENDING"))
        return None

    world.before = before
    outcomes = await writer.do(*desired_writes)
    assert [isinstance(one, Done) for one in outcomes] == [True, True, True, False]


@pytest.mark.parametrize(("version", "kind"), [("v0.0.42", "external"), ("v0.0.40", "allocation")])
async def test_what_this_version_cannot_do_is_not_sent(version: str, kind: Kind) -> None:
    """slurmrestd would make another job of it."""
    world = JobWorld(version=version)
    (outcome,) = await Writer(world).do(desired("u1", kind))
    assert isinstance(outcome, Refused)
    assert version in outcome.why
    assert world.asked == ["GET ping/"]


async def test_an_external_job_has_no_script() -> None:
    """With one it is refused (2189)."""
    world = JobWorld()
    (outcome,) = await Writer(world).do(desired("u1", "external"))
    assert isinstance(outcome, Done)
    assert "script" not in sent(world)
    assert sent(world)["job"]["flags"] == ["EXTERNAL_JOB"]


class TestArrays:
    """Bursts of equal wishes."""

    async def test_equal_wishes_are_one_array(self) -> None:
        """Task i stands for the i-th UID; each outcome shows its own job."""
        world = JobWorld()
        writer = Writer(world)
        outcomes = await writer.do(*map(desired, UIDS))
        body = sent(world)
        assert body["job"]["array"] == "0-3"
        assert read_identity(body["job"]["admin_comment"]) == Identity(
            "c1", "s1", uids=UIDS, digest="d1"
        )
        for task, (uid, outcome) in enumerate(zip(UIDS, outcomes, strict=True)):
            assert outcome.action == desired(uid)
            job = job_in(outcome)
            assert (job.job_id, job.name) == (f"1_{task}", name_of("u0"))
            assert job.identity == Identity(
                "c1", "s1", workload=workload_id([uid]), uids=(uid,), digest="d1"
            )
        assert len(world.asked) == 2
        assert sorted(writer.job_owners.ours) == ["1_0", "1_1", "1_2", "1_3"]

    async def test_at_most_64_a_piece(self) -> None:
        """Their UIDs stand in one text."""
        world = JobWorld()
        await Writer(world).do(*(desired(f"u{i}") for i in range(2 * ARRAY_MAX + 1)))
        made = [sent(world, place)["job"].get("array") for place in (1, 2, 3)]
        assert made == ["0-63", "0-63", None]

    @pytest.mark.parametrize(
        "other",
        [
            desired("u9", description=JobDescription(cpus=3)),
            desired("u9", excluded=("n1",)),
            desired("u9", identity=replace(identity_of("u9"), digest="d2")),
            desired("u9", "external"),
            desired("u9", "allocation"),
            desired("u9", identity=identity_of("u9", "u8")),
            desired(
                "u9", identity=identity_of("u9", "u8"), description=JobDescription(slurm_nodes=2)
            ),
        ],
    )
    async def test_what_differs_is_a_job_of_its_own(self, other: SubmitJob) -> None:
        """A gang too: it is one job on many nodes."""
        world = JobWorld()
        await Writer(world).do(desired("u1"), other, desired("u2"))
        made = [
            sent(world, place)["job"]
            for place in range(1, len(world.calls))
            if sent_body(world, place)
        ]
        assert sorted(job.get("array", "") for job in made) == ["", "0-1"]

    @pytest.mark.parametrize(("count", "arrays"), [(ALLOCATED_MAX, 0), (ALLOCATED_MAX + 1, 1)])
    async def test_few_allocations_are_made_at_once_and_many_wait(
        self, count: int, arrays: int
    ) -> None:
        """An array cannot be allocated (2081)."""
        world = JobWorld()
        outcomes = await Writer(world).do(*(desired(f"u{i}", "allocation") for i in range(count)))
        submits = [line for line in world.asked if line.startswith("POST job/submit")]
        assert len(submits) == arrays
        assert all(isinstance(one, Done) for one in outcomes)
        assert {job_in(one).script for one in outcomes} == {bool(arrays)}

    @pytest.mark.parametrize("number", [2081, 2050])
    async def test_where_arrays_are_refused_it_goes_one_by_one(self, number: int) -> None:
        """MaxArraySize=0, or a limit that still has room for some."""
        world = JobWorld()
        no = SlurmError("refused", "Invalid job array specification", number)
        world.before = lambda line: no if '"array"' in line else None
        outcomes = await Writer(world).do(*map(desired, UIDS))
        assert [job_in(one).job_id for one in outcomes] == ["1", "2", "3", "4"]

    async def test_one_by_one_it_is_asked_again_what_this_version_can_do(self) -> None:
        """As an array they were scripts; each alone would be an allocation."""
        world = JobWorld(version="v0.0.40")
        no = SlurmError("refused", "Invalid job array specification", 2081)
        world.before = lambda line: no if '"array"' in line else None
        desired_writes = [desired(f"u{i}", "allocation") for i in range(ALLOCATED_MAX + 1)]
        outcomes = await Writer(world).do(*desired_writes)
        assert all("v0.0.40" in one.why for one in outcomes if isinstance(one, Refused))
        assert [type(one) for one in outcomes] == [Refused] * len(desired_writes)
        assert len([line for line in world.asked if line.startswith("POST")]) == 1

    async def test_one_refusal_is_that_of_all(self) -> None:
        """They are equal: asking each would be refused as well."""
        world = JobWorld(before=lambda line: BUSY if line.startswith("POST") else None)
        outcomes = await Writer(world).do(*map(desired, UIDS))
        assert [one.number for one in outcomes if isinstance(one, Refused)] == [2016] * 4
        assert len(world.asked) == 2

    async def test_each_of_an_array_without_an_answer_is_an_attempt_F2(self) -> None:
        """Each workload looks for its own."""
        world = JobWorld()
        world.after = lambda line: SlurmError("broken", "x") if line.startswith("POST") else None
        outcomes = await Writer(world).do(*map(desired, UIDS))
        assert [one.seen for one in outcomes] == [
            (Attempt(workload_id([uid]), world.now_s),) for uid in UIDS
        ]

    async def test_one_task_is_cancelled_alone_P23(self) -> None:
        """By the array's id, whether it has started or not."""
        world = JobWorld()
        writer = Writer(world)
        jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
        started = world.start(world.records[1], "n1", task=2)
        desired_writes = list(map(cancel_of, jobs))
        assert [type(one) for one in await writer.do(desired_writes[0], desired_writes[2])] == [
            Done,
            Done,
        ]
        assert sent(world) == {"jobs": ["1_0", "1_2"], "job_name": name_of("u0")}
        assert world.records[1].waiting == [1, 3]
        assert started.state == ["CANCELLED"]

    async def test_a_task_is_marked_alone_P17(self) -> None:
        """One that waits in the text of the array, one that runs in its own."""
        world = JobWorld()
        writer = Writer(world)
        jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
        started = world.start(world.records[1], "n1", task=2)
        desired_writes = [cancel_of(job, replaced=True) for job in (jobs[0], jobs[2], jobs[3])]
        outcomes = await writer.do(*desired_writes)
        assert [type(one) for one in outcomes] == [Done] * 3
        assert uids_in(world.records[1].comment) == ("-u0", "u1", "u2", "-u3")
        assert uids_in(started.comment) == ("u0", "u1", "-u2", "u3")

    async def test_the_reader_needs_no_record_of_what_was_just_done(self) -> None:
        """It shares the book: what waits, what was cancelled, what was replaced."""
        world = JobWorld()
        writer = Writer(world)
        reader = Reader(world, job_owners=writer.job_owners)
        await reader.look()
        jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
        desired_writes = [
            cancel_of(job, replaced=replaced)
            for job, replaced in ((jobs[1], False), (jobs[3], True))
        ]
        await writer.do(*desired_writes)
        seen = await reader.look()
        assert reader.read == []
        assert [set(seen[job.job_id].state) for job in jobs] == [
            {"PENDING"}, {"CANCELLED"}, {"PENDING"}, {"CANCELLED"},
        ]  # fmt: skip
        assert [seen[job.job_id].identity.replaced for job in jobs] == [False, False, False, True]

    async def test_a_humans_cancel_of_a_task_that_waits_is_seen_without_a_read_P17(self) -> None:
        """The array that we have just made is known."""
        world = JobWorld()
        writer = Writer(world)
        reader = Reader(world, job_owners=writer.job_owners)
        await reader.look()
        await writer.do(*map(desired, UIDS))
        world.records[1].waiting.remove(2)
        seen = await reader.look()
        assert seen["1_2"].state == {"CANCELLED"}
        assert seen["1_1"].state == {"PENDING"}
        assert reader.read == []

    async def test_a_task_cannot_be_changed_P20(self) -> None:
        """Slurm changes all that wait, or none (9000)."""
        world = JobWorld()
        writer = Writer(world)
        job = job_in((await writer.do(*map(desired, UIDS)))[0])
        update = UpdateJob(
            job_id=job.job_id, name=job.name, identity=job.identity, description=JobDescription()
        )
        (outcome,) = await writer.do(update)
        assert isinstance(outcome, Refused)
        assert not any(line.startswith("POST job/1") for line in world.asked)

    async def test_the_tasks_of_an_array_are_given_other_exclusions_together_P7(self) -> None:
        """One request changes all that wait; for the others nothing is read or written."""
        world = JobWorld()
        writer = Writer(world)
        jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
        world.calls.clear()
        updates = [
            UpdateJob(
                job_id=job.job_id, name=job.name, identity=replace(job.identity, hosts="h2"),
                description=JobDescription(), excluded=("n1", "n2"), exclusions_only=True,
            )
            for job in jobs
        ]  # fmt: skip
        outcomes = await writer.do(*updates)
        assert [type(one) for one in outcomes] == [Done] * len(UIDS)
        (post,) = [call for call in world.calls if call.method == "POST"]
        assert json.loads(post.body)["excluded_nodes"] == ["n[1-2]"]
        text = read_identity(world.records[1].comment)
        assert text is not None
        assert (text.uids, text.hosts) == (UIDS, "h2")
        (told,) = [one for one in outcomes if one.seen]
        assert job_in(told).identity.hosts == "h2"
        assert {writer.job_owners.ours[job.job_id].identity.hosts for job in jobs} == {"h2"}
        assert writer.job_owners.touched

    @pytest.mark.parametrize(
        ("waiting", "state"), [([0, 1], {"PENDING"}), ([1], {"CANCELLED"}), ([], {"CANCELLED"})]
    )
    async def test_a_task_without_a_record_waits_or_was_cancelled(
        self, waiting: list[int], state: set[str]
    ) -> None:
        """The states of the array say which."""
        world = JobWorld()
        world.add(Identity("c1", "s1", uids=UIDS)).waiting = waiting
        (outcome,) = await Writer(world).do(GetJob("1_0", 0.0))
        assert job_in(outcome).state == state

    async def test_a_job_hidden_by_PrivateData_is_unknown_not_gone(self) -> None:
        """Slurm calls it unknown (2017), and lists its state."""
        world = JobWorld()
        world.add(identity_of("u1"))
        world.before = lambda line: GONE if line == "GET job/1" else None
        (outcome,) = await Writer(world).do(GetJob("1", 0.0))
        assert isinstance(outcome, Unsure)
        assert outcome.seen == ()

    async def test_a_task_is_found_by_its_own_number(self) -> None:
        """That is what a prolog knows it by."""
        world = JobWorld()
        array = world.add(Identity("c1", "s1", uids=UIDS))
        world.start(array, "n1", task=3)
        (outcome,) = await Writer(world).do(GetJob("2", 0.0))
        assert (job_in(outcome).job_id, job_in(outcome).identity.uids) == ("1_3", ("u3",))

    @pytest.mark.parametrize(
        ("version", "read"), [("v0.0.45", "GET job/4"), ("v0.0.40", "GET job/1")]
    )
    async def test_of_an_array_the_task_that_started_is_read_alone(
        self, version: str, read: str
    ) -> None:
        """Hundreds of scripts start at once, and 64 records for each would be 500 kB."""
        world, tasks = JobWorld(version=version), range(64)
        array = world.add(Identity("c1", "s1", uids=tuple(f"u{i}" for i in tasks)))
        writer = Writer(world)
        identity = read_identity(array.comment)
        waiting = frozenset({"PENDING"})
        writer.job_owners.learn_array(
            JobRecord(number=1, array=1, identity=identity, state=waiting)
        )
        for task in range(10):
            world.start(array, "n1", task=task)
        (outcome,) = await writer.do(GetJob("1_2", 0.0))
        assert (job_in(outcome).job_id, job_in(outcome).slurm_nodes) == ("1_2", ("n1",))
        assert world.asked == ["GET jobs/state/", read]
        (outcome,) = await writer.do(GetJob("1_20", 0.0))
        assert (job_in(outcome).job_id, job_in(outcome).slurm_nodes) == ("1_20", ())


def sent_body(world: JobWorld, place: int) -> bool:
    return bool(world.calls[place].body)


def uids_in(comment: str) -> tuple[str, ...]:
    identity = read_identity(comment)
    assert identity is not None
    return identity.uids


async def test_a_cancel_names_id_and_name_P23() -> None:
    """Never a number alone, and nothing is read before."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    assert await Writer(world).do(cancel("u1")) == [Done(cancel("u1"))]
    assert [call.method for call in world.calls] == ["DELETE"]
    assert world.calls[0].path == "jobs/"
    assert sent(world) == {"jobs": ["1"], "job_name": name_of("u1")}
    assert world.records[1].state == ["CANCELLED"]


async def test_each_name_is_cancelled_by_itself_P23() -> None:
    """One request names one."""
    world = JobWorld()
    for uid in ("u1", "u2"):
        world.add(identity_of(uid), name=name_of(uid))
    outcomes = await Writer(world).do(cancel("u1", "1"), cancel("u2", "2"))
    assert [type(one) for one in outcomes] == [Done, Done]
    assert [record.state for record in world.records.values()] == [["CANCELLED"]] * 2


@pytest.mark.parametrize("begins", ["GET", "DELETE"])
async def test_a_job_that_is_cancelled_because_it_waits_is_left_alone_once_it_runs_P19(
    begins: str,
) -> None:
    """Its Pod may stand where it began: before it is marked, or as the cancel is on its way."""
    world = JobWorld()
    record = world.add(identity_of("u1"), name=name_of("u1"))

    def start(line: str) -> None:
        if line.startswith(begins):
            world.start(record, "n1")

    world.before = start
    (outcome,) = await Writer(world).do(cancel("u1", replaced=True, waiting=True))
    assert isinstance(outcome, Done)
    assert job_in(outcome).state == RUNNING
    assert job_in(outcome).identity.replaced == (begins == "DELETE")
    assert record.state == ["RUNNING"]


async def test_what_still_waits_is_cancelled_apart_from_what_may_run_P19() -> None:
    """The filter is the whole request's."""
    world = JobWorld()
    writer = Writer(world)
    jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
    started = world.start(world.records[1], "n1", task=2)
    ends = [cancel_of(jobs[0], waiting=True), cancel_of(jobs[2])]
    assert [type(one) for one in await writer.do(*ends)] == [Done, Done]
    assert [sent(world, place) for place in (-2, -1)] == [
        {"jobs": ["1_0"], "job_name": name_of("u0"), "job_state": ["PENDING"]},
        {"jobs": ["1_2"], "job_name": name_of("u0")},
    ]
    assert world.records[1].waiting == [1, 3]
    assert started.state == ["CANCELLED"]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETED", "PREEMPTED"])
async def test_a_cancel_of_what_has_ended_shows_how(state: str, replaced: bool) -> None:
    """2021 is no failure, and nothing is marked any more."""
    world = JobWorld()
    world.add(identity_of("u1"), state, name=name_of("u1"))
    (outcome,) = await Writer(world).do(cancel("u1", replaced=replaced))
    assert not any(line.startswith("POST") for line in world.asked)
    assert isinstance(outcome, Done)
    assert job_in(outcome).state == {state}


@pytest.mark.parametrize("comment", ["", identity_of("u1", cluster="c2")])
async def test_an_id_in_other_hands_is_left_alone_P23(comment: Any) -> None:
    """Ours is gone; the other one runs on."""
    world = JobWorld()
    world.add(comment, "RUNNING", name="theirs")
    for replaced in (False, True):
        (outcome,) = await Writer(world).do(cancel("u1", replaced=replaced))
        assert isinstance(outcome, Done)
        (seen,) = outcome.seen
        assert isinstance(seen, Deleted)
        assert (seen.source, seen.name) == ("jobs", "1")
        assert world.records[1].state == ["RUNNING"]
    assert not any(line.startswith("POST") for line in world.asked)


async def test_another_job_of_ours_under_the_id_is_left_alone_P23() -> None:
    """Its name differs."""
    world = JobWorld()
    world.add(identity_of("u2"), "RUNNING", name=name_of("u2"))
    for replaced in (False, True):
        (outcome,) = await Writer(world).do(cancel("u1", replaced=replaced))
        assert isinstance(outcome, Done)
        assert world.records[1].state == ["RUNNING"]


async def test_a_cancel_of_what_slurm_forgot_is_done() -> None:
    """And the graph learns that it is gone."""
    for replaced in (False, True):
        (outcome,) = await Writer(JobWorld()).do(cancel("u1", replaced=replaced))
        assert isinstance(outcome, Done)
        (seen,) = outcome.seen
        assert isinstance(seen, Deleted)
        assert 100 <= seen.order <= 102


async def test_what_we_replace_is_marked_before_it_is_cancelled_P17() -> None:
    """Read, mark, cancel; a second time it is marked already."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    stop = SlurmError("timeout", "x")
    world.before = lambda line: stop if line.startswith("DELETE") else None
    writer = Writer(world)
    (outcome,) = await writer.do(cancel("u1", replaced=True))
    assert isinstance(outcome, Unsure)
    assert job_in(outcome).identity.replaced  # found by the simulator: it was bound to (60133)
    assert [call.method for call in world.calls] == ["GET", "POST", "DELETE"]
    assert read_identity(world.records[1].comment) == replace(identity_of("u1"), replaced=True)
    world.before = lambda _: None
    assert [type(one) for one in await writer.do(cancel("u1", replaced=True))] == [Done]
    assert [call.method for call in world.calls[3:]] == ["GET", "DELETE"]
    assert world.records[1].state == ["CANCELLED"]
    assert writer.job_owners.ours["1"].identity.replaced


async def test_after_a_mark_that_took_long_the_wish_is_asked_again_P17() -> None:
    """Found by the simulator: the Pod was bound there by then (60328)."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))

    def slowly(line: str) -> None:
        world.now_s += 6.0 * line.startswith("POST")

    world.before = slowly
    writer = Writer(world)
    (outcome,) = await writer.do(cancel("u1", replaced=True))
    assert isinstance(outcome, Unsure)
    assert job_in(outcome).identity.replaced
    assert world.records[1].state == ["PENDING"]
    assert [type(one) for one in await writer.do(cancel("u1", replaced=True))] == [Done]


async def test_a_job_that_was_read_while_another_is_being_made_is_told_as_read_P18() -> None:
    """Found by the simulator: its Pod was bound by then, and it was taken for requeued (450113)."""
    world = JobWorld()
    writer = Writer(world)

    def starts(line: str) -> None:
        if "u2" in line:
            running = {"state": frozenset({"RUNNING"}), "slurm_nodes": ("n1",)}
            writer.job_owners.learn(
                replace(writer.job_owners.ours["1"], **running), asked_s=world.now_s
            )

    world.after = starts
    slower = desired("u2", description=JobDescription(cpus=3))
    first, second = await writer.do(desired("u1"), slower)
    assert job_in(first) == writer.job_owners.ours["1"]
    assert job_in(first).slurm_nodes == ("n1",)
    assert job_in(second).state == {"PENDING"}


@pytest.mark.parametrize("wanted", ["mark", "update"])
async def test_a_slow_write_does_not_undo_what_was_read_meanwhile_P18(wanted: str) -> None:
    """The job started while its new text was on its way. Found by the simulator: it was taken for
    one that waits, and its Pod for bound by somebody else (402014).
    """
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    writer = Writer(world)

    def starts(line: str) -> None:
        if line.startswith("POST"):
            world.now_s += 6.0
            running = {"state": frozenset({"RUNNING"}), "slurm_nodes": ("n1",)}
            writer.job_owners.learn(
                replace(writer.job_owners.ours["1"], **running), asked_s=world.now_s
            )

    world.after = starts
    (outcome,) = await writer.do(cancel("u1", replaced=True) if wanted == "mark" else updating())
    for told in (job_in(outcome), writer.job_owners.ours["1"]):
        assert told.state == {"RUNNING"}
        assert told.slurm_nodes == ("n1",)
        assert (told.identity.replaced, told.identity.digest) == (
            (True, "d1") if wanted == "mark" else (False, "d2")
        )


async def test_what_could_not_be_marked_is_not_cancelled_P17() -> None:
    """A human's cancel and ours could not be told apart."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    for failure, kind in ((SlurmError("timeout", "x"), Unsure), (BUSY, Refused)):
        world.before = refusing(failure)
        (outcome,) = await Writer(world).do(cancel("u1", replaced=True))
        assert isinstance(outcome, kind)
    assert world.records[1].state == ["PENDING"]


def refusing(failure: SlurmError) -> Callable[[str], SlurmError | None]:
    return lambda line: failure if line.startswith("POST") else None


def updating(uid: str = "u1") -> UpdateJob:
    identity = replace(identity_of(uid), digest="d2")
    return UpdateJob(
        job_id="1",
        name=name_of(uid),
        identity=identity,
        description=JobDescription(comment="hello"),
    )


@pytest.mark.parametrize("action", [updating(), cancel("u1", replaced=True)])
async def test_nothing_is_changed_by_what_was_read_slowly_P23(action: Action) -> None:
    """Found by the simulator: slurmctld lost its state meanwhile, and somebody else's job had the
    number: it was marked as ours, and cancelled (554577).
    """
    world = JobWorld(takes_s=6.0)
    world.add(identity_of("u1"), name=name_of("u1"))
    writer = Writer(world)
    (outcome,) = await writer.do(action)
    assert isinstance(outcome, Unsure)
    assert [call.method for call in world.calls] == ["GET"]
    world.takes_s = 1.0
    assert [type(one) for one in await writer.do(action)] == [Done]


async def test_a_waiting_job_is_given_another_description_P20() -> None:
    """First what it asks for, then the digest: a refused update has been done in part."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    writer = Writer(world)
    (outcome,) = await writer.do(updating())
    assert isinstance(outcome, Done)
    assert job_in(outcome).identity.digest == "d2"
    assert [call.method for call in world.calls] == ["GET", "POST", "POST"]
    assert sent(world, 1)["comment"] == "hello"
    assert "admin_comment" not in sent(world, 1)
    assert read_identity(world.records[1].comment) == updating().identity


async def test_a_waiting_job_is_given_other_exclusions_alone_P7() -> None:
    """In one request with the identity that tells of them: a refused one changes neither."""
    world = JobWorld()
    world.add(replace(identity_of("u1"), digest="d1", replaced=True), name=name_of("u1"))
    wanted = replace(
        updating(), identity=replace(identity_of("u1"), hosts="h2"), exclusions_only=True
    )
    (outcome,) = await Writer(world).do(replace(wanted, excluded=("n1", "n2")))
    assert isinstance(outcome, Done)
    assert [call.method for call in world.calls] == ["GET", "POST"]
    assert sent(world, 1)["excluded_nodes"] == ["n[1-2]"]
    assert set(sent(world, 1)) == {"excluded_nodes", "admin_comment"}
    told = read_identity(world.records[1].comment)
    assert told == job_in(outcome).identity
    assert told == replace(identity_of("u1"), digest="d1", replaced=True, hosts="h2")


async def test_a_refused_renewal_is_told_apart_from_a_refused_edit_P7() -> None:
    """A node that Slurm has forgotten (2018): the job stays as it is, and is not given up."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    world.before = refusing(SlurmError("refused", "Invalid node name specified (2018)", 2018))
    wanted = replace(updating(), excluded=("n9",), exclusions_only=True)
    (outcome,) = await Writer(world).do(wanted)
    assert isinstance(outcome, Refused)
    assert job_in(outcome).identity == identity_of("u1")
    (_, told) = shown_by(outcome, asked_s=0.0)
    assert isinstance(told, SubmitRefused)
    assert told.kind == "renewal"


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED"])
async def test_what_does_not_wait_is_left_alone_P20(state: str) -> None:
    """After it was placed it stays as it is."""
    world = JobWorld()
    world.add(identity_of("u1"), state, name=name_of("u1"))
    (outcome,) = await Writer(world).do(updating())
    assert job_in(outcome).state == {state}
    assert [call.method for call in world.calls] == ["GET"]


async def test_a_refused_update_is_refused_with_its_number_P20() -> None:
    """Its digest stays the old one."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    no = SlurmError("refused", "Invalid feature specification (2029)", 2029)
    world.before = lambda line: no if line.startswith("POST") else None
    (outcome,) = await Writer(world).do(updating())
    assert isinstance(outcome, Refused)
    assert outcome.number == 2029
    assert job_in(outcome).identity == identity_of("u1")


async def test_an_update_never_reaches_another_job_P20() -> None:
    """The id belongs to somebody else now."""
    world = JobWorld()
    world.add(identity_of("u2"), name=name_of("u2"))
    (outcome,) = await Writer(world).do(updating())
    assert isinstance(outcome, Done)
    assert isinstance(outcome.seen[0], Deleted)
    assert [call.method for call in world.calls] == ["GET"]


async def test_a_look_shows_a_job_of_ours_or_that_there_is_none() -> None:
    """Only 2017 and another identity are a no."""
    world = JobWorld()
    world.start(world.add(identity_of("u1")), "n[1-2]")
    world.add("")
    writer = Writer(world)
    one, two, three = await writer.do(GetJob("1", 0), GetJob("2", 0), GetJob("3", 0))
    assert job_in(one).slurm_nodes == ("n1", "n2")
    assert [type(outcome.seen[0]) for outcome in (two, three)] == [Deleted, Deleted]
    world.before = lambda _: SlurmError("controller_down", "x", 1800)
    (outcome,) = await writer.do(GetJob("1", world.now_s))
    assert isinstance(outcome, Unsure)
    (outcome,) = await writer.do(GetJob("../nodes", 0))
    assert isinstance(outcome, Refused)


async def test_submits_leave_two_connections_free() -> None:
    """A burst never keeps a drain or a cancel waiting."""
    world = JobWorld()
    world.add(identity_of("u1"), name=name_of("u1"))
    writer = Writer(world)
    await writer.do(desired("u2"), desired("u3", "allocation"), cancel("u1"), GetJob("1", 0))
    bulk = {call.path: call.bulk for call in world.calls if call.path != "ping/"}
    assert bulk == {
        "job/submit": True,
        "job/allocate": True,
        "jobs/": False,
        "job/1": False,
        "job/3": False,
    }
    assert BULK_MAX == 6


async def test_every_action_has_its_outcome_in_its_place() -> None:
    """Also what is no wish about a job."""
    world = JobWorld()
    actions: list[Action] = [GetJob("9", 0), Drain("n1", "x"), desired("u1"), cancel("u2", "9")]
    outcomes = await Writer(world).do(*actions, desired("u3"))
    assert [one.action for one in outcomes] == [*actions, desired("u3")]
    assert isinstance(outcomes[1], Refused)


async def test_the_text_of_a_replaced_identity_can_be_read_back() -> None:
    """By ourselves after a restart."""
    identity = replace(identity_of("u1"), replaced=True)
    assert read_identity(spell_identity(identity)) == identity


async def test_of_wishes_that_leave_together_the_oldest_is_the_first_task_P26() -> None:
    """Whatever order they come in: Slurm starts the tasks of an array by their numbers."""
    writer = Writer(JobWorld())
    await writer.do(
        *(desired(uid, created_s=age) for uid, age in zip(UIDS, (3, 1, 4, 2), strict=True))
    )
    (array,) = writer.job_owners.arrays.values()
    assert array.identity is not None
    assert array.identity.uids == ("u1", "u3", "u0", "u2")
