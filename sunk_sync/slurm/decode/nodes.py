"""Bytes of slurmrestd to facts, tolerant of versions: unknown fields and missing ones are fine.

A state may be a list of words or, in the oldest versions, one word.
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.slurm.api.answers import UNREADABLE, SlurmError, decoded, printable

REASON_KEPT: Final = 1024
COMMENT_KEPT: Final = 4096
_STATES_KEPT: Final = 1024


class _WireNode(Struct, frozen=True):
    name: str
    state: list[str] | str | None = None
    reason: str | None = None
    comment: str | None = None


class _WireNodes(Struct, frozen=True):
    nodes: list[_WireNode]


_node = msgspec.json.Decoder(_WireNode).decode
_nodes = msgspec.json.Decoder(_WireNodes).decode
States = frozenset[str]
_states: dict[tuple[str, ...], States] = {}


def read_node(record: bytes) -> SlurmNode | SlurmError:
    """One element of a listing of nodes."""
    try:
        return _fact(decoded(_node, record))
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"a node that cannot be read: {error}"))


def read_nodes(body: bytes) -> Sequence[SlurmNode] | SlurmError:
    """The nodes of a small answer whose envelope has been read."""
    try:
        return [_fact(node) for node in decoded(_nodes, body).nodes]
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"nodes that cannot be read: {error}"))


def _fact(node: _WireNode) -> SlurmNode:
    return SlurmNode(
        name=sys.intern(node.name),
        state=state_of(node.state),
        reason=(node.reason or "")[:REASON_KEPT],
        comment=(node.comment or "")[:COMMENT_KEPT],
    )


def state_of(words: list[str] | str | None) -> States:
    """Equal states are one object: ten thousand nodes share a handful."""
    key = tuple(words) if isinstance(words, list) else (words or "",)
    state = _states.get(key)
    if state is None:
        state = frozenset(word.strip().upper() for word in _split(key))
        if len(_states) < _STATES_KEPT:
            _states[key] = state
    return state


def _split(words: Sequence[str]) -> list[str]:
    """`IDLE+DRAIN` of the oldest versions is two words; an empty one is none."""
    return [part for word in words for part in word.split("+") if part.strip()]
