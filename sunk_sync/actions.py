"""What can be wanted of the outside world, and what came of it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from sunk_sync.facts import Answered, Condition, News, Observed, Reference, Source

Target = tuple[str, ...]


class Drain(Struct, frozen=True, gc=False):
    """Set DRAIN with this reason, only over no drain or a drain of ours (S0, S13)."""

    slurm_node: str
    reason: str
    absence: bool = False
    """The cause is an absence or NotReady: counted by the breaker (S19)."""


class Undrain(Struct, frozen=True, gc=False):
    """Take DRAIN off and leave this text, only where the drain is ours (S2)."""

    slurm_node: str
    reason: str


class RewriteReason(Struct, frozen=True, gc=False):
    """Replace a `k8s:` text that stands on a Slurm node without DRAIN (S2)."""

    slurm_node: str
    reason: str


class SetComment(Struct, frozen=True, gc=False):
    """Put our mark into the comment of a Slurm node, only over an empty one or ours (M8)."""

    slurm_node: str
    comment: str


class SetConditions(Struct, frozen=True, gc=False):
    """Our whole set of conditions on a Pod or Node; those left out are removed."""

    reference: Reference
    conditions: tuple[Condition, ...]
    changed_at: tuple[str, ...] = ()
    """lastTransitionTime of each; empty, or missing at the end: the moment of the write."""


class SetMetadata(Struct, frozen=True, gc=False):
    """The whole set of labels and annotations that `manager` owns on a Pod or Node."""

    reference: Reference
    manager: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]


class Cordon(Struct, frozen=True, gc=False):
    """Make a Node unschedulable and mark it as ours, in one write (M7)."""

    reference: Reference


class Uncordon(Struct, frozen=True, gc=False):
    """Give up our cordon and its mark, in one write; a human's own cordon survives it (M7)."""

    reference: Reference


class Announce(Struct, frozen=True, gc=False):
    """Write one Event about an object; the same one twice is one."""

    reference: Reference
    type: str
    """Normal or Warning."""
    reason: str
    message: str


class Look(Struct, frozen=True, gc=False):
    """Read a Node or Pod by name; the answer comes back as a Sighting."""

    kind: str
    namespace: str
    name: str
    after_s: float
    """Time of the answer that was not good enough, 0 for none: tells one question from the next."""


class Relist(Struct, frozen=True, gc=False):
    """List this source completely once more (S19)."""

    source: Source
    after_s: float


SlurmAction = Drain | Undrain | RewriteReason | SetComment
KubeAction = SetConditions | SetMetadata | Cordon | Uncordon | Announce | Look | Relist
Action = SlurmAction | KubeAction


class Done(Struct, frozen=True, gc=False):
    """It happened; `seen` is the world after it, as far as the answer shows."""

    action: Action
    seen: tuple[News, ...] = ()


class Refused(Struct, frozen=True, gc=False):
    """The world does not allow it; not repeated until a fact changes."""

    action: Action
    why: str
    seen: tuple[News, ...] = ()


class Unsure(Struct, frozen=True, gc=False):
    """No answer, or a passing failure: it may have happened. Tried again with back-off."""

    action: Action
    why: str
    retry_after_s: float | None = None


Outcome = Done | Refused | Unsure


def shown_by(outcome: Outcome) -> tuple[News, ...]:
    """What an outcome shows of the world, as news."""
    if isinstance(outcome, Unsure):
        return ()
    return tuple(
        Answered(one.row, one.order) if isinstance(one, Observed) else one for one in outcome.seen
    )


def target_of(action: Action) -> Target:
    """The one thing in the world that the action writes; two wishes for it exclude each other."""
    return _TARGETS[type(action)](action)


def _state(action: Drain | Undrain | RewriteReason) -> Target:
    return ("slurm_node", action.slurm_node, "state")


def _on_object(field: str) -> Callable[[SetConditions | Cordon | Uncordon], Target]:
    def target(action: SetConditions | Cordon | Uncordon) -> Target:
        reference = action.reference
        return (reference.kind, reference.namespace, reference.name, field)

    return target


def _metadata(action: SetMetadata) -> Target:
    reference = action.reference
    return (reference.kind, reference.namespace, reference.name, action.manager)


def _event(action: Announce) -> Target:
    return ("event", action.reference.kind, action.reference.uid, action.reason)


_TARGETS: dict[type, Callable[[Any], Target]] = {
    Drain: _state,
    Undrain: _state,
    RewriteReason: _state,
    SetComment: lambda action: ("slurm_node", action.slurm_node, "comment"),
    SetConditions: _on_object("conditions"),
    SetMetadata: _metadata,
    Cordon: _on_object("cordon"),
    Uncordon: _on_object("cordon"),
    Announce: _event,
    Look: lambda action: ("look", action.kind, action.namespace, action.name),
    Relist: lambda action: ("relist", action.source),
}


Push = Callable[[Sequence[Action]], Awaitable[Sequence[Outcome]]]
"""One authority's writer: actions in, one outcome for each, in the same order; never raises."""
