"""Keep the reasons of waiting jobs current if too many wait to read them one by one (P26).

One listing of all jobs, 8 kB each, as often as a share of bytes allows. It is requested with
update_time: while nothing changed in Slurm it costs a kilobyte and confirms every reason. The
reasons go to JobOwners only; the next listing of states reports them.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse, number_of, read_envelope
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.requests import list_jobs
from sunk_sync.slurm.decode.jobs import Reason, read_reason
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.pacing import Time

FEW: Final = 25
"""Records that can be read in turn within a minute."""
RECORDS_MAX: Final = 4_000
"""With more jobs, of any owner, a listing of 33 MB is too much for slurmrestd. The waiting tasks of
an array have one record."""
BYTES_PER_JOB: Final = 40
BYTES: Final = 15_000
"""Bytes a second, besides /jobs/state."""
LOOK_S: Final = 5.0
AGAIN_S: Final = 30.0
"""Minimum time between two listings."""


class JobReasons:
    """Reads reasons and writes them to JobOwners."""

    def __init__(self, client: Slurm, *, job_owners: JobOwners, time: Time) -> None:
        self._client = client
        self._job_owners = job_owners
        self._time = time
        self._proved_s: float | None = None
        """Start of the latest request whose answer confirmed every reason."""
        self._since: int | None = None
        """Second of slurmctld's clock of the last listing."""
        self._next_s = float("-inf")

    def age_s(self) -> float:
        """Return seconds since every reason was read or confirmed; 0: each is read in turn."""
        return 0.0 if self._proved_s is None else self._time.clock() - self._proved_s

    async def run(self) -> None:
        while True:
            await self._time.sleep(LOOK_S)
            if not self._many_wait():
                self._proved_s = None
            elif self._proved_s is None:
                self._proved_s = self._time.clock()  # new jobs may be about to start
            elif self._time.clock() >= self._next_s:
                await self.read()

    async def read(self) -> None:
        """Request one listing; the answer may be that nothing changed."""
        if self._proved_s is None:
            self._proved_s = self._time.clock()
        taking = _Taking()
        call = list_jobs(changed_since_s=self._since)
        answer = await self._client.read_records(call, "jobs", taking.take)
        share = BYTES_PER_JOB * self._known() + BYTES
        self._next_s = self._time.clock() + max(AGAIN_S, taking.received / share)
        if isinstance(answer, SlurmError):
            self._since = None
            return
        self._since = _updated(answer)
        self._proved_s = answer.asked_s
        self._note(taking.reasons)

    def _known(self) -> int:
        return len(self._job_owners.ours) + len(self._job_owners.foreign)

    def _records(self) -> int:
        listed = itertools.chain(self._job_owners.ours, self._job_owners.foreign)
        return len({one.partition("_")[0] for one in listed})

    def _many_wait(self) -> bool:
        """Whether too many records wait to be read in turn, or some that never are.

        Those are the tasks of an array whose first task has started.
        """
        if self._known() > RECORDS_MAX and self._records() > RECORDS_MAX:
            return False
        waiting = [one for one, job in self._job_owners.ours.items() if "PENDING" in job.state]
        read_in_turn = sum(one.partition("_")[2] in ("", "0") for one in waiting)
        arrays = {one.partition("_")[0] for one in waiting}
        return read_in_turn > FEW or any(
            f"{one}_0" not in self._job_owners.ours for one in arrays - self._job_owners.ours.keys()
        )

    def _note(self, reasons: Sequence[Reason]) -> None:
        """Take a task's reason from its own record, else from that of all waiting tasks."""
        own = {name: one.text for one in reasons for name in one.listed_ids}
        shared = {str(one.array): one.text for one in reasons if not one.listed_ids}
        for listed_id, job in list(self._job_owners.ours.items()):
            if "PENDING" not in job.state:
                continue
            text = own.get(listed_id, shared.get(listed_id.partition("_")[0]))
            if text is not None and text != job.reason:
                self._job_owners.keep(listed_id, replace(job, reason=text))


class _Taking:
    """Collects the reasons of all waiting jobs, and their bytes."""

    def __init__(self) -> None:
        self.received = 0
        self.reasons: list[Reason] = []

    async def take(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        for one in records:
            self.received += len(one)
            reason = read_reason(one)
            if reason is not None:
                self.reasons.append(reason)
        return None


def _updated(answer: SlurmResponse) -> int | None:
    envelope = read_envelope(answer.body)
    updated = None if isinstance(envelope, SlurmError) else number_of(envelope.last_update)
    return int(updated) if updated else None
