"""Pods of a NodeSet whose slurmd does not answer slurmctld, in words for its status (N3, N13)."""

from collections.abc import Sequence

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.timing import doubled_s
from sunk_sync.core.views.node_set import Failures, NodeSetView, Slot, Vacancy, is_registered

PATIENCE_S = 15.0
"""A ready Pod has so long to register. A listing without the record must begin after it."""
LONGEST_PATIENCE_S = 300.0
LATE_S = 60.0
"""A Pod that is ready for so long without its record is named in the status."""
VAIN = 2
"""After so many Pods of one name it is clear that another one does not help."""
LOGS = "The logs of container slurmd and of slurmctld say why"


def patience_s(unregistered: Failures | None) -> float:
    """Return how long a ready Pod may be without a record: twice as long after each in vain."""
    count = unregistered.count if unregistered is not None else 0
    return doubled_s(PATIENCE_S, doublings=count, longest_s=LONGEST_PATIENCE_S)


def unregistered_shown(view: NodeSetView, now: float) -> Sequence[tuple[str, str]]:
    """Return the names of such Pods, and what is known about each.

    A stale one waits for its jobs, perhaps for days: that is no trouble. One that was made anew in
    vain is named also while it starts or is missing, so that the condition does not come and go.
    """
    late = [slot for slot in view.slots if _is_late(slot, now)]
    names = {slot.name for slot in late}
    known: tuple[Slot | Vacancy, ...] = (*view.slots, *view.vacancies)
    others = [one for one in known if one.name not in names and _is_in_vain(one)]
    return [
        *((slot.name, f"ready, but Slurm shows {_shown(slot)}{_why(view, slot)}") for slot in late),
        *((one.name, f"Slurm shows no node of this name{_why(view, one)}") for one in others),
    ]


def _is_late(slot: Slot, now: float) -> bool:
    waits = slot.pod.ready and not (is_registered(slot) or slot.stale)
    return waits and now >= slot.since_s + LATE_S


def _is_in_vain(one: Slot | Vacancy) -> bool:
    """Whether Pods of this name came and went, and Slurm still shows no node."""
    tried = one.unregistered
    return _record(one) is None and tried is not None and tried.count >= VAIN


def _record(one: Slot | Vacancy) -> SlurmNode | None:
    return one.slurm_node if isinstance(one, Slot) else one.record


def _shown(slot: Slot) -> str:
    record = slot.slurm_node
    return "no node of this name" if record is None else "+".join(sorted(record.state))


def _why(view: NodeSetView, one: Slot | Vacancy) -> str:
    """Return what sunk-sync does about it, and the cause or where to look for it."""
    if _record(one) is not None:
        return ""
    tried, texts = one.unregistered, []
    if tried is not None:
        times = "once" if tried.count == 1 else f"{tried.count} times in a row"
        wait_s = patience_s(tried)
        texts.append(f"sunk-sync made the Pod anew {times}, and the next one has {wait_s:g} s")
    return "".join(f". {text}" for text in (*texts, view.full or LOGS))
