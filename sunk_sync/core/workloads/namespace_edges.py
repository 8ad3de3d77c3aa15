"""Dirty edges of Namespaces and of the rules for them → the workloads that read them."""

from sunk_sync.core.model.keys import Key, workload_key
from sunk_sync.core.model.user_policy import Namespace, UserPolicy
from sunk_sync.core.workloads.workloads import Workloads


class NamespaceEdges:
    def __init__(self, workloads: Workloads) -> None:
        self._all = workloads
        self._index = workloads.index
        self._memory = workloads.memory
        self._neighbours = workloads.neighbours

    def policy_changed(self, policy: UserPolicy) -> set[Key]:
        """Other rules apply: check every request again, also one that Slurm refused (P5)."""
        self._all.apply_rules(policy)
        self._memory.unanswered.refusals.clear()
        self._neighbours.rebuild()
        return self._every_workload()

    def changed(self, before: Namespace | None, after: Namespace | None) -> set[Key]:
        """Check its Pods again (P5), and all if their rules read labels that changed (P8)."""
        keys = self._requests_changed(before, after)
        labels = {key for key, _ in _labels_of(before) ^ _labels_of(after)}
        if self._neighbours.namespaces_changed(labels):
            keys |= self._every_workload()
        return keys

    def listed(self) -> None:
        """All Namespaces are known now."""
        self._neighbours.namespaces_listed()

    def _requests_changed(self, before: Namespace | None, after: Namespace | None) -> set[Key]:
        """A label alone changes no request: what Slurm refused stays refused."""
        row = after or before
        if row is None or (before and after and before.defaults == after.defaults):
            return set()
        pods = self._index.pods.items()
        keys = [key for key, of in pods if any(pod.namespace == row.name for pod in of.values())]
        self._memory.unanswered.forget_refusals(keys)
        return set(map(workload_key, self._neighbours.refresh_each(keys).union(keys)))

    def _every_workload(self) -> set[Key]:
        return set(map(workload_key, (*self._index.pods, *self._index.orphans)))


def _labels_of(row: Namespace | None) -> set[tuple[str, str]]:
    return set() if row is None else set(row.labels)
