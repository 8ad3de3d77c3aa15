"""The order in which a work queue sends its writes."""

from sunk_sync.core.model.actions import Action, Relist, SetConditions, SetMetadata, traits_of
from sunk_sync.core.model.names import MANAGER_RETIRE

LEISURELY = 2
"""Actions of this urgency or a higher number are not urgent."""


def urgency(action: Action) -> int:
    """Return the urgency; a lower number goes first: drains, then reads, then conditions."""
    match action:
        case Relist() if action.source == "jobs":
            return 1  # a prolog waits for it
        case SetMetadata() if action.manager == MANAGER_RETIRE:
            return 2  # the end of the Pod waits for it
        case SetConditions() if only_unknown(action):
            return 5
        case SetConditions() if action.reference.kind == "Pod":
            return 3  # users see a drain here first; the same condition on the Node may follow
        case _:
            return traits_of(action).urgency


def only_unknown(action: Action) -> bool:
    """Return whether these conditions only say that the state is unknown (M2)."""
    if not isinstance(action, SetConditions):
        return False
    return {condition.status for condition in action.conditions} == {"Unknown"}
