"""Findings about the sizes of nodes: whether Slurm gives more than a Node has left for Pods."""

from collections.abc import Iterator, Sequence

from sunk_sync.cli.findings import Finding, ok, some_of, warn
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.gres import GPU, Pairs, gres_of
from sunk_sync.core.views.host import Host
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.read.node_sizes import NodeSize

_TOPIC = "node sizes"
_MIB = 1024 * 1024


def size_findings(graph: Graph, sizes: Sequence[NodeSize] | SlurmError) -> Iterator[Finding]:
    """Compare each Slurm node with its Node; Nodes and slurmd Pods must be listed."""
    if isinstance(sizes, SlurmError):
        yield warn(
            _TOPIC, f"cannot be compared: {sizes}", "run it again, and see the log of slurmrestd"
        )
        return
    hosts = [(graph.host(size.slurm_node), size) for size in sizes]
    known = [(host, size) for host, size in hosts if host.node and host.node.offer.allocatable]
    larger = [
        f"{size.slurm_node} ({'; '.join(excess)})"
        for host, size in known
        if (excess := _excess(size, host, graph.configuration.gres_map))
    ]
    if larger:
        yield warn(
            _TOPIC,
            "Slurm gives jobs more than the Node has left for their Pods beside slurmd,"
            f" {some_of(larger)}",
            "reserve the difference: CoreSpecCount and MemSpecLimit in slurm.conf, `reserved` in a"
            " NodeSet; fewer GPUs: look at the device plugin; fine where no Pods fill a node",
        )
    elif known:
        nodes = counted(len(known), "Node has", "Nodes have")
        yield ok(_TOPIC, f"{nodes} room for all that Slurm gives to jobs there")


def _excess(size: NodeSize, host: Host, gres_map: Pairs) -> list[str]:
    """Return `16 CPUs, 15.9 left` for each resource of which the Node has too little left.

    A Node without any GPU gets no Pod that wants one, whatever its record has.
    """
    left = _left(host)
    gres = gres_of(left.items(), gres_map)[0].items()
    gpus = sum(count for name, count in gres if name.partition(":")[0] == GPU)
    pairs = (
        ("CPU", size.cpus, left.get("cpu", 0) / 1000),
        ("MiB", size.memory_mib, left.get("memory", 0) // _MIB),
        ("GPU", size.gpus if gpus else 0, gpus),
    )
    return [
        f"{counted(given, unit, unit if unit == 'MiB' else '')}, {rest:g} left"
        for unit, given, rest in pairs
        if given > rest
    ]


def _left(host: Host) -> dict[str, int]:
    """Return what is allocatable beside the slurmd Pod."""
    assert host.node is not None
    taken = dict(host.pod.requests) if host.pod is not None else {}
    offer = host.node.offer.allocatable
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in offer}
