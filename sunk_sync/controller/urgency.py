"""The order in which a work queue sends its writes."""

from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    AnswerStop,
    Bind,
    CancelJob,
    Cordon,
    Drain,
    EndPod,
    GetGang,
    GetJob,
    GetObject,
    Relist,
    SetComment,
    SetConditions,
    SubmitJob,
    Uncordon,
    Undrain,
    UpdateJob,
)

LEISURELY = 2
"""Actions of this urgency or a higher number are not urgent."""


def urgency(action: Action) -> int:
    """Return the urgency; a lower number goes first: drains, then reads, then conditions."""
    match action:
        case Drain() | Undrain() | EndPod() | CancelJob() | AnswerGate() | AnswerStop():
            return 0
        case GetObject() | GetJob() | GetGang() | Cordon() | Uncordon() | Bind():
            return 1
        case Relist() if action.source == "jobs":
            return 1  # a prolog waits for it
        case SetComment() | SubmitJob() | UpdateJob():
            return 2
        case _ if only_unknown(action):
            return 5
        case SetConditions() if action.reference.kind == "Pod":
            return 3  # users see a drain here first; the same condition on the Node may follow
        case _:
            return 4


def only_unknown(action: Action) -> bool:
    """Return whether these conditions only say that the state is unknown (M2)."""
    return isinstance(action, SetConditions) and any(
        condition.status == "Unknown" for condition in action.conditions
    )
