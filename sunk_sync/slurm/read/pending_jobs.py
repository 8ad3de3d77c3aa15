"""Count the jobs that wait in Slurm, for autoscalers of NodeSets.

A listing of all jobs costs 8 kB a job, and half a second for 1,000. It is not requested with
update_time, which counts seconds: a job submitted in the second of the last listing would stay
unseen until something else changes, and on a cluster without nodes nothing does.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from sunk_sync.core.model.pending_jobs import PendingJobs
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import list_jobs, list_partitions
from sunk_sync.slurm.decode.pending_jobs import PendingSums, read_partitions
from sunk_sync.slurm.read.pacing import Time

SHARE: Final = 20
"""The listing takes at most this part of the time: with 10,000 jobs it comes every two minutes."""
TOO_OLD_S: Final = 120.0
"""After this time without an answer there are no numbers: an autoscaler must not act on them."""
AT_ONCE: Final = 500
"""Records between two pauses: the loop must not stand still."""

Show = Callable[[PendingJobs], None]


class PendingJobsPoll:
    def __init__(self, client: Slurm, show: Show, *, interval_s: float, time: Time) -> None:
        self._client = client
        self._show = show
        self._interval_s = interval_s
        self._time = time
        self._read_s = time.clock()

    async def run(self) -> None:
        while True:
            began_s = self._time.clock()
            worked = await self.poll()
            took_s = self._time.clock() - began_s
            share = SHARE if worked else 1
            await self._time.sleep(max(self._interval_s, share * took_s))

    async def poll(self) -> bool:
        """List all jobs and show the numbers; after a failure keep the last ones for a while.

        Return whether it worked.
        """
        pending = await self._read()
        if not isinstance(pending, SlurmError):
            self._read_s = self._time.clock()
            self._show(pending)
            return True
        if self._time.clock() - self._read_s >= TOO_OLD_S:
            self._show({})
        return False

    async def _read(self) -> PendingJobs | SlurmError:
        answer = await self._client.call(list_partitions())
        names = answer if isinstance(answer, SlurmError) else read_partitions(answer.body)
        if isinstance(names, SlurmError):
            return names
        sums = PendingSums(names)

        async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
            del asked_s
            for start in range(0, len(records), AT_ONCE):
                for record in records[start : start + AT_ONCE]:
                    sums.add(record)
                await asyncio.sleep(0)
            return None

        listed = await self._client.read_records(list_jobs(), "jobs", take)
        return listed if isinstance(listed, SlurmError) else sums.result()
