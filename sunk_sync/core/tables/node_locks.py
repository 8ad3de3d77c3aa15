"""Locked Nodes: since when, who asked last, and which foreign Pods were listed there (L1-L4)."""

from collections.abc import Iterable

from sunk_sync.core.model.calls import LockCall
from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.node_lock import NodePods


class NodeLocks:
    def __init__(self) -> None:
        self.tainted_s: dict[str, float] = {}
        """Node with a lock → when sunk-sync first saw its taint."""
        self.pods: dict[str, NodePods] = {}
        """Node with a lock → the latest listing of its Pods."""
        self.asked_s: dict[str, float] = {}
        """Slurm node → when a prolog last asked for its lock."""

    def node_changed(self, before: Node | None, after: Node | None, *, now: float) -> None:
        was = before is not None and before.uid == getattr(after, "uid", "") and before.tainted
        row = after or before
        assert row is not None
        if after is None or not (after.lock or after.tainted):
            self.tainted_s.pop(row.name, None)
            self.pods.pop(row.name, None)
        elif not was or not after.tainted:
            self.tainted_s[row.name] = now
            self.pods.pop(row.name, None)

    def listed(self, pods: NodePods) -> bool:
        """Take in a listing; return whether it is news."""
        standing = self.pods.get(pods.node_name)
        known = pods.node_name in self.tainted_s
        if not known or (standing is not None and standing.asked_s >= pods.asked_s):
            return False
        self.pods[pods.node_name] = pods
        return True

    def asked(self, call: LockCall) -> None:
        for name in call.slurm_nodes:
            self.asked_s[name] = call.asked_s

    def names(self) -> Iterable[str]:
        """Return the Nodes with a lock."""
        return self.tainted_s
