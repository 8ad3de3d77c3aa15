"""Slurm nodes of the Pods of NodeSets, and those of them that have no record in Slurm (N3)."""

from collections import Counter

from sunk_sync.core.model.facts import SlurmdPod
from sunk_sync.core.views.node_set import cause_of

STOOD_S = 300.0
"""A record that stood for so long was a success, although it vanished. No shorter than the longest
wait for a record: if somebody deletes it again and again, Pods are not made anew more often."""


class Registrations:
    def __init__(self) -> None:
        self._pods: Counter[str] = Counter()
        """Slurm node → number of Pods of NodeSets that claim it."""
        self._ready: Counter[str] = Counter()
        """The same for Pods that are ready."""
        self.missing: set[str] = set()
        """Slurm nodes with a Pod of a NodeSet and without a record."""
        self._came_s: dict[str, float] = {}
        """Slurm node of such a Pod → when this process saw its record appear."""

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
            self._came_s.pop(name, None)

    def record_came(self, name: str, *, now: float) -> None:
        self.missing.discard(name)
        if name in self._pods:
            self._came_s[name] = now

    def record_went(self, name: str, *, now: float) -> bool:
        """Return whether the record stood for a while."""
        if name in self._pods:
            self.missing.add(name)
        came_s = self._came_s.pop(name, None)
        return came_s is None or now - came_s >= STOOD_S

    def is_in_vain(self, pod: SlurmdPod) -> bool:
        """Whether its slurmd has no record in Slurm, although it is ready and is to stay."""
        waits = pod.ready and not pod.terminating and cause_of(pod) is None
        return waits and pod.slurm_node in self.missing

    def is_ready_pod_without_record(self) -> bool:
        return any(self._ready[name] for name in self.missing)
