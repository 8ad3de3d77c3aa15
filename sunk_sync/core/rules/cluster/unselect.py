"""A claim that got no volume before its job ended is free again: no Node stays selected (P8)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.model.volume_actions import UnselectNode
from sunk_sync.core.views.parts import Cluster


def unselect(cluster: Cluster, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Take the Node back from each claim whose job has ended; no job runs there for its Pod."""
    if not cluster.selections:
        return QUIET
    wants = [UnselectNode(reference_of(one.claim), one.owner) for one in cluster.selections]
    count = len(wants)
    claims = "1 claim is" if count == 1 else f"{count} claims are"
    return Ruling(tuple(wants), f"{claims} not bound to the Node of an ended job any more")
