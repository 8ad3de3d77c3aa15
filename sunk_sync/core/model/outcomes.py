"""Outcomes of actions, and the facts that they show."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from sunk_sync.core.model.actions import (
    Action,
    Bind,
    OnObject,
    SubmitJob,
    UpdateJob,
)
from sunk_sync.core.model.facts import (
    BindRefused,
    Contradicted,
    Job,
    News,
    Observed,
    Placed,
    SubmitRefused,
    WriteEcho,
)
from sunk_sync.core.model.node_set_actions import CreatePod
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.model.volumes import CsiDriver, CsiNode, StorageCapacity, StorageClass


class Done(Struct, frozen=True, gc=False):
    """It happened; `seen` holds the facts that the answer shows."""

    action: Action
    seen: tuple[News, ...] = ()
    missing: bool = False
    """No object has the UID of the action: there was nothing to do."""
    why: str = ""
    """Why a read by name proves nothing, or why an Event was not counted. Else empty."""


class Refused(Struct, frozen=True, gc=False):
    """Kubernetes or Slurm refused it; sunk-sync does not repeat it until a fact changes."""

    action: Action
    why: str
    seen: tuple[News, ...] = ()
    number: int | None = None
    """Slurm's error number, where it gave one."""
    missing: bool = False
    """No object has the UID, or no Slurm node the name, of the action: somebody deleted it."""


class Unsure(Struct, frozen=True, gc=False):
    """No answer, or a temporary failure: it may have happened. sunk-sync retries with back-off."""

    action: Action
    why: str
    retry_after_s: float | None = None
    seen: tuple[News, ...] = ()
    """Only what is certain: that an attempt was made."""
    unsent: bool = False
    """Nothing was written, so nothing can arrive late."""


Outcome = Done | Refused | Unsure


def shown_by(outcome: Outcome, *, asked_s: float) -> tuple[News, ...]:
    """Return the facts that an outcome shows; the action began at `asked_s`.

    A job that sunk-sync has just submitted, or read by its id, is a new fact: only a later answer
    of Slurm can contradict it.
    """
    made = isinstance(outcome.action, CreatePod)
    seen = tuple(
        _as_answer(one, asked_s, made=made) if isinstance(one, Observed) else one
        for one in outcome.seen
    )
    match outcome:
        case Refused():
            return (*seen, *_contradiction(outcome, asked_s), *_refusal(outcome))
        case Done(Bind() as bind) if not seen:
            return (_placed(bind, asked_s),)
        case Done():
            return (*seen, *_contradiction(outcome, asked_s))
        case _:
            return seen


def _contradiction(outcome: Done | Refused, asked_s: float) -> tuple[News, ...]:
    action = outcome.action
    if outcome.missing and isinstance(action, OnObject):
        return (Contradicted(action.reference, asked_s),)
    return ()


def _placed(bind: Bind, asked_s: float) -> Placed:
    """The answer to a binding shows only that the API server accepted it."""
    return Placed(bind.reference, bind.node_name, bind.job_id, bind.slurm_node, asked_s)


def _refusal(outcome: Refused) -> tuple[News, ...]:
    action = outcome.action
    match action:
        case SubmitJob():
            identity = action.identity
            return (
                SubmitRefused(
                    identity.workload, outcome.number, outcome.why, action.kind, identity.digest
                ),
            )
        case UpdateJob(change="edit"):  # of others the job stays as it is, and nothing follows
            identity = action.identity
            return (
                SubmitRefused(
                    identity.workload, outcome.number, outcome.why, "update", identity.digest
                ),
            )
        case Bind():
            return (BindRefused(action.reference.uid, action.node_name, outcome.why),)
        case _:
            return ()


def _as_answer(seen: Observed, asked_s: float, *, made: bool) -> Observed | WriteEcho:
    if isinstance(seen.row, Job | Namespace | StorageClass | CsiNode | CsiDriver | StorageCapacity):
        return seen
    return WriteEcho(seen.row, seen.order, asked_s, made)


Push = Callable[[Sequence[Action]], Awaitable[Sequence[Outcome]]]
"""One writer: actions in, one outcome for each, in the same order; it never raises."""
