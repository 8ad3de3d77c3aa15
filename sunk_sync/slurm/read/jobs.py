"""List the jobs for ever and report those of sunk-sync.

First /jobs/state, 80 bytes a job; then the records of new and changed jobs. While some jobs wait
and others start or end, poll more often: Slurm starts the jobs of a burst a second apart, and each
Pod waits until sunk-sync reads its start.

Report a whole listing, with the guarantees of the nodes' poll, every ten seconds and for each
caller of `relist`. In between report what changed and what is gone, then Confirmed.

Only the record of a running job has its preempt_time. sunk-sync sees a preemption with grace when
it reads the record for another reason, else when the job ends.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from sunk_sync.core.model.claims import Claims
from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    Job,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
    Tell,
)
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.controller import counting_since
from sunk_sync.slurm.api.requests import list_job_states
from sunk_sync.slurm.decode.jobs import States, read_state
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.job_records import Early, JobReading, revived
from sunk_sync.slurm.read.pacing import PollLoop, PollTiming, Time

_SOURCE: Final = "jobs"
_NEWS_AT_ONCE: Final = 256
_REFRESH_AMONG: Final = 512


class JobPollTiming(Struct, frozen=True, kw_only=True):
    busy: Callable[[], bool]
    """Whether a job of sunk-sync lives or is expected."""
    while_busy: PollTiming = PollTiming()
    fast_s: float = 0.2
    """Interval while some jobs change and others wait, if it is shorter."""
    fast_for_s: float = 2.5
    """How long after the last change: two rounds of Slurm's scheduler."""
    idle_s: float = 30.0
    full_every_s: float = 10.0
    """Interval of reports of the whole listing; in between only changes."""
    checked_every_s: float = 5.0
    """Maximum interval of checks for a restart of slurmctld."""
    refresh_every: int = 2
    """Every such listing reads the reason of one waiting job again (P26)."""


