"""Weights of packed Slurm nodes, as docs/howto/packing.md describes them (W1-W4)."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.node import DYNAMIC, Node, state_of
from tests.sim import words

_EMPTY: Final = "4"


def own_of(weight: int) -> int | None:
    """Return the own weight in the digits of a packed one; None: it is not a packed one."""
    digits = str(weight)
    packed = len(digits) == 8 and digits[0] == "1" and digits[6] <= _EMPTY and digits[7] == "7"
    return int(digits[1:6]) if packed else None


def with_own_weight(node: Node) -> Node:
    """Return the node without its step, which alone sunk-sync may change while it packs."""
    own = own_of(node.weight)
    return node if own is None else replace(node, weight=own)


def wrong_weight(node: Node, *, packs: bool) -> Iterator[str]:
    """Say what is wrong with the weight of an idle host that has a Node, at rest."""
    own, state = node.spec.weight, frozenset(state_of(node))
    if DYNAMIC in node.flags or state & words.FROZEN:
        return
    if not packs:
        if node.weight != own:
            yield f"W4: {node.spec.name} has weight {node.weight}, not its own {own}"
    elif own_of(node.weight) != own:
        yield f"W1: {node.spec.name} has weight {node.weight}, which is none of its own {own}"
    elif "DRAIN" not in state and str(node.weight)[6] != _EMPTY:
        yield f"W1: {node.spec.name} is idle, and has weight {node.weight}"
