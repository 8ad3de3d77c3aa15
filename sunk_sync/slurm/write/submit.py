"""Make placeholder jobs: one each, or one array for many with the same description."""

import asyncio
import errno
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob
from sunk_sync.core.model.facts import Attempt, Job, Observed
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.placeholder import PLACEHOLDERS
from sunk_sync.slurm.api.answers import (
    UNSPECIFIED,
    SlurmError,
    SlurmResponse,
    as_refusal,
    read_envelope,
)
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import PING, SlurmCall, allocate_job, submit_job
from sunk_sync.slurm.decode.jobs import JobRecord, job_of
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.one_job import JobFinder
from sunk_sync.slurm.write.concurrency import Throttle
from sunk_sync.slurm.write.job_json import refusal, submit_body

DesiredWrites = Sequence[tuple[int, SubmitJob]]
"""With the index of each in the batch."""
Script = Callable[[SubmitJob], str]

ARRAY_MAX: Final = 64
"""Tasks of one array: their UIDs take 2.5 kB of its admin_comment."""
ALLOCATED_MAX: Final = 16
"""More equal jobs than this wait as an array instead of being allocated one by one."""
ENVIRONMENT: Final = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
"""Slurm refuses a script without an environment."""
_ALONE: Final = frozenset({2050, 2081})
"""Errors after which single jobs may succeed: a limit on the number of jobs, and forbidden arrays.
"""
_REFUSING: Final = frozenset({UNSPECIFIED, errno.EAGAIN})
"""Numbers by which slurmctld refuses a submission: job_submit.lua, and MaxJobCount in 24.11."""
_PENDING: Final = frozenset({"PENDING"})
_ALLOCATED: Final = frozenset({"CONFIGURING", "RUNNING"})
"""An allocated job does not wait; only its record shows its hosts."""
_LATE_S: Final = 120.0
"""No answer comes later than this."""
_UNWANTED: Final = SlurmError("unwanted", "not sent: its job has been read, or is no longer wanted")


class SubmitContext(Struct, frozen=True):
    """Callbacks of the service that a submission needs."""

    script: Script
    is_wanted: Callable[[SubmitJob], bool]
    """Whether the submission is still desired: it may have waited for its turn."""


