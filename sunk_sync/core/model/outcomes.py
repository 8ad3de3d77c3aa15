"""What came of an action, and what that shows of the world."""

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


class Done(Struct, frozen=True, gc=False):
    """It happened; `seen` is the world after it, as far as the answer shows."""

    action: Action
    seen: tuple[News, ...] = ()
    missing: bool = False
    """There is no object of the UID that the action names: that was all to do."""


class Refused(Struct, frozen=True, gc=False):
    """The world does not allow it; not repeated until a fact changes."""

    action: Action
    why: str
    seen: tuple[News, ...] = ()
    number: int | None = None
    """Slurm's error number, where it gave one."""
    missing: bool = False
    """There is no object of the UID that the action names."""


class Unsure(Struct, frozen=True, gc=False):
    """No answer, or a passing failure: it may have happened. Tried again with back-off."""

    action: Action
    why: str
    retry_after_s: float | None = None
    seen: tuple[News, ...] = ()
    """Only what is known for certain: that an attempt was made."""


Outcome = Done | Refused | Unsure


def shown_by(outcome: Outcome, *, asked_s: float) -> tuple[News, ...]:
    """What an outcome shows of the world, as news; the action was taken up at `asked_s`.

    A job that we have just made, or looked at by its id, is new knowledge: nothing but a later
    answer of Slurm can deny it.
    """
    seen = tuple(
        _as_answer(one, asked_s) if isinstance(one, Observed) else one for one in outcome.seen
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
    """The answer to a binding shows nothing but that it was taken."""
    of = bind.reference
    return Placed(of.namespace, of.name, of.uid, bind.node_name, bind.job_id, asked_s)


def _refusal(outcome: Refused) -> tuple[News, ...]:
    """Refusals that a rule must know of to choose another way."""
    action = outcome.action
    match action:
        case SubmitJob():
            identity = action.identity
            return (
                SubmitRefused(
                    identity.workload, outcome.number, outcome.why, action.kind, identity.digest
                ),
            )
        case UpdateJob():
            identity = action.identity
            return (
                SubmitRefused(
                    identity.workload,
                    outcome.number,
                    outcome.why,
                    "renewal" if action.exclusions_only else "update",
                    identity.digest,
                ),
            )
        case Bind():
            return (BindRefused(action.reference.uid, action.node_name, outcome.why),)
        case _:
            return ()


def _as_answer(seen: Observed, asked_s: float) -> Observed | WriteEcho:
    return seen if isinstance(seen.row, Job) else WriteEcho(seen.row, seen.order, asked_s)


Push = Callable[[Sequence[Action]], Awaitable[Sequence[Outcome]]]
"""One authority's writer: actions in, one outcome for each, in the same order; never raises."""
