"""The account of one NodeSet: its Pods, the records in Slurm, and the names that are free."""

from collections.abc import Iterator

from sunk_sync.core.explain.account import SEE_MAX, Fact, sentence, watched
from sunk_sync.core.explain.host import log_of
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.node_states import is_foreign_drain
from sunk_sync.core.views.node_set import (
    NodeSetView,
    Slot,
    Vacancy,
    cause_of,
    is_foreign,
    is_older,
    is_registered,
    is_slot_busy,
    jobs_can_use,
)

CURES_MAX = 3
"""Pods of one trouble that get a sentence."""


def node_set_facts(graph: Graph, key: str, *, now: float) -> tuple[Fact, ...]:
    view = graph.node_set(key)
    if view is None:
        return ()
    table = graph.node_sets.node_sets
    ages = watched(table, table.entries[key], now=now)
    return (
        Fact(side="Kubernetes", what=view.spec.path, says=_of_spec(view.spec, view), **ages),
        *_condition_facts(view.spec),
        *_slot_facts(view, now=now),
        *_vacancy_facts(view),
    )


def _of_spec(spec: NodeSet, view: NodeSetView) -> str:
    have = len(view.slots)
    return sentence(
        f"{have} of {counted(view.desired, 'Pod')}"
        + (", one for each Node" if spec.per_node else ""),
        "being deleted" if spec.deleting else "",
        f"update by {spec.strategy.type}",
        f"{counted(view.records_left, 'record')} in Slurm without a Pod"
        if view.records_left
        else "",
        f"cannot be followed: {view.plan.problem}" if view.plan.problem else "",
    )


def _condition_facts(spec: NodeSet) -> Iterator[Fact]:
    for one in spec.conditions:
        says = f"{one.status}, {one.reason}: {one.message}"
        yield Fact(side="Kubernetes", what=f"condition {one.type}", says=says)


def _slot_facts(view: NodeSetView, *, now: float) -> Iterator[Fact]:
    """Pods with something to say come first; those in use are counted."""
    plain = 0
    told = 0
    for slot in view.slots:
        if jobs_can_use(slot, view.spec, now=now) and not (slot.outdated or slot.misplaced):
            plain += 1
        elif told < SEE_MAX:
            told += 1
            yield Fact(side="sunk-sync", what=f"Pod {slot.name}", says=_of_slot(slot))
    more = len(view.slots) - plain - told
    if more:
        yield Fact(side="sunk-sync", what="Pods", says=f"and {more} more")
    if plain:
        yield Fact(side="sunk-sync", what="Pods", says=f"{plain} in use, of the newest template")


def _of_slot(slot: Slot) -> str:
    record = slot.slurm_node
    state = "+".join(sorted(record.state)) if record is not None else "no record"
    cause = cause_of(slot.pod)
    return sentence(
        "ready" if slot.pod.ready else "not ready",
        f"on Node {slot.pod.node_name}" if slot.pod.node_name else "not on a Node",
        "registered" if is_registered(slot) else "not registered",
        f"in Slurm {state}",
        f"reason {record.reason!r}" if record is not None and record.reason else "",
        "made by somebody else" if record is not None and not slot.own else "",
        "jobs run there" if is_slot_busy(slot) else "",
        "of an older template" if slot.outdated else "",
        "registered with other options" if slot.stale else "",
        "on a Node that does not match any more" if slot.misplaced else "",
        f"to be deleted: {cause}" if cause is not None else "",
        "terminating" if slot.pod.terminating else "",
        f"waits: {slot.pod.waiting}" if slot.pod.waiting else "",
    )


def _vacancy_facts(view: NodeSetView) -> Iterator[Fact]:
    for vacancy in view.vacancies[:SEE_MAX]:
        yield Fact(
            side="sunk-sync", what=f"free name {vacancy.name}", says=_of_vacancy(vacancy, view)
        )
    if len(view.vacancies) > SEE_MAX:
        more = len(view.vacancies) - SEE_MAX
        yield Fact(side="sunk-sync", what="free names", says=f"and {more} more")


def _of_vacancy(vacancy: Vacancy, view: NodeSetView) -> str:
    failures, foreign = vacancy.failures, is_foreign(vacancy.record, view.plan)
    waits = vacancy.taken or foreign or is_older(vacancy.record, view.plan)
    return sentence(
        "" if waits else "a Pod is to be made",
        f"taken by {vacancy.taken}" if vacancy.taken else "",
        f"for Node {vacancy.node_name}" if vacancy.node_name else "",
        "Slurm has a node of this name of somebody else" if foreign else "",
        _of_own_record(vacancy, view),
        f"{counted(failures.count, 'Pod failed', 'Pods failed in a row')}: {failures.why}"
        if failures is not None
        else "",
    )


def _of_own_record(vacancy: Vacancy, view: NodeSetView) -> str:
    record = vacancy.record
    if record is None or is_foreign(record, view.plan):
        return ""
    if is_older(record, view.plan):
        return f"its older record in Slurm must go first: {'+'.join(sorted(record.state))}"
    return "Slurm has a record of before"


def node_set_cures(graph: Graph, key: str) -> tuple[str, ...]:
    view = graph.node_set(key)
    if view is None:
        return ()
    return (*_cures_of_spec(view), *_cures_of_slots(view))


def _cures_of_spec(view: NodeSetView) -> Iterator[str]:
    if view.plan.problem:
        yield f"Correct the NodeSet: {view.plan.problem}"
    for vacancy in view.vacancies[:SEE_MAX]:
        if vacancy.taken:
            yield f"Remove or rename {vacancy.taken}, which has the name {vacancy.name}"
        elif is_foreign(vacancy.record, view.plan):
            yield _free_name(vacancy.name)


def _free_name(name: str) -> str:
    return (
        f"Somebody else made Slurm node {name}. Of no use: scontrol delete nodename={name}. In use:"
        " make the NodeSet anew with another podNamePrefix"
    )


def _cures_of_slots(view: NodeSetView) -> Iterator[str]:
    for slot in [one for one in view.slots if not is_registered(one)][:CURES_MAX]:
        pod = slot.pod
        if is_foreign(slot.slurm_node, view.plan):
            yield _free_name(slot.name)
        elif pod.ready:
            yield log_of(pod)
        else:
            describe = f"kubectl -n {pod.namespace} describe pod {pod.name}"
            yield f"See why the Pod is not ready: {describe}"
    kept_away = [one for one in view.slots if one.slurm_node and is_foreign_drain(one.slurm_node)]
    for slot in kept_away[:CURES_MAX]:
        yield (
            f"Somebody drained Slurm node {slot.name}, so only a person lifts it:"
            f" scontrol update nodename={slot.name} state=undrain"
        )


def node_set_see(graph: Graph, key: str) -> tuple[str, ...]:
    view = graph.node_set(key)
    return tuple([f"host {slot.name}" for slot in view.slots][:SEE_MAX]) if view else ()
