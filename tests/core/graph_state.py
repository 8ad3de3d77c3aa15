"""All that a graph holds, as one value to compare, and the memos that views may fill."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.tables.claims import Claims
from sunk_sync.core.tables.feasible_hosts import FeasibleHosts
from sunk_sync.core.workloads.residents import ResidentIndex
from sunk_sync.core.workloads.volumes import VolumeIndex

MEMOS: Final[dict[type, tuple[str, ...]]] = {
    Claims: ("_cached", "_hosts_cached"),
    ResidentIndex: ("_cached",),
    # What a view reads of readiness also wakes it when that changes: more reads only wake more.
    FeasibleHosts: ("_cached", "_domains", "_waited_for", "_lost"),
    VolumeIndex: ("_fences",),
}
"""Answers that are computed again when they are dropped."""
Path = tuple[object, ...]


def state_of(graph: Graph) -> dict[Path, object]:
    """Return each value in the graph by its path, without the memos."""
    return dict(_values(graph, (), set()))


def drop_memos(graph: Graph) -> None:
    claims, workloads = graph.claims, graph.workloads
    for one in (claims, workloads.residents, workloads.feasible_hosts, workloads.volumes):
        for name in MEMOS[type(one)]:
            memo = getattr(one, name)
            if isinstance(memo, dict):
                memo.clear()


def _values(one: Any, path: Path, seen: set[int]) -> Iterator[tuple[Path, object]]:
    """Yield the leaves below; a frozen value is a leaf."""
    if isinstance(one, Callable) and not hasattr(one, "__dict__"):  # type: ignore[arg-type]
        return
    parts = _parts(one)
    if parts is None:
        yield path, frozenset(one) if isinstance(one, set) else one
    elif id(one) not in seen:
        seen.add(id(one))
        yield (*path, "keys"), tuple(parts)
        for name, part in parts.items():
            yield from _values(part, (*path, name), seen)


def _parts(one: Any) -> dict[object, Any] | None:
    """Return the parts of what can change; None: a leaf."""
    if isinstance(one, dict):
        return dict(dict.items(one))  # a history's tables note reads
    if isinstance(one, list):
        return dict(enumerate(one))
    if isinstance(one, Struct):
        if type(one).__struct_config__.frozen:
            return None
        return {name: getattr(one, name) for name in one.__struct_fields__}
    if not hasattr(one, "__dict__") or isinstance(one, type) or callable(one):
        return None
    memos = MEMOS.get(type(one), ())
    return {name: part for name, part in vars(one).items() if name not in memos}
