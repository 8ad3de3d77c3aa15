"""Updates of waiting jobs, and reads of single jobs by the writer."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, Drain, GetJob
from sunk_sync.core.model.facts import Deleted
from sunk_sync.core.model.job_identity import read_identity
from sunk_sync.core.model.outcomes import Done, Refused, Unsure, shown_by
from sunk_sync.slurm.api.answers import SlurmError
from tests.kit.job_writer import Writer, cancel, desired, job_in, refusing, sent, updating
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, with_job


@pytest.mark.parametrize("action", [updating(), cancel("u1", replaced=True)])
async def test_no_write_follows_a_slow_read_P23(action: Action) -> None:
    """In seed 554577 slurmctld lost its state, and a foreign job of that number was cancelled."""
    slurm = with_job(takes_s=6.0)
    writer = Writer(slurm)
    await writer.one(action, Unsure)
    assert [call.method for call in slurm.calls] == ["GET"]
    slurm.takes_s = 1.0
    assert [type(one) for one in await writer.do(action)] == [Done]


async def test_an_update_writes_the_description_then_the_digest_P20() -> None:
    """A refused update may have been done in part."""
    slurm = with_job()
    outcome = await Writer(slurm).one(updating(), Done)
    assert job_in(outcome).identity.digest == "d2"
    assert [call.method for call in slurm.calls] == ["GET", "POST", "POST"]
    assert sent(slurm, 1)["comment"] == "hello"
    assert "admin_comment" not in sent(slurm, 1)
    assert read_identity(slurm.records[1].comment) == updating().identity


async def test_new_exclusions_and_their_identity_are_one_request_P7() -> None:
    """A refused request changes neither."""
    slurm = with_job(identity=replace(identity_of("u1"), digest="d1", replaced=True))
    wanted = replace(
        updating(), identity=replace(identity_of("u1"), hosts="h2"), change="exclusions"
    )
    outcome = await Writer(slurm).one(replace(wanted, excluded=("n1", "n2")), Done)
    assert [call.method for call in slurm.calls] == ["GET", "POST"]
    assert sent(slurm, 1)["excluded_nodes"] == ["n[1-2]"]
    assert set(sent(slurm, 1)) == {"excluded_nodes", "admin_comment"}
    reported = read_identity(slurm.records[1].comment)
    assert reported == job_in(outcome).identity
    assert reported == replace(identity_of("u1"), digest="d1", replaced=True, hosts="h2")


async def test_a_refusal_of_new_exclusions_shows_only_the_job_P7() -> None:
    """Slurm has forgotten an excluded node (2018): the job is kept as it is."""
    slurm = with_job()
    slurm.before = refusing(SlurmError("refused", "Invalid node name specified (2018)", 2018))
    wanted = replace(updating(), excluded=("n9",), change="exclusions")
    outcome = await Writer(slurm).one(wanted, Refused)
    assert job_in(outcome).identity == identity_of("u1")
    assert shown_by(outcome, asked_s=0.0) == outcome.seen


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED"])
async def test_a_job_that_does_not_wait_is_not_updated_P20(state: str) -> None:
    slurm = with_job(state=state)
    (outcome,) = await Writer(slurm).do(updating())
    assert job_in(outcome).state == {state}
    assert [call.method for call in slurm.calls] == ["GET"]


async def test_a_refused_update_carries_the_error_number_and_the_old_digest_P20() -> None:
    slurm = with_job()
    slurm.before = refusing(SlurmError("refused", "Invalid feature specification (2029)", 2029))
    outcome = await Writer(slurm).one(updating(), Refused)
    assert outcome.number == 2029
    assert job_in(outcome).identity == identity_of("u1")


async def test_a_site_may_refuse_an_update_without_a_reason_P20() -> None:
    """`slurm_job_modify` of job_submit.lua returns ERROR."""
    slurm = with_job()
    slurm.before = refusing(SlurmError("controller_down", "Unspecified error (-1)", -1))
    outcome = await Writer(slurm).one(updating(), Refused)
    assert (outcome.number, outcome.why) == (-1, "refused: Unspecified error (-1)")


async def test_an_update_never_reaches_another_job_P20() -> None:
    slurm = with_job("u2")
    outcome = await Writer(slurm).one(updating(), Done)
    assert isinstance(outcome.seen[0], Deleted)
    assert [call.method for call in slurm.calls] == ["GET"]


async def test_a_read_shows_a_job_of_ours_or_its_absence() -> None:
    """Only error 2017 and another identity prove an absence."""
    slurm = SlurmJobs()
    slurm.start(slurm.add(identity_of("u1")), "n[1-2]")
    slurm.add("")
    writer = Writer(slurm)
    one, two, three = await writer.do(GetJob("1", 0), GetJob("2", 0), GetJob("3", 0))
    assert job_in(one).slurm_nodes == ("n1", "n2")
    assert [type(outcome.seen[0]) for outcome in (two, three)] == [Deleted, Deleted]
    slurm.before = lambda _: SlurmError("controller_down", "x", 1800)
    await writer.one(GetJob("1", slurm.now_s), Unsure)
    await writer.one(GetJob("../nodes", 0), Refused)


async def test_outcomes_stand_in_the_order_of_the_actions() -> None:
    slurm = SlurmJobs()
    actions: list[Action] = [GetJob("9", 0), Drain("n1", "x"), desired("u1"), cancel("u2", "9")]
    outcomes = await Writer(slurm).do(*actions, desired("u3"))
    assert [one.action for one in outcomes] == [*actions, desired("u3")]
    assert isinstance(outcomes[1], Refused)
