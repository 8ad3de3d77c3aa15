"""Decide what a desired write does to the present node: a change, nothing, or a refusal.

The order of the tests is the order of what must not happen: S13, then drains of others (S11, S12,
S15), then needless requests (S14).
"""

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Drain,
    RewriteReason,
    SetComment,
    SetFeatures,
    SetTopology,
    SetWeight,
    SlurmAction,
    Undrain,
)
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.node_mark import mark_text, parse_mark
from sunk_sync.core.translate.node_features import has_features, noted, of_others
from sunk_sync.core.translate.node_states import (
    DRAIN_FLAG,
    is_drained,
    is_foreign_drain,
    is_frozen,
    is_our_reason,
    is_ours,
    is_under_power,
    keeps_drain,
    wakes_for_jobs,
)
from sunk_sync.core.translate.packed_weight import unpacked


class NodeUpdate(Struct, frozen=True, kw_only=True):
    """Fields of a node update, as slurmrestd takes them; None: unchanged."""

    state: str | None = None
    reason: str | None = None
    comment: str | None = None
    features: tuple[str, ...] | None = None
    active_features: tuple[str, ...] | None = None
    weight: int | None = None
    topology: str | None = None

    def applied_to(self, node: SlurmNode, *, clears_reason: bool) -> SlurmNode:
        """Return the node after the update; `clears_reason`: UNDRAIN empties the reason there."""
        state, reason = node.state, node.reason if self.reason is None else self.reason
        if self.state == DRAIN_FLAG:
            state |= {DRAIN_FLAG}
        elif self.state is not None:
            state -= {DRAIN_FLAG}
            reason = "" if clears_reason else reason
        given = {
            "comment": self.comment,
            "features": self.features,
            "active_features": self.active_features,
            "weight": self.weight,
            "topology": self.topology,
        }
        changed = {name: value for name, value in given.items() if value is not None}
        assumed = node.assumed or bool(self.state)
        return replace(node, state=state, reason=reason, assumed=assumed, **changed)


class Forbidden(Struct, frozen=True):
    """The write is not allowed."""

    why: str


def plan(action: SlurmAction, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    """Return what to write for `action` on the node as just read; None: it is so already."""
    match action:
        case Drain() | Undrain() | RewriteReason():
            return _plan_drain(action, node)
        case _ if is_frozen(node.state):
            return Forbidden(f"Slurm node is {_flags(node)}")
        case SetComment():
            return _comment(action, node)
        case SetFeatures():
            return _features(action, node)
        case SetTopology():
            return _topology(action, node)
        case SetWeight():
            return _weight(action, node)


def _flags(node: SlurmNode) -> str:
    return "+".join(sorted(node.state))


def _plan_drain(
    action: Drain | Undrain | RewriteReason, node: SlurmNode
) -> NodeUpdate | Forbidden | None:
    match action:
        case _ if keeps_drain(node.state):
            return Forbidden(f"Slurm node is {_flags(node)}")
        case _ if is_foreign_drain(node):
            return Forbidden(f"drained by somebody else: {node.reason or 'no reason given'}")
        case Drain():
            return _drain(action, node)
        case Undrain():
            return NodeUpdate(state="UNDRAIN", reason=action.reason) if is_ours(node) else None
        case RewriteReason():
            return _rewrite(action, node)


def _drain(action: Drain, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    drained = is_drained(node.state)
    if drained and node.reason == action.reason:
        return None
    if not drained and wakes_for_jobs(node.state):
        return Forbidden(f"Slurm wakes it for a job, which a drain would end: {_flags(node)}")
    if action.absence and is_under_power(node.state):
        return Forbidden(f"Slurm itself makes or unmakes the machine: {_flags(node)}")
    if action.rewrites and not drained:
        return Forbidden("the node is not drained any more, and the limit on drains must count it")
    return NodeUpdate(state=DRAIN_FLAG, reason=action.reason)


def _rewrite(action: RewriteReason, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    if node.reason == action.reason:
        return None
    if is_drained(node.state):
        return Forbidden("it is drained, so its reason stands rightly")
    if not is_our_reason(node.reason):
        return Forbidden(f"its reason is not ours: {node.reason or 'empty'}")
    return NodeUpdate(reason=action.reason)


def _comment(action: SetComment, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    if node.comment == action.comment:
        return None
    wanted, current = parse_mark(action.comment), parse_mark(node.comment)
    if wanted is None:
        return Forbidden("the new comment is not a mark of ours")
    if node.comment and (current is None or current.cluster != wanted.cluster):
        return Forbidden("its comment belongs to somebody else")
    if current is not None and current.features != wanted.features:
        return NodeUpdate(comment=mark_text(wanted.with_features(current.features)))
    return NodeUpdate(comment=action.comment)


def _topology(action: SetTopology, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    if node.stamp is None:
        return Forbidden("it is not of a NodeSet any more")
    return None if node.topology == action.topology else NodeUpdate(topology=action.topology)


def _features(action: SetFeatures, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    """Slurm wants the features and the active ones together."""
    mark, wanted = parse_mark(node.comment), action.features
    if mark is None:
        return Forbidden("it has no mark, which notes what sunk-sync sets")
    if has_features(node, mark, wanted=wanted):
        return None
    text = mark_text(mark.with_features(noted(node, mark, wanted=wanted)))
    return NodeUpdate(
        comment=text if text != node.comment else None,
        features=_joined(of_others(node.features, mark), wanted),
        active_features=_joined(of_others(node.active_features, mark), wanted),
    )


def _weight(action: SetWeight, node: SlurmNode) -> NodeUpdate | Forbidden | None:
    """A weight that somebody has just set is the new own one, which must not be lost (W3)."""
    if node.weight == action.weight:
        return None
    own = unpacked(node.weight)
    if action.own not in (None, own):
        return Forbidden(f"somebody else set its weight to {own}")
    return NodeUpdate(weight=action.weight)


def _joined(others: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*others, *wanted)))
