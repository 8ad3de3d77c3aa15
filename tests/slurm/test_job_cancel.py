"""Cancels name the id and the name; a job that sunk-sync replaces is marked first."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Deleted
from sunk_sync.core.model.job_identity import read_identity, spell_identity
from sunk_sync.core.model.outcomes import Done, Refused, Unsure
from sunk_sync.core.rules.workload.release import cancel as cancel_of
from sunk_sync.slurm.api.answers import SlurmError
from tests.kit.job_writer import (
    BUSY,
    RUNNING,
    UIDS,
    Writer,
    cancel,
    desired,
    job_in,
    refusing,
    sent,
    updating,
)
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, name_of, with_job


async def test_a_cancel_names_id_and_name_and_reads_nothing_before_P23() -> None:
    slurm = with_job()
    assert await Writer(slurm).do(cancel("u1")) == [Done(cancel("u1"))]
    assert [call.method for call in slurm.calls] == ["DELETE"]
    assert slurm.calls[0].path == "jobs/"
    assert sent(slurm) == {"jobs": ["1"], "job_name": name_of("u1")}
    assert slurm.records[1].state == ["CANCELLED"]


async def test_each_job_name_has_a_cancel_of_its_own_P23() -> None:
    slurm = SlurmJobs()
    for uid in ("u1", "u2"):
        slurm.add(identity_of(uid), name=name_of(uid))
    outcomes = await Writer(slurm).do(cancel("u1", "1"), cancel("u2", "2"))
    assert [type(one) for one in outcomes] == [Done, Done]
    assert [record.state for record in slurm.records.values()] == [["CANCELLED"]] * 2


@pytest.mark.parametrize("begins", ["GET", "DELETE"])
async def test_a_cancel_of_a_waiting_job_spares_one_that_has_started_P19(begins: str) -> None:
    slurm = with_job()
    record = slurm.records[1]

    def start(line: str) -> None:
        if line.startswith(begins):
            slurm.start(record, "n1")

    slurm.before = start
    outcome = await Writer(slurm).one(cancel("u1", replaced=True, waiting=True), Done)
    assert job_in(outcome).state == RUNNING
    assert job_in(outcome).identity.replaced == (begins == "DELETE")
    assert record.state == ["RUNNING"]


async def test_cancels_of_waiting_jobs_are_requests_of_their_own_P19() -> None:
    """The filter by state holds for the whole request."""
    slurm = SlurmJobs()
    writer = Writer(slurm)
    jobs = [job_in(one) for one in await writer.do(*map(desired, UIDS))]
    started = slurm.start(slurm.records[1], "n1", task=2)
    ends = [cancel_of(jobs[0], waiting=True), cancel_of(jobs[2])]
    assert [type(one) for one in await writer.do(*ends)] == [Done, Done]
    assert [sent(slurm, place) for place in (-2, -1)] == [
        {"jobs": ["1_0"], "job_name": name_of("u0"), "job_state": ["PENDING"]},
        {"jobs": ["1_2"], "job_name": name_of("u0")},
    ]
    assert slurm.records[1].waiting == [1, 3]
    assert started.state == ["CANCELLED"]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETED", "PREEMPTED"])
async def test_a_cancel_of_an_ended_job_shows_its_state(state: str, replaced: bool) -> None:
    slurm = with_job(state=state)
    (outcome,) = await Writer(slurm).do(cancel("u1", replaced=replaced))
    assert not any(line.startswith("POST") for line in slurm.asked)
    assert isinstance(outcome, Done)
    assert job_in(outcome).state == {state}


@pytest.mark.parametrize("comment", ["", identity_of("u1", cluster="c2")])
async def test_a_foreign_job_under_the_id_is_not_cancelled_P23(comment: Any) -> None:
    slurm = SlurmJobs()
    slurm.add(comment, "RUNNING", name="theirs")
    for replaced in (False, True):
        outcome = await Writer(slurm).one(cancel("u1", replaced=replaced), Done)
        (seen,) = outcome.seen
        assert isinstance(seen, Deleted)
        assert (seen.source, seen.name) == ("jobs", "1")
        assert slurm.records[1].state == ["RUNNING"]
    assert not any(line.startswith("POST") for line in slurm.asked)


async def test_another_job_of_ours_under_the_id_is_not_cancelled_P23() -> None:
    slurm = with_job("u2", "RUNNING")
    for replaced in (False, True):
        await Writer(slurm).one(cancel("u1", replaced=replaced), Done)
        assert slurm.records[1].state == ["RUNNING"]


async def test_a_cancel_of_a_forgotten_job_is_done_and_shows_that_it_is_gone() -> None:
    for replaced in (False, True):
        outcome = await Writer(SlurmJobs()).one(cancel("u1", replaced=replaced), Done)
        (seen,) = outcome.seen
        assert isinstance(seen, Deleted)
        assert 100 <= seen.order <= 102


async def test_a_replaced_job_is_read_then_marked_then_cancelled_P17() -> None:
    slurm = with_job()
    stop = SlurmError("timeout", "x")
    slurm.before = lambda line: stop if line.startswith("DELETE") else None
    writer = Writer(slurm)
    outcome = await writer.one(cancel("u1", replaced=True), Unsure)
    assert job_in(outcome).identity.replaced, "its Pod was bound to it in seed 60133"
    assert [call.method for call in slurm.calls] == ["GET", "POST", "DELETE"]
    assert read_identity(slurm.records[1].comment) == replace(identity_of("u1"), replaced=True)
    slurm.before = lambda _: None
    assert [type(one) for one in await writer.do(cancel("u1", replaced=True))] == [Done]
    assert [call.method for call in slurm.calls[3:]] == ["GET", "DELETE"]
    assert slurm.records[1].state == ["CANCELLED"]
    assert writer.job_owners.ours["1"].identity.replaced


async def test_after_a_slow_mark_no_cancel_is_sent_P17() -> None:
    """In seed 60328 the Pod had been bound to the job by then."""
    slurm = with_job()

    def slowly(line: str) -> None:
        slurm.now_s += 6.0 * line.startswith("POST")

    slurm.before = slowly
    writer = Writer(slurm)
    outcome = await writer.one(cancel("u1", replaced=True), Unsure)
    assert job_in(outcome).identity.replaced
    assert slurm.records[1].state == ["PENDING"]
    assert [type(one) for one in await writer.do(cancel("u1", replaced=True))] == [Done]


@pytest.mark.parametrize("wanted", ["mark", "update"])
async def test_a_slow_write_does_not_undo_a_newer_read_P18(wanted: str) -> None:
    """The job starts during the write; in seed 402014 it still counted as pending."""
    slurm = with_job()
    writer = Writer(slurm)

    def starts(line: str) -> None:
        if line.startswith("POST"):
            slurm.now_s += 6.0
            running = {"state": frozenset({"RUNNING"}), "slurm_nodes": ("n1",)}
            writer.job_owners.learn(
                replace(writer.job_owners.ours["1"], **running), asked_s=slurm.now_s
            )

    slurm.after = starts
    (outcome,) = await writer.do(cancel("u1", replaced=True) if wanted == "mark" else updating())
    for reported in (job_in(outcome), writer.job_owners.ours["1"]):
        assert reported.state == {"RUNNING"}
        assert reported.slurm_nodes == ("n1",)
        assert (reported.identity.replaced, reported.identity.digest) == (
            (True, "d1") if wanted == "mark" else (False, "d2")
        )


async def test_a_job_that_could_not_be_marked_is_not_cancelled_P17() -> None:
    """A cancel by a user and one by sunk-sync would look the same."""
    slurm = with_job()
    for failure, kind in ((SlurmError("timeout", "x"), Unsure), (BUSY, Refused)):
        slurm.before = refusing(failure)
        (outcome,) = await Writer(slurm).do(cancel("u1", replaced=True))
        assert isinstance(outcome, kind)
    assert slurm.records[1].state == ["PENDING"]


async def test_the_text_of_a_replaced_identity_is_read_back() -> None:
    identity = replace(identity_of("u1"), replaced=True)
    assert read_identity(spell_identity(identity)) == identity
