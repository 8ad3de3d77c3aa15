"""Whether a prolog may requeue its job (L9)."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from sunk_sync.slurm.api.answers import UNREADABLE, SlurmError, decoded
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import get_job


class _WireRequeue(Struct, frozen=True):
    requeue: bool = False
    batch_flag: bool = False


_job = msgspec.json.Decoder(_WireRequeue).decode


async def is_requeueable(client: Slurm, job_id: str) -> bool:
    """Whether Slurm can requeue this batch job; False if the read fails.

    slurmctld would end any other job whose prolog fails.
    """
    found: list[_WireRequeue] = []

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        try:
            found.extend(decoded(_job, record) for record in records)
        except UNREADABLE as error:
            return SlurmError("garbage", str(error))
        return None

    answer = await client.read_records(get_job(job_id.partition("_")[0]), "jobs", take)
    if isinstance(answer, SlurmError) or not found:
        return False
    return all(job.requeue and job.batch_flag for job in found)
