"""Findings about hosts: whether the names of both sides match."""

from collections.abc import Iterable, Iterator, Sequence

from sunk_sync.cli.findings import Finding, fail, ok, some_of, warn
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.names import SLURM_NODE
from sunk_sync.core.model.node_mark import parse_mark
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.host import Host

_TOPIC = "names"
_NAME_IT = f"annotation {SLURM_NODE} on the slurmd Pod (or the Node) names its Slurm node"
CONFLICTS_SHOWN = 10


def findings_of(graph: Graph, *, selector: str, namespaces: Sequence[str]) -> Iterator[Finding]:
    """Check every host; all three sources must be listed."""
    hosts = [graph.host(name) for name in sorted(_names(graph))]
    yield from _selected(graph, selector, namespaces)
    yield from _matched(hosts)
    yield from _conflicts(hosts)
    yield from _without_slurm_node(hosts, graph)
    yield from _without_kubernetes(hosts)
    yield from _without_node(hosts)
    yield from _comments(hosts, graph.configuration.cluster_uid)


def _names(graph: Graph) -> set[str]:
    pods = {pod.slurm_node for pod in graph.slurmd_pods.rows()}
    nodes = {node.slurm_node for node in graph.nodes.rows()} - {""}
    return {*graph.slurm_nodes.entries, *pods, *nodes}


def _selected(graph: Graph, selector: str, namespaces: Sequence[str]) -> Iterator[Finding]:
    count = len(graph.slurmd_pods.entries)
    where = f"{selector} in {', '.join(namespaces)}"
    if count:
        yield ok("selector", f"{counted(count, 'slurmd Pod matches', 'slurmd Pods match')} {where}")
    else:
        yield warn(
            "selector",
            f"no slurmd Pod matches {where}",
            "check --slurmd-selector and --slurmd-namespace (fine where slurmd runs outside Pods)",
        )


def _matched(hosts: Sequence[Host]) -> Iterator[Finding]:
    matched = [host for host in hosts if host.slurm_node and (host.pod or host.node)]
    if not any(host.slurm_node for host in hosts):
        yield warn(_TOPIC, "Slurm has no nodes", "start a slurmd, or make a NodeSet")
    elif matched:
        with_pod = sum(host.pod is not None for host in matched)
        nodes = counted(len(matched), "Slurm node has its", "Slurm nodes have their")
        yield ok(_TOPIC, f"{nodes} host, {with_pod} by a slurmd Pod")
    else:
        yield fail(_TOPIC, "no Slurm node has a host in Kubernetes", _NAME_IT)


def _conflicts(hosts: Iterable[Host]) -> Iterator[Finding]:
    contested = [host for host in hosts if host.rivals]
    for host in contested[:CONFLICTS_SHOWN]:
        rivals = " and ".join(rival.path for rival in host.rivals[:4])
        yield fail(
            _TOPIC,
            f"Slurm node {host.name} is claimed by {rivals}: nothing is written for any of them",
            f"let one claim it: delete the other, or {_NAME_IT}",
        )
    if len(contested) > CONFLICTS_SHOWN:
        names = some_of([host.name for host in contested])
        yield fail(_TOPIC, f"Slurm nodes claimed more than once, {names}", _NAME_IT)


def _without_slurm_node(hosts: Iterable[Host], graph: Graph) -> Iterator[Finding]:
    """Report claims on Slurm nodes that do not exist; a Node without a claim is no host."""
    unknown = [host for host in hosts if host.slurm_node is None and not host.rivals]
    pods = [f"Pod {h.pod.namespace}/{h.pod.name} → {h.name}" for h in unknown if h.pod]
    nodes = [
        f"Node {host.node.name} → {host.name}"
        for host in unknown
        if host.node and not host.pod and host.node.slurm_node
    ]
    if graph.slurm_nodes.listed and (pods or nodes):
        yield fail(
            _TOPIC,
            f"claims on Slurm nodes that Slurm does not have, {some_of([*pods, *nodes])}",
            f"{_NAME_IT}; or slurmd has not registered: see sinfo and the Pod's log",
        )


def _without_kubernetes(hosts: Iterable[Host]) -> Iterator[Finding]:
    strangers = [h.name for h in hosts if h.slurm_node and not (h.pod or h.node or h.rivals)]
    if strangers:
        yield warn(
            _TOPIC,
            f"Slurm nodes without a host in Kubernetes, never touched, {some_of(strangers)}",
            f"fine where they live elsewhere; else {_NAME_IT}",
        )


def _without_node(hosts: Iterable[Host]) -> Iterator[Finding]:
    waiting = [f"{h.pod.namespace}/{h.pod.name}" for h in hosts if h.pod and not h.node]
    if waiting:
        yield warn(
            _TOPIC,
            f"slurmd Pods whose Node is not there or not chosen yet, {some_of(waiting)}",
            "kubectl describe the Pod",
        )


def _comments(hosts: Iterable[Host], cluster_uid: str) -> Iterator[Finding]:
    """Report foreign comments of Slurm nodes: sunk-sync needs the comment for its mark (M8)."""
    foreign, elsewhere = [], []
    for host in hosts:
        if not (host.slurm_node and (host.pod or host.node)) or not host.slurm_node.comment:
            continue
        mark = parse_mark(host.slurm_node.comment)
        if mark is None:
            foreign.append(host.name)
        elif mark.cluster != cluster_uid:
            elsewhere.append(host.name)
    if foreign:
        yield warn(
            _TOPIC,
            f"Slurm nodes with a comment of somebody else, {some_of(foreign)}",
            "empty the comment: without our mark a Pod or Node that vanishes while sunk-sync is"
            " down leads to no drain (S7, S8)",
        )
    if elsewhere:
        yield fail(
            _TOPIC,
            f"Slurm nodes with the mark of another Kubernetes cluster, {some_of(elsewhere)}",
            "two clusters must not share a Slurm node: stop one, then empty the comment",
        )
