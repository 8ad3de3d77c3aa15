"""A claim that got no volume before its job ended is free again: no Node stays selected (P8)."""

from typing import Final

from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.model.volume_actions import UnselectNode
from sunk_sync.core.views.parts import Cluster

NAMED_MAX: Final = 3
"""Claims that a reason names."""


def unselect(cluster: Cluster, *_: object) -> Ruling:
    """Take the mark of a job from each claim that needs its Node no more.

    Its volume is bound, or the job has ended, so that no Pod of it runs there.
    """
    if not cluster.selections:
        return QUIET
    wants = [UnselectNode(reference_of(one.claim), one.owner) for one in cluster.selections]
    names = ", ".join([one.claim.name for one in cluster.selections[:NAMED_MAX]])
    return Ruling(tuple(wants), f"claims that need the Node of their job no more: {names}")
