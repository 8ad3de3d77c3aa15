"""The requests of a submission, and the outcome of each answer."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import GetJob
from sunk_sync.core.model.facts import Attempt, Job, Observed
from sunk_sync.core.model.job_identity import Identity, read_identity
from sunk_sync.core.model.outcomes import Done, Refused, Unsure
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import BULK_MAX
from sunk_sync.slurm.api.requests import PING, SlurmCall
from sunk_sync.slurm.write.concurrency import Throttle
from tests.kit.job_writer import (
    BUSY,
    RUNNING,
    SCRIPT,
    UIDS,
    Kind,
    Writer,
    cancel,
    desired,
    job_in,
    refusing,
    sent,
)
from tests.slurm.recorded.slurm_jobs import GONE, SlurmJobs, identity_of, with_job


def known_job(identity: Identity, state: str) -> Job:
    """Return job 7 as a listing has shown it."""
    return Job(job_id="7", name="x", identity=identity, state=frozenset({state}))


async def test_a_submitted_script_is_reported_as_pending_at_once() -> None:
    slurm = SlurmJobs()
    writer = Writer(slurm)
    (outcome,) = await writer.do(desired("u1"))
    assert outcome == Done(desired("u1"), outcome.seen)
    job = job_in(outcome)
    assert (job.job_id, job.identity, job.script) == ("1", identity_of("u1"), True)
    assert job.state == {"PENDING"}
    assert [line.split(" {")[0] for line in slurm.asked] == ["GET ping/", "POST job/submit"]
    body = sent(slurm)
    assert body["script"] == SCRIPT
    assert read_identity(body["job"]["admin_comment"]) == identity_of("u1")
    assert writer.job_owners.ours == {"1": job}
    await writer.do(desired("u2"))
    assert len(slurm.asked) == 3


async def test_a_late_answer_shows_the_job_as_a_listing_has_read_it_F2() -> None:
    """In seed 60182 the workload was submitted again."""
    slurm = SlurmJobs()
    writer = Writer(slurm)
    (first,) = await writer.do(desired("u1"))
    known = replace(job_in(first), state=RUNNING)
    writer.job_owners.learn(known)
    slurm.next_id = 1
    (late,) = await writer.do(desired("u1"))
    assert job_in(late) == known


async def test_a_late_answer_hides_no_newer_job_F2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm lost its state; in seed 214976 the newer job counted as gone, and was repeated."""
    slurm = SlurmJobs()
    writer = Writer(slurm)
    at_once, made, released = slurm.call, asyncio.Event(), asyncio.Event()

    async def keeps_one(call: SlurmCall) -> SlurmResponse | SlurmError:
        answer = await at_once(call)
        if b"u1" in (call.body or b""):
            made.set()
            await released.wait()
        return answer

    monkeypatch.setattr(slurm, "call", keeps_one)
    first = asyncio.ensure_future(writer.do(desired("u1")))
    await made.wait()
    slurm.next_id = 1
    (second,) = await writer.do(desired("u2"))
    released.set()
    (late,) = await first
    attempt = Attempt(identity_of("u1").workload, slurm.now_s)
    assert isinstance(late, Unsure)
    assert late.seen == (attempt,)
    assert writer.job_owners.ours == {"1": job_in(second)}


async def test_an_allocation_is_read_for_its_nodes_P11a() -> None:
    slurm = SlurmJobs()
    (outcome,) = await Writer(slurm).do(desired("u1", "allocation"))
    assert job_in(outcome).slurm_nodes == ("n1",)
    assert job_in(outcome).state == {"RUNNING"}
    assert sent(slurm, 1)["job"]["immediate"] is True
    assert [line.split(" {")[0] for line in slurm.asked[1:]] == ["POST job/allocate", "GET job/1"]


