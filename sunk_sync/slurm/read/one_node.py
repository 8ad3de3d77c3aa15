"""Read single Slurm nodes now, as the evidence for a write (S0)."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.facts import Deleted, Observed, SlurmNode
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import get_node, list_nodes
from sunk_sync.slurm.decode.nodes import read_node, read_nodes

YOUNG_S: Final = 2.0
"""The longest time between the read of a node and the write that relies on it."""
is_node_name: Final = re.compile(r"[A-Za-z0-9._-]{1,253}").fullmatch
"""Anything else might be a hostlist with more nodes than the one that was read."""
LIST_ABOVE: Final = 50
"""One listing replaces more reads than this."""


class Seen(Struct, frozen=True):
    """The result of a read; node None: Slurm has no node with this name."""

    name: str
    node: SlurmNode | None
    asked_s: float
    too_old: str = ""
    """Why no write may rely on this read, or empty."""

    @property
    def news(self) -> tuple[Observed | Deleted]:
        if self.node is None:
            return (Deleted("slurm_nodes", "", self.name, "", self.asked_s),)
        return (Observed(self.node, self.asked_s),)


Reads = Mapping[str, Seen | SlurmError]


async def read_nodes_now(
    client: Slurm, names: AbstractSet[str], *, bulk: bool, clock: Clock, usage: bool = False
) -> Reads:
    """Read each node, or all by one listing if there are many. Never raise."""
    if len(names) > LIST_ABOVE:
        return await _read_all(client, names, usage=usage)
    ordered = sorted(names)
    reads = (_read_timed(client, name, bulk=bulk, clock=clock, usage=usage) for name in ordered)
    seen = await anyio.gather(*reads)
    now_s = clock()
    young = [_while_young(one, age_s=now_s - answered_s) for one, answered_s in seen]
    return dict(zip(ordered, young, strict=True))


def _while_young(seen: Seen | SlurmError, *, age_s: float) -> Seen | SlurmError:
    """Mark a read that is too old for a write, because a slower read of its batch delayed it."""
    if isinstance(seen, SlurmError) or age_s <= YOUNG_S:
        return seen
    return replace(seen, too_old=f"the read is {age_s:.0f} s old: its batch took too long")


async def _read_timed(
    client: Slurm, name: str, *, bulk: bool, clock: Clock, usage: bool
) -> tuple[Seen | SlurmError, float]:
    """Return also the second of the answer."""
    seen = await _read_one(client, name, bulk=bulk, clock=clock, usage=usage)
    return seen, clock()


async def _read_one(
    client: Slurm, name: str, *, bulk: bool, clock: Clock, usage: bool
) -> Seen | SlurmError:
    asked_s = clock()
    answer = await client.call(get_node(name, bulk=bulk))
    if isinstance(answer, SlurmError):
        return Seen(name, None, asked_s) if answer.kind == "no_such" else answer
    nodes = read_nodes(answer.body, usage=usage)
    if isinstance(nodes, SlurmError):
        return nodes
    if [node.name for node in nodes] != [name]:
        return SlurmError("garbage", f"slurmrestd answered without Slurm node {name}")
    return Seen(name, nodes[0], answer.asked_s)


async def _read_all(client: Slurm, names: AbstractSet[str], *, usage: bool) -> Reads:
    found: dict[str, SlurmNode] = {}

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        del asked_s
        for record in records:
            node = read_node(record, usage=usage)
            if isinstance(node, SlurmError):
                return node
            if node.name in names:
                found[node.name] = node
        return None

    answer = await client.read_records(list_nodes(), "nodes", take)
    if isinstance(answer, SlurmError):
        return dict.fromkeys(names, answer)
    return {name: Seen(name, found.get(name), answer.asked_s) for name in names}
