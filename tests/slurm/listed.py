"""Readers of jobs that have listed the jobs of their Slurm."""

from typing import Any

from sunk_sync.core.model.job_identity import Identity
from tests.kit.job_reader import Reader
from tests.slurm.recorded.job_world import JobWorld, Record, identity_of


async def reader_of(world: JobWorld, **given: Any) -> Reader:
    """Return a reader that has listed the jobs."""
    reader = Reader(world, **given)
    await reader.look()
    return reader


async def listed(
    identity: Identity | str = "", *, version: str = "v0.0.45", **fields: Any
) -> tuple[JobWorld, Record, Reader]:
    """Return Slurm, its job (or array) with this identity, and the reader; the default is u1's."""
    world = JobWorld(version=version)
    record = world.add(identity or identity_of("u1"), **fields)
    return world, record, await reader_of(world)
