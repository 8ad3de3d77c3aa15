"""Nodes and slurmd Pods from wire shapes to facts. Untrusted texts are cut."""

import re
from collections.abc import Iterable
from functools import lru_cache
from sys import intern

from msgspec import Raw

from sunk_sync.core.model import names
from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.core.model.facts import NO_LABELS, Labels, Node, SlurmdPod
from sunk_sync.core.model.node_lock import STATES, tolerates_lock
from sunk_sync.core.model.node_set import API_VERSION
from sunk_sync.core.model.pod_spec import NO_OFFER, Offer
from sunk_sync.core.model.user_policy import NO_DEFAULTS, Namespace, NamespaceDefaults
from sunk_sync.kube.decode import wire_hosts, wire_pods
from sunk_sync.kube.decode.node_offers import is_tainted, offered
from sunk_sync.kube.decode.node_signs import OF_KUBELETS, signs_of
from sunk_sync.kube.decode.pod_specs import tolerations_of
from sunk_sync.kube.decode.pods import FINISHED
from sunk_sync.kube.decode.slurmd_requests import requests_of
from sunk_sync.kube.decode.strings import asked, condition, condition_status, cut, cut_or_none

DELETION_COST = re.compile(r"0|[1-9][0-9]{0,10}|-[0-9]{1,11}", re.ASCII)
COST_MAX = 2**31
_NODE_CONDITIONS = frozenset(names.NODE_CONDITIONS)
_KNOWN_CONDITIONS = _NODE_CONDITIONS | OF_KUBELETS
_NO_NODE_ANNOTATIONS = wire_hosts.WireNodeAnnotations()
_NO_POD_ANNOTATIONS = wire_hosts.WireSlurmdPodAnnotations()


def namespace_row(wire: wire_hosts.WireNamespace) -> Namespace:
    own = wire.metadata.annotations
    defaults = NO_DEFAULTS
    if own is not None:
        defaults = NamespaceDefaults(cut(own.user), cut(own.group), cut(own.account))
    labels = tuple(sorted((wire.metadata.labels or {}).items()))
    return Namespace(wire.metadata.name, wire.metadata.uid, defaults, labels)


def node_row(wire: wire_hosts.WireNode) -> Node:
    """Decode a Node without labels, taints and allocatable."""
    labels = wire.metadata.labels
    return _node(wire, NO_LABELS if labels is None else _node_labels(labels), NO_OFFER)


def offering_node_row(wire: wire_pods.WireOfferingNode) -> Node:
    """Decode a Node with labels, taints and allocatable."""
    known = offered(wire)
    return _node(wire, known.ours, known.offer)


def _node(
    wire: wire_hosts.WireNode | wire_pods.WireOfferingNode, labels: Labels, offer: Offer
) -> Node:
    meta = wire.metadata
    annotations = meta.annotations or _NO_NODE_ANNOTATIONS
    conditions, taints = wire.status.conditions or (), bytes(wire.spec.taints)
    ready, ours, changed_at = _node_conditions(conditions)
    others = [one for one in conditions if one.type not in _KNOWN_CONDITIONS]
    return Node(
        name=intern(meta.name),
        uid=meta.uid,
        unschedulable=wire.spec.unschedulable,
        ready=ready,
        cordon_reason=cut(annotations.cloud_cordon_reason or annotations.cordon_reason),
        slurm_node=intern(cut(annotations.slurm_node)),
        cordoned_for_drain=asked(annotations.cordoned_for_drain),
        keep_cordon=asked(annotations.keep_cordon),
        drain=cut_or_none(annotations.drain),
        labels=labels,
        conditions=ours,
        changed_at=changed_at,
        offer=offer,
        lock=STATES.get(annotations.lock, ""),
        tainted=is_tainted(taints),
        signs=signs_of(taints, others),
    )


ReadyAndConditions = tuple[ConditionStatus, tuple[Condition, ...], tuple[str, ...]]
"""Status of Ready; conditions of sunk-sync, sorted by type; their lastTransitionTimes."""


def _node_conditions(conditions: Iterable[wire_hosts.WireCondition]) -> ReadyAndConditions:
    ready: ConditionStatus = "Unknown"
    ours = []
    for one in conditions:
        kind = one.type
        if kind in _NODE_CONDITIONS:
            ours.append(one)
        elif kind == "Ready":
            ready = condition_status(one.status)
    return (ready, *_ours(ours))


def _pod_conditions(conditions: Iterable[wire_hosts.WireCondition]) -> ReadyAndConditions:
    ready: ConditionStatus = "Unknown"
    ours = []
    for one in conditions:
        kind = one.type
        if kind.startswith(names.POD_STATE_CONDITION) or kind == names.POD_CONFLICT_CONDITION:
            ours.append(one)
        elif kind == "Ready":
            ready = condition_status(one.status)
    return (ready, *_ours(ours))


