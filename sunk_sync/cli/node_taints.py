"""The finding about taints of hosts: for which of them sunk-sync drains no Node (S21)."""

from collections import Counter
from collections.abc import Iterator

from sunk_sync.cli.findings import Finding, ok
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.node_signs import first_sign
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.host import Host

SHOWN = 8


def taint_findings(graph: Graph) -> Iterator[Finding]:
    """Name them, because a taint that no setting knows may mean that a Node is about to go."""
    wanted = graph.configuration.drain_taints
    nodes = {host.node.name: host.node for host in _hosts(graph) if host.node is not None}
    unknown = Counter(
        sign.name
        for node in nodes.values()
        for sign in node.signs
        if sign.kind == "taint" and first_sign((sign,), "taint", wanted=wanted) is None
    )
    if not unknown:
        return
    rest = len(unknown) - SHOWN
    names = ", ".join(
        f"{name} ({counted(count, 'Node')})" for name, count in unknown.most_common(SHOWN)
    )
    more = f" and {rest} more" if rest > 0 else ""
    yield ok("taints", f"{names}{more}: no Node is drained for these; --drain-taints names others")


def _hosts(graph: Graph) -> Iterator[Host]:
    return (graph.host(name) for name in graph.slurm_nodes.entries)
