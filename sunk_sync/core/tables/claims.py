"""Claims of Pods and Nodes on Slurm nodes (design §6), and conflicts between them (S16)."""

from collections import defaultdict
from collections.abc import Iterable

from sunk_sync.core.model.facts import Node, Reference, SlurmdPod, reference_of
from sunk_sync.core.tables.entries import UNCLAIMED, Claim, Entry
from sunk_sync.core.tables.table import Table


class Claims:
    """Indexes over Nodes and slurmd Pods; `HostIdentity` updates them."""

    def __init__(self, *, nodes: Table[Node], pods: Table[SlurmdPod]) -> None:
        self._nodes = nodes
        self._pods = pods
        self._pods_on_node: defaultdict[str, set[str]] = defaultdict(set)
        self._pods_claiming: defaultdict[str, set[str]] = defaultdict(set)
        self._nodes_annotated: defaultdict[str, set[str]] = defaultdict(set)
        self._cached: dict[str, Claim] = {}
        """Computed claims, valid until a Pod or Node that they read changes."""
        self._hosts_cached: dict[str, tuple[str, ...]] = {}
        """Node name → its hosts, as last computed."""

    def add_pod(self, pod: SlurmdPod) -> None:
        """Index a Pod; without a Slurm node it claims nothing."""
        key = pod_key(pod.namespace, pod.name)
        if pod.slurm_node:
            self._pods_claiming[pod.slurm_node].add(key)
        if pod.node_name:
            self._pods_on_node[pod.node_name].add(key)
        self._unsettle(pod.slurm_node, node_name=pod.node_name)

    def drop_pod(self, pod: SlurmdPod) -> None:
        """Remove a Pod from the indexes; `pod` is the old row."""
        key = pod_key(pod.namespace, pod.name)
        _discard(self._pods_claiming, pod.slurm_node, key)
        _discard(self._pods_on_node, pod.node_name, key)
        self._unsettle(pod.slurm_node, node_name=pod.node_name)

    def add_node(self, node: Node) -> None:
        if node.slurm_node:
            self._nodes_annotated[node.slurm_node].add(node.name)
        self._unsettle(node.slurm_node, node_name=node.name)

    def drop_node(self, node: Node) -> None:
        """Remove a Node from the indexes; `node` is the old row."""
        _discard(self._nodes_annotated, node.slurm_node, node.name)
        self._unsettle(node.slurm_node, node_name=node.name)

    def _unsettle(self, slurm_node: str, *, node_name: str) -> None:
        """Drop the cached claims that a changed Pod or Node concerns."""
        self.forget_node(node_name)
        for name in (slurm_node, *self.hosts_on_node(node_name)):
            self.forget(name)

    def forget(self, slurm_node: str) -> None:
        self._cached.pop(slurm_node, None)

    def forget_node(self, name: str) -> None:
        self._hosts_cached.pop(name, None)

    def hosts_on_node(self, name: str) -> tuple[str, ...]:
        """Return the Slurm nodes whose claim reads this Node, through a Pod or directly; sorted."""
        kept = self._hosts_cached.get(name)
        if kept is not None:
            return kept
        hosts = self._hosts_now(name)
        if name in self._nodes.entries:
            self._hosts_cached[name] = hosts
        return hosts

    def _hosts_now(self, name: str) -> tuple[str, ...]:
        hosts = {name}
        node = self._nodes.get(name)
        if node is not None and node.slurm_node:
            hosts.add(node.slurm_node)
        for key in self._pods_on_node.get(name, ()):
            hosts.add(self._pods.entries[key].row.slurm_node)
        return tuple(sorted(hosts))

    def nodes_near(self, slurm_node: str) -> set[str]:
        """Return the names of all Nodes that claim this Slurm node or may claim it."""
        pods = (self._pods.entries[key].row for key in self._pods_claiming.get(slurm_node, ()))
        names = {pod.node_name for pod in pods} - {""}
        return {slurm_node, *self._nodes_annotated.get(slurm_node, ()), *names}

    def host_of_node(self, name: str) -> str:
        """Return the one Slurm node of this Node; empty if Pods claim several."""
        keys = self._pods_on_node.get(name)
        if not keys:
            return self._own_claim(name)
        if len(keys) == 1:
            pod = self._pods.entries[next(iter(keys))].row
            return self._own_claim(name) if pod.finished else pod.slurm_node
        names = self._names_on_node(name)
        if len(names) > 1:
            return ""
        return next(iter(names)) if names else self._own_claim(name)

    def owns_node(self, slurm_node: str, claim: Claim) -> bool:
        """Whether the Node of the claim belongs to this Slurm node and to no other."""
        node = claim.node
        return node is not None and (claim.alone or self.host_of_node(node.row.name) == slurm_node)

    def claim_of(self, slurm_node: str) -> Claim:
        """Return the current Pod and Node of this Slurm node, or the rivals."""
        kept = self._cached.get(slurm_node)
        if kept is not None:
            return kept
        claim = self._claim_now(slurm_node)
        if claim == UNCLAIMED:
            return UNCLAIMED
        self._cached[slurm_node] = claim
        return claim

    def _claim_now(self, slurm_node: str) -> Claim:
        keys = self._pods_claiming.get(slurm_node)
        annotated = self._nodes_annotated.get(slurm_node)
        if not keys:
            return self._claim_of_nodes(slurm_node, finished=None)
        if len(keys) == 1 and not annotated:
            only = self._pods.entries[next(iter(keys))]
            node_name = only.row.node_name
            if not only.row.finished and len(self._pods_on_node.get(node_name, ())) < 2:
                return Claim(pod=only, node=self._nodes.entries.get(node_name), alone=True)
        entries = [self._pods.entries[key] for key in sorted(keys)]
        living = [entry for entry in entries if not entry.row.finished]
        if not living:
            finished = max(entries, key=lambda entry: entry.since_s)
            return self._claim_of_nodes(slurm_node, finished=finished)
        standing = _effective(living)
        rivals = [] if len(standing) == 1 else [reference_of(entry.row) for entry in living]
        pod = standing[0]
        rivals += self._rivals_on_node(pod.row)
        if annotated:
            rivals += self._rivals_by_annotation(annotated)
        if rivals:
            rivals.append(reference_of(pod.row))
            return Claim(rivals=tuple(sorted(set(rivals), key=lambda one: one.path)))
        return Claim(pod=pod, node=self._nodes.entries.get(pod.row.node_name))

    def stray_of(self, slurm_node: str) -> Node | None:
        """Return the Node named like this Slurm node, if another object claims the Slurm node."""
        node = self._nodes.get(slurm_node)
        if node is None:
            return None
        alone = not self._names_on_node(slurm_node)
        return node if alone and self._own_claim(slurm_node) == slurm_node else None

    def _claim_of_nodes(self, slurm_node: str, *, finished: Entry[SlurmdPod] | None) -> Claim:
        """Return the claim of Nodes without a living slurmd Pod: by annotation, then by name."""
        annotated = [
            name
            for name in sorted(self._nodes_annotated.get(slurm_node, ()))
            if not self._names_on_node(name)
        ]
        if len(annotated) > 1:
            rivals = tuple(reference_of(self._nodes.entries[name].row) for name in annotated)
            return Claim(finished=finished, rivals=rivals)
        name = annotated[0] if annotated else slurm_node
        if self.host_of_node(name) != slurm_node:
            return Claim(finished=finished)
        return Claim(finished=finished, node=self._nodes.entries.get(name))

    def _own_claim(self, name: str) -> str:
        node = self._nodes.get(name)
        return "" if node is None else node.slurm_node or name

    def _names_on_node(self, name: str) -> set[str]:
        """Return the Slurm nodes that slurmd Pods on the Node claim; terminating Pods yield."""
        keys = self._pods_on_node.get(name)
        if not keys:
            return set()
        living = [entry for key in keys if not (entry := self._pods.entries[key]).row.finished]
        return {entry.row.slurm_node for entry in _effective(living)}

    def _rivals_on_node(self, pod: SlurmdPod) -> list[Reference]:
        """Return other Pods on the Node that claim another Slurm node; terminating ones yield."""
        keys = self._pods_on_node.get(pod.node_name, ())
        if len(keys) < 2 or pod.terminating:
            return []
        others = [self._pods.entries[key].row for key in keys]
        return [
            reference_of(other)
            for other in others
            if not (other.finished or other.terminating) and other.slurm_node != pod.slurm_node
        ]

    def _rivals_by_annotation(self, annotated: Iterable[str]) -> list[Reference]:
        """Return Nodes without a living slurmd Pod whose annotation names what a Pod claims."""
        return [
            reference_of(self._nodes.entries[name].row)
            for name in annotated
            if not self._names_on_node(name)
        ]


def pod_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def yields(before: SlurmdPod, after: SlurmdPod | None) -> bool:
    """Whether the Pod no longer claims its Slurm node, or lets another claim it."""
    if after is None or after.finished or after.terminating:
        return True
    return after.slurm_node != before.slurm_node


def same_claim(before: SlurmdPod, after: SlurmdPod) -> bool:
    """Whether the change affects no claim, and so no index and no last known place.

    A change of a finished Pod always does: the Pod that changed last represents the host.
    """
    return (
        not after.finished
        and before.slurm_node == after.slurm_node
        and before.node_name == after.node_name
        and before.uid == after.uid
        and before.finished == after.finished
        and before.terminating == after.terminating
    )


def same_own_claim(before: Node, after: Node) -> bool:
    return before.slurm_node == after.slurm_node and before.uid == after.uid


def _effective(living: list[Entry[SlurmdPod]]) -> list[Entry[SlurmdPod]]:
    """Return the claims that count: terminating Pods yield to exactly one other Pod."""
    if len(living) < 2:
        return living
    staying = [entry for entry in living if not entry.row.terminating]
    return staying if len(staying) == 1 else living


def _discard(index: defaultdict[str, set[str]], name: str, key: str) -> None:
    keys = index.get(name)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[name]
