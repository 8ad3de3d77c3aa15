"""Equal submissions become one job array."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import GetJob, SubmitJob, UpdateJob
from sunk_sync.core.model.facts import Attempt, Job
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, read_identity, workload_id
from sunk_sync.core.model.outcomes import Done, Refused, Unsure
from sunk_sync.core.rules.workload.release import cancel as cancel_of
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.decode.jobs import JobRecord
from sunk_sync.slurm.write.submit import ALLOCATED_MAX, ARRAY_MAX
from tests.kit.job_writer import BUSY, UIDS, Writer, desired, job_in, sent
from tests.slurm.listed import reader_of
from tests.slurm.recorded.slurm_jobs import GONE, SlurmJobs, identity_of, name_of


async def submitted() -> tuple[SlurmJobs, Writer, list[Job]]:
    """Return a Slurm with an array of four jobs, its writer, and the jobs."""
    slurm = SlurmJobs()
    writer = Writer(slurm)
    return slurm, writer, [job_in(one) for one in await writer.do(*map(desired, UIDS))]


def submits(slurm: SlurmJobs) -> list[Any]:
    """Return the jobs of all submissions sent."""
    return [json.loads(call.body)["job"] for call in slurm.calls if call.body]


def uids_in(comment: str) -> tuple[str, ...]:
    identity = read_identity(comment)
    assert identity is not None
    return identity.uids


async def test_equal_submissions_are_one_array() -> None:
    slurm = SlurmJobs()
    writer = Writer(slurm)
    outcomes = await writer.do(*map(desired, UIDS))
    body = sent(slurm)
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
    assert len(slurm.asked) == 2
    assert sorted(writer.job_owners.ours) == ["1_0", "1_1", "1_2", "1_3"]


async def test_an_array_has_at_most_64_tasks() -> None:
    slurm = SlurmJobs()
    await Writer(slurm).do(*(desired(f"u{i}") for i in range(2 * ARRAY_MAX + 1)))
    assert [job.get("array") for job in submits(slurm)] == ["0-63", "0-63", None]


@pytest.mark.parametrize(
    "other",
    [
        desired("u9", description=JobDescription(cpus=3)),
        desired("u9", excluded=("n1",)),
        desired("u9", volume_claims=("data-u9",)),
        desired("u9", alone=True),
        desired("u9", identity=replace(identity_of("u9"), digest="d2")),
        desired("u9", "external"),
        desired("u9", "allocation"),
        desired("u9", identity=identity_of("u9", "u8")),
        desired("u9", identity=identity_of("u9", "u8"), description=JobDescription(slurm_nodes=2)),
    ],
)
async def test_a_submission_that_differs_is_a_job_of_its_own(other: SubmitJob) -> None:
    slurm = SlurmJobs()
    await Writer(slurm).do(desired("u1"), other, desired("u2"))
    assert sorted(job.get("array", "") for job in submits(slurm)) == ["", "0-1"]


@pytest.mark.parametrize(("count", "arrays"), [(ALLOCATED_MAX, 0), (ALLOCATED_MAX + 1, 1)])
async def test_many_allocations_become_an_array_of_scripts(count: int, arrays: int) -> None:
    """Slurm refuses to allocate an array (2081)."""
    slurm = SlurmJobs()
    outcomes = await Writer(slurm).do(*(desired(f"u{i}", "allocation") for i in range(count)))
    assert sum(line.startswith("POST job/submit") for line in slurm.asked) == arrays
    assert all(isinstance(one, Done) for one in outcomes)
    assert {job_in(one).script for one in outcomes} == {bool(arrays)}


@pytest.mark.parametrize("number", [2081, 2050])
async def test_where_slurm_refuses_an_array_each_job_is_submitted_alone(number: int) -> None:
    """MaxArraySize is 0, or a limit has room for some of the jobs."""
    slurm = SlurmJobs()
    no = SlurmError("refused", "Invalid job array specification", number)
    slurm.before = lambda line: no if '"array"' in line else None
    outcomes = await Writer(slurm).do(*map(desired, UIDS))
    assert [job_in(one).job_id for one in outcomes] == ["1", "2", "3", "4"]


async def test_each_job_alone_is_checked_against_the_version_again() -> None:
    """As an array they were scripts; each alone would be an allocation."""
    slurm = SlurmJobs(version="v0.0.40")
    no = SlurmError("refused", "Invalid job array specification", 2081)
    slurm.before = lambda line: no if '"array"' in line else None
    desired_writes = [desired(f"u{i}", "allocation") for i in range(ALLOCATED_MAX + 1)]
    outcomes = await Writer(slurm).do(*desired_writes)
    assert all("v0.0.40" in one.why for one in outcomes if isinstance(one, Refused))
    assert [type(one) for one in outcomes] == [Refused] * len(desired_writes)
    assert len([line for line in slurm.asked if line.startswith("POST")]) == 1


async def test_a_refused_array_refuses_all_its_jobs() -> None:
    slurm = SlurmJobs(before=lambda line: BUSY if line.startswith("POST") else None)
    outcomes = await Writer(slurm).do(*map(desired, UIDS))
    assert [one.number for one in outcomes if isinstance(one, Refused)] == [2016] * 4
    assert len(slurm.asked) == 2


async def test_an_array_without_an_answer_is_an_attempt_of_each_workload_F2() -> None:
    slurm = SlurmJobs()
    slurm.after = lambda line: SlurmError("broken", "x") if line.startswith("POST") else None
    outcomes = await Writer(slurm).do(*map(desired, UIDS))
    assert [one.seen for one in outcomes] == [
        (Attempt(workload_id([uid]), slurm.now_s),) for uid in UIDS
    ]


async def test_a_task_is_cancelled_alone_by_the_id_of_the_array_P23() -> None:
    slurm, writer, jobs = await submitted()
    started = slurm.start(slurm.records[1], "n1", task=2)
    outcomes = await writer.do(cancel_of(jobs[0]), cancel_of(jobs[2]))
    assert [type(one) for one in outcomes] == [Done, Done]
    assert sent(slurm) == {"jobs": ["1_0", "1_2"], "job_name": name_of("u0")}
    assert slurm.records[1].waiting == [1, 3]
    assert started.state == ["CANCELLED"]


async def test_a_task_is_marked_alone_P17() -> None:
    """A waiting task is marked in the text of the array, a running one in its own."""
    slurm, writer, jobs = await submitted()
    started = slurm.start(slurm.records[1], "n1", task=2)
    outcomes = await writer.do(*(cancel_of(jobs[task], replaced=True) for task in (0, 2, 3)))
    assert [type(one) for one in outcomes] == [Done] * 3
    assert uids_in(slurm.records[1].comment) == ("-u0", "u1", "u2", "-u3")
    assert uids_in(started.comment) == ("u0", "u1", "-u2", "u3")


async def test_the_reader_reads_no_record_of_what_the_writer_has_just_done() -> None:
    slurm = SlurmJobs()
    writer = Writer(slurm)
    reader = await reader_of(slurm, job_owners=writer.job_owners)
    jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
    await writer.do(cancel_of(jobs[1]), cancel_of(jobs[3], replaced=True))
    seen = await reader.look()
    assert reader.read == []
    assert [set(seen[job.job_id].state) for job in jobs] == [
        {"PENDING"}, {"CANCELLED"}, {"PENDING"}, {"CANCELLED"},
    ]  # fmt: skip
    assert [seen[job.job_id].identity.replaced for job in jobs] == [False, False, False, True]


async def test_a_users_cancel_of_a_waiting_task_is_seen_without_a_read_P17() -> None:
    slurm = SlurmJobs()
    writer = Writer(slurm)
    reader = await reader_of(slurm, job_owners=writer.job_owners)
    await writer.do(*map(desired, UIDS))
    slurm.records[1].waiting.remove(2)
    seen = await reader.look()
    assert seen["1_2"].state == {"CANCELLED"}
    assert seen["1_1"].state == {"PENDING"}
    assert reader.read == []


async def test_a_task_is_not_updated_P20() -> None:
    """Slurm changes all waiting tasks, or none (9000)."""
    slurm, writer, (job, *_) = await submitted()
    update = UpdateJob(
        job_id=job.job_id, name=job.name, identity=job.identity, description=JobDescription()
    )
    await writer.one(update, Refused)
    assert not any(line.startswith("POST job/1") for line in slurm.asked)


async def test_new_exclusions_of_all_tasks_are_one_request_P7() -> None:
    slurm, writer, jobs = await submitted()
    slurm.calls.clear()
    updates = [
        UpdateJob(
            job_id=job.job_id, name=job.name, identity=replace(job.identity, hosts="h2"),
            description=JobDescription(), excluded=("n1", "n2"), change="exclusions",
        )
        for job in jobs
    ]  # fmt: skip
    outcomes = await writer.do(*updates)
    assert [type(one) for one in outcomes] == [Done] * len(UIDS)
    (post,) = [call for call in slurm.calls if call.method == "POST"]
    assert json.loads(post.body)["excluded_nodes"] == ["n[1-2]"]
    text = read_identity(slurm.records[1].comment)
    assert text is not None
    assert (text.uids, text.hosts) == (UIDS, "h2")
    (reported,) = [one for one in outcomes if one.seen]
    assert job_in(reported).identity.hosts == "h2"
    assert {writer.job_owners.ours[job.job_id].identity.hosts for job in jobs} == {"h2"}
    assert writer.job_owners.touched


@pytest.mark.parametrize(
    ("waiting", "state"), [([0, 1], {"PENDING"}), ([1], {"CANCELLED"}), ([], {"CANCELLED"})]
)
async def test_the_states_show_whether_a_task_waits(waiting: list[int], state: set[str]) -> None:
    slurm = SlurmJobs()
    slurm.add(Identity("c1", "s1", uids=UIDS)).waiting = waiting
    (outcome,) = await Writer(slurm).do(GetJob("1_0", 0.0))
    assert job_in(outcome).state == state


async def test_a_job_that_is_listed_but_hidden_by_PrivateData_is_not_gone() -> None:
    """Slurm answers 2017 to the read, and lists the state."""
    slurm = SlurmJobs()
    slurm.add(identity_of("u1"))
    slurm.before = lambda line: GONE if line == "GET job/1" else None
    outcome = await Writer(slurm).one(GetJob("1", 0.0), Unsure)
    assert outcome.seen == ()


async def test_a_task_is_found_by_the_number_that_a_prolog_knows() -> None:
    slurm = SlurmJobs()
    array = slurm.add(Identity("c1", "s1", uids=UIDS))
    slurm.start(array, "n1", task=3)
    (outcome,) = await Writer(slurm).do(GetJob("2", 0.0))
    assert (job_in(outcome).job_id, job_in(outcome).identity.uids) == ("1_3", ("u3",))


@pytest.mark.parametrize(("version", "read"), [("v0.0.45", "GET job/4"), ("v0.0.40", "GET job/1")])
async def test_a_started_task_is_read_without_its_array(version: str, read: str) -> None:
    """Hundreds of scripts start at once, and 64 records for each would be 500 kB."""
    slurm, tasks = SlurmJobs(version=version), range(64)
    array = slurm.add(Identity("c1", "s1", uids=tuple(f"u{i}" for i in tasks)))
    writer = Writer(slurm)
    identity = read_identity(array.comment)
    waiting = frozenset({"PENDING"})
    writer.job_owners.learn_array(JobRecord(number=1, array=1, identity=identity, state=waiting))
    for task in range(10):
        slurm.start(array, "n1", task=task)
    (outcome,) = await writer.do(GetJob("1_2", 0.0))
    assert (job_in(outcome).job_id, job_in(outcome).slurm_nodes) == ("1_2", ("n1",))
    assert slurm.asked == ["GET jobs/state/", read]
    (outcome,) = await writer.do(GetJob("1_20", 0.0))
    assert (job_in(outcome).job_id, job_in(outcome).slurm_nodes) == ("1_20", ())


async def test_the_oldest_submission_is_the_first_task_P26() -> None:
    """Slurm starts the tasks of an array in the order of their numbers."""
    writer = Writer(SlurmJobs())
    await writer.do(
        *(desired(uid, created_s=age) for uid, age in zip(UIDS, (3, 1, 4, 2), strict=True))
    )
    (array,) = writer.job_owners.arrays.values()
    assert array.identity is not None
    assert array.identity.uids == ("u1", "u3", "u0", "u2")
