"""List all jobs once, for a write that depends on them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sunk_sync.core.translate.hostlist import HostlistError
from sunk_sync.slurm.api.answers import UNREADABLE, SlurmError, decoded, printable
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import list_jobs

Job = TypeVar("Job")


async def read_all_jobs(
    client: Slurm, *, decode: Callable[[bytes], Job], note: Callable[[Job], None]
) -> SlurmError | None:
    """Pass each job to `note`. One unreadable job fails the whole listing: it may be the one that
    matters.
    """

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        try:
            for record in records:
                note(decoded(decode, record))
        except (*UNREADABLE, HostlistError) as error:
            return SlurmError("garbage", printable(f"a job is unreadable: {error}"))
        return None

    answer = await client.read_records(list_jobs(), "jobs", take)
    return answer if isinstance(answer, SlurmError) else None
