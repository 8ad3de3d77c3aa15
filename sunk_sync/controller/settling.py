"""Record the outcome of a write in its slot: done, refused, or tried again later."""

from collections.abc import Callable

from sunk_sync.controller.backoff import BACKOFF_FIRST_S, backoff_s
from sunk_sync.controller.pacing import paced_s
from sunk_sync.controller.slots import BEHIND_S, Slot
from sunk_sync.core.model.actions import (
    Action,
    Bind,
    CancelJob,
    EndPod,
    Relist,
    SetScheduled,
    SubmitJob,
)
from sunk_sync.core.model.lock_actions import Unlock
from sunk_sync.core.model.node_set_actions import Condemn, CreatePod, DeleteNode
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.timing import BINDING_S

REFUSED_AGAIN_S = 300.0
"""A refusal holds until a fact changes. Permissions change without one, so try again then."""
UNSEEN_AGAIN_S = 30.0
"""Send a write again if its job still runs, or the new job is still missing, after this time.

slurmctld forgets the last seconds when it is killed (F1). A listing does not count if its source
was lost meanwhile.
"""
ANSWERED_AGAIN_S = 1.0
"""Do not repeat a write that ends or binds something before its effect can be seen."""
ENDS = (Bind, CancelJob, EndPod)


def settle(slot: Slot, outcome: Outcome, *, now: float, random: Callable[[], float]) -> None:
    action, slot.in_flight = slot.in_flight, None
    if isinstance(action, Bind | Unlock | CreatePod | Condemn | DeleteNode):
        unsure = isinstance(outcome, Unsure) and not outcome.unsent
        slot.doubt_until_s = now + (BINDING_S if unsure else BEHIND_S)
    for one in slot.behind:  # the loop takes in the outcome of this slot first
        one.not_before_s = max(one.not_before_s, now + BEHIND_S)
    if not (isinstance(outcome, Unsure) and isinstance(action, SetScheduled)):
        slot.sent, slot.sent_s = action, now  # a lost write starts no pause
    if isinstance(outcome, Unsure):
        slot.attempts += 1
        slot.told_to_wait = outcome.retry_after_s is not None
        slot.not_before_s = now + backoff_s(
            attempts=slot.attempts, retry_after_s=outcome.retry_after_s, random=random()
        )
        return
    slot.attempts = 0
    if slot.desired is not None:
        _settle_answer(slot, slot.desired, action, outcome=outcome, now=now)


def _settle_answer(
    slot: Slot, desired: Action, action: Action | None, *, outcome: Outcome, now: float
) -> None:
    if isinstance(action, SubmitJob) and isinstance(outcome, Done):
        # The desired write may have another shape by now, decided without knowing of this job.
        slot.settled, slot.ask_again_s = desired, now + UNSEEN_AGAIN_S
        return
    if slot.facts_changed and desired == action:
        # Facts newer than this answer may need the write again, or are about to end it.
        slot.not_before_s = max(paced_s(slot, desired), now + BACKOFF_FIRST_S)
        return
    slot.settled = action
    slot.ask_again_s = _ask_again_s(action, outcome, now)
    again_s = now + ANSWERED_AGAIN_S if isinstance(action, ENDS) else 0.0
    slot.not_before_s = max(slot.not_before_s, paced_s(slot, desired), again_s)


def _ask_again_s(action: Action | None, outcome: Outcome, now: float) -> float | None:
    if isinstance(outcome, Refused):
        return now + REFUSED_AGAIN_S
    return now + UNSEEN_AGAIN_S if isinstance(action, CancelJob | EndPod | Relist) else None
