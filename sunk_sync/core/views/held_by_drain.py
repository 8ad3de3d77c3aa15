"""Slots of a NodeSet that wait until somebody lifts a drain, in words for its status (N11, N12)."""

from collections.abc import Sequence

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.views.node_set import NodeSetView, Slot, is_held_by_drain, waits_for_lift


def held_by_drain(view: NodeSetView) -> Sequence[tuple[str, str]]:
    """Return the names, and who drained them and why; empty while other Pods can be updated."""
    waiting = [slot for slot in view.slots if waits_for_lift(slot, view.plan)]
    if any(_is_outdated(view, slot) for slot in view.slots if not waits_for_lift(slot, view.plan)):
        return []
    if view.spec.strategy.type == "OnDelete":
        waiting = [slot for slot in waiting if slot.stale]
    free = [one for one in view.vacancies if is_held_by_drain(one, view.plan)]
    found = [(slot.name, slot.slurm_node) for slot in waiting]
    found += [(one.name, one.record) for one in free]
    return [(name, _why(record)) for name, record in found if record is not None]


def _is_outdated(view: NodeSetView, slot: Slot) -> bool:
    rolls = view.spec.strategy.type == "RollingUpdate"
    return slot.stale or (slot.outdated and rolls)


def _why(record: SlurmNode) -> str:
    by = f" by {record.reason_by}" if record.reason_by else ""
    reason = f" ({record.reason})" if record.reason else ""
    return (
        f"drained{by}{reason}: its record in Slurm must be made anew, which waits until somebody"
        f" runs `scontrol update nodename={record.name} state=resume`"
    )
