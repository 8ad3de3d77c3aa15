"""Several objects claim one host: sunk-sync follows none and records Events (S16)."""

from sunk_sync.core.model.actions import Action, RecordEvent, SetConditions
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import SlurmdPod, reference_of
from sunk_sync.core.model.names import POD_CONFLICT_CONDITION
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.host import Host

NAMED_MAX = 8
"""Rivals that a message names."""


def conflict(host: Host, *_: object) -> Ruling:
    """Record one Event on each object that claims this Slurm node; write nothing else.

    If a rival claims another Slurm node (two Pods on one Node), the key of that host covers it.
    """
    rivals = host.rivals
    if not rivals:
        return QUIET
    names = ", ".join(rival.path for rival in rivals[:NAMED_MAX])
    more = f" and {len(rivals) - NAMED_MAX} more" if len(rivals) > NAMED_MAX else ""
    claims = f"Slurm node {host.name} is claimed more than once: {names}{more}"
    message = f"{claims}; sunk-sync acts on none of them"
    told = [reference_of(pod) for pod in host.rival_pods]
    told += [rival for rival in rivals if rival.kind == "Node"]
    events = tuple(RecordEvent(one, EVENT_CONFLICT, message) for one in told)
    return Ruling((*events, *_conditions(host.rival_pods, message)), message)


def _conditions(pods: tuple[SlurmdPod, ...], message: str) -> tuple[Action, ...]:
    """Add the condition to those that sunk-sync set on each rival Pod."""
    told = Condition(POD_CONFLICT_CONDITION, "True", "DoubleClaim", message)
    return tuple(_add(pod, told) for pod in pods if told not in pod.conditions)


def _add(pod: SlurmdPod, told: Condition) -> SetConditions:
    """Keep lastTransitionTime: it changes only with the status."""
    since = dict(zip((one.type for one in pod.conditions), pod.changed_at, strict=False))
    others = [one for one in pod.conditions if one.type != told.type]
    conditions = tuple(sorted([*others, told], key=lambda one: one.type))
    changed_at = tuple(since.get(one.type, "") for one in conditions)
    return SetConditions(reference_of(pod), conditions, changed_at)
