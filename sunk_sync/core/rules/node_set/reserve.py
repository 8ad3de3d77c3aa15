"""Reserve the Slurm nodes that wait for an update, and take them off once they have it (N16)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.node_set_actions import SetReservation
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.node_set import NodeSetView

AGAIN_S = 60.0
"""A reservation that somebody deleted is made again so soon."""


def reserve(view: NodeSetView, _: Configuration, now: float) -> Ruling:
    """Have one reservation of the outdated nodes, and none without such a node.

    A record that must go is not outdated, because its Pod is gone: Slurm deletes no record that is
    reserved.
    """
    spec, window = view.spec, view.spec.strategy.window
    if window is None or spec.deleting or view.plan.problem:
        return QUIET
    if not (view.kube_listed and view.slurm_listed) or view.blind:
        return QUIET
    names = tuple(sorted(slot.name for slot in view.slots if slot.outdated and slot.own))
    known = view.reservation
    if known is not None and (known.slurm_nodes, known.window) == (names, window):
        if not names:
            return QUIET
        due_s = known.asked_s + AGAIN_S
        if now < due_s:
            return Ruling(because=known.why_not, look_again_s=due_s)
    waiting = counted(len(names), "Slurm node waits", "Slurm nodes wait")
    because = f"{waiting} for the update" if names else "no node waits for it"
    return Ruling((SetReservation(spec.reservation, spec.key, names, window),), because)
