"""Delete the Pods of a NodeSet that have ended, so that others take their names (N21)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.node_set_actions import ClearPod
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.node_set import NodeSetView


def clear(view: NodeSetView, *_: Configuration | float) -> Ruling:
    """A Pod that has ended never runs again, whoever ended it."""
    ended = [slot.pod for slot in view.slots if slot.pod.finished and not slot.pod.terminating]
    if not ended:
        return QUIET
    wants = tuple(ClearPod(reference_of(pod)) for pod in ended)
    first, pods = ended[0], counted(len(ended), "Pod has", "Pods have")
    return Ruling(wants, f"{pods} ended ({first.name}: {first.failed or 'done'})")
