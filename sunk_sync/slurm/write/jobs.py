"""Perform actions on placeholder jobs.

sunk-sync never cancels a job by its number alone (P23): id and name must both match. Every other
change of a job relies on a read of its identity just before.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Action,
    CancelJob,
    GetJob,
    SubmitJob,
    UpdateJob,
)
from sunk_sync.core.model.facts import Deleted, Job, Observed
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.job_states import is_live
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    UNSPECIFIED,
    SlurmError,
    SlurmResponse,
    as_refusal,
    decoded,
    printable,
)
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import cancel_jobs, update_job
from sunk_sync.slurm.decode.jobs import ALREADY_ENDED, NO_SUCH_JOB, JobRecord, with_replaced
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.one_job import READ_NOW, Enough, JobFinder
from sunk_sync.slurm.write.job_json import exclusions_body, identity_body, update_body
from sunk_sync.slurm.write.submit import DesiredWrites, JobSubmit, SubmitContext, grouped

_NOT_MATCHING: Final = 2172
"""No job with this id matches the other filters."""
_OVER: Final = frozenset({*ALREADY_ENDED, NO_SUCH_JOB, _NOT_MATCHING})

_REFUSING: Final = frozenset({UNSPECIFIED})
"""Numbers by which slurmctld refuses an update: `slurm_job_modify` in job_submit.lua."""
_RECENT_S: Final = 5.0
"""Maximum age of the read that a change, or a mark as replaced, relies on: a change names only the
id, and a slurmctld that lost its state gives it out again (P23)."""

_SHARING: Final = (SubmitJob, CancelJob)
"""Several of these may go into one request."""

Part = Mapping[int, Outcome]
"""Outcomes by the index of their actions in the batch."""


class JobPush:
    """The only writer of jobs; its method `push` is an outcomes.Push."""

    def __init__(
        self, client: Slurm, clock: Clock, *, job_owners: JobOwners, context: SubmitContext
    ) -> None:
        self._client = client
        self._clock = clock
        self._job_owners = job_owners
        self._jobs = JobFinder(client, clock, job_owners=job_owners)
        self._submit = JobSubmit(
            client, clock, job_owners=job_owners, jobs=self._jobs, context=context
        )
        self._marking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By array: its waiting tasks share one text."""

    @staticmethod
    def split(actions: Sequence[Action]) -> Sequence[Sequence[int]]:
        """Return the places of the actions that share a request."""
        groups = (*grouped(_submissions(actions)), *_alike(_cancels(actions)))
        singles = ([place] for place, one in enumerate(actions) if not isinstance(one, _SHARING))
        return [*([place for place, _ in group] for group in groups), *singles]

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Perform actions that share a request: one part of `split`."""
        match actions[0]:
            case SubmitJob():
                part = await self._submit.submit(_submissions(actions))
            case CancelJob():
                part = await self._cancel(_cancels(actions))
            case GetJob() as read:
                part = {
                    0: await self._get(read, read.job_id, Enough(read.after_s, read.placed_after_s))
                }
            case UpdateJob() as update:
                part = {0: await self._update(update)}
            case other:
                part = {0: Refused(other, "this is not an action on a job")}
        return [part[place] for place in range(len(actions))]

    async def _get(self, action: Action, job_id: str, enough: Enough = READ_NOW) -> Outcome:
        found = await self._jobs.find(job_id, enough)
        if isinstance(found, SlurmError):
            return _unsuccessful(action, found)
        return Done(action, found.news)

    async def _cancel(self, group: "Cancels") -> Part:
        """Cancel jobs with one request; mark those first that another job replaces."""
        outcomes: dict[int, Outcome] = {}
        marked = [(place, one) for place, one in group if one.replaced]
        verdicts = await anyio.gather(*(self._mark(one) for _, one in marked))
        marks: dict[int, Observed] = {}
        for (place, _), verdict in zip(marked, verdicts, strict=True):
            if isinstance(verdict, Observed):
                marks[place] = verdict
            else:
                outcomes[place] = verdict
        left = [(place, one) for place, one in group if place not in outcomes]
        if left:
            ends = await self._delete(left)
            outcomes |= {place: _marked(one, marks.get(place)) for place, one in ends.items()}
        return outcomes

    async def _delete(self, group: "Cancels") -> Part:
        answer = await self._client.call(cancel_jobs(_filters([one for _, one in group])))
        failed = answer if isinstance(answer, SlurmError) else _read_status(answer)
        if isinstance(failed, SlurmError):
            return {place: _unsuccessful(one, failed) for place, one in group}
        codes = [(place, one, failed.get(one.job_id, (0, ""))) for place, one in group]
        outcomes = await anyio.gather(
            *(self._after(one, code=code, text=text) for _, one, (code, text) in codes)
        )
        return {place: outcome for (place, _, _), outcome in zip(codes, outcomes, strict=True)}

    async def _after(self, action: CancelJob, *, code: int, text: str) -> Outcome:
        if code in _OVER:
            return await self._get(action, action.job_id)
        if code:
            return Refused(action, f"{text} ({code})", number=code)
        return Done(action)

    async def _mark(self, action: CancelJob) -> Outcome | Observed:
        """Mark the job as replaced in its identity; return the job, which may be cancelled now.

        Unsure if that took long: the reason to give it up may be gone.
        """
        array = action.job_id.partition("_")[0]
        async with self._marking.setdefault(array, asyncio.Lock()):
            found = await self._checked(action)
            if not isinstance(found, _LiveJob):
                return found
            if action.waiting and "PENDING" not in found.job.state:
                return Done(action, (found.seen,))
            if found.job.identity.replaced:
                return found.seen
            identity = _replaced(found)
            answer = await self._write(found, identity_body(identity))
            if isinstance(answer, SlurmError):
                return await self._unwritten(action, answer)
            mark = self._learn_mark(found, identity)
            if not self._is_recent(found.asked_s):
                return Unsure(action, "the mark of the job took too long", seen=(mark,))
            return mark

    async def _checked(self, action: CancelJob | UpdateJob) -> "_LiveJob | Outcome":
        """Return the job if it is the same and has not ended; else the outcome."""
        found = await self._jobs.find(action.job_id)
        if isinstance(found, SlurmError):
            return _unsuccessful(action, found)
        job, record = found.job, found.record
        if job is None or record is None:
            return Done(action, found.news)
        if job.identity.workload != action.identity.workload:
            return Done(action, (Deleted("jobs", "", action.job_id, "", found.asked_s),))
        if not is_live(job):
            return Done(action, found.news)
        return _LiveJob(job, record, found.asked_s)

    async def _write(self, live: "_LiveJob", body: bytes) -> SlurmResponse | SlurmError:
        number = str(live.record.number)
        call = update_job(number, body, wanted=lambda: self._is_recent(live.asked_s))
        return await self._client.call(call)

    def _is_recent(self, asked_s: float) -> bool:
        return self._clock() <= asked_s + _RECENT_S

    async def _unwritten(self, action: CancelJob | UpdateJob, failure: SlurmError) -> Outcome:
        if failure.error_number in _OVER:
            return await self._get(action, action.job_id)
        return _unsuccessful(action, failure)

    def _learn_mark(self, live: "_LiveJob", identity: Identity) -> Observed:
        job, record = live.job, live.record
        if record.array and record.task is None:
            self._job_owners.learn_array(replace(record, identity=identity))
        job = replace(job, identity=replace(job.identity, replaced=True))
        return self._job_owners.learn_written(job, asked_s=live.asked_s)

    async def _update(self, action: UpdateJob) -> Outcome:
        array, _, task = action.job_id.partition("_")
        if not (task and action.change == "exclusions"):
            return await self._update_one(action)
        async with self._marking.setdefault(array, asyncio.Lock()):
            known = self._job_owners.at(action.job_id)
            if known is not None and known.identity.hosts == action.identity.hosts:
                return Done(action)  # with another task of the array, as the next listing shows
            return await self._update_one(action)

    async def _update_one(self, action: UpdateJob) -> Outcome:
        live = await self._checked(action)
        if not isinstance(live, _LiveJob):
            return live
        seen = (live.seen,)
        if live.record.array and action.change != "exclusions":
            return Refused(action, "Slurm cannot change one task of an array alone", seen)
        if "PENDING" not in live.job.state:
            return Refused(action, "the job no longer waits", seen)
        exclusions = action.change == "exclusions"
        new = _renewed(live, action) if exclusions else action.identity
        answer = as_refusal(await self._write_update(live, action, new), _REFUSING)
        if isinstance(answer, SlurmError):
            outcome = await self._unwritten(action, answer)
            return replace(outcome, seen=seen) if isinstance(outcome, Refused) else outcome
        return Done(action, (self._learn_update(live, new, asked_s=answer.asked_s),))

    async def _write_update(
        self, live: "_LiveJob", action: UpdateJob, identity: Identity
    ) -> SlurmResponse | SlurmError:
        """Write the description, then the identity: a refused update is done in part.

        Exclusions alone go together with the identity: Slurm takes both or none.
        """
        if action.change == "exclusions":
            return await self._write(live, exclusions_body(action, identity))
        answer = await self._write(live, update_body(action))
        if isinstance(answer, SlurmError):
            return answer
        changed = replace(live, asked_s=answer.answered_s)
        return await self._write(changed, identity_body(identity))

    def _learn_update(self, live: "_LiveJob", identity: Identity, *, asked_s: float) -> Observed:
        """Take in an update. The job waited when Slurm took it, after `asked_s`."""
        if not live.record.array:
            job = replace(live.job, identity=identity)
            return self._job_owners.learn_written(job, asked_s=asked_s)
        self._job_owners.relearn_array(replace(live.record, identity=identity))
        known = self._job_owners.at(live.job.job_id) or live.job
        return Observed(known, asked_s)


Cancels = Sequence[tuple[int, CancelJob]]
"""With the index of each in the batch."""


class _LiveJob(Struct, frozen=True):
    """A live job of sunk-sync, as just read."""

    job: Job
    record: JobRecord
    asked_s: float

    @property
    def seen(self) -> Observed:
        return Observed(self.job, self.asked_s)


def _submissions(actions: Sequence[Action]) -> DesiredWrites:
    return [(place, one) for place, one in enumerate(actions) if isinstance(one, SubmitJob)]


def _cancels(actions: Sequence[Action]) -> "Cancels":
    return [(place, one) for place, one in enumerate(actions) if isinstance(one, CancelJob)]


def _alike(cancels: "Cancels") -> Sequence["Cancels"]:
    """Group the cancels that the same filters fit."""
    groups: defaultdict[tuple[str, bool], list[tuple[int, CancelJob]]] = defaultdict(list)
    for place, one in cancels:
        groups[one.name, one.waiting].append((place, one))
    return list(groups.values())


def _filters(cancels: Sequence[CancelJob]) -> bytes:
    """Return filters. Slurm checks all of them at once, so no job can start in between."""
    ids = [one.job_id for one in cancels]
    states = {"job_state": ["PENDING"]} if cancels[0].waiting else {}
    return msgspec.json.encode({"jobs": ids, "job_name": cancels[0].name, **states})


def _replaced(live: _LiveJob) -> Identity:
    """Return the identity in the record, with the mark."""
    identity, record = live.record.identity, live.record
    assert identity is not None
    if not record.array:
        return replace(identity, replaced=True)
    task = int(live.job.job_id.partition("_")[2])
    return with_replaced(identity, frozenset({task}))


def _renewed(live: _LiveJob, action: UpdateJob) -> Identity:
    """Return the identity in the record, with the new excluded hosts."""
    identity = live.record.identity
    assert identity is not None
    return replace(identity, hosts=action.identity.hosts)


def _marked(outcome: Outcome, mark: Observed | None) -> Outcome:
    """Add the mark to the outcome of the cancel: nothing is bound to a given-up job."""
    return outcome if mark is None or outcome.seen else replace(outcome, seen=(mark,))


def _unsuccessful(action: Action, failure: SlurmError) -> Outcome:
    if failure.final:
        return Refused(action, str(failure), number=failure.error_number)
    return Unsure(action, str(failure))


class _WireError(Struct, frozen=True):
    code: int = 0
    message: str = ""
    string: str = ""


class _WireStatus(Struct, frozen=True):
    error: _WireError = _WireError()
    step_id: str = ""
    """The id as requested."""


class _WireStatuses(Struct, frozen=True):
    status: list[_WireStatus] | None = None


_statuses = msgspec.json.Decoder(_WireStatuses).decode


def _read_status(answer: SlurmResponse) -> Mapping[str, tuple[int, str]] | SlurmError:
    """Return the ids that were not cancelled, each with number and text of the error."""
    try:
        wire = decoded(_statuses, answer.body)
    except UNREADABLE as error:
        return SlurmError("garbage", printable(str(error)))
    return {
        one.step_id: (one.error.code, printable(one.error.message or one.error.string))
        for one in wire.status or ()
    }
