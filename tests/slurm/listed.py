"""Readers of jobs that have listed the jobs of their Slurm."""

from typing import Any

from sunk_sync.core.model.job_identity import Identity
from tests.kit.job_reader import Reader
from tests.slurm.recorded.slurm_jobs import Record, SlurmJobs, identity_of


async def reader_of(slurm: SlurmJobs, **given: Any) -> Reader:
    """Return a reader that has listed the jobs."""
    reader = Reader(slurm, **given)
    await reader.look()
    return reader


async def listed(
    identity: Identity | str = "", *, version: str = "v0.0.45", **fields: Any
) -> tuple[SlurmJobs, Record, Reader]:
    """Return Slurm, its job (or array) with this identity, and the reader; the default is u1's."""
    slurm = SlurmJobs(version=version)
    record = slurm.add(identity or identity_of("u1"), **fields)
    return slurm, record, await reader_of(slurm)
