"""Pods of other schedulers, by what rules about other Pods read of them (P8).

Nodes have many such Pods, so they are counted by kind only while some rule reads them.
"""

from collections import Counter
from collections.abc import Collection
from functools import reduce

from sunk_sync.core.model.facts import Taken
from sunk_sync.core.model.pod_spec import OtherPod, PodSpec
from sunk_sync.core.translate.pod_rules import (
    ALL_NAMESPACES,
    NOTHING_READ,
    Kind,
    LabelsRead,
    labels_read,
    only,
)
from sunk_sync.core.workloads.namespaces import Namespaces


class OtherKinds:
    def __init__(self, *, watched: Collection[str], namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._watched = frozenset(watched)
        """Namespaces of the Pods that sunk-sync schedules; `*`: all."""
        self._on: dict[str, tuple[tuple[OtherPod, int], ...]] = {}
        """Node → its Pods of other schedulers, and their numbers."""
        self._apart: Counter[OtherPod] = Counter()
        """Those with a rule that can keep a Pod of sunk-sync away."""
        self._labels: Counter[LabelsRead] = Counter()
        """What their rules read → number of these kinds."""
        self._read: LabelsRead | None = None
        """Labels that count; None: no Pod has a rule."""
        self.nodes: dict[Kind, Counter[str]] = {}
        """Kind → Node → number of its Pods there."""

    @property
    def keep_away(self) -> bool:
        """Whether some Pod can keep a Pod of sunk-sync away by its own rule."""
        return bool(self._apart)

    def labels_read(self) -> LabelsRead:
        """Return the labels that their rules read."""
        return reduce(LabelsRead.joined, self._labels, NOTHING_READ)

    def read(self, labels: LabelsRead | None) -> None:
        """Count anew, by these labels from now on; None: count nothing."""
        self._read = labels
        self.nodes = {}
        if labels is None:
            return
        for node_name, pods in self._on.items():
            for pod, count in pods:
                self._count(node_name, self._kind(pod, labels), count)

    def take(self, taken: Taken) -> set[Kind]:
        """Pods changed on a Node: return the kinds whose number changed there."""
        change = Counter(dict(taken.pods))
        change.subtract(dict(self._on.pop(taken.node_name, ())))
        if taken.pods:
            self._on[taken.node_name] = taken.pods
        kinds = set()
        for pod, count in change.items():
            if count and self._can_keep_away(pod):
                self._note_rule(pod, count)
            if count and self._read is not None:
                kind = self._kind(pod, self._read)
                self._count(taken.node_name, kind, count)
                kinds.add(kind)
        for kind in kinds:
            if not self.nodes[kind]:
                del self.nodes[kind]
        return kinds

    def _note_rule(self, pod: OtherPod, count: int) -> None:
        if pod not in self._apart:
            self._labels[labels_read(pod.rules)] += 1
        self._apart[pod] += count
        if not self._apart[pod]:
            del self._apart[pod]
            self._labels -= Counter((labels_read(pod.rules),))

    def _can_keep_away(self, pod: OtherPod) -> bool:
        """Whether a term of its anti-affinity reads a namespace of sunk-sync's Pods."""
        apart = pod.rules.apart
        if any(term.namespace_selector is not None for term in apart):
            return True
        spaces = {one for term in apart for one in term.namespaces or (pod.namespace,)}
        everywhere = ALL_NAMESPACES in spaces | self._watched
        return bool(spaces) and (everywhere or not spaces.isdisjoint(self._watched))

    def _count(self, node_name: str, kind: Kind, count: int) -> None:
        nodes = self.nodes.setdefault(kind, Counter())
        nodes[node_name] += count
        if not nodes[node_name]:
            del nodes[node_name]

    def _kind(self, pod: OtherPod, read: LabelsRead) -> Kind:
        return Kind(
            pod.namespace,
            only(pod.labels, read.of_pods),
            self._namespaces.labels(pod.namespace, read=read.of_namespaces),
            PodSpec(rules=pod.rules),
            leaving=pod.terminating,
            other=True,
        )
