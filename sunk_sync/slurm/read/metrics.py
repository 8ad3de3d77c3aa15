"""Read what Slurm tells about all jobs, nodes and the scheduler, for dashboards and autoscalers.

A listing of all jobs costs 8 kB a job, and half a second for 1,000. One listing serves every
metric. It is not requested with update_time, which counts seconds: a job submitted in the second of
the last listing would stay unseen until something else changes, and on a cluster without nodes
nothing does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct

from sunk_sync.core.model.slurm_metrics import JobNumbers, NodeNumbers, SchedulerNumbers
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import (
    DIAG,
    SlurmCall,
    list_jobs,
    list_nodes,
    list_partitions,
)
from sunk_sync.slurm.decode.diag import read_diag
from sunk_sync.slurm.decode.job_metrics import JobSums
from sunk_sync.slurm.decode.node_metrics import NodeSums
from sunk_sync.slurm.decode.pending_jobs import read_partitions
from sunk_sync.slurm.read.pacing import Time

SHARE: Final = 20
"""Listings that work take at most this part of the time: with 10,000 jobs they come every two
minutes."""
TOO_OLD_S: Final = 120.0
"""After this time without an answer there are no numbers: an autoscaler must not act on them."""
AT_ONCE: Final = 200
"""Records between two pauses: the loop must not stand still."""

Rows = Literal["jobs", "nodes"]
"""Objects that have series of their own."""
Numbers = TypeVar("Numbers")


class Show(Struct, frozen=True, kw_only=True):
    """Take new numbers; None: there are none any more."""

    jobs: Callable[[JobNumbers | None], None]
    nodes: Callable[[NodeNumbers | None], None]
    scheduler: Callable[[SchedulerNumbers | None], None]
    took: Callable[[float], None]
    """Takes the seconds of the listings of a pass that worked."""


class MetricsPoll:
    def __init__(
        self,
        client: Slurm,
        show: Show,
        *,
        interval_s: float,
        rows: Collection[Rows],
        time: Time,
    ) -> None:
        self._client = client
        self._took = show.took
        self._jobs = _Shown(show.jobs, time)
        self._nodes = _Shown(show.nodes, time)
        self._scheduler = _Shown(show.scheduler, time)
        self._interval_s = interval_s
        self._rows = rows
        self._time = time

    async def run(self) -> None:
        while True:
            began_s = self._time.clock()
            worked_s = await self.poll()
            took_s = self._time.clock() - began_s
            await self._time.sleep(max(self._interval_s, took_s, SHARE * worked_s))

    async def poll(self) -> float:
        """Read and show all numbers; after a failure keep the last ones for a while.

        Return the seconds of the listings that worked.
        """
        partitions = await self._read_partitions()
        worked_s = await self._spent_s(self._jobs, self._read_jobs(partitions))
        worked_s += await self._spent_s(self._nodes, self._read_nodes(partitions))
        worked_s += await self._spent_s(self._scheduler, self._read_scheduler())
        if worked_s:
            self._took(worked_s)
        return worked_s

    async def _spent_s(
        self, shown: "_Shown[Numbers]", read: Awaitable[Numbers | SlurmError]
    ) -> float:
        began_s = self._time.clock()
        worked = shown.take(await read)
        return self._time.clock() - began_s if worked else 0.0

    async def _read_partitions(self) -> Sequence[str] | SlurmError:
        answer = await self._client.call(list_partitions())
        return answer if isinstance(answer, SlurmError) else read_partitions(answer.body)

    async def _read_jobs(self, partitions: Sequence[str] | SlurmError) -> JobNumbers | SlurmError:
        if isinstance(partitions, SlurmError):
            return partitions
        sums = JobSums(partitions, rows="jobs" in self._rows)
        failure = await self._add_each(list_jobs(), key="jobs", add=sums.add)
        return failure or sums.result()

    async def _read_nodes(self, partitions: Sequence[str] | SlurmError) -> NodeNumbers | SlurmError:
        if isinstance(partitions, SlurmError):
            return partitions
        sums = NodeSums(partitions, rows="nodes" in self._rows)
        failure = await self._add_each(list_nodes(), key="nodes", add=sums.add)
        return failure or sums.result()

    async def _read_scheduler(self) -> SchedulerNumbers | SlurmError:
        answer = await self._client.call(DIAG)
        return answer if isinstance(answer, SlurmError) else read_diag(answer.body)

    async def _add_each(
        self, call: SlurmCall, *, key: str, add: Callable[[bytes], None]
    ) -> SlurmError | None:
        async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
            del asked_s
            for start in range(0, len(records), AT_ONCE):
                for record in records[start : start + AT_ONCE]:
                    add(record)
                await asyncio.sleep(0)
            return None

        listed = await self._client.read_records(call, key, take)
        return listed if isinstance(listed, SlurmError) else None


class _Shown(Generic[Numbers]):
    """Numbers that stay for a while after the last answer."""

    def __init__(self, show: Callable[[Numbers | None], None], time: Time) -> None:
        self._show = show
        self._time = time
        self._read_s = time.clock()

    def take(self, numbers: Numbers | SlurmError) -> bool:
        """Show them; return whether they are there."""
        if not isinstance(numbers, SlurmError):
            self._read_s = self._time.clock()
            self._show(numbers)
            return True
        if self._time.clock() - self._read_s >= TOO_OLD_S:
            self._show(None)
        return False
