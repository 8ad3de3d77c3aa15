"""Whose a job is, when somebody wrote into it: admin_comment, name, or both (P23)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.claims import Claim, Claims, Vouched
from sunk_sync.core.model.facts import Deleted, Job
from sunk_sync.core.model.job_identity import Identity, spell_identity
from sunk_sync.core.model.outcomes import Done
from sunk_sync.slurm.read.job_owners import JobOwners
from tests.kit.job_reader import ARRAY, Reader
from tests.kit.job_writer import Writer, cancel, sent
from tests.slurm.recorded.slurm_jobs import Record, SlurmJobs, identity_of, is_mine, name_of

OURS = identity_of("u1")
THEIRS = identity_of("u1", cluster="another")
COMMAND = spell_identity(OURS)
Change = Callable[[Record], None]


def placed(slurm: SlurmJobs, **fields: Any) -> Record:
    """Add a job that runs, with our texts."""
    given = {"name": name_of("u1"), "command": COMMAND, **fields}
    return slurm.start(slurm.add(given.pop("identity", OURS), **given), "n1")


def overwritten(record: Record) -> None:
    record.comment = "checked by the site"


def renamed(record: Record) -> None:
    record.name = "other"


def both(record: Record) -> None:
    overwritten(record)
    renamed(record)


def emptied(record: Record) -> None:
    record.comment = ""


def of_another_job(record: Record) -> None:
    """A mark that was on its way while slurmctld lost its state."""
    record.comment = spell_identity(replace(identity_of("u9"), replaced=True))


CHANGES = [overwritten, renamed, both, emptied, of_another_job]


def by_name(change: Change) -> str:
    return change.__name__


@pytest.mark.parametrize("change", CHANGES, ids=by_name)
async def test_a_changed_job_is_ours_in_every_process_P23(change: Change) -> None:
    slurm = SlurmJobs()
    record = placed(slurm)
    reader = Reader(slurm)
    await reader.look()
    change(record)
    record.state = ["SUSPENDED"]
    after_a_restart = Reader(slurm)
    for one in (reader, after_a_restart):
        (job,) = (await one.look()).values()
        assert (job.identity.workload, job.identity.pods) == (OURS.workload, OURS.pods)
        assert not job.identity.replaced
        assert job.overwritten == (change is not renamed)
        assert job.name == record.name


@pytest.mark.parametrize("change", [overwritten, emptied], ids=by_name)
async def test_a_job_without_a_command_line_is_known_by_number_submit_time_and_name_P23(
    change: Change,
) -> None:
    """Jobs of earlier versions have none."""
    slurm = SlurmJobs()
    record = placed(slurm, command="")
    reader = Reader(slurm)
    await reader.look()
    change(record)
    record.state = ["SUSPENDED"]
    (job,) = (await reader.look()).values()
    assert (job.identity, job.overwritten) == (OURS, True)


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"submitted": 2000, "restarts": 1}, True),
        ({"submitted": 2000}, False),
        ({"name": "another"}, False),
    ],
    ids=["requeued", "another submission", "another name"],
)
async def test_without_these_it_is_another_job_P23(fields: dict[str, Any], known: bool) -> None:
    slurm = SlurmJobs()
    record = placed(slurm, command="")
    reader = Reader(slurm)
    await reader.look()
    overwritten(record)
    record.state = ["SUSPENDED"]
    for name, value in fields.items():
        setattr(record, name, value)
    assert (await reader.poll.poll() is None) == known


@pytest.mark.parametrize(
    ("identity", "command", "ours"),
    [
        (OURS, COMMAND, True),
        ("", COMMAND, True),
        (OURS, "", True),
        (OURS, spell_identity(THEIRS), False),
        ("", spell_identity(THEIRS), False),
        (THEIRS, COMMAND, True),
        ("", "sleep 5", False),
        ("", COMMAND[:-3], False),
    ],
)
async def test_the_command_line_says_more_than_the_comment_P22_P23(
    identity: Identity | str, command: str, ours: bool
) -> None:
    slurm = SlurmJobs()
    placed(slurm, identity=identity, command=command)
    assert bool(await Reader(slurm).look()) == ours


async def test_a_mark_survives_the_text_of_a_site_P17() -> None:
    """The epilog of a site overwrites the mark of a job that sunk-sync gave up."""
    slurm = SlurmJobs()
    record = placed(slurm)
    writer = Writer(slurm)
    reader = Reader(slurm, job_owners=writer.job_owners)
    await reader.look()
    await writer.one(cancel("u1", replaced=True), Done)
    overwritten(record)
    record.state = ["CANCELLED"]
    for one in (reader, Reader(slurm)):
        (job,) = (await one.look()).values()
        assert job.identity.replaced


async def test_a_job_is_given_up_and_cancelled_whatever_was_written_P23() -> None:
    slurm = SlurmJobs()
    record = placed(slurm)
    writer = Writer(slurm)
    await Reader(slurm, job_owners=writer.job_owners).look()
    overwritten(record)
    await writer.one(cancel("u1", replaced=True), Done)
    assert sent(slurm)["jobs"] == ["1"]
    assert record.state == ["CANCELLED"]


@pytest.mark.parametrize("change", [overwritten, both], ids=by_name)
async def test_tasks_of_an_array_stay_ours_P23(change: Change) -> None:
    slurm = SlurmJobs()
    array = slurm.add(ARRAY, name=name_of("u1"), command=spell_identity(ARRAY))
    reader = Reader(slurm)
    await reader.look()
    task = slurm.start(array, "n1", task=1)
    for record in (array, task):
        change(record)
    for one in (reader, Reader(slurm)):
        jobs = await one.look()
        assert {job_id: job.identity.uids for job_id, job in jobs.items()} == {
            f"1_{task}": (f"u{task}",) for task in range(4)
        }
        assert jobs["1_1"].overwritten


def owners(answer: Vouched, *, operator: str = "") -> tuple[JobOwners, list[Claim]]:
    asked: list[Claim] = []

    def vouch(claim: Claim) -> Vouched:
        asked.append(claim)
        return answer

    return JobOwners(is_mine, operator=lambda: operator, vouch=vouch), asked


@pytest.mark.parametrize(
    ("user", "operator", "claims"),
    [(0, "", False), (64030, "slurm", False), (64030, "root", True), (1001, "", True)],
)
async def test_a_command_line_of_other_users_is_only_a_claim_P23(
    user: int, operator: str, claims: bool
) -> None:
    """Every user can submit a job with such a command line."""
    slurm = SlurmJobs()
    placed(slurm, identity="", user=user)
    job_owners, asked = owners("foreign", operator=operator)
    jobs = await Reader(slurm, job_owners=job_owners).look()
    assert bool(asked) == claims
    assert bool(jobs) != claims


@pytest.mark.parametrize(
    ("answer", "found", "open_"), [(OURS, 1, 0), ("foreign", 0, 0), ("unknown", 0, 1)]
)
async def test_the_pods_decide_about_a_claim_P23(answer: Vouched, found: int, open_: int) -> None:
    slurm = SlurmJobs()
    placed(slurm, identity="", command="")
    job_owners, _ = owners(answer)
    reader = Reader(slurm, job_owners=job_owners)
    assert len(await reader.look()) == found
    said = [one for one in reader.news if isinstance(one, Claims)]
    assert [len(one.claims) for one in said] == [open_] * open_


async def test_a_claim_is_asked_again_in_each_listing_P23() -> None:
    slurm = SlurmJobs()
    record = placed(slurm, identity="", command="")
    answers: dict[str, Vouched] = {"now": "unknown"}
    job_owners = JobOwners(is_mine, vouch=lambda _: answers["now"])
    reader = Reader(slurm, job_owners=job_owners)
    assert not await reader.look()
    answers["now"] = OURS
    (job,) = (await reader.look()).values()
    assert isinstance(job, Job)
    assert any(one == Claims(()) for one in reader.news)
    assert not any(isinstance(one, Deleted) for one in reader.news)
    record.state = ["COMPLETED"]
    assert len(await reader.look()) == 1


async def test_an_ended_job_is_no_open_claim_P23() -> None:
    slurm = SlurmJobs()
    record = placed(slurm, identity="", command="")
    reader = Reader(slurm)
    await reader.look()
    assert any(isinstance(one, Claims) and one.claims for one in reader.news)
    record.state = ["COMPLETED"]
    await reader.look()
    assert Claims(()) in reader.news
