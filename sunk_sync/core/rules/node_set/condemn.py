"""Choose the Pods that must go, and mark them with the annotation pending-deletion (N6, N9, N12).

The annotation drains the Slurm node (S6), and the rule `part` deletes the Pod once it is drained.
Who is condemned stays so, unless the reason is gone, or in a scale-in an idle Pod can go instead.
"""

from collections.abc import Iterator, Sequence

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.node_set import Cause, NodeSet, UpdateStrategy
from sunk_sync.core.model.node_set_actions import Condemn, GetJobEnds
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.node_states import in_maintenance
from sunk_sync.core.views.node_set import (
    NodeSetView,
    Slot,
    cause_of,
    condemnation,
    is_available,
    is_held_by_drain,
    is_registered,
    is_set_aside,
    is_slot_busy,
    is_slot_drained,
    next_available_s,
    waits_for_lift,
)

ENDS_KNOWN_S = 60.0
"""What is known of the ends of jobs serves for so long. Each look lists all jobs of Slurm."""

Causes = dict[str, Cause | None]
"""Name of the slot → why its Pod must go; None: it stays."""
Wants = tuple[Condemn | GetJobEnds, ...]


def condemn(view: NodeSetView, _: Configuration, now: float) -> Ruling:
    """Write the annotation where it differs from what is wanted; never while Slurm is unreadable.

    An unreadable Slurm also hides who is busy (N24): policy holds these writes back.
    """
    if view.plan.problem or not (view.kube_listed and view.slurm_listed) or view.blind:
        return QUIET
    slots = [slot for slot in view.slots if not slot.pod.terminating]
    wanted = _wanted(view, slots, now)
    look = _look(view, slots, wanted, now)
    wants: Wants = (*_changes(view.spec, slots, wanted), *look)
    again_s = next_available_s(view, now) if set(wanted.values()) & {"update"} or wants else None
    if not wants:
        return Ruling(look_again_s=again_s) if again_s is not None else QUIET
    return Ruling(wants, _because(view.spec, wants), again_s)


def _look(
    view: NodeSetView, slots: Sequence[Slot], wanted: Causes, now: float
) -> tuple[GetJobEnds, ...]:
    """Ask when jobs end, if some busy Pods go and others stay. Before the answer nothing changes.

    An answer counts also if Slurm did not tell: then the order is that of idle Pods.
    """
    busy = [slot for slot in slots if is_slot_busy(slot) and _has_choice(slot, wanted)]
    moving = [slot for slot in busy if wanted[slot.name] != cause_of(slot.pod)]
    goes = {wanted[slot.name] is not None for slot in busy}
    if not moving or len(goes) < 2 or now < view.ends_read_s + ENDS_KNOWN_S:
        return ()
    for slot in moving:
        wanted[slot.name] = cause_of(slot.pod)
    names = sorted(slot.pod.slurm_node for slot in slots if is_slot_busy(slot))
    return (GetJobEnds(view.spec.key, tuple(names)),)


def _has_choice(slot: Slot, wanted: Causes) -> bool:
    """Whether another Pod could go in its place."""
    cause = wanted[slot.name] or cause_of(slot.pod)
    return cause in (None, "scale-in", "update")


def _wanted(view: NodeSetView, slots: Sequence[Slot], now: float) -> Causes:
    spec = view.spec
    if spec.deleting:
        cause: Cause | None = None if spec.orphan else "deletion"
        return {slot.name: cause for slot in slots}
    misplaced = [slot.name for slot in slots if slot.misplaced]
    leaving = _surplus([slot for slot in slots if not slot.misplaced], desired=view.desired)
    causes: Causes = {slot.name: None for slot in slots}
    causes.update(dict.fromkeys(misplaced, "node-mismatch"))
    causes.update(dict.fromkeys(leaving, "scale-in"))
    staying = [slot for slot in slots if causes[slot.name] is None]
    may_begin = all(_is_leaving(slot) for slot in slots if slot.name in leaving)
    causes.update(_replaced(view, staying, now, may_begin=may_begin))
    return causes


def _is_leaving(slot: Slot) -> bool:
    """Whether the Pod has its annotation, and not for an update."""
    return cause_of(slot.pod) == "scale-in" or (
        slot.pod.pending_deletion is not None and cause_of(slot.pod) is None
    )


def _surplus(slots: Sequence[Slot], *, desired: int) -> list[str]:
    """Return the names of Pods beyond the desired number: those condemned already, then by rank.

    If fewer must go than are condemned, those stay that have lost least. A busy one that is
    condemned stays once an idle one is drained in its place. Until then both are condemned: a job
    may start on the other one before its DRAIN.
    """
    number = len(slots) - desired
    if number <= 0:
        return []
    condemned = sorted((one for one in slots if cause_of(one.pod) == "scale-in"), key=_rank)
    others = sorted((one for one in slots if cause_of(one.pod) != "scale-in"), key=_rank)
    sure = [slot for slot in condemned if _is_sure(slot)][:number]
    left = number - len(sure)
    idle = [slot for slot in condemned if not _is_sure(slot) and not is_slot_busy(slot)][:left]
    busy = [slot for slot in condemned if is_slot_busy(slot)][:left]
    more = max(left - len(idle) - len(busy), 0)
    added = others[:more] if more else _in_their_place(busy, others)[: left - len(idle)]
    return [slot.name for slot in (*sure, *idle, *busy, *added)]


def _is_sure(slot: Slot) -> bool:
    """Whether no job can start on its node any more: a read after the drain shows it idle."""
    record = slot.slurm_node
    if is_slot_busy(slot) or (record is not None and record.assumed):
        return False
    return is_slot_drained(slot) or not is_registered(slot)


