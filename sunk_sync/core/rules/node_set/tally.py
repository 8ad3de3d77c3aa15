"""Show in the status of a NodeSet how many Pods are made, ready, registered and in use (N2)."""

from collections.abc import Sequence

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.node_set import Counts
from sunk_sync.core.model.node_set_actions import SetStatus
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.node_states import is_drained, is_ours, may_run_jobs, takes_no_job
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.held_by_drain import held_by_drain
from sunk_sync.core.views.node_set import (
    NodeSetView,
    Slot,
    is_available,
    is_foreign,
    is_older,
    is_registered,
    is_slot_busy,
    jobs_can_use,
    next_available_s,
)
from sunk_sync.core.views.topology_shown import next_silence_s, topology_condition
from sunk_sync.core.views.unregistered import LATE_S, unregistered_shown

PATIENCE_S = LATE_S
"""A Pod that is not ready for so long holds the NodeSet up."""
UNFINISHED = ("Working", "RecordsVanished")
"""Reasons of conditions that are True while something is left to do."""


def tally(view: NodeSetView, _: Configuration, now: float) -> Ruling:
    """Set the status if it differs. While Slurm is unreadable the numbers from Slurm stay."""
    spec = view.spec
    if not view.kube_listed or not view.slurm_listed:
        return QUIET
    counts = _counts(view, now)
    conditions = _conditions(view, counts, now)
    again_s, because = _next_change_s(view, now), _because(conditions)
    shown = (spec.counts, spec.conditions, spec.observed_generation, spec.shown_revision)
    if shown == (counts, conditions, spec.generation, view.plan.revision):
        return Ruling((), because, again_s) if because or again_s is not None else QUIET
    status = SetStatus(reference_of(spec), spec, view.plan.revision, counts, conditions)
    return Ruling((status,), because, again_s)


def _because(conditions: Sequence[Condition]) -> str:
    """Return what is not as the NodeSet wants it, or empty: it is in sync."""
    open_ones = [one for one in conditions if one.status == "False" or one.reason in UNFINISHED]
    open_ones.sort(key=lambda one: one.type != "Progressing")
    return "; ".join(one.message for one in open_ones)


def _counts(view: NodeSetView, now: float) -> Counts:
    spec, slots = view.spec, view.slots
    return Counts(
        desired=0 if spec.deleting else view.desired,
        replicas=len(slots),
        ready=sum(slot.pod.ready for slot in slots),
        registered=sum(is_registered(slot) for slot in slots),
        updated=sum(not slot.outdated for slot in slots),
        available=sum(jobs_can_use(slot, spec, now=now) for slot in slots),
        idle=sum(_is_idle(slot) for slot in slots),
        allocated=sum(is_slot_busy(slot) for slot in slots),
        draining=sum(_is_draining(slot) for slot in slots),
        down=sum(_is_down(slot) for slot in slots),
    )


def _is_idle(slot: Slot) -> bool:
    record = slot.slurm_node
    free = record is not None and not (may_run_jobs(record.state) or takes_no_job(record.state))
    return free and is_registered(slot)


def _is_draining(slot: Slot) -> bool:
    return slot.slurm_node is not None and is_drained(slot.slurm_node.state)


def _is_down(slot: Slot) -> bool:
    record = slot.slurm_node
    return record is not None and not record.state.isdisjoint(("DOWN", "NOT_RESPONDING"))


def _conditions(view: NodeSetView, counts: Counts, now: float) -> tuple[Condition, ...]:
    """Return the conditions, sorted by type."""
    held = _held(view)
    if view.plan.problem:
        return (*held, Condition("Progressing", "False", "InvalidNodeSet", view.plan.problem))
    topology = topology_condition(view, now)
    others = (topology,) if topology is not None else ()
    return (_available(view, counts), *held, _progressing(view, counts, now), *others)


def _available(view: NodeSetView, counts: Counts) -> Condition:
    pods = counted(counts.desired, "Pod is", "Pods are")
    message = f"{counts.available} of {pods} registered in Slurm and available"
    if theirs := _kept_away(view):
        message += f"; somebody else drained {_named(theirs)}"
    if counts.available >= counts.desired:
        return Condition("Available", "True", "AllAvailable", message)
    return Condition("Available", "False", "TooFew", message)


def _held(view: NodeSetView) -> tuple[Condition, ...]:
    """Name the Pods whose deletion the breaker holds (N5). Without any there is no condition."""
    if not view.held:
        return ()
    pods = counted(len(view.held), "Pod waits", "Pods wait")
    message = (
        f"{pods} to be made anew ({shortened(view.held)}): more than"
        " --max-drains-per-minute lost their records in Slurm. They go slowly once a second"
        " listing of Slurm shows the same. If Slurm should have the records, run `sunk-sync pause`"
        " and repair slurmctld; if not, wait"
    )
    return (Condition("Held", "True", "RecordsVanished", message),)


