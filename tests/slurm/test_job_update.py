"""Updates of waiting jobs, and reads of single jobs by the writer."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, Drain, GetJob
from sunk_sync.core.model.facts import Deleted, SubmitRefused
from sunk_sync.core.model.job_identity import read_identity
from sunk_sync.core.model.outcomes import Done, Refused, Unsure, shown_by
from sunk_sync.slurm.api.answers import SlurmError
from tests.kit.job_writer import Writer, cancel, desired, job_in, refusing, sent, updating
from tests.slurm.recorded.job_world import JobWorld, identity_of, name_of


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


async def test_every_action_has_its_outcome_in_its_place() -> None:
    """Also an action that is not on a job."""
    world = JobWorld()
    actions: list[Action] = [GetJob("9", 0), Drain("n1", "x"), desired("u1"), cancel("u2", "9")]
    outcomes = await Writer(world).do(*actions, desired("u3"))
    assert [one.action for one in outcomes] == [*actions, desired("u3")]
    assert isinstance(outcomes[1], Refused)
