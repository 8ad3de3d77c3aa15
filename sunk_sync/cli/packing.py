"""Findings about packing: which Slurm nodes take no part, and what that means for the others."""

from collections.abc import Iterator, Sequence

from sunk_sync.cli.findings import Finding, ok, some_of, warn
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.packed_weight import OWN_MAX, own_weight, unpacked

_TOPIC = "packing"


def packing_findings(graph: Graph) -> Iterator[Finding]:
    """Check every Slurm node; all sources must be listed."""
    hosts = [graph.host(name) for name in sorted(graph.slurm_nodes.entries)]
    rows = [host.slurm_node for host in hosts if host.node is not None]
    ours = [row for row in rows if row is not None]
    others = [h.slurm_node for h in hosts if h.node is None and h.slurm_node is not None]
    if graph.configuration.pack == "off":
        yield from _left_behind(others)
        return
    heavy = [row.name for row in ours if unpacked(row.weight) > OWN_MAX]
    yield ok(_TOPIC, counted(len(ours) - len(heavy), "host is packed", "hosts are packed"))
    if heavy:
        yield warn(
            _TOPIC,
            f"hosts of a weight above {OWN_MAX} are not packed, {some_of(heavy)}",
            "give the kinds of nodes smaller weights in slurm.conf: only their order counts",
        )
    if others:
        yield warn(
            _TOPIC,
            "Slurm nodes without a Node keep their weight, so that Slurm gives them before all"
            f" packed ones, {some_of([one.name for one in others])}",
            "fine where they share no partition with hosts in Kubernetes",
        )


def _left_behind(others: Sequence[SlurmNode]) -> Iterator[Finding]:
    packed = [row.name for row in others if own_weight(row.weight) is not None]
    if packed:
        yield warn(
            _TOPIC,
            f"Slurm nodes without a Node have the weight of a packed one, {some_of(packed)}",
            "the command in deploy/README.md, Remove everything, gives them their own weight back",
        )
