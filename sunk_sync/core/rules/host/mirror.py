"""The slurmd Pod and the Node show the state of the Slurm node (M1-M6)."""

import re
from functools import lru_cache
from typing import NamedTuple

from sunk_sync.core.model.actions import Action, SetConditions, SetMetadata
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import NO_LABELS, Labels, Node, SlurmdPod, reference_of
from sunk_sync.core.model.names import (
    DRAIN,
    MANAGER_MIRROR,
    NODE_CONDITIONS,
    NODE_CORDON_CONDITION,
    NODE_DRAIN_CONDITION,
    NODE_LABELS,
    NODE_NOT_RESPONDING_CONDITION,
    NODE_RUNNING_CONDITION,
    POD_STATE_CONDITION,
)
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import (
    BASE_STATES,
    FLAGS,
    is_busy,
    is_drained,
    is_our_reason,
    may_run_jobs,
    sanitise_reason,
)
from sunk_sync.core.views.host import Host

NO_REASON = "(no reason given)"
BLIND = "Slurm has not answered for a minute: shown as unknown"
UNKNOWN = tuple(
    Condition(kind, "Unknown", "SlurmUnreachable", "slurmctld has not answered for a minute")
    for kind in NODE_CONDITIONS
)
"""Conditions of a Node while Slurm does not answer (M2)."""
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


class Shown(NamedTuple):
    """The Kubernetes form of one state and reason of a Slurm node."""

    on_pod: tuple[Condition, ...]
    on_node: tuple[Condition, ...]
    drain: str | None
    """Annotation `drain` on both; None: no annotation."""
    because: str


UNKNOWN_TO_SLURM = Shown((), (), None, "Slurm has no such node: sunk-sync removes what it showed")


def mirror(host: Host, configuration: Configuration, *_: object) -> Ruling:
    """Set conditions, annotation `drain` and labels for the present state of the Slurm node."""
    slurm_node = host.slurm_node
    if slurm_node is not None:
        shown = shown_of(slurm_node.state, slurm_node.reason)
    elif host.slurm_listed:
        shown = UNKNOWN_TO_SLURM
    else:
        return QUIET
    wants: list[Action] = []
    if host.pod is not None:
        _show_on_pod(host.pod, shown, wants, blind=host.blind)
    if host.node is not None and host.owns_node:
        if slurm_node is None:
            _clean(host.node, wants)
        else:
            _show_on_node(host, host.node, shown, wants, cluster_name=configuration.cluster_name)
    if host.stray is not None:
        _clean(host.stray, wants)
    if not wants:
        return QUIET
    blind = host.blind and slurm_node is not None
    return Ruling(tuple(wants), BLIND if blind else shown.because)


def _show_on_pod(pod: SlurmdPod, shown: Shown, wants: list[Action], *, blind: bool) -> None:
    """M1, M3; while Slurm does not answer, the conditions stay as they are."""
    if pod.conditions != shown.on_pod and not blind:
        wants.append(_set_conditions(pod, shown.on_pod))
    if pod.drain != shown.drain:
        wants.append(_set_metadata(pod, NO_LABELS, shown.drain))


def _show_on_node(
    host: Host, node: Node, shown: Shown, wants: list[Action], *, cluster_name: str
) -> None:
    """M2-M4."""
    conditions = UNKNOWN if host.blind else shown.on_node
    if node.conditions != conditions:
        wants.append(_set_conditions(node, conditions))
    pod = host.pod
    texts = (
        (cluster_name or None, None, None, None)
        if pod is None
        else (cluster_name or None, pod.namespace, pod.nodeset or None, pod.name)
    )
    if node.drain == shown.drain and node.labels == texts:
        return
    labels = _labels(texts)
    if node.drain != shown.drain or node.labels != labels:
        wants.append(_set_metadata(node, labels, shown.drain))


