"""The lines of Slurm's topology files (T6, T8)."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from sunk_sync.core.translate.hostlist import compress
from sunk_sync.core.translate.slurmd_options import digest

OWN_LEAF = "nodes"
"""Ends the name of the leaf for nodes that stand at a switch with switches below it: in
topology.conf a switch has either nodes or switches."""


def tree_lines(places: Mapping[str, str], joined: Mapping[str, str]) -> str:
    """Return the switches of topology.conf, sorted by name.

    The last line changes with each registration, because Slurm 24.11 lets a node in only at the
    next reconfigure.
    """
    above: dict[str, str] = {}
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in sorted(places.items(), key=lambda one: (one[1], one[0])):
        _, *switches = place.split(":")
        for upper, lower in pairwise(switches):
            above.setdefault(lower, upper)
        nodes[switches[-1]].append(name)
    below: defaultdict[str, list[str]] = defaultdict(list)
    for lower, upper in above.items():
        below[upper].append(lower)
    lines = [_line(one, below[one], nodes[one]) for one in sorted({*nodes, *above.values()})]
    if not lines:
        return ""
    known = digest(*(f"{name} {joined[name]}" for name in sorted(joined)))
    return "\n".join([*lines, f"# {len(joined)} nodes are registered: {known}\n"])


def _line(name: str, below: list[str], nodes: list[str]) -> str:
    there = compress(nodes)
    if not below:
        return f"SwitchName={name} Nodes={there}"
    if not there:
        return f"SwitchName={name} Switches={','.join(sorted(below))}"
    leaf = f"{name}-{OWN_LEAF}"
    switches = ",".join(sorted({*below, leaf}))
    return f"SwitchName={name} Switches={switches}\nSwitchName={leaf} Nodes={there}"


def block_lines(blocks: Iterable[str]) -> str:
    """Return a line `topology block` for each block. The script puts them into topology.yaml."""
    return "".join(f"{' '.join(one.split(':'))}\n" for one in sorted(blocks))


def content_digest(content: str) -> str:
    """Return what `sha256sum` prints for the content; empty: there is none."""
    return hashlib.sha256(content.encode()).hexdigest() if content else ""
