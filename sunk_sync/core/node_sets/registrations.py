"""Slurm nodes of the Pods of NodeSets, and those of them that have no record in Slurm (N3)."""

from collections import Counter

from sunk_sync.core.model.facts import SlurmdPod


class Registrations:
    def __init__(self) -> None:
        self._pods: Counter[str] = Counter()
        """Slurm node → number of Pods of NodeSets that claim it."""
        self._ready: Counter[str] = Counter()
        """The same for Pods that are ready."""
        self.missing: set[str] = set()
        """Slurm nodes with a Pod of a NodeSet and without a record."""

    def add(self, pod: SlurmdPod, *, has_record: bool) -> None:
        self._pods[pod.slurm_node] += 1
        self._ready[pod.slurm_node] += pod.ready
        if not has_record:
            self.missing.add(pod.slurm_node)

    def drop(self, pod: SlurmdPod) -> None:
        name = pod.slurm_node
        self._pods[name] -= 1
        self._ready[name] -= pod.ready
        if not self._pods[name]:
            del self._pods[name], self._ready[name]
            self.missing.discard(name)

    def record_came(self, name: str) -> None:
        self.missing.discard(name)

    def record_went(self, name: str) -> None:
        if name in self._pods:
            self.missing.add(name)

    def is_ready_pod_without_record(self) -> bool:
        return any(self._ready[name] for name in self.missing)
