"""Checks of hosts where sunk-sync also makes and deletes the slurmd Pods and their records."""

from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.checks import Checks
from tests.sim.node_sets.truth import BUSY
from tests.sim.words import Object


class HostChecks(Checks):
    """Leaves to NodeSetChecks what only happens to NodeSets."""

    def _check_object(self, kind: str, before: Object | None, after: Object | None) -> None:
        if kind == "NodeSet" or before is None or after is None:
            return
        if kind == "Pod" and words.is_terminating(after) and not words.is_terminating(before):
            return
        super()._check_object(kind, before, after)

    def _our_annotations(self, kind: str) -> frozenset[str]:
        ours = super()._our_annotations(kind)
        return ours | {words.PENDING_DELETION} if kind == "Pod" else ours

    def _our_labels(self, kind: str) -> frozenset[str]:
        ours = super()._our_labels(kind)
        return ours | {BUSY} if kind == "Pod" else ours

    def _other_fields(self, node: Node) -> Node:
        fields = super()._other_fields(node)
        return replace(fields, features=(), active_features=(), weight=1, topology="")

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        if before is None or after is None:
            self.others_changed += 1
            return
        super().slurm_changed(before, after, author)
