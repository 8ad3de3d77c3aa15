"""Nodes that get a Pod of each NodeSet with one Pod for each Node (N17, N18).

Whether a Node matches is worked out when the Node or the NodeSet changes, and never again.
"""

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, SlurmdPod
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.pod_spec import PodSpec, Toleration
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_fit import Demand, demand_of
from sunk_sync.core.translate.node_set import pod_name_on
from sunk_sync.core.translate.slurmd_pod import AS_OF_DAEMON_SET, STAYS

WHATEVER_REPELS = Toleration(operator="Exists", effect="NoSchedule")


class NodeMatches:
    def __init__(self, nodes: Table[Node]) -> None:
        self._nodes = nodes
        self._of: dict[str, Members] = {}
        """Key of the NodeSet → its Nodes."""

    def node_set_changed(self, spec: NodeSet | None, *, key: str) -> None:
        if spec is None or not spec.per_node:
            self._of.pop(key, None)
            return
        known = self._of.get(key)
        if known is None or known.placement != spec.placement or known.prefix != spec.prefix:
            self._of[key] = Members(spec)
            for entry in self._nodes.entries.values():
                self._of[key].put(entry.row.name, entry.row)

    def node_changed(self, before: Node | None, after: Node | None) -> list[tuple[str, str]]:
        """Return the key of each NodeSet that this concerns, and the name of its Pod there."""
        row = after or before
        assert row is not None
        if before is not None and after is not None and _is_alike(before, after):
            return []
        return [(key, one.put(row.name, after)) for key, one in self._of.items()]

    def wanted(self, spec: NodeSet) -> Sequence[str]:
        """Return the names of the Pods for its Nodes: those of ready Nodes first, then by name."""
        members = self._of[spec.key]
        return sorted(members.wanted, key=lambda name: (not members.is_ready(name), name))

    def that_name(self, name: str) -> list[str]:
        """Return the keys of NodeSets that have a Node for a Pod of this name."""
        return [key for key, members in self._of.items() if name in members.nodes_of]

    def rejects(self, spec: NodeSet, name: str) -> bool:
        """Whether the Node for the Pod of this name is known and does not match.

        A missing Node proves nothing. If it is gone, Kubernetes ends its Pods, and until then the
        rule `drain` looks for the evidence (S8).
        """
        members = self._of[spec.key]
        return name in members.rejecting and name not in members.nodes_of

    def is_misplaced(self, spec: NodeSet, pod: SlurmdPod) -> bool:
        """Whether the Pod must go. One that was not bound yet has nothing to lose."""
        lost = not pod.node_name and not self.nodes_of(spec, pod.name)
        return lost or self.rejects(spec, pod.name)

    @property
    def listed(self) -> bool:
        return self._nodes.listed

    def nodes_of(self, spec: NodeSet, name: str) -> Sequence[str]:
        """Return the Nodes that give a Pod this name; several names can be cut to one."""
        return sorted(self._of[spec.key].nodes_of.get(name, ()))


class Members:
    """The Nodes of one NodeSet, and the names of its Pods there."""

    def __init__(self, spec: NodeSet) -> None:
        self.placement, self.prefix = spec.placement, spec.prefix
        self.wanted: dict[str, None] = {}
        """Names of the Pods that should exist."""
        self.nodes_of: defaultdict[str, set[str]] = defaultdict(set)
        """Name of a Pod → Nodes where it may be."""
        self.rejecting: defaultdict[str, set[str]] = defaultdict(set)
        """Name of a Pod → Nodes that do not match."""
        self._accepts = _demand(spec.placement)
        self._endures = _demand(spec.placement, WHATEVER_REPELS)
        self._accepting: set[str] = set()
        self._ready: set[str] = set()

    def is_ready(self, name: str) -> bool:
        """Whether a Node for the Pod of this name is ready."""
        return not self._ready.isdisjoint(self.nodes_of.get(name, ()))

    def pod_name(self, node_name: str) -> str:
        return pod_name_on(node_name, prefix=self.prefix)

    def put(self, node_name: str, node: Node | None) -> str:
        """Compare the Node again; None: it is gone. Return the name of its Pod."""
        name = self.pod_name(node_name)
        for known in (self.nodes_of[name], self.rejecting[name], self._accepting, self._ready):
            known.discard(node_name)
        if node is not None:
            self._add(name, node)
        if self.nodes_of[name] & self._accepting:
            self.wanted[name] = None
        else:
            self.wanted.pop(name, None)
        for index in (self.nodes_of, self.rejecting):
            if not index[name]:
                del index[name]
        return name

    def _add(self, name: str, node: Node) -> None:
        if node.ready == "True":
            self._ready.add(node.name)
        if self._endures.reasons(node):
            self.rejecting[name].add(node.name)
            return
        self.nodes_of[name].add(node.name)
        if not self._accepts.reasons(node):
            self._accepting.add(node.name)


def _is_alike(before: Node, after: Node) -> bool:
    return before.offer == after.offer and before.ready == after.ready


def _demand(placement: PodSpec, *further: Toleration) -> Demand:
    """Prepare the rules of the template, and what sunk-sync adds to each Pod.

    A taint that only keeps new Pods away does not end one that runs, as with a DaemonSet.
    """
    tolerations = (*placement.tolerations, *STAYS, *AS_OF_DAEMON_SET, *further)
    return demand_of(replace(placement, tolerations=tolerations))