class JobPoll:
    def __init__(
        self, client: Slurm, tell: Tell, *, job_owners: JobOwners, timing: JobPollTiming, time: Time
    ) -> None:
        self._client = client
        self._tell = tell
        self._job_owners = job_owners
        self._timing = timing
        self._time = time
        self._loop = PollLoop(timing.while_busy, time)
        self._waiting: list[asyncio.Future[SlurmError | None]] = []
        self._joined: list[asyncio.Future[SlurmError | None]] = []
        self._open_since_s: float | None = None
        """Start of the running listing; None: there is none, or it cannot be joined any more."""
        self._reported: dict[str, Job] | None = None
        """Jobs of the last complete listing, and jobs that it did not contain though a newer answer
        had reported them. None: no listing yet."""
        self._in_full = True
        """Report the next listing in full."""
        self._forgot = False
        """JobOwners was emptied during the listing: report the next one in full, too."""
        self._reported_at_s = 0.0
        self._read_s = time.clock()
        self._since: int | None = None
        """Second since which slurmctld counts."""
        self._checked_s = float("-inf")
        self._lost: Lost | None = None
        self._claims = Claims(())
        self._fast_until_s = float("-inf")
        self._round = 0
        self._cursor = 0
        """Where the search for the next waiting job starts."""

    def poll_now(self) -> None:
        """Start a listing as soon as the share of time allows; a running one is too old."""
        self._moved()
        self._loop.poll_now()

    async def relist(self, after_s: float) -> SlurmError | None:
        """Wait for a whole listing that began later than `after_s`; several callers share one."""
        done = asyncio.get_running_loop().create_future()
        if self._open_since_s is not None and self._open_since_s > after_s:
            self._joined.append(done)
        else:
            self._waiting.append(done)
            self._loop.poll_now(awaited=True)
        failure: SlurmError | None = await done
        return failure

    async def run(self) -> None:
        try:
            await self._loop.run(self.poll, interval=self._interval)
        finally:
            _settle(self._waiting, SlurmError("unreachable", "sunk-sync no longer reads jobs"))

    def _interval(self) -> float:
        rarer = self._timing.while_busy.rarer
        if not self._timing.busy():
            return self._timing.idle_s * rarer
        usual_s = self._timing.while_busy.interval_s * rarer
        fast = rarer == 1 and self._is_fast()
        return min(usual_s, self._timing.fast_s) if fast else usual_s

    def _is_fast(self) -> bool:
        return self._time.clock() < self._fast_until_s and self._job_owners.waits()

    def _moved(self) -> None:
        self._fast_until_s = self._time.clock() + self._timing.fast_for_s

    async def poll(self) -> SlurmError | None:
        """List once and report it. Report a failure as Lost, once for each new reason."""
        self._joined, self._waiting = self._waiting, []
        self._open_since_s = self._time.clock()
        outcome: SlurmError | None = SlurmError("unreachable", "the listing was cancelled")
        try:
            outcome = await self._list()
        finally:
            self._open_since_s = None
            _settle(self._joined, outcome)
        return outcome

    async def _list(self) -> SlurmError | None:
        states = _StateListing()
        answer = await self._client.read_records(list_job_states(), "jobs", states.take)
        if isinstance(answer, SlurmError):
            return await self._lose(answer)
        self._loop.listing_s = answer.answered_s - answer.asked_s
        strict, self._open_since_s = bool(self._joined), None
        if failure := await self._check_restart(strict=strict):
            await self._tell_revived(states.seen, answer.asked_s)
            return await self._lose(failure)
        touched, self._job_owners.touched = self._job_owners.touched, False
        reading = await self._read(states.seen, answer.asked_s)
        await self._tell_claims()
        if reading.moved:
            self._moved()
        self._in_full = self._in_full or strict or touched
        if reading.failure or reading.reused:
            await self._tell_revived(states.seen, answer.asked_s)
            return await self._tell_part(reading, answer.asked_s)
        self._read_s = answer.answered_s
        self._lost = None
        await self._tell_all(reading, answer.asked_s)
        return None

    async def _read(self, states: Mapping[str, States], asked_s: float) -> JobReading:
        """Read what is new. The first listing is reported only as a whole."""
        early = None if self._reported is None else Early(self._tell, self._reported)
        reading = JobReading(
            self._client, self._job_owners, early=early, states=states, asked_s=asked_s
        )
        await reading.read(refresh=self._refreshed())
        return reading

    async def _tell_claims(self) -> None:
        """Report the claims before the listing counts as complete: nothing is submitted beside."""
        claims = Claims(tuple(claim for claim in self._job_owners.claims.values() if claim.live))
        if claims != self._claims:
            self._claims = claims
            await self._tell([claims])

    async def _check_restart(self, *, strict: bool) -> SlurmError | None:
        """Check after the listing whether slurmctld was restarted: then forget all ids."""
        now_s = self._time.clock()
        checked_every_s = self._timing.checked_every_s * self._timing.while_busy.rarer
        if not strict and now_s - self._checked_s < checked_every_s:
            return None
        since = await counting_since(self._client)
        if isinstance(since, SlurmError):
            return since
        if since != self._since:
            self._note_known()
            self._job_owners.forget()
            self._forgot = self._since is not None
        self._since, self._checked_s = since, now_s
        return None

    def _note_known(self) -> None:
        """Keep the jobs that other callers reported since the last listing: ids may be reused."""
        if self._reported is not None:
            self._reported |= {job.job_id: job for job in self._job_owners.ours.values()}

    def _refreshed(self) -> Sequence[str]:
        """Return one waiting job now and then, in turn: its reason may have changed.

        Of an array only a waiting first task: later a read of all tasks takes long.
        """
        self._round += 1
        if self._round % self._timing.refresh_every:
            return ()
        jobs = self._job_owners.ours
        ids = list(itertools.islice(jobs, self._cursor, self._cursor + _REFRESH_AMONG))
        for place, listed_id in enumerate(ids):
            task = listed_id.partition("_")[2]
            if task in ("", "0") and "PENDING" in jobs[listed_id].state:
                self._cursor += place + 1
                return [listed_id]
        self._cursor = self._cursor + len(ids) if len(ids) == _REFRESH_AMONG else 0
        return ()

    async def _tell_all(self, reading: JobReading, asked_s: float) -> None:
        jobs, reported = reading.jobs, self._reported
        old = asked_s - self._reported_at_s >= self._timing.full_every_s
        if reported is None or self._in_full or old:
            await self._tell_rows(jobs, asked_s)
            await self._tell([ListingEnded(_SOURCE)])
            self._reported_at_s, self._in_full, self._forgot = asked_s, self._forgot, False
        else:
            news: list[News] = [*_changes(reported, jobs)]
            gone = {one for one in (*reported, *reading.left) if one not in jobs}
            news += [Deleted(_SOURCE, "", job_id, "", asked_s) for job_id in sorted(gone)]
            await self._tell_in_parts([*news, Confirmed(_SOURCE, asked_s)])
        younger = {one: job for one, (job, read_s) in reading.left.items() if read_s > asked_s}
        self._reported = younger | {job_id: job for job_id, (job, _) in jobs.items()}

    async def _tell_rows(self, jobs: Mapping[str, tuple[Job, float]], asked_s: float) -> None:
        news: list[News] = [ListingStarted(_SOURCE, begun_s=asked_s, order=asked_s)]
        news += [Observed(job, order) for job, order in jobs.values()]
        await self._tell_in_parts(news)

    async def _tell_in_parts(self, news: Sequence[News]) -> None:
        for start in range(0, len(news), _NEWS_AT_ONCE):
            await self._tell(news[start : start + _NEWS_AT_ONCE])

    async def _tell_revived(self, states: Mapping[str, States], asked_s: float) -> None:
        """Report jobs whose reported end was undone: no other job must replace them."""
        known = {**(self._reported or {}), **self._job_owners.ours}
        jobs = revived(states, known, foreign=self._job_owners.foreign)
        await self._tell_in_parts([Observed(job, asked_s) for job in jobs])

    async def _tell_part(self, reading: JobReading, asked_s: float) -> SlurmError:
        """Report what was read as true, and what is missing as unknown."""
        await self._tell_rows(reading.jobs, asked_s)
        if reading.failure is None:
            self._job_owners.forget()
        why = reading.failure or SlurmError("garbage", "Slurm gave an id of ours to another job")
        return await self._lose(why)

    async def _lose(self, failure: SlurmError) -> SlurmError:
        self._in_full = True
        self._checked_s = float("-inf")
        unread_s = self._time.clock() - self._read_s
        lost = Lost(_SOURCE, str(failure), blind=unread_s >= self._timing.while_busy.blind_after_s)
        if lost != self._lost:
            self._lost = lost
            await self._tell([lost])
        return failure


def _changes(
    reported: Mapping[str, Job], jobs: Mapping[str, tuple[Job, float]]
) -> Iterator[Observed]:
    for job_id, (job, order) in jobs.items():
        before = reported.get(job_id)
        if before is not job and before != job:
            yield Observed(job, order)


class _StateListing:
    def __init__(self) -> None:
        self.seen: dict[str, States] = {}

    async def take(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        for one in records:
            read = read_state(one)
            if isinstance(read, SlurmError):
                return read
            self.seen[read.listed_id] = read.state
        return None


def _settle(
    waiting: Sequence[asyncio.Future[SlurmError | None]], outcome: SlurmError | None
) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(outcome)
