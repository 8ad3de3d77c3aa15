"""What doctor says of jobs whose texts somebody overwrote: row P23."""

import pytest

from sunk_sync.cli.job_texts import job_findings, read_own_jobs
from sunk_sync.core.model.job_identity import spell_identity
from sunk_sync.slurm.api.answers import SlurmError
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, is_mine, name_of

OURS = identity_of("u1")
COMMAND = spell_identity(OURS)


@pytest.mark.parametrize(
    ("comment", "command", "name", "said"),
    [
        (COMMAND, COMMAND, name_of("u1"), ("ok", "1 live job of sunk-sync, all texts")),
        ("seen", COMMAND, name_of("u1"), ("warn", "admin_comment overwritten, 1: 1 k8s/ns/u1/")),
        ("seen", "", name_of("u1"), ("warn", "no text says whose they are, 1: 1 k8s/ns/u1/")),
        ("seen", "", "theirs", None),
        (spell_identity(identity_of("u1", cluster="c2")), "", name_of("u1"), None),
    ],
)
async def test_doctor_names_jobs_without_their_texts_P23(
    comment: str, command: str, name: str, said: tuple[str, str] | None
) -> None:
    slurm = SlurmJobs()
    slurm.add(comment, name=name, command=command)
    slurm.add("", name=name, state="COMPLETED")
    findings = [*job_findings(await read_own_jobs(slurm), mine=is_mine)]
    assert [one.level for one in findings] == ([said[0]] if said else [])
    assert not said or findings[0].text.startswith(said[1])


def test_doctor_says_when_jobs_cannot_be_listed_P23() -> None:
    (finding,) = job_findings(SlurmError("timeout", "away"), mine=is_mine)
    assert (finding.level, "away" in finding.text) == ("warn", True)
