"""Find the key that a person means by a kind and a name."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from sunk_sync.core.explain.account import Kind, Unknown
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Pod, SlurmdPod
from sunk_sync.core.model.keys import (
    GANG_PREFIX,
    Key,
    gang_name,
    host_key,
    node_set_key,
    workload_key,
    workload_key_of,
)

SIMILAR_MAX = 5
NAMES_MAX = 400
"""Names that are compared with a wrong one, for 40 µs each: a step of the loop must stay short."""
ALIKE = 3
"""Characters."""

Found = tuple[Key, str]
"""The key, and the name as sunk-sync spells it."""


def find(graph: Graph, *, kind: Kind, name: str) -> Found | Unknown:
    return _FINDERS[kind](graph, name)


def _host(graph: Graph, name: str) -> Found | Unknown:
    """A Slurm node, or the Node of one."""
    claimed = graph.claims.host_of_node(name) if name in graph.nodes.entries else ""
    for one in (name, claimed):
        if graph.keys.knows_host(one):
            return host_key(one), one
    hosts = [*graph.slurm_nodes.entries, *graph.nodes.entries]
    return _unknown(f"neither Slurm nor Kubernetes has a node {name}", name, hosts)


def _pod(graph: Graph, name: str) -> Found | Unknown:
    """`namespace/name`, or a name that only one Pod has."""
    pods = {**graph.slurmd_pods.entries, **graph.pods.entries}
    keys = _meant(pods, name)
    if len(keys) > 1:
        return Unknown(f"several namespaces have a Pod {name}", tuple(sorted(keys)[:SIMILAR_MAX]))
    if not keys:
        return _unknown(_no_pod(graph, name), name, pods)
    row = graph.slurmd_pods.get(keys[0]) or graph.pods.get(keys[0])
    if isinstance(row, SlurmdPod):
        return host_key(row.slurm_node), row.slurm_node
    assert isinstance(row, Pod)
    return workload_key(workload_key_of(row)), keys[0]


def _no_pod(graph: Graph, name: str) -> str:
    configuration = graph.configuration
    of_slurmd = f"no slurmd Pod {name}{_among(configuration.slurmd_namespaces)}"
    if not configuration.scheduler:
        return f"{of_slurmd}; component scheduler is off, so workload Pods are not read"
    where = _among(configuration.watch_namespaces)
    return f"no Pod {name} with schedulerName {configuration.scheduler}{where}, and {of_slurmd}"


def _among(namespaces: Sequence[str]) -> str:
    """Return where sunk-sync reads, or nothing if it reads everywhere."""
    if "*" in namespaces:
        return ""
    return f" in {'namespaces' if len(namespaces) > 1 else 'namespace'} {', '.join(namespaces)}"


def _job(graph: Graph, name: str) -> Found | Unknown:
    keys = graph.workloads.index.keys_of_job(name)
    if keys:
        return workload_key(min(keys)), name
    why = f"Slurm job {name} is no placeholder of this cluster, or it ended and is forgotten"
    return _unknown(why, name, graph.jobs.entries)


def _gang(graph: Graph, name: str) -> Found | Unknown:
    """`namespace/name`, or a name that only one gang has."""
    gangs = {
        gang_name(key): key for key in graph.workloads.index.pods if key.startswith(GANG_PREFIX)
    }
    names = _meant(gangs, name)
    if len(names) == 1:
        return workload_key(gangs[names[0]]), names[0]
    if names:
        return Unknown(f"several namespaces have a gang {name}", tuple(sorted(names)[:SIMILAR_MAX]))
    return _unknown(f"no Pod belongs to a gang {name}", name, gangs)


def _node_set(graph: Graph, name: str) -> Found | Unknown:
    if not graph.configuration.node_sets:
        return Unknown("component nodesets is off")
    known = graph.node_sets.node_sets.entries
    keys = _meant(known, name)
    if len(keys) == 1:
        return node_set_key(keys[0]), keys[0]
    if keys:
        return Unknown(f"several namespaces have a NodeSet {name}", tuple(sorted(keys)))
    return _unknown(_no_node_set(graph, name), name, known)


def _no_node_set(graph: Graph, name: str) -> str:
    """Say where sunk-sync looks: it may not even ask whether there is a NodeSet elsewhere."""
    namespaces = graph.configuration.slurmd_namespaces
    if "*" in namespaces:
        return f"there is no NodeSet {name}"
    namespace = name.rpartition("/")[0]
    watched = _among(namespaces).removeprefix(" in ")
    if not namespace or namespace in namespaces:
        none = f"there is no NodeSet {name}{_among(namespaces)}"
        return none if namespace else f"{none}, and sunk-sync watches no other; {_TO_WATCH}"
    look = f"kubectl -n {namespace} get nset {name.rpartition('/')[2]}"
    return (
        f"sunk-sync watches {watched}, not {namespace}: if there is a NodeSet {name} ({look}),"
        f" nobody makes its Pods; {_TO_WATCH}"
    )


_TO_WATCH = "to watch more, set slurmd.namespaces in the chart, or --slurmd-namespace and its roles"


def _meant(known: Collection[str], name: str) -> list[str]:
    """Return this `namespace/name`, or all that end in this name."""
    return [name] if name in known else [one for one in known if one.endswith(f"/{name}")]


def _unknown(why: str, name: str, names: Iterable[str]) -> Unknown:
    # Those that begin alike come first: there may be more names than can be compared.
    known = sorted(dict.fromkeys(names), key=lambda one: one[:ALIKE] != name[:ALIKE])[:NAMES_MAX]
    return Unknown(why, tuple(get_close_matches(name, known, n=SIMILAR_MAX, cutoff=0.5)))


_FINDERS = {"host": _host, "pod": _pod, "job": _job, "gang": _gang, "nodeset": _node_set}
