"""Findings about jobs that look like those of sunk-sync, while their texts do not say whose."""

from collections.abc import Callable, Iterator, Sequence

from sunk_sync.cli.findings import Finding, ok, some_of, warn
from sunk_sync.core.model.job_identity import Identity, is_named
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.job_states import LIVE
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import list_jobs
from sunk_sync.slurm.decode.jobs import JobRecord, read_job

_TOPIC = "jobs"


async def read_own_jobs(client: Slurm) -> Sequence[JobRecord] | SlurmError:
    """List the live jobs that have an identity or a name of sunk-sync."""
    found: list[JobRecord] = []

    async def take(records: Sequence[bytes], _asked_s: float) -> SlurmError | None:
        for one in records:
            record = read_job(one)
            if isinstance(record, SlurmError):
                return record
            texts = record.given or record.identity or is_named(record.name)
            if texts and not LIVE.isdisjoint(record.state):
                found.append(record)
        return None

    answer = await client.read_records(list_jobs(), "jobs", take)
    return answer if isinstance(answer, SlurmError) else found


def job_findings(
    jobs: Sequence[JobRecord] | SlurmError, *, mine: Callable[[Identity], bool]
) -> Iterator[Finding]:
    """Name the jobs whose texts are lost, in whole or in part (P23)."""
    if isinstance(jobs, SlurmError):
        yield warn(_TOPIC, f"cannot be listed: {jobs}", "see the log of slurmrestd")
        return
    silent = [job for job in jobs if job.given is None and job.identity is None]
    ours = [job for job in jobs if any(one and mine(one) for one in (job.given, job.identity))]
    overwritten = [job for job in ours if job.identity is None]
    if silent:
        cure = "scancel them if their Pods are gone; kubectl sunk diff names those without a Pod"
        yield warn(_TOPIC, f"no text says whose they are, {some_of(_names(silent))}", cure)
    if overwritten:
        cure = "nothing is lost; let prologs and people write into comment instead"
        yield warn(_TOPIC, f"admin_comment overwritten, {some_of(_names(overwritten))}", cure)
    if ours and not (silent or overwritten):
        yield ok(_TOPIC, f"{counted(len(ours), 'live job')} of sunk-sync, all texts are there")


def _names(jobs: Sequence[JobRecord]) -> Sequence[str]:
    return [f"{job.number} {job.name}" for job in jobs]