def _progressing(view: NodeSetView, counts: Counts, now: float) -> Condition:
    for reason, found in (
        ("PodsFail", _failures(view)),
        ("NameTaken", _taken(view)),
        ("InvalidRegistration", _invalid(view)),
        ("PodsNotReady", _not_ready(view, now)),
        ("NotRegistered", unregistered_shown(view, now)),
        ("NoReservation", _not_reserved(view)),
        ("DrainedByOthers", held_by_drain(view)),
    ):
        if found:
            return Condition("Progressing", "False", reason, _named(found))
    done = sum(is_available(slot, view.spec, now=now) for slot in view.slots)
    if counts.replicas == counts.desired == counts.updated == done:
        return Condition("Progressing", "True", "Complete", "nothing is left to do")
    return Condition("Progressing", "True", "Working", _work(view, counts))


Troubles = Sequence[tuple[str, str]]
"""Name of a Pod, and what is wrong with it."""


def _named(troubles: Troubles) -> str:
    """Return the names, and what is wrong with the first."""
    return f"{shortened([name for name, _ in troubles])}: {troubles[0][1]}"


def _kept_away(view: NodeSetView) -> Troubles:
    """Return Pods whose Slurm nodes a person keeps jobs away from, with the person's words."""
    records = [(slot.name, slot.slurm_node) for slot in view.slots if is_registered(slot)]
    return [
        (name, record.reason or "no reason")
        for name, record in records
        if record is not None and takes_no_job(record.state) and not is_ours(record)
    ]


def _failures(view: NodeSetView) -> Troubles:
    """Return Pods that failed, or that the API server refused (N21)."""
    return [(one.name, one.failures.why) for one in view.vacancies if one.failures is not None]


def _taken(view: NodeSetView) -> Troubles:
    """Return names that somebody else has, in Kubernetes or in Slurm (N22)."""
    free = [(one.name, f"{one.taken} has this name") for one in view.vacancies if one.taken]
    foreign = [one.name for one in view.vacancies if is_foreign(one.record, view.plan)]
    foreign += [slot.name for slot in view.slots if is_foreign(slot.slurm_node, view.plan)]
    return [*free, *((name, "Slurm has a node of this name of somebody else") for name in foreign)]


def _invalid(view: NodeSetView) -> Troubles:
    """Return Pods whose registration Slurm does not accept (T9)."""
    return [
        (slot.name, slot.slurm_node.reason or "Slurm gives no reason")
        for slot in view.slots
        if slot.slurm_node is not None and "INVALID_REG" in slot.slurm_node.state
    ]


def _not_reserved(view: NodeSetView) -> Troubles:
    """Return Pods that wait for an update whose reservation Slurm does not have (N16)."""
    known = view.reservation
    if view.spec.strategy.window is None or known is None or not known.why_not:
        return []
    return [(name, known.why_not) for name in known.slurm_nodes]


def _not_ready(view: NodeSetView, now: float) -> Troubles:
    """Return Pods that do not become ready, with the words of Kubernetes (N13)."""
    return [
        (slot.name, _place(slot))
        for slot in view.slots
        if not slot.pod.ready and not slot.pod.terminating and now >= slot.since_s + PATIENCE_S
    ]


def _place(slot: Slot) -> str:
    """Say why it is not ready: the kubelet does, or kube-scheduler."""
    node, says = slot.pod.node_name, slot.pod.waiting
    if node:
        return says or f"not ready on Node {node}"
    return f"no Node takes the Pod: {says}" if says else "no Node takes the Pod"


def _work(view: NodeSetView, counts: Counts) -> str:
    older = [one.name for one in view.vacancies if is_older(one.record, view.plan)]
    ours = [slot for slot in view.slots if slot.slurm_node is not None and is_ours(slot.slurm_node)]
    parts = [
        (counts.desired - counts.replicas, "to make"),
        (len(older), f"whose older records in Slurm must go first ({shortened(older)})"),
        (counts.replicas - counts.desired, "to end"),
        (counts.replicas - counts.updated, "with an older template"),
        (counts.replicas - counts.registered, "not registered in Slurm yet"),
        (len(ours), f"whose Slurm nodes sunk-sync drained ({_drains(ours)})"),
    ]
    texts = [f"{counted(number, 'Pod')} {what}" for number, what in parts if number > 0]
    return ", ".join(texts) or f"waiting until Pods are ready for {view.spec.min_ready_s:g} s"


def _drains(slots: Sequence[Slot]) -> str:
    return (
        _named([(one.name, one.slurm_node.reason) for one in slots if one.slurm_node])
        if slots
        else ""
    )


def _next_change_s(view: NodeSetView, now: float) -> float | None:
    """Return when time alone changes the status: a Pod becomes available, or is late."""
    late = [slot.since_s + PATIENCE_S for slot in view.slots if not is_registered(slot)]
    times = [time for time in late if time > now]
    others = (next_available_s(view, now), next_silence_s(view, now))
    return min([*times, *(one for one in others if one is not None)], default=None)
