"""What Slurm says of a host, shown on its slurmd Pod and its Node (M1-M6)."""

import re
from functools import lru_cache

from sunk_sync.actions import Action, SetConditions, SetMetadata
from sunk_sync.facts import Condition, Configuration, Node, SlurmdPod, SlurmNode, reference_of
from sunk_sync.names import (
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
from sunk_sync.slurm_state import (
    BASE_STATES,
    FLAGS,
    is_busy,
    is_drained,
    is_our_reason,
    sanitise_reason,
)
from sunk_sync.verdict import QUIET, Ruling
from sunk_sync.views import Host

NO_REASON = "(no reason given)"
Pairs = tuple[tuple[str, str], ...]
UNKNOWN = tuple(
    Condition(kind, "Unknown", "SlurmUnreachable", "slurmctld has not answered for a minute")
    for kind in NODE_CONDITIONS
)
"""What a Node says of Slurm while nobody knows (M2)."""
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


def mirror(host: Host, configuration: Configuration) -> Ruling:
    """Conditions, drain annotation and labels as the present state of the Slurm node asks."""
    if host.slurm_node is None and not host.slurm_listed:
        return QUIET
    wants = (
        *_on_pod(host),
        *_on_node(host, configuration.cluster_name),
        *(_clean(host.stray) if host.stray else ()),
    )
    return Ruling(wants, _because(host)) if wants else QUIET


def _because(host: Host) -> str:
    if host.slurm_node is None:
        return "Slurm knows no such node: what we showed of it is taken away"
    if host.blind:
        return "Slurm has not answered for a minute: shown as unknown"
    return _shown(host.slurm_node.state)


@lru_cache(maxsize=1024)
def _shown(state: frozenset[str]) -> str:
    return f"shown in Kubernetes: {'+'.join(sorted(state))}"


def _on_pod(host: Host) -> tuple[Action, ...]:
    pod, slurm_node = host.pod, host.slurm_node
    if pod is None:
        return ()
    wants: list[Action] = []
    conditions = pod_conditions(slurm_node.state, slurm_node.reason) if slurm_node else ()
    if not host.blind and pod.conditions != conditions:
        wants.append(_set_conditions(pod, conditions))
    annotations = _drain_annotation(slurm_node)
    if _drain_pair(pod.drain) != annotations:
        wants.append(SetMetadata(reference_of(pod), MANAGER_MIRROR, (), annotations))
    return tuple(wants)


def _on_node(host: Host, cluster_name: str) -> tuple[Action, ...]:
    node, slurm_node = host.node, host.slurm_node
    if node is None or not host.owns_node:
        return ()
    if slurm_node is None:
        return _clean(node)
    conditions = UNKNOWN if host.blind else node_conditions(slurm_node.state, slurm_node.reason)
    wants: list[Action] = []
    if node.conditions != conditions:
        wants.append(_set_conditions(node, conditions))
    pod = host.pod
    names = (pod.namespace, pod.nodeset, pod.name) if pod else ("", "", "")
    labels = _labels(cluster_name, *names)
    annotations = _drain_annotation(slurm_node)
    if labels != node.labels or _drain_pair(node.drain) != annotations:
        wants.append(SetMetadata(reference_of(node), MANAGER_MIRROR, labels, annotations))
    return tuple(wants)


def _clean(node: Node) -> tuple[Action, ...]:
    """M6: nothing of ours stays on a Node that stands for no Slurm node."""
    wants: list[Action] = []
    if node.conditions:
        wants.append(SetConditions(reference_of(node), ()))
    if node.labels or node.drain is not None:
        wants.append(SetMetadata(reference_of(node), MANAGER_MIRROR, (), ()))
    return tuple(wants)


@lru_cache(maxsize=4096)
def pod_conditions(state: frozenset[str], reason: str) -> tuple[Condition, ...]:
    """M1: one condition, True, for the base state and for each flag, sorted by type."""
    message = sanitise_reason(reason)
    return tuple(
        Condition(POD_STATE_CONDITION + suffix, "True", "SlurmState", message)
        for suffix in sorted(_suffixes(state))
    )


def _suffixes(state: frozenset[str]) -> set[str]:
    """The base state's and every flag's; a flag that we do not know is not shown."""
    suffixes = {FLAGS[flag] for flag in state if flag in FLAGS}
    base = next((suffix for name, suffix in BASE_STATES.items() if name in state), None)
    return suffixes | {base} if base else suffixes


@lru_cache(maxsize=4096)
def node_conditions(state: frozenset[str], reason: str) -> tuple[Condition, ...]:
    """M2: the same four conditions always, sorted by type."""
    message = sanitise_reason(reason)
    drained = is_drained(state)
    foreign = drained and not is_our_reason(reason)
    silent = "NOT_RESPONDING" in state
    return (
        _told(NODE_CORDON_CONDITION, foreign, ("DrainedInSlurm", "NotDrainedInSlurm"), message),
        _told(NODE_DRAIN_CONDITION, drained, ("Drained", "NotDrained"), message),
        _told(NODE_NOT_RESPONDING_CONDITION, silent, ("NotResponding", "Responding"), ""),
        _told(NODE_RUNNING_CONDITION, is_busy(state), ("JobsRunning", "NoJobs"), ""),
    )


def _told(kind: str, holds: bool, reasons: tuple[str, str], message: str) -> Condition:
    if holds:
        return Condition(kind, "True", reasons[0], message)
    return Condition(kind, "False", reasons[1], "")


@lru_cache(maxsize=16384)
def _labels(cluster_name: str, namespace: str, nodeset: str, pod: str) -> Pairs:
    """M4, sorted by key; a value that may not be a label is made one."""
    values = (cluster_name, namespace, nodeset, pod)
    return tuple(
        (key, _label_value(text)) for key, text in zip(NODE_LABELS, values, strict=True) if text
    )


def _label_value(text: str) -> str:
    """The text, made fit to be a label's value."""
    return _NOT_IN_A_LABEL.sub("-", text)[:63].strip("._-")


def _drain_annotation(slurm_node: SlurmNode | None) -> Pairs:
    if slurm_node is None or not is_drained(slurm_node.state):
        return ()
    return ((DRAIN, sanitise_reason(slurm_node.reason) or NO_REASON),)


def _drain_pair(value: str | None) -> Pairs:
    return () if value is None else ((DRAIN, value),)


def _set_conditions(row: Node | SlurmdPod, wanted: tuple[Condition, ...]) -> SetConditions:
    """LastTransitionTime moves only where the status does."""
    standing = ((one.type, one.status) for one in row.conditions)
    since = dict(zip(standing, row.changed_at, strict=False))
    changed_at = tuple(since.get((one.type, one.status), "") for one in wanted)
    return SetConditions(reference_of(row), wanted, changed_at)