async def test_an_allocation_whose_read_failed_is_reported_as_running_without_nodes() -> None:
    """The reader of jobs then reads it (test_job_poll_timing)."""
    slurm = SlurmJobs()
    slurm.before = lambda line: GONE if line.startswith("GET job/") else None
    writer = Writer(slurm)
    outcome = await writer.one(desired("u1", "allocation"), Done)
    assert "RUNNING" in job_in(outcome).state
    assert job_in(outcome).slurm_nodes == ()


@pytest.mark.parametrize("number", [2013, 2014, 2015, 2016, 2068, 2000, 2045])
async def test_a_refusal_carries_the_number_and_text_of_slurm_P10(number: int) -> None:
    slurm = SlurmJobs()
    slurm.before = refusing(SlurmError("refused", f"No ({number})", number))
    (outcome,) = await Writer(slurm).do(desired("u1", "allocation"))
    assert outcome == Refused(desired("u1", "allocation"), f"refused: No ({number})", number=number)


async def test_the_version_is_asked_for_once_and_again_after_a_broken_call() -> None:
    slurm = SlurmJobs(before=refusing(BUSY))
    writer = Writer(slurm)
    await writer.do(*(desired(f"u{i}", excluded=(f"n{i}",)) for i in range(5)))
    await writer.do(desired("u9"))
    assert slurm.asked.count("GET ping/") == 1
    slurm.before = refusing(SlurmError("broken", "x"))
    await writer.do(desired("u9"))
    await writer.do(desired("u9"))
    assert slurm.asked.count("GET ping/") == 2


async def test_a_job_created_despite_an_error_is_reported() -> None:
    slurm = SlurmJobs()
    slurm.after = refusing(SlurmError("refused", 'Unknown flag "NOPE" (9207)', 9207, job_id=1))
    outcome = await Writer(slurm).one(desired("u1"), Done)
    assert job_in(outcome).job_id == "1"


@pytest.mark.parametrize("number", [-1, 11])
async def test_a_number_of_slurmctld_is_an_answer_even_without_a_reason_P10(number: int) -> None:
    """job_submit.lua returns ERROR; MaxJobCount in 24.11. A listing may fail so for a moment."""
    slurm = SlurmJobs()
    slurm.after = refusing(SlurmError("controller_down", "Unspecified error", number))
    outcome = await Writer(slurm).one(desired("u1"), Refused)
    assert (outcome.number, outcome.seen) == (number, ())
    assert outcome.why == "refused: Unspecified error"


@pytest.mark.parametrize("kind", ["timeout", "broken", "controller_down", "garbage", "too_large"])
async def test_a_submission_without_an_answer_is_an_attempt_F2(kind: Any) -> None:
    slurm = SlurmJobs()
    slurm.after = refusing(SlurmError(kind, "x"))
    outcome = await Writer(slurm).one(desired("u1"), Unsure)
    assert outcome.seen == (Attempt(identity_of("u1").workload, slurm.now_s),)


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
async def test_a_submission_that_never_reached_slurm_is_no_attempt_F2(failure: SlurmError) -> None:
    slurm = SlurmJobs(before=lambda _: failure)
    outcome = await Writer(slurm).one(desired("u1"), Unsure)
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
async def test_a_submission_whose_job_was_read_meanwhile_is_not_sent_F2(
    monkeypatch: pytest.MonkeyPatch, learnt: Job, sent: bool
) -> None:
    """An earlier submission had no answer, and a listing showed its job (seeds 520287, 541931).

    The listing had not ended, and the next attempt made a second job (seed 9530254).
    """
    slurm = SlurmJobs()
    writer, at_once = Writer(slurm), slurm.call

    async def meanwhile(call: SlurmCall) -> SlurmResponse | SlurmError:
        if call is PING:
            writer.job_owners.learn(learnt)
        return await at_once(call)

    monkeypatch.setattr(slurm, "call", meanwhile)
    (outcome,) = await writer.do(desired("u1"))
    assert isinstance(outcome, Done) == sent
    assert (learnt in [one.row for one in outcome.seen if isinstance(one, Observed)]) is not sent
    assert len(slurm.asked) == 1 + sent
    (again,) = await writer.do(desired("u1"))
    assert isinstance(again, Done)