def _in_their_place(busy: Sequence[Slot], others: Sequence[Slot]) -> Sequence[Slot]:
    """Return idle Pods that can go instead of these, which are sorted; at most as many.

    One that was condemned and stayed is not tried again before the NodeSet changes. So a scale-in
    takes back at most as many condemnations as it has Pods.
    """
    if not busy:
        return ()
    cost = busy[-1].pod.deletion_cost
    return [one for one in others if _is_free(one) and one.pod.deletion_cost <= cost][: len(busy)]


def _is_free(slot: Slot) -> bool:
    """Whether nobody needs the Pod: it is idle, or on no Node."""
    pod, record = slot.pod, slot.slurm_node
    if slot.spared or is_slot_busy(slot) or (record is not None and record.assumed):
        return False
    ours = pod.pending_deletion is None or cause_of(pod) is not None
    return ours and (is_registered(slot) or not pod.node_name)


def _rank(slot: Slot) -> tuple[object, ...]:
    """Sort slots by what their end costs, the cheapest first (N6)."""
    pod, record = slot.pod, slot.slurm_node
    busy = is_slot_busy(slot)
    return (
        bool(pod.node_name),
        pod.ready and not pod.finished,
        is_registered(slot),
        pod.deletion_cost,
        cause_of(pod) is None,
        not (record is not None and "DRAIN" in record.state),
        busy,
        slot.ends_s if busy else 0,
        -slot.ordinal,
        slot.name,
    )


def _replaced(view: NodeSetView, slots: Sequence[Slot], now: float, *, may_begin: bool) -> Causes:
    """Return the Pods to replace, within the budget of unavailable ones (N12).

    `slots`: without those that leave for good. `may_begin`: all of those are condemned. Before
    that, one that is condemned for an update could become one of them, while another of them is
    being condemned: then none would be left. A condemned Pod counts as unavailable from the
    start. One that is of no use costs nothing. One that was to go in a scale-in and stays after all
    is not one of those that the budget was spent on. Nodes that somebody else drained come last,
    and are neither desired nor available here: the update does not make them unavailable.
    """
    spec = view.spec
    outdated = [slot for slot in slots if _reason(spec, slot) is not None]
    if not outdated:
        return {}
    aside = sum(is_set_aside(one) for one in slots)
    held = sum(is_held_by_drain(one, view.plan) for one in view.vacancies)
    kept = [one for one in slots if cause_of(one.pod) is None and not is_set_aside(one)]
    budget = unavailable_max(spec.strategy, desired=view.desired)
    desired = view.desired - aside - held
    left = budget - desired + sum(is_available(one, spec, now=now) for one in kept)
    causes: Causes = {}
    for slot in sorted(outdated, key=_rank_in_update):
        if waits_for_lift(slot, view.plan) and not _is_replaced(slot):
            continue
        if not _is_replaced(slot) and _costs(slot) and not _is_in_window(spec, slot):
            if left <= 0 or not may_begin:
                continue
            left -= is_available(slot, spec, now=now)
        causes[slot.name] = _reason(spec, slot)
    return causes


def _rank_in_update(slot: Slot) -> tuple[object, ...]:
    return (cause_of(slot.pod) is None, is_set_aside(slot), *_rank(slot))


def _is_replaced(slot: Slot) -> bool:
    """Whether its replacement has begun."""
    return cause_of(slot.pod) in ("update", "registration")


def _costs(slot: Slot) -> bool:
    """Whether jobs can use the Pod, or perhaps can: it is ready, and its record not read yet."""
    return slot.pod.ready and (slot.slurm_node is None or is_registered(slot))


def unavailable_max(strategy: UpdateStrategy, *, desired: int) -> int:
    """Return how many of the desired Pods may be unavailable during an update."""
    if not strategy.percent:
        return strategy.unavailable
    return max(desired * strategy.unavailable // 100, 1)


def _reason(spec: NodeSet, slot: Slot) -> Cause | None:
    """Return why the Pod must be made again, or None."""
    if slot.stale:
        return "registration"
    if slot.outdated and (spec.strategy.type == "RollingUpdate" or _is_in_window(spec, slot)):
        return "update"
    return None


def _is_in_window(spec: NodeSet, slot: Slot) -> bool:
    """Whether it may be updated now because Slurm has taken it out of use for that (N16)."""
    record = slot.slurm_node
    if spec.strategy.type != "ScheduledUpdate" or record is None:
        return False
    return in_maintenance(record.state)


def _changes(spec: NodeSet, slots: Sequence[Slot], wanted: Causes) -> Iterator[Condemn]:
    """Yield the writes; a pending deletion that a user asked for stays."""
    for slot in slots:
        pod, cause = slot.pod, wanted[slot.name]
        ours, text = cause_of(pod), condemnation(cause, spec) if cause else ""
        asked_by_user = pod.pending_deletion is not None and ours is None
        if asked_by_user or (pod.pending_deletion or "") == text:
            continue
        yield Condemn(reference_of(pod), text)


def _because(spec: NodeSet, wants: Wants) -> str:
    changes = [one for one in wants if isinstance(one, Condemn)]
    ends = [one for one in changes if one.why]
    released = len(changes) - len(ends)
    texts = ["asking when the jobs on its nodes end"] if len(changes) < len(wants) else []
    texts += [f"{counted(len(ends), 'Pod')} must go: {ends[0].why}"] if ends else []
    texts += [f"{counted(released, 'Pod stays', 'Pods stay')} after all"] if released else []
    return f"{spec.path}: {'; '.join(texts)}"