class JobSubmit:
    """Submits jobs in the version of the server."""

    def __init__(
        self,
        client: Slurm,
        clock: Clock,
        *,
        job_owners: JobOwners,
        jobs: JobFinder,
        context: SubmitContext,
    ) -> None:
        self._client = client
        self._clock = clock
        self._job_owners = job_owners
        self._jobs = jobs
        self._context = context
        self._throttle = Throttle()
        self._version = ""
        """Of the last answer; empty: unknown."""
        self._asking = asyncio.Lock()
        self._given: dict[int, float] = {}
        """Job number → when its submission was sent; the oldest first, for _LATE_S."""

    async def submit(self, group: DesiredWrites) -> Mapping[int, Outcome]:
        """Submit one job, or an array for several actions of a group."""
        since_s = self._clock()
        with self._job_owners.awaiting(
            [desired.identity.workload for _, desired in group]
        ) as learnt:
            outcomes = await self._in_turn(group, learnt.keys(), since_s=since_s)
            return {place: self._told(one, learnt, since_s) for place, one in outcomes.items()}

    def _told(self, outcome: Outcome, learnt: Mapping[str, Job], since_s: float) -> Outcome:
        """Add the job that was read instead, which the reader may not have told yet.

        Else the next attempt, which knows nothing of that read, would make a second job.
        """
        action = outcome.action
        job = learnt.get(action.identity.workload) if isinstance(action, SubmitJob) else None
        if job is None or not isinstance(outcome, Unsure):
            return outcome
        read_s = self._job_owners.read_since(job.job_id, after_s=-math.inf)
        seen = Observed(job, since_s if read_s is None else read_s)
        return replace(outcome, seen=(*outcome.seen, seen))

    async def _in_turn(
        self, group: DesiredWrites, learnt: Set[str], *, since_s: float
    ) -> Mapping[int, Outcome]:
        """Submit those that are still desired when their turn comes.

        `learnt`: workloads that got a job meanwhile; `since_s`: since when they wait.
        """

        def is_wanted(desired: SubmitJob) -> bool:
            return desired.identity.workload not in learnt and self._context.is_wanted(desired)

        version = await self._known_version()
        async with self._throttle.slot():
            left: list[tuple[int, SubmitJob]] = []
            outcomes: dict[int, Outcome] = {}
            for place, desired in group:
                if is_wanted(desired):
                    left.append((place, desired))
                else:
                    outcomes[place] = self._unsuccessful(desired, _UNWANTED)
            if not left:
                return outcomes
            action = _together(left)
            why = refusal(action, version)
            if why:
                return outcomes | {place: Refused(desired, why) for place, desired in left}
            call = self._call(
                action,
                since_s=since_s,
                wanted=lambda: all(is_wanted(desired) for _, desired in left),
            )
            sent_s = self._clock()
            answer = await self._send(call, sent_s=sent_s)
        if len(left) > 1 and _is_alone(answer):
            return outcomes | await self._one_by_one(left, learnt, since_s=since_s)
        return outcomes | await self._conclude(left, action, answer, sent_s=sent_s)

    async def _one_by_one(
        self, group: DesiredWrites, learnt: Set[str], *, since_s: float
    ) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        for desired in group:
            outcomes.update(await self._in_turn([desired], learnt, since_s=since_s))
        return outcomes

    async def _conclude(
        self,
        group: DesiredWrites,
        action: SubmitJob,
        answer: SlurmResponse | SlurmError,
        *,
        sent_s: float,
    ) -> dict[int, Outcome]:
        number = _made(answer)
        if number:
            assert isinstance(answer, SlurmResponse | SlurmError)
            if self._is_given_anew(number, sent_s=sent_s):
                failure = SlurmError(
                    "garbage", f"Slurm has given number {number} to another job since"
                )
                return {place: self._unsuccessful(desired, failure) for place, desired in group}
            return await self._note(group, action, number=number, sent_s=sent_s)
        assert isinstance(answer, SlurmError)
        return {place: self._unsuccessful(desired, answer) for place, desired in group}

    def _is_given_anew(self, number: int, *, sent_s: float) -> bool:
        """Whether Slurm lost its state before this late answer, and reused the number."""
        if self._given.get(number, sent_s) > sent_s:
            return True
        self._given.pop(number, None)
        self._given[number] = sent_s
        while self._given[oldest := next(iter(self._given))] < sent_s - _LATE_S:
            del self._given[oldest]
        return False

    async def _known_version(self) -> str:
        """Return the API version; empty if no server answers: then the submission fails anyway."""
        async with self._asking:
            if not self._version:
                self._learn_version(await self._client.call(PING))
        return self._version

    def _learn_version(self, answer: SlurmResponse | SlurmError) -> None:
        if isinstance(answer, SlurmResponse):
            self._version = answer.version
        elif not answer.final:
            self._version = ""  # another address may answer next time

    def _call(self, action: SubmitJob, *, since_s: float, wanted: Callable[[], bool]) -> SlurmCall:
        kind = PLACEHOLDERS[action.kind]
        script = self._context.script(action) if kind.scripted else ""
        body = submit_body(action, script=script, environment=ENVIRONMENT)
        make = allocate_job if kind.at_once else submit_job
        return make(body, since_s=since_s, wanted=wanted)

    async def _send(self, call: SlurmCall, *, sent_s: float) -> SlurmResponse | SlurmError:
        answer = as_refusal(await self._client.call(call), _REFUSING)
        if not (isinstance(answer, SlurmError) and answer.kind == "unwanted"):
            self._throttle.note(self._clock() - sent_s)
            self._learn_version(answer)
        return answer

    async def _note(
        self, group: DesiredWrites, action: SubmitJob, *, number: int, sent_s: float
    ) -> dict[int, Outcome]:
        """Note a new job: its id, its Pods, and the hosts of an allocated one."""
        now_s = self._clock()
        kind = PLACEHOLDERS[action.kind]
        record = JobRecord(
            number=number,
            array=number if len(group) > 1 else 0,
            identity=action.identity,
            given=action.identity,
            name=action.name,
            state=_ALLOCATED if kind.at_once else _PENDING,
            script=kind.scripted,
        )
        if record.array:
            self._job_owners.learn_array(record)
        outcomes: dict[int, Outcome] = {}
        for task, (place, desired) in enumerate(group):
            job = job_of(record, task)
            assert job is not None
            known = self._job_owners.known(job)
            if known is not None:  # a listing is newer than this late answer
                outcomes[place] = Done(desired, (Observed(known, sent_s),))
                continue
            self._job_owners.learn(job)
            seen = await self._placed(job, now_s) if kind.at_once else None
            told = seen or self._job_owners.as_last_read(Observed(job, now_s))
            outcomes[place] = Done(desired, (told,))
        return outcomes

    async def _placed(self, job: Job, now_s: float) -> Observed | None:
        """Read where an allocated job runs, which only its record shows.

        A job without a read is reported without hosts: then the next listing reads it.
        """
        found = await self._jobs.find(job.job_id)
        if isinstance(found, SlurmError) or found.job is None:
            return None
        return Observed(found.job, max(found.asked_s, now_s))

    def _unsuccessful(self, desired: SubmitJob, failure: SlurmError) -> Outcome:
        if failure.final:
            return Refused(desired, str(failure), number=failure.error_number)
        if failure.nothing_done:
            return Unsure(desired, str(failure))
        attempt = Attempt(desired.identity.workload, self._clock())
        return Unsure(desired, str(failure), seen=(attempt,))


