"""A writer of jobs over a small Slurm, and the actions that tests give it."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import anyio
from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, CancelJob, SubmitJob, UpdateJob
from sunk_sync.core.model.facts import Job, Observed
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.write.jobs import JobPush
from sunk_sync.slurm.write.submit import SubmitContext
from tests.slurm.recorded.slurm_jobs import SlurmJobs, identity_of, is_mine, name_of

T = TypeVar("T", Done, Refused, Unsure)
Kind = Literal["allocation", "script", "external"]
SCRIPT = "#!/bin/sh\nexec sleep 1\n"
BUSY = SlurmError("refused", "Requested nodes are busy (2016)", 2016)
UIDS = tuple(f"u{i}" for i in range(4))
RUNNING = frozenset({"RUNNING"})


class Writer:
    """A push to a small Slurm, and the owners of jobs that it shares with a reader."""

    def __init__(self, slurm: SlurmJobs) -> None:
        self.slurm = slurm
        self.job_owners = JobOwners(is_mine)
        self.is_wanted: Callable[[SubmitJob], bool] = lambda _: True
        context = SubmitContext(lambda _: SCRIPT, lambda one: self.is_wanted(one))
        self.push = JobPush(slurm, slurm.clock, job_owners=self.job_owners, context=context)

    async def do(self, *actions: Action) -> list[Outcome]:
        return await pushed(self.push, actions)

    async def one(self, action: Action, kind: type[T]) -> T:
        """Do one action, and return its outcome, which is of this kind."""
        (outcome,) = await self.do(action)
        assert isinstance(outcome, kind), outcome
        return outcome


async def pushed(push: JobPush, actions: Sequence[Action]) -> list[Outcome]:
    """Push the parts of a batch, as the outbox does; return the outcomes in order."""
    parts = push.split(actions)
    answers = await anyio.gather(*(push.push([actions[one] for one in part]) for part in parts))
    places = [place for part in parts for place in part]
    outcomes = dict(zip(places, [one for answer in answers for one in answer], strict=True))
    return [outcomes[place] for place in range(len(actions))]


def desired(uid: str, kind: Kind = "script", **fields: Any) -> SubmitJob:
    description = fields.pop("description", JobDescription(cpus=2))
    identity = fields.pop("identity", identity_of(uid))
    return SubmitJob(
        name=name_of(uid), identity=identity, description=description, kind=kind, **fields
    )


def cancel(uid: str, job_id: str = "1", **fields: Any) -> CancelJob:
    return CancelJob(job_id=job_id, name=name_of(uid), identity=identity_of(uid), **fields)


def job_in(outcome: Outcome) -> Job:
    """The one that was asked for."""
    seen = outcome.seen[0]
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Job)
    return seen.row


def sent(slurm: SlurmJobs, place: int = -1) -> Any:
    """Body of one request."""
    return json.loads(slurm.calls[place].body)


def refusing(failure: SlurmError) -> Callable[[str], SlurmError | None]:
    return lambda line: failure if line.startswith("POST") else None


def updating(uid: str = "u1") -> UpdateJob:
    identity = replace(identity_of(uid), digest="d2")
    return UpdateJob(
        job_id="1",
        name=name_of(uid),
        identity=identity,
        description=JobDescription(comment="hello"),
    )
