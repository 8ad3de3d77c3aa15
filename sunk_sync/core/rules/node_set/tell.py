"""Tell in Events of a NodeSet what happens to it: scaling, updates, ends of Pods, and troubles.

Each holds as long as its cause. The outbox writes one text of a reason a minute, and the same text
again as a count, so thousands of Pods cost no more Events than one.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import (
    EVENT_CREATING,
    EVENT_DELETED,
    EVENT_DRAINED_BY_OTHERS,
    EVENT_ENDING,
    EVENT_INVALID_NODE_SET,
    EVENT_INVALID_REGISTRATION,
    EVENT_NAME_TAKEN,
    EVENT_NO_RESERVATION,
    EVENT_PODS_FAIL,
    EVENT_PODS_NOT_READY,
    EVENT_RECORDS_VANISHED,
    EVENT_SCALED_IN,
    EVENT_SCALED_OUT,
    EVENT_SILENT,
    EVENT_UPDATE_BEGUN,
    EVENT_UPDATE_ENDED,
    EventKind,
)
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.node_set import (
    NodeSetView,
    cause_of,
    is_available,
    is_foreign,
    is_older,
)

TROUBLES: Final = {
    kind.reason: kind
    for kind in (
        EVENT_INVALID_NODE_SET,
        EVENT_PODS_FAIL,
        EVENT_NAME_TAKEN,
        EVENT_INVALID_REGISTRATION,
        EVENT_PODS_NOT_READY,
        EVENT_SILENT,
        EVENT_DRAINED_BY_OTHERS,
        EVENT_NO_RESERVATION,
        EVENT_RECORDS_VANISHED,
    )
}
"""Reason of a condition of the NodeSet → the Event that repeats its message."""
Told = tuple[EventKind, str]


def tell(view: NodeSetView, _: Configuration, now: float) -> Ruling:
    """Record the Events that hold now."""
    if not view.kube_listed or not view.slurm_listed:
        return QUIET
    of = reference_of(view.spec)
    told = (*_scaled(view), *_pods(view), *_updated(view, now), *_deleted(view), *_troubles(view))
    if not told:
        return QUIET
    return Ruling(tuple([RecordEvent(of, kind, message) for kind, message in told]))


def _scaled(view: NodeSetView) -> Iterator[Told]:
    """The last change of replicas that this process saw."""
    if view.story.scaled is None:
        return
    before, after = view.story.scaled
    yield (
        EVENT_SCALED_OUT if after > before else EVENT_SCALED_IN,
        f"from {before} to {counted(after, 'Pod')}",
    )


def _pods(view: NodeSetView) -> Iterator[Told]:
    free = [one for one in view.vacancies if not (one.taken or one.failures)]
    wanted = [
        one.name
        for one in free
        if not (is_foreign(one.record, view.plan) or is_older(one.record, view.plan))
    ]
    if wanted and view.spec.held and not view.plan.problem:
        yield EVENT_CREATING, f"makes {_counted(wanted)}"
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for slot in view.slots:
        if cause := cause_of(slot.pod):
            leaving[cause].append(slot.name)
    if leaving:
        texts = [f"{_counted(names)} ({cause})" for cause, names in sorted(leaving.items())]
        yield EVENT_ENDING, f"must go, each once its jobs have ended: {', '.join(texts)}"


def _counted(names: list[str]) -> str:
    if len(names) == 1:
        return f"Pod {names[0]}"
    return f"{counted(len(names), 'Pod')}: {shortened(names)}"


def _updated(view: NodeSetView, now: float) -> Iterator[Told]:
    """An update ends for this process if it saw the begin, or the status shows it."""
    spec, revision = view.spec, view.plan.revision
    if spec.deleting or view.plan.problem:
        return
    if any(slot.outdated for slot in view.slots):
        how = "once somebody deletes them" if spec.strategy.type == "OnDelete" else "one by one"
        yield EVENT_UPDATE_BEGUN, f"Pods get revision {revision} of the template, {how}"
        return
    counts = spec.counts
    begun = view.story.updated_to == revision or counts.updated < counts.replicas
    done = sum(is_available(slot, spec, now=now) for slot in view.slots)
    if begun and view.slots and len(view.slots) == view.desired == done:
        yield EVENT_UPDATE_ENDED, f"all Pods have revision {revision} of the template"


def _deleted(view: NodeSetView) -> Iterator[Told]:
    if view.spec.deleting and not view.spec.orphan:
        yield EVENT_DELETED, "it goes once its Pods have ended and their Slurm nodes are gone"


def _troubles(view: NodeSetView) -> Iterator[Told]:
    """Repeat the conditions that its status shows."""
    for one in view.spec.conditions:
        if kind := TROUBLES.get(one.reason):
            yield kind, one.message
