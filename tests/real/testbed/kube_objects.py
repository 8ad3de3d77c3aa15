"""Makers of the Kubernetes objects that tests need."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

SLURMD_LABELS = {"app.kubernetes.io/component": "slurmd"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONTAINER = {"name": "main", "image": "none.invalid/none:1"}


def node(name: str, *, labels: Mapping[str, str] | None = None) -> Object:
    """Make a Ready Node: the API server keeps the status of a POST."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [condition("Ready", "True", reason="KubeletReady")],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": NODE_SYSTEM,
        },
    }


NODE_SYSTEM = dict.fromkeys((
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
), "testbed")  # fmt: skip


def condition(kind: str, status: str, *, reason: str = "TestBed") -> Object:
    return {"type": kind, "status": status, "reason": reason}


def conditions(an_object: Object) -> dict[str, Object]:
    """Return the conditions of a Node or Pod by type."""
    return {one["type"]: one for one in an_object.get("status", {}).get("conditions") or []}


def status_of(an_object: Object, kind: str) -> str:
    """Return the status of the condition; empty if there is none."""
    return str(conditions(an_object).get(kind, {}).get("status", ""))


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """Make a Pod with one container, bound if `node` is given. `spec` adds or replaces."""
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "containers": [CONTAINER],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            # As for a DaemonSet: a cordoned or NotReady Node does not evict it.
            "tolerations": [{"operator": "Exists"}],
            **(spec or {}),
        },
    }
    if node is not None:
        made["spec"]["nodeName"] = node
    return made


def slurmd_pod(
    slurm_node: str,
    *,
    namespace: str = "slurm",
    name: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Make the Pod of `slurm_node`'s slurmd, on the Node of the same name."""
    return pod(
        name or f"slurmd-{slurm_node}",
        namespace=namespace,
        node=slurm_node,
        labels=SLURMD_LABELS,
        annotations=annotations,
        spec={"hostname": slurm_node},
    )
