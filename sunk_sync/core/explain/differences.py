"""In what the two sides differ from each other, or from what the rules want."""

from collections.abc import Iterator
from typing import Final, Literal, get_args

from msgspec import Struct

from sunk_sync.core.explain.account import sentence
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.keys import CLUSTER, Key
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.translate.node_states import is_drained, is_foreign_drain
from sunk_sync.core.views.host import Host

DifferenceKind = Literal["write", "held", "drain", "record", "claim", "job", "rule"]
DIFFERENCE_KINDS: Final[tuple[DifferenceKind, ...]] = get_args(DifferenceKind)


class Difference(Struct, frozen=True, kw_only=True):
    kind: DifferenceKind
    """write: wanted and not done. held: policy keeps it back. drain: one side is out of use, the
    other is not. record: slurmd without a record. claim: objects that exclude each other. job: a
    Pod without a job, or a job of which nothing proves whose it is. rule: a rule failed."""
    about: str
    """`host n1`, `pod ns/p1`: what to ask `explain` about."""
    what: str
    age_s: float
    """Seconds since this process first saw it."""


def differences_of(reconciler: Reconciler, key: Key, *, now: float) -> tuple[Difference, ...]:
    """Return the differences in the facts of one key; those in its writes are the outbox's."""
    graph = reconciler.graph
    if key in reconciler.failures:
        what = str(reconciler.failures[key])
        return (Difference(kind="rule", about=about(graph, key), what=what, age_s=0.0),)
    if key[0] == "host":
        return tuple(_of_host(graph, graph.host(key[1]), now=now))
    if key[0] == "workload":
        return tuple(_of_workload(graph, key, now=now))
    return tuple(_of_claims(graph, now=now)) if key == CLUSTER else ()


def about(graph: Graph, key: Key) -> str:
    """Return what a person asks `explain` for."""
    if key[0] == "workload":
        pod = next(iter(graph.workloads.index.pods.get(key[1], {}).values()), None)
        if pod is not None:
            return f"pod {pod.namespace}/{pod.name}"
        ids = graph.workloads.index.job_ids(key[1])
        return f"job {ids[0]}" if ids else f"workload {key[1]}"
    return f"{key[0]} {key[1]}".strip()


def _of_claims(graph: Graph, *, now: float) -> Iterator[Difference]:
    for job_id, (claim, since_s) in graph.workloads.memory.unproven.items():
        what = f"{claim.name} lives, but nothing proves that it is a job of sunk-sync"
        yield Difference(kind="job", about=f"job {job_id}", what=what, age_s=now - since_s)


def _of_host(graph: Graph, host: Host, *, now: float) -> Iterator[Difference]:
    name = f"host {host.name}"
    entry = graph.slurm_nodes.entries.get(host.name)
    age_s = now - entry.changed_s if entry is not None else now - host.pod_since_s
    if host.rivals:
        what = ", ".join(rival.path for rival in host.rivals)
        yield Difference(kind="claim", about=name, what=f"claimed by {what}", age_s=age_s)
    if host.pod is not None and host.slurm_node is None and host.slurm_listed:
        what = f"slurmd Pod {host.pod.namespace}/{host.pod.name} has no record in Slurm"
        yield Difference(kind="record", about=name, what=what, age_s=age_s)
    unequal = _unequal_drain(host)
    if unequal:
        yield Difference(kind="drain", about=name, what=unequal, age_s=age_s)


def _unequal_drain(host: Host) -> str:
    """The rules may want it so: a drain of a person is left alone."""
    slurm_node, node = host.slurm_node, host.node
    if slurm_node is None or node is None:
        return ""
    if is_foreign_drain(slurm_node) and not node.unschedulable:
        return f"drained in Slurm ({slurm_node.reason or 'no reason'}), schedulable in Kubernetes"
    if node.unschedulable and not is_drained(slurm_node.state):
        state = "+".join(sorted(slurm_node.state))
        return sentence("cordoned in Kubernetes", f"{state} in Slurm")
    return ""


def _of_workload(graph: Graph, key: Key, *, now: float) -> Iterator[Difference]:
    workload = graph.workload(key[1])
    if not workload.lost:
        return
    pods = workload.members.bound
    entries = [graph.pods.entries[pod_key(pod.namespace, pod.name)] for pod in pods]
    since_s = max((entry.changed_s for entry in entries), default=now)
    what = f"bound to {', '.join(pod.node_name for pod in pods)}, and Slurm shows no job of it"
    yield Difference(kind="job", about=about(graph, key), what=what, age_s=now - since_s)