def _ours(
    conditions: list[wire_hosts.WireCondition],
) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    if not _are_sorted(conditions):
        conditions.sort(key=_type_of)
    return (
        tuple([condition(one) for one in conditions]),
        _times(conditions),
    )


def _times(conditions: list[wire_hosts.WireCondition]) -> tuple[str, ...]:
    """Return the lastTransitionTimes. Equal neighbours share one object."""
    times: list[str] = []
    latest = ""
    for one in conditions:
        time = one.last_transition_time or ""
        if time != latest:
            latest = time
        times.append(latest)
    return tuple(times)


def _are_sorted(conditions: list[wire_hosts.WireCondition]) -> bool:
    """Whether they are sorted, as sunk-sync writes them: this check is cheaper than a sort."""
    before = ""
    for one in conditions:
        kind = one.type
        if kind < before:
            return False
        before = kind
    return True


def _type_of(condition: wire_hosts.WireCondition) -> str:
    return condition.type


def _node_labels(labels: wire_hosts.WireNodeLabels) -> Labels:
    return (
        _interned(labels.cluster),
        _interned(labels.namespace),
        _interned(labels.nodeset),
        labels.pod,
    )


def _interned(value: str | None) -> str | None:
    """Share one object for a value that many Nodes have."""
    return value if value is None else intern(value)


def slurmd_pod_row(wire: wire_hosts.WireSlurmdPod) -> SlurmdPod:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    annotations = meta.annotations or _NO_POD_ANNOTATIONS
    ready, ours, changed_at = _pod_conditions(status.conditions or ())
    owner = _owner(meta)
    return SlurmdPod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        node_name=intern(spec.node_name),
        slurm_node=intern(cut(annotations.slurm_node) or _slurm_node(meta.name, spec)),
        nodeset=intern(_nodeset(meta)),
        finished=status.phase in FINISHED,
        ready=ready == "True",
        terminating=meta.deletion_timestamp is not None,
        cordon=cut(annotations.cordon) if asked(annotations.cordon) else "",
        pending_deletion=cut_or_none(annotations.pending_deletion),
        drained=annotations.drained == "true",
        drain=cut_or_none(annotations.drain),
        conditions=ours,
        changed_at=changed_at,
        requests=requests_of(spec.containers),
        failed=_failed(status),
        waiting=(_waiting(status) if spec.node_name else _unplaced(status)) if owner else "",
        busy=meta.labels is not None and meta.labels.busy == "true",
        owner=owner,
        revision=cut(meta.labels.revision) if meta.labels else "",
        shape=cut(meta.labels.shape) if meta.labels else "",
        deletion_cost=deletion_cost_of(annotations.deletion_cost) if owner else 0,
        tolerates_lock=_tolerates_lock(bytes(spec.tolerations)),
    )


def deletion_cost_of(text: str) -> int:
    """Return the number as a ReplicaSet reads it; 0 if it is none.

    The API server refuses such a text, so a Pod has it only from before that check.
    """
    cost = int(text) if DELETION_COST.fullmatch(text) else 0
    return cost if -COST_MAX <= cost < COST_MAX else 0


@lru_cache(maxsize=1024)
def _tolerates_lock(content: bytes) -> bool:
    return tolerates_lock(tolerations_of(Raw(content)))


def _waiting(status: wire_hosts.WireSlurmdPodStatus) -> str:
    for one in status.container_statuses or ():
        if one.state is not None and one.state.waiting is not None:
            waiting = one.state.waiting
            return cut(": ".join(part for part in (waiting.reason, waiting.message) if part))
    return ""


def _unplaced(status: wire_hosts.WireSlurmdPodStatus) -> str:
    """Return why no Node takes the Pod, in the words of kube-scheduler."""
    for one in status.conditions or ():
        if one.type == names.SCHEDULED_CONDITION and one.status == "False":
            return cut(one.message or one.reason)
    return ""


def _failed(status: wire_hosts.WireSlurmdPodStatus) -> str:
    if status.phase != "Failed":
        return ""
    return cut(": ".join(part for part in (status.reason, status.message) if part) or "Failed")


def _owner(meta: wire_hosts.WireSlurmdPodMeta) -> str:
    """Return the UID of the NodeSet of sunk-sync that controls the Pod."""
    for one in meta.owner_references or ():
        if one.controller and one.kind == "NodeSet" and one.api_version == API_VERSION:
            return one.uid
    return ""


def _slurm_node(pod_name: str, spec: wire_hosts.WireSlurmdPodSpec) -> str:
    """Return the Slurm node without an annotation; empty: a hostNetwork Pod without a Node."""
    return spec.hostname or (spec.node_name if spec.host_network else pod_name)


def _nodeset(meta: wire_hosts.WireSlurmdPodMeta) -> str:
    for owner in meta.owner_references or ():
        if owner.kind == "NodeSet":
            return owner.name
    return cut(meta.labels.nodeset) if meta.labels else ""
