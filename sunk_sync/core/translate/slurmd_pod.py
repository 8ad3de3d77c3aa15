"""The Pod that sunk-sync makes for a NodeSet (N1).

The template of the NodeSet stays as it is. sunk-sync adds its labels, the owner, the host name, the
subdomain, tolerations, an anti-affinity to other slurmd Pods, and the arguments -Z, -N and
--conf of container slurmd.
"""

from typing import Any

import msgspec

from sunk_sync.core.model import names
from sunk_sync.core.model.node_set import API_VERSION, NodeSet, Plan
from sunk_sync.core.model.pod_spec import Toleration
from sunk_sync.core.translate.node_fit import NAME_FIELD
from sunk_sync.core.translate.slurmd_options import conf_of

COMPONENT_LABEL = "app.kubernetes.io/component"
SLURMD = "slurmd"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OTHER_SLURMDS: dict[str, Any] = {
    "labelSelector": {"matchLabels": {COMPONENT_LABEL: SLURMD}},
    "topologyKey": "kubernetes.io/hostname",
}
SUBDOMAIN = "slurm-nodes"
"""The headless Service that the chart makes. Slurm has each name once, so one serves all."""
STAYS = (
    Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute"),
    Toleration(names.LOCK, "Exists"),
)
"""slurmd stays on a Node that is silent for a while, as during a reboot: sunk-sync drains it. A
locked Node is the job's. No new Pod goes to a Node that is cordoned or silent."""
AS_OF_DAEMON_SET = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", effect="NoSchedule")
    for state in ("unschedulable", "disk-pressure", "memory-pressure", "pid-pressure")
)
"""With one Pod for each Node a new one goes where that of a DaemonSet would go (N17)."""
OF_HOST_NETWORK = Toleration(
    "node.kubernetes.io/network-unavailable", "Exists", effect="NoSchedule"
)
"""The same, for a Pod that does not wait for the network of Pods."""


def slurmd_pod(spec: NodeSet, plan: Plan, *, name: str, node_name: str = "") -> dict[str, Any]:
    """Return the Pod of this name as the API server takes it; `node_name`: its only Node."""
    template = msgspec.json.decode(spec.template)
    metadata = template.get("metadata") or {}
    pod = dict(template.get("spec") or {})
    pod["hostname"] = name
    pod["subdomain"] = SUBDOMAIN
    pod["tolerations"] = [*(pod.get("tolerations") or ()), *_tolerations(spec, pod)]
    pod["affinity"] = _apart(pod.get("affinity") or {})
    if node_name:
        pod["affinity"] = _pinned(pod["affinity"], node_name)
    pod["containers"] = [_container(one, spec, plan, name) for one in pod.get("containers") or ()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels_of(spec, plan)},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [_owner(spec)],
        },
        "spec": pod,
    }


def labels_of(spec: NodeSet, plan: Plan) -> dict[str, str]:
    return {
        COMPONENT_LABEL: SLURMD,
        names.LABEL_NODESET: spec.name,
        names.LABEL_REVISION: plan.revision,
        names.LABEL_SHAPE: plan.stamp.shape,
    }


def selector_of(spec: NodeSet) -> str:
    """Return the selector of its Pods, for the scale subresource."""
    return f"{COMPONENT_LABEL}={SLURMD},{names.LABEL_NODESET}={spec.name}"


def _owner(spec: NodeSet) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeSet",
        "name": spec.name,
        "uid": spec.uid,
        "controller": True,
    }


def _apart(affinity: dict[str, Any]) -> dict[str, Any]:
    """Keep other slurmd Pods off its Node: two Slurm nodes of one Node contradict each other (S16).

    Neither could be drained or deleted then.
    """
    asked = affinity.get("podAntiAffinity") or {}
    terms = asked.get(_REQUIRED) or []
    others = [*terms, *([] if OTHER_SLURMDS in terms else [OTHER_SLURMDS])]
    return {**affinity, "podAntiAffinity": {**asked, _REQUIRED: others}}


def _pinned(affinity: dict[str, Any], node_name: str) -> dict[str, Any]:
    """Let the scheduler take this Node alone, as for the Pods of a DaemonSet.

    The Node matched the required affinity of the template, whose place this takes.
    """
    field = {"key": NAME_FIELD, "operator": "In", "values": [node_name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: terms}
    return {**affinity, "nodeAffinity": node}


def _tolerations(spec: NodeSet, pod: dict[str, Any]) -> list[dict[str, str]]:
    added = list(STAYS)
    if spec.per_node:
        added += AS_OF_DAEMON_SET
        added += [OF_HOST_NETWORK] if pod.get("hostNetwork") else []
    return [_wire(one) for one in added]


def _wire(toleration: Toleration) -> dict[str, str]:
    wire = {"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}
    return {name: text for name, text in wire.items() if text}


def _container(container: dict[str, Any], spec: NodeSet, plan: Plan, name: str) -> dict[str, Any]:
    if container.get("name") != SLURMD:
        return container
    conf = conf_of(plan.registration, name=spec.name, stamp=plan.stamp)
    added = ["-Z", "-N", name, "--conf", conf]
    return {**container, "args": [*(container.get("args") or ()), *added]}
