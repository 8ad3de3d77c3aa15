"""Decode Slurm nodes to facts. Unknown and missing fields are allowed.

A state is a list of words or, in the oldest versions, one word.
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.node_set import STAMP_PREFIX, Stamp
from sunk_sync.core.translate.packed_weight import fill_of, own_weight
from sunk_sync.core.translate.slurmd_options import read_stamp
from sunk_sync.slurm.api.answers import UNREADABLE, SlurmError, decoded, printable
from sunk_sync.slurm.decode.wire_node import (
    WireNode,
    WireNodeInUse,
    cpus_of,
    gpus_of,
    memory_of,
)

REASON_KEPT: Final = 1024
COMMENT_KEPT: Final = 4096
USER_KEPT: Final = 64
_STATES_KEPT: Final = 1024


class _WireNodes(Struct, frozen=True):
    nodes: list[WireNode]


class _WireNodesInUse(Struct, frozen=True):
    nodes: list[WireNodeInUse]


_node = msgspec.json.Decoder(WireNode).decode
_nodes = msgspec.json.Decoder(_WireNodes).decode
_node_in_use = msgspec.json.Decoder(WireNodeInUse).decode
_nodes_in_use = msgspec.json.Decoder(_WireNodesInUse).decode
States = frozenset[str]
_states: dict[tuple[str, ...], States] = {}


def read_node(record: bytes, *, usage: bool = False) -> SlurmNode | SlurmError:
    """Decode an element of a listing of nodes; `usage`: also its weight and how full it is."""
    try:
        if usage:
            return _fact_in_use(decoded(_node_in_use, record))
        return _fact(decoded(_node, record))
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"a node is unreadable: {error}"))


def read_nodes(body: bytes, *, usage: bool = False) -> Sequence[SlurmNode] | SlurmError:
    """Decode the nodes of a small answer whose envelope was read."""
    try:
        if usage:
            return [_fact_in_use(node) for node in decoded(_nodes_in_use, body).nodes]
        return [_fact(node) for node in decoded(_nodes, body).nodes]
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"the nodes are unreadable: {error}"))


def _fact(node: WireNode, *, fill: int | None = None) -> SlurmNode:
    # Also without --pack: packing was switched off, and the own weight must come back.
    weighed = fill is not None or own_weight(node.weight) is not None
    stamp = _stamp(_each(node.features)) if node.features else None
    row = SlurmNode(
        name=sys.intern(node.name),
        state=state_of(node.state),
        reason=(node.reason or "")[:REASON_KEPT],
        comment=(node.comment or "")[:COMMENT_KEPT],
        stamp=stamp,
        weight=node.weight if weighed else 0,
        fill=fill,
    )
    if stamp is None:
        return row
    return replace(
        row,
        features=_interned(node.features),
        active_features=_interned(node.active_features),
        weight=node.weight,
        topology=node.topology,
        reason_by=_person(node) if row.reason and not row.ready else "",
    )


def _person(node: WireNode) -> str:
    """Return who drained the node, as far as Slurm knows."""
    return sys.intern(printable(node.reason_set_by_user or "")[:USER_KEPT])


def _fact_in_use(node: WireNodeInUse) -> SlurmNode:
    cpus, memory, gpus = cpus_of(node), memory_of(node), gpus_of(node)
    return _fact(node, fill=fill_of(cpus=cpus, memory=memory, gpus=gpus))


def _each(features: list[str] | str) -> list[str]:
    """Old versions join features with commas."""
    return features if isinstance(features, list) else features.split(",")


def _interned(features: list[str] | str | None) -> tuple[str, ...]:
    return tuple(map(sys.intern, _each(features))) if features else ()


def _stamp(features: Sequence[str]) -> Stamp | None:
    """Return the first stamp among the features."""
    for one in features:
        if one.startswith(STAMP_PREFIX) and (stamp := read_stamp(one)) is not None:
            return stamp
    return None


def state_of(words: list[str] | str | None) -> States:
    """Share one object for equal states: ten thousand nodes have only a few."""
    key = tuple(words) if isinstance(words, list) else (words or "",)
    state = _states.get(key)
    if state is None:
        state = frozenset(word.strip().upper() for word in _split(key))
        if len(_states) < _STATES_KEPT:
            _states[key] = state
    return state


def _split(words: Sequence[str]) -> list[str]:
    """Split `IDLE+DRAIN` of the oldest versions into two words; drop empty words."""
    return [part for word in words for part in word.split("+") if part.strip()]