def _clean(node: Node, wants: list[Action]) -> None:
    """Remove everything of sunk-sync from a Node that belongs to no Slurm node (M6)."""
    if node.conditions:
        wants.append(SetConditions(reference_of(node), ()))
    if node.labels != NO_LABELS or node.drain is not None:
        wants.append(_set_metadata(node, NO_LABELS, None))


@lru_cache(maxsize=4096)
def shown_of(state: frozenset[str], reason: str) -> Shown:
    """Compute each state once, because thousands of hosts have the same few states."""
    return Shown(
        on_pod=pod_conditions(state, reason),
        on_node=node_conditions(state, reason),
        drain=(sanitise_reason(reason) or NO_REASON) if is_drained(state) else None,
        because=f"shown in Kubernetes: {'+'.join(sorted(state))}",
    )


def pod_conditions(state: frozenset[str], reason: str) -> tuple[Condition, ...]:
    """Return one condition, True, for the base state and for each flag, sorted by type (M1)."""
    message = sanitise_reason(reason)
    return tuple(
        Condition(POD_STATE_CONDITION + suffix, "True", "SlurmState", message)
        for suffix in sorted(_suffixes(state))
    )


def _suffixes(state: frozenset[str]) -> set[str]:
    suffixes = {FLAGS[flag] for flag in state if flag in FLAGS}
    base = next((suffix for name, suffix in BASE_STATES.items() if name in state), None)
    return suffixes | {base} if base else suffixes


def node_conditions(state: frozenset[str], reason: str) -> tuple[Condition, ...]:
    """Return always the same four conditions, sorted by type (M2)."""
    message = sanitise_reason(reason)
    drained = is_drained(state)
    foreign = drained and not is_our_reason(reason)
    silent = "NOT_RESPONDING" in state
    return (
        _condition(
            NODE_CORDON_CONDITION, foreign, ("DrainedInSlurm", "NotDrainedInSlurm"), message
        ),
        _condition(NODE_DRAIN_CONDITION, drained, ("Drained", "NotDrained"), message),
        _condition(NODE_NOT_RESPONDING_CONDITION, silent, ("NotResponding", "Responding"), ""),
        _running_condition(state),
    )


def _running_condition(state: frozenset[str]) -> Condition:
    if may_run_jobs(state) and not is_busy(state):
        return Condition(NODE_RUNNING_CONDITION, "Unknown", "NotKnownYet", "")
    return _condition(NODE_RUNNING_CONDITION, is_busy(state), ("JobsRunning", "NoJobs"), "")


def _condition(kind: str, holds: bool, reasons: tuple[str, str], message: str) -> Condition:
    if holds:
        return Condition(kind, "True", reasons[0], message)
    return Condition(kind, "False", reasons[1], "")


def _labels(texts: Labels) -> Labels:
    return tuple([None if text is None else _label_value(text) for text in texts])


def _label_value(text: str) -> str:
    """Replace characters that a label cannot contain, and cut the text to 63."""
    return _NOT_IN_A_LABEL.sub("-", text)[:63].strip("._-")


def _set_metadata(row: Node | SlurmdPod, labels: Labels, drain: str | None) -> SetMetadata:
    pairs = zip(NODE_LABELS, labels, strict=False)
    given = tuple([(key, value) for key, value in pairs if value is not None])
    annotations = () if drain is None else ((DRAIN, drain),)
    return SetMetadata(reference_of(row), MANAGER_MIRROR, given, annotations)


def _set_conditions(row: Node | SlurmdPod, wanted: tuple[Condition, ...]) -> SetConditions:
    """Keep lastTransitionTime unless the status changes."""
    changed_at = tuple([_since(row, one) for one in wanted])
    return SetConditions(reference_of(row), wanted, changed_at)


def _since(row: Node | SlurmdPod, wanted: Condition) -> str:
    """Return since when the present condition has the wanted status; empty: it has another."""
    for standing, changed_at in zip(row.conditions, row.changed_at, strict=False):
        if standing.type == wanted.type:
            return changed_at if standing.status == wanted.status else ""
    return ""