def grouped(desired_writes: Iterable[tuple[int, SubmitJob]]) -> Sequence[DesiredWrites]:
    """Group equal desired writes of one Pod each, at most ARRAY_MAX; all others alone.

    The oldest first: Slurm starts jobs of one priority in the order of their numbers (P26).
    """
    families: defaultdict[object, list[tuple[int, SubmitJob]]] = defaultdict(list)
    for place, desired in sorted(desired_writes, key=_age):
        families[_family(desired) or place].append((place, desired))
    return [group for family in families.values() for group in _cut(family)]


def array_of(desired_writes: Sequence[SubmitJob]) -> SubmitJob:
    """Return the array whose task i stands for the i-th of these submissions."""
    first = desired_writes[0]
    identity = Identity(
        cluster=first.identity.cluster,
        scheduler=first.identity.scheduler,
        uids=tuple(desired.identity.pods[0].rpartition("/")[2] for desired in desired_writes),
        digest=first.identity.digest,
        hosts=first.identity.hosts,
        name=first.identity.name,
    )
    return replace(first, identity=identity, kind=PLACEHOLDERS[first.kind].as_array)


def _together(group: DesiredWrites) -> SubmitJob:
    return group[0][1] if len(group) == 1 else array_of([desired for _, desired in group])


def _age(placed: tuple[int, SubmitJob]) -> tuple[int, str]:
    _, desired = placed
    return desired.created_s, desired.name


def _family(desired: SubmitJob) -> object:
    """Return a key that is equal for jobs that one array can replace; None: only a single job."""
    identity = desired.identity
    alone = desired.alone or PLACEHOLDERS[desired.kind].as_array is None
    if alone or len(identity.pods) != 1 or desired.description.slurm_nodes != 1:
        return None
    # An array's name shows the namespace of all its Pods, which decides their absence (P21).
    namespace = identity.pods[0].partition("/")[0]
    owner = (identity.cluster, identity.scheduler, identity.digest, namespace)
    return (
        owner,
        desired.description,
        desired.excluded,
        desired.kind,
        desired.specs,
        desired.volume_claims,
        identity.hosts,
    )


def _cut(family: DesiredWrites) -> Iterable[DesiredWrites]:
    if PLACEHOLDERS[family[0][1].kind].at_once and len(family) <= ALLOCATED_MAX:
        return [[desired] for desired in family]
    return [family[start : start + ARRAY_MAX] for start in range(0, len(family), ARRAY_MAX)]


def _is_alone(answer: SlurmResponse | SlurmError) -> bool:
    """Whether no array was made, but single jobs may be."""
    return isinstance(answer, SlurmError) and not answer.job_id and answer.error_number in _ALONE


def _made(answer: SlurmResponse | SlurmError) -> int:
    """Return the id of the new job, even beside errors such as an unknown flag."""
    if isinstance(answer, SlurmError):
        return answer.job_id
    envelope = read_envelope(answer.body)
    return 0 if isinstance(envelope, SlurmError) else envelope.made
