"""The account of one host: its Slurm node, its slurmd Pod and its Node, and the Pods there."""

from collections.abc import Iterator

from sunk_sync.core.explain.account import SEE_MAX, Fact, polled, sentence, watched
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode
from sunk_sync.core.model.names import CORDON, SLURM_NODE
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.translate.node_states import is_foreign_drain, is_ours, keeps_drain
from sunk_sync.core.translate.packed_weight import FILL_WORDS, OWN_MAX, own_weight
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Resident

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""With this taint Kubernetes deletes the Pods of a Node that does not answer (N19)."""


def host_facts(graph: Graph, name: str, *, now: float) -> tuple[Fact, ...]:
    host = graph.host(name)
    return (
        *_kube_facts(graph, host, now=now),
        _slurm_fact(graph, name, now=now),
        *_rival_facts(host),
        *_resident_facts(host),
        *_call_facts(host, now=now),
    )


def _kube_facts(graph: Graph, host: Host, *, now: float) -> Iterator[Fact]:
    pod = host.pod or host.traces.finished
    if host.node is not None:
        entry = graph.nodes.entries[host.node.name]
        ages = watched(graph.nodes, entry, now=now)
        yield Fact(
            side="Kubernetes", what=f"Node {host.node.name}", says=_of_node(host.node), **ages
        )
    elif host.traces.last is not None and host.traces.node_absent:
        yield Fact(side="Kubernetes", what=f"Node {host.traces.last.node}", says="not listed")
    elif pod is None:
        yield Fact(side="Kubernetes", what=f"Node {host.name}", says=_unclaimed(graph, host))
    if pod is not None:
        entry_of_pod = graph.slurmd_pods.entries[pod_key(pod.namespace, pod.name)]
        ages = watched(graph.slurmd_pods, entry_of_pod, now=now)
        what = f"Pod {pod.namespace}/{pod.name}"
        yield Fact(side="Kubernetes", what=what, says=_of_pod(pod), **ages)


def _unclaimed(graph: Graph, host: Host) -> str:
    others = _names_on_node(graph, host.name)
    if host.rivals:
        return "claimed more than once, so sunk-sync counts no claim"
    if others:
        return f"the slurmd Pod there claims Slurm node {shortened(others)}, not this one"
    return "no Node or slurmd Pod claims it"


def _names_on_node(graph: Graph, name: str) -> list[str]:
    """Return other Slurm nodes that objects on the Node of this name claim."""
    return [one for one in graph.claims.hosts_on_node(name) if one != name]


def _of_node(node: Node) -> str:
    return sentence(
        {"True": "ready", "False": "not ready"}.get(node.ready, "readiness unknown"),
        f"cordoned ({node.cordon_reason})" if node.cordon_reason else "",
        "cordoned" if node.unschedulable and not node.cordon_reason else "",
        "by sunk-sync" if node.cordoned_for_drain else "",
        f"lock {node.lock}" if node.lock else "",
        "taint of the lock" if node.tainted else "",
    )


def _of_pod(pod: SlurmdPod) -> str:
    return sentence(
        "slurmd",
        f"of NodeSet {pod.nodeset}" if pod.nodeset else "",
        "ended" if pod.finished else "ready" if pod.ready else "not ready",
        "terminating" if pod.terminating else "",
        f"waits: {pod.waiting}" if pod.waiting else "",
        f"failed: {pod.failed}" if pod.failed else "",
        f"cordoned ({pod.cordon})" if pod.cordon else "",
        f"to be deleted ({pod.pending_deletion})" if pod.pending_deletion is not None else "",
        "marked as drained" if pod.drained else "",
    )


def _slurm_fact(graph: Graph, name: str, *, now: float) -> Fact:
    entry = graph.slurm_nodes.entries.get(name)
    what = f"Slurm node {name}"
    if entry is None:
        says = "Slurm has no such node" if graph.slurm_nodes.listed else "not listed yet"
        return Fact(side="Slurm", what=what, says=says)
    says = _of_slurm_node(entry.row)
    return Fact(side="Slurm", what=what, says=says, **polled(graph.slurm_nodes, entry, now=now))


def _of_slurm_node(node: SlurmNode) -> str:
    return sentence(
        "+".join(sorted(node.state)),
        f"reason {node.reason!r}" if node.reason else "",
        f"features {', '.join(node.active_features)}" if node.active_features else "",
        f"topology {node.topology}" if node.topology else "",
        _of_weight(node),
        "as after the last write of sunk-sync, not read since" if node.assumed else "",
    )


def _of_weight(node: SlurmNode) -> str:
    """Say what a packed weight means, and why a weight cannot be packed."""
    own = own_weight(node.weight)
    if own is not None:
        how_full = "" if node.fill is None else f", {FILL_WORDS[node.fill]}"
        return f"weight {node.weight}: packed, its own is {own}{how_full}"
    if node.fill is not None and node.weight > OWN_MAX:
        return f"weight {node.weight}: not packed, as it is above {OWN_MAX}"
    return ""


def _rival_facts(host: Host) -> Iterator[Fact]:
    for rival in host.rivals:
        yield Fact(side="Kubernetes", what=rival.path, says="claims this Slurm node or Node, too")
    if host.stray is not None:
        says = "has the name of this Slurm node, which another object claims"
        yield Fact(side="Kubernetes", what=f"Node {host.stray.name}", says=says)


def _resident_facts(host: Host) -> Iterator[Fact]:
    for resident in host.residents.all[:SEE_MAX]:
        yield Fact(side="Kubernetes", what=f"Pod {resident.pod}", says=_of_resident(resident))
    more = len(host.residents.all) - SEE_MAX
    if more > 0:
        yield Fact(side="Kubernetes", what="Pods", says=f"and {more} more")


def _of_resident(resident: Resident) -> str:
    job = f"job {resident.job_id}" if resident.job_id else "no live job"
    return sentence(
        f"a workload Pod bound here, {job}",
        "which runs here" if resident.confirmed else "",
        "which has ended" if resident.ended else "",
        "which is not here" if resident.away else "",
        "which Slurm does not show any more" if resident.lost else "",
    )


def _call_facts(host: Host, *, now: float) -> Iterator[Fact]:
    for gate in host.gate_calls:
        says = f"its prolog has waited at the gate for {now - gate.asked_s:.0f} s"
        yield Fact(side="sunk-sync", what=f"job {gate.job_id}", says=says)
    for lock in host.lock.calls:
        says = f"its prolog has waited for the lock for {now - lock.asked_s:.0f} s"
        yield Fact(side="sunk-sync", what=f"job {lock.job_id}", says=says)
    if host.lock.living:
        says = f"they must leave before the lock is complete: {shortened(host.lock.living)}"
        yield Fact(side="sunk-sync", what="foreign Pods", says=says)


def host_cures(graph: Graph, name: str) -> tuple[str, ...]:
    host = graph.host(name)
    return (
        *_cures_of_rivals(host),
        *_cures_of_names(graph, host),
        *_cures_of_slurm(host),
        *_cures_of_kube(host),
    )


def _cures_of_rivals(host: Host) -> Iterator[str]:
    if host.rivals:
        paths = ", ".join(rival.path for rival in host.rivals)
        yield f"Let only one of them claim the Slurm node, and delete or rename the others: {paths}"


def _cures_of_names(graph: Graph, host: Host) -> Iterator[str]:
    if host.pod is None and host.node is None and _names_on_node(graph, host.name):
        yield (
            f"Let the slurmd Pod on Node {host.name} name its Slurm node by spec.hostname, or by"
            f" annotation {SLURM_NODE}={host.name}"
        )


def _cures_of_slurm(host: Host) -> Iterator[str]:
    node = host.slurm_node
    if node is None:
        if host.pod is not None and host.slurm_listed:
            yield log_of(host.pod)
        elif host.node is not None and host.slurm_listed:
            annotate = f"kubectl annotate node {host.node.name} {SLURM_NODE}=NAME"
            yield f"Slurm has no node {host.name}. If its name there differs: {annotate}"
        return
    if keeps_drain(node.state):
        flags = "+".join(sorted(node.state))
        resume = f"scontrol update nodename={node.name} state=resume"
        yield f"sunk-sync does not touch a node in {flags}: {resume}"
    elif is_foreign_drain(node):
        yield (
            "This drain is not of sunk-sync, so only a person lifts it: "
            f"scontrol update nodename={node.name} state=undrain"
        )


def _cures_of_kube(host: Host) -> Iterator[str]:
    """What lifts a drain of sunk-sync, or keeps it away."""
    node, pod = host.node, host.pod
    if node is not None and node.unschedulable and not node.cordoned_for_drain:
        yield f"kubectl uncordon {node.name}"
    if node is not None and node.ready != "True":
        yield f"Make Node {node.name} ready: kubectl describe node {node.name}"
        if pod is not None and pod.owner:
            # Only a person knows that the machine is off: otherwise two slurmd of one name live.
            yield (
                f"If the machine of Node {node.name} is off, Kubernetes moves the Pod elsewhere"
                f" after: kubectl taint node {node.name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute"
            )
    if pod is not None and pod.cordon:
        yield f"kubectl -n {pod.namespace} annotate pod {pod.name} {CORDON}-"
    if pod is not None and not pod.ready:
        yield f"Make the Pod ready: kubectl -n {pod.namespace} describe pod {pod.name}"
    slurm_node = host.slurm_node
    if slurm_node is not None and is_ours(slurm_node) and host.residents.lingering:
        pods = shortened([one.pod for one in host.residents.lingering])
        yield f"The drain ends when these Pods have ended: {pods}"


def log_of(pod: SlurmdPod) -> str:
    """Return how to see why the slurmd of a ready Pod has no record."""
    return f"See why slurmd does not register: kubectl -n {pod.namespace} logs {pod.name}"


def host_see(graph: Graph, name: str) -> tuple[str, ...]:
    host = graph.host(name)
    pods = [f"pod {resident.pod}" for resident in host.residents.all]
    hosts = [f"host {one}" for one in _names_on_node(graph, name)]
    sets = (
        [f"nodeset {host.pod.namespace}/{host.pod.nodeset}"]
        if host.pod and host.pod.nodeset
        else []
    )
    return tuple([*sets, *hosts, *pods][:SEE_MAX])