async def test_a_submission_no_longer_wanted_when_its_turn_comes_is_not_sent_P13() -> None:
    """Its Pod was deleted or edited while Slurm was slow."""
    slurm = SlurmJobs()
    writer = Writer(slurm)
    desired_writes = [desired(uid) for uid in UIDS]
    writer.is_wanted = lambda one: one != desired_writes[1]
    outcomes = await writer.do(*desired_writes)
    assert [isinstance(one, Done) for one in outcomes] == [True, False, True, True]
    assert outcomes[1] == Unsure(
        desired_writes[1], "unwanted: not sent: its job has been read, or is no longer wanted"
    )
    assert sent(slurm)["job"]["array"] == "0-2"
    assert [job_in(one).identity.workload for one in outcomes if isinstance(one, Done)] == [
        one.identity.workload for one in desired_writes if one != desired_writes[1]
    ]


async def test_an_unsent_submission_leaves_the_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[float] = []
    monkeypatch.setattr(Throttle, "note", lambda _, took_s: noted.append(took_s))
    writer, stands = Writer(SlurmJobs()), iter([True, False, True, True])
    writer.is_wanted = lambda _: next(stands)
    (unsent,) = await writer.do(desired("u1"))
    assert isinstance(unsent, Unsure)
    assert noted == []
    (made,) = await writer.do(desired("u1"))
    assert isinstance(made, Done)
    assert len(noted) == 1


async def test_after_a_refused_array_a_job_read_meanwhile_is_not_sent_F2() -> None:
    slurm = SlurmJobs()
    writer = Writer(slurm)
    *_, last = desired_writes = [desired(uid) for uid in UIDS]

    def before(line: str) -> SlurmError | None:
        if '"array"' in line:
            return SlurmError("refused", "too many (2050)", 2050)
        if line.startswith("POST"):
            writer.job_owners.learn(known_job(last.identity, "PENDING"))
        return None

    slurm.before = before
    outcomes = await writer.do(*desired_writes)
    assert [isinstance(one, Done) for one in outcomes] == [True, True, True, False]


@pytest.mark.parametrize(("version", "kind"), [("v0.0.42", "external"), ("v0.0.40", "allocation")])
async def test_a_kind_that_the_version_does_not_know_is_not_sent(version: str, kind: Kind) -> None:
    slurm = SlurmJobs(version=version)
    outcome = await Writer(slurm).one(desired("u1", kind), Refused)
    assert version in outcome.why
    assert slurm.asked == ["GET ping/"]


async def test_a_new_allocation_that_only_a_listing_could_read_is_reported_as_listed_P18() -> None:
    """In seed 450113 its Pod was bound and then counted as requeued."""
    slurm = SlurmJobs()
    writer = Writer(slurm)

    def before(line: str) -> SlurmError | None:
        if not line.startswith("GET job/"):
            return None
        listed = replace(writer.job_owners.ours["1"], state=RUNNING, slurm_nodes=("n1",))
        writer.job_owners.learn(listed, asked_s=slurm.now_s)
        return SlurmError("timeout", "no answer")

    slurm.before = before
    outcome = await writer.one(desired("u1", "allocation"), Done)
    assert job_in(outcome).slurm_nodes == ("n1",)


async def test_submissions_leave_two_connections_free_for_drains_and_cancels() -> None:
    slurm = with_job()
    writes = (desired("u2"), desired("u3", "allocation"), cancel("u1"), GetJob("1", 0))
    await Writer(slurm).do(*writes)
    bulk = {call.path: call.bulk for call in slurm.calls if call.path != "ping/"}
    assert bulk == {
        "job/submit": True,
        "job/allocate": True,
        "jobs/": False,
        "job/1": False,
        "job/3": False,
    }
    assert BULK_MAX == 6
