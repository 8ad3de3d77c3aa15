"""Recorded bytes of both releases, decoded to jobs; the same bytes cut and changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.facts import Job
from sunk_sync.core.model.job_identity import Identity, spell_identity, workload_id
from sunk_sync.slurm.api.answers import Envelope, SlurmError, read_envelope
from sunk_sync.slurm.api.json_stream import Cutter
from sunk_sync.slurm.decode.jobs import (
    JobRecord,
    JobState,
    job_of,
    number_in,
    read_job,
    read_state,
    task_identity,
    with_replaced,
)
from tests.kit.slurm_client import kind_of
from tests.slurm.recorded import RELEASES, all_recorded, changed, recorded

CLUSTER = "11111111-2222-3333-4444-555555555555"
UIDS = tuple(f"uid-{10 + i}" for i in range(8))
ARRAY = Identity(CLUSTER, "default-slurm", uids=UIDS, digest="d1")


def records_in(body: bytes) -> list[JobRecord]:
    """Cut and decode the records as they are when they arrive."""
    cutter = Cutter("jobs")
    pieces = cutter.feed(body)
    last, envelope = cutter.finish()
    assert isinstance(read_envelope(envelope), Envelope)
    read = [read_job(piece) for piece in pieces + last]
    return [record for record in read if isinstance(record, JobRecord)]


def read_one(**fields: Any) -> JobRecord:
    record = read_job(json.dumps({"job_id": 7, **fields}).encode())
    assert isinstance(record, JobRecord)
    return record


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_allocation_is_a_job_on_its_nodes(release: str) -> None:
    (record,) = records_in(recorded(release, "job-allocated"))
    job = job_of(record)
    assert job == Job(
        job_id=str(record.number),
        name="k8s/ns/p1/aaaa0001",
        identity=Identity(
            CLUSTER, "default-slurm", workload_id(["uid-1"]), ("ns/p1/uid-1",), digest="d1"
        ),
        state=frozenset({"RUNNING"}),
        slurm_nodes=("n1", "n2", "n3"),
        submitted_at=record.submitted_at,
        cpus=4,
        memory_mb=100,
    )
    assert record.submitted_at > 1_700_000_000


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_array_is_a_job_for_each_pod(release: str) -> None:
    records = records_in(recorded(release, "job-array"))
    shared = [record for record in records if record.task is None]
    assert [record.number for record in shared] == [record.array for record in shared]
    jobs = {job.job_id: job for record in records if (job := job_of(record))}
    array = shared[0].number
    assert {job_id: (set(job.state), job.identity.uids) for job_id, job in jobs.items()} == {
        f"{array}_0": ({"RUNNING"}, ("uid-10",)),
        f"{array}_1": ({"CANCELLED"}, ("uid-11",)),
        f"{array}_2": ({"RUNNING"}, ("uid-12",)),
        f"{array}_3": ({"RUNNING"}, ("uid-13",)),
    }
    assert all(job.script and job.name == "k8s/ns/p10/bbbb0001" for job in jobs.values())
    waiting = job_of(shared[0], 4)
    assert waiting is not None
    assert (waiting.job_id, waiting.identity.workload) == (f"{array}_4", workload_id(["uid-14"]))
    assert waiting.state == {"PENDING"}


@pytest.mark.parametrize("release", RELEASES)
def test_a_task_read_by_its_own_number_is_the_same_job(release: str) -> None:
    """`GET /job/40` and `GET /job/34` both show task `34_3`."""
    (record,) = records_in(recorded(release, "job-task"))
    assert record in records_in(recorded(release, "job-array"))
    job = job_of(record)
    assert job is not None
    assert job.job_id == f"{record.array}_{record.task}"
    assert record.number != record.array


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_states_name_started_tasks_by_their_own_number(release: str) -> None:
    listing = json.loads(recorded(release, "jobs-state"))["jobs"]
    states = [read_state(json.dumps(one).encode()) for one in listing]
    listed = {one.listed_id: set(one.state) for one in states if isinstance(one, JobState)}
    assert len(listed) == len(states)
    (record,) = records_in(recorded(release, "job-task"))
    assert listed[f"{record.number}_{record.task}"] == {"RUNNING"}
    assert listed[f"{record.array}_4"] == {"PENDING"}
    assert f"{record.array}_7" not in listed


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "number", "made"),
    [
        ("error-allocate-busy", 2013, False),
        ("error-submit-partition", 2000, False),
        ("error-unknown-flag", 9207, True),
        ("error-update-task", 9000, False),
    ],
)
def test_an_error_keeps_the_id_of_the_job(release: str, name: str, number: int, made: bool) -> None:
    """An unknown flag is an error, but Slurm creates the job."""
    failure = read_envelope(recorded(release, name))
    assert isinstance(failure, SlurmError)
    assert (failure.kind, failure.error_number, failure.job_id > 0) == ("refused", number, made)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["job-submit", "job-allocate"])
def test_the_answer_to_a_submission_has_the_id_and_no_nodes(release: str, name: str) -> None:
    envelope = read_envelope(recorded(release, name))
    assert isinstance(envelope, Envelope)
    assert envelope.made > 0
    assert b"nodes" not in recorded(release, name)


@pytest.mark.parametrize("comment", ["", "k8s", '{"sunk-sync":3}', "{", '{"sunk-sync":{}}'])
def test_a_job_without_an_identity_is_foreign_whatever_its_name_P22(comment: str) -> None:
    assert job_of(read_one(name="k8s/ns/p/12345678", admin_comment=comment)) is None


def test_a_task_beyond_the_listed_uids_is_foreign() -> None:
    text = spell_identity(ARRAY)
    assert job_of(read_one(admin_comment=text, array_job_id=3, array_task_id=8)) is None
    assert job_of(read_one(admin_comment=text, array_job_id=3, array_task_id=7)) is not None
    assert job_of(read_one(admin_comment=text, array_job_id=3)) is None


def test_each_task_of_an_array_has_its_own_mark_P17() -> None:
    marked = with_replaced(with_replaced(ARRAY, frozenset({2})), frozenset({2, 4}))
    tasks = [task_identity(marked, task) for task in range(8)]
    assert [place for place, task in enumerate(tasks) if task and task.replaced] == [2, 4]
    assert [task.uids for task in tasks if task] == [(uid,) for uid in UIDS]
    assert [task.workload for task in tasks if task] == [workload_id([uid]) for uid in UIDS]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"job_state": "RUNNING"}, {"state": frozenset({"RUNNING"})}),
        (
            {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "n[1-2]"},
            {"slurm_nodes": ("n1", "n2")},
        ),
        ({"submit_time": 5, "preempt_time": {"set": True, "number": 9}}, {"preempted_at": 9}),
        ({"restart_cnt": 1}, {"requeued": True}),
        ({"cpus": {"set": True, "number": 8}, "nodes": "n[1-2]"}, {"cpus": 4}),
        ({"cpus": 8}, {"cpus": 8, "memory_mb": 0}),
        ({"memory_per_node": {"set": True, "number": 64}}, {"memory_mb": 64, "cpus": 0}),
        ({"memory_per_node": {"set": False, "number": 9}}, {"memory_mb": 0}),
        ({"submit_time": {"set": False, "number": 5}}, {"submitted_at": 0}),
        ({"state_reason": "None"}, {"reason": ""}),
        ({"state_reason": "Resources\n"}, {"reason": "Resources"}),
        ({"extra": "k8s: started"}, {"started": True}),
        ({"extra": "starting", "batch_flag": None, "name": None}, {"started": False}),
    ],
)
def test_old_and_new_forms_are_read_F4(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    record = read_one(**fields)
    assert {name: getattr(record, name) for name in expected} == expected


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b"null",
        b'{"job_id":"x"}',
        b'{"job_id":1,"nodes":"n["}',
        b'{"job_id":1,"nodes":3}',
    ],
)
def test_a_job_that_cannot_be_read_is_a_value_F4(record: bytes) -> None:
    """It must not be skipped: a job missing from a listing counts as gone."""
    assert kind_of(read_job(record)) == "garbage"


@pytest.mark.parametrize(
    ("listed", "number"),
    [
        *[(listed, "12") for listed in ("12", 12, "12_3", "12_*", "12+1", "12_[3-5]")],
        *[(listed, "") for listed in ("", "x", "_3", "-1", "²", "9" * 20)],
    ],
)
def test_ids_are_read_in_every_spelling_F4(listed: Any, number: str) -> None:
    state = read_state(json.dumps({"job_id": listed, "state": ["RUNNING"]}).encode())
    assert number_in(str(listed)) == number
    assert isinstance(state, JobState) == bool(number)


@given(st.sampled_from(all_recorded()), st.data())
def test_recorded_jobs_cut_and_changed_raise_nothing_F4(body: bytes, data: st.DataObject) -> None:
    for text in (changed(body, data), changed(body[body.find(b"[") + 1 :], data)):
        assert isinstance(read_job(text), JobRecord | SlurmError)
        assert isinstance(read_state(text), JobState | SlurmError)
