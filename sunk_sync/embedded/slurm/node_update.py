"""Updates of nodes, as slurmctld performs them: fields first, then the state."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.node import DEAF, INVALID_REG, POWER, REBOOTING, Node, reasoned
from sunk_sync.embedded.slurm.model.release import FEATURES, NO_TOPOLOGY, Release, SlurmError


class Update(Struct, frozen=True, kw_only=True):
    """Fields of one update; None: unchanged."""

    state: str | None = None
    """A state in upper case; `?` means several states or an unknown one."""
    reason: str | None = None
    """An empty reason is ignored."""
    comment: str | None = None
    extra: str | None = None
    features: tuple[str, ...] | None = None
    active_features: tuple[str, ...] | None = None
    weight: int | None = None
    gres: str | None = None
    topology: str | None = None


class Rules(Struct, frozen=True, kw_only=True):
    release: Release
    power_saving: bool = False
    """SuspendProgram and ResumeProgram are configured."""
    topologies: tuple[str, ...] = ()


def updated(
    node: Node, update: Update, *, rules: Rules, user: str, epoch_s: int
) -> tuple[Node, SlurmError | None]:
    """Return the updated node, and the error if a part was refused.

    slurmctld writes the fields even if it refuses the topology or the state.
    """
    node, error = _with_features(_with_texts(node, update, user=user, epoch_s=epoch_s), update)
    if error is None:
        node, error = _with_topology(node, update, rules)
    if update.state is not None and error is None:
        changed = _changed(node, update.state, rules)
        node, error = (node, changed) if isinstance(changed, SlurmError) else (changed, None)
    return reasoned(node, rules.release), error


def _with_texts(node: Node, update: Update, *, user: str, epoch_s: int) -> Node:
    texts: dict[str, str | int] = {}
    for name in ("comment", "extra", "gres", "weight"):
        value = getattr(update, name)
        if value is not None:
            texts[name] = value
    if update.reason:
        texts |= {"reason": update.reason, "reason_s": epoch_s, "reason_user": user}
    return replace(node, **texts) if texts else node


def _with_features(node: Node, update: Update) -> tuple[Node, SlurmError | None]:
    """New features become active, unless an active one would be lost."""
    features, active = update.features or node.features, update.active_features
    if active is None:
        lost = not set(node.active_features) <= set(features)
        active = features if update.features else node.active_features
    else:
        lost = not set(active) <= set(features)
    if lost:
        return node, FEATURES
    if (features, active) == (node.features, node.active_features):
        return node, None
    return replace(node, features=features, active_features=active), None


def _with_topology(node: Node, update: Update, rules: Rules) -> tuple[Node, SlurmError | None]:
    wanted = update.topology
    if wanted is None:
        return node, None
    top = ":".join(wanted.split(":")[:2])
    if wanted and top not in rules.topologies:
        return node, NO_TOPOLOGY
    return replace(node, topology=wanted), None


def _changed(node: Node, state: str, rules: Rules) -> Node | SlurmError:
    if state in _POWER_ACTIONS:
        return _power(node, state) if rules.power_saving else rules.release.invalid_power
    change = _CHANGES.get(state)
    changed = None if change is None else change(node)
    return rules.release.invalid_state if changed is None else changed


def _flagged(node: Node, *, add: str = "", drop: frozenset[str] = frozenset()) -> Node:
    return replace(node, flags=(node.flags - drop) | ({add} if add else frozenset()))


_HELD: Final = frozenset({"DRAIN", "FAIL"})


def _undrain(node: Node) -> Node:
    """Remove DRAIN: the node counts as silent until its next ping. A busy node stays FAIL."""
    return _flagged(node, add=DEAF, drop=frozenset({"DRAIN"}) if node.running else _HELD)


def _resume(node: Node) -> Node | None:
    if INVALID_REG in node.flags:
        return None
    if "POWERING_DOWN" in node.flags:
        return _flagged(node, add="POWERED_DOWN", drop=POWER | _HELD)
    if node.base not in ("DOWN", "FUTURE") and not node.flags & (_HELD | REBOOTING):
        return None
    base = "IDLE" if node.base in ("DOWN", "FUTURE") else node.base
    return replace(_flagged(node, add=DEAF, drop=_HELD | REBOOTING), base=base)


def _idle(node: Node) -> Node | None:
    if node.running or node.base == "FUTURE":
        return None
    return replace(_flagged(node, drop=_HELD), base="IDLE")


def _power(node: Node, state: str) -> Node:
    if state == "POWER_UP":
        return _flagged(node, add="POWER_UP")
    if state == "POWER_DOWN_ASAP":
        drained = _flagged(node, add="DRAIN", drop=_HELD)
        node = replace(drained, reason=drained.reason or state)
    return _flagged(node, add="POWER_DOWN")


_POWER_ACTIONS: Final = frozenset({"POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "POWER_UP"})
_CHANGES: Final[Mapping[str, Callable[[Node], Node | None]]] = {
    "UNDRAIN": _undrain,
    "RESUME": _resume,
    "IDLE": _idle,
    "DRAIN": lambda node: _flagged(node, add="DRAIN", drop=_HELD),
    "FAIL": lambda node: _flagged(node, add="FAIL", drop=_HELD),
    "DOWN": lambda node: replace(node, base="DOWN"),
    "FUTURE": lambda node: replace(node, base="FUTURE"),
    DEAF: lambda node: _flagged(node, add=DEAF),
    "INVALID": lambda node: node,
}
"""State → function that returns the node in that state; None: refused."""
