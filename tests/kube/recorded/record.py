"""Record answers of a real API server: `python -m tests.kube.recorded.record` writes *.json here.

The objects are invented, in the shapes and sizes of GPU clusters. The server sent each byte.
"""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.real.testbed import KubeServer

HERE = Path(__file__).parent
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def node(name: str) -> dict[str, Any]:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.AVX512-{i}": "true" for i in range(24)}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock", "GpuUnhealthy")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "us-east-02",
                "gpu.nvidia.com/model": "H100_NVLINK_80GB",
                **features,
            },
            "annotations": {
                "node.coreweave.cloud/cordonReason": "kernel update",
                "sunk.coreweave.com/slurm-node": f"slurm-{name}",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example": name}),
                "projectcalico.org/IPv4Address": "10.0.0.1/24",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "128", "memory": "2113Gi", "nvidia.com/gpu": "8"},
            "allocatable": {"cpu": "127", "memory": "2100Gi", "nvidia.com/gpu": "8"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [
                *(condition(kind, "False") for kind in kinds),
                condition("Ready", "True"),
            ],
            "images": [
                {"names": [f"registry.invalid/team/image-{i}@{DIGEST}"], "sizeBytes": 10**9 + i}
                for i in range(12)
            ],
        },
    }


def condition(kind: str, status: str, message: str = "kubelet has sufficient of it") -> Any:
    return {
        "type": kind,
        "status": status,
        "reason": f"Because{kind}",
        "message": message,
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }


def pod(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/component": "slurmd", "app": "slurm"},
            "annotations": {"sunk.coreweave.com/cordon": "true", "example.com/other": "x" * 80},
            "ownerReferences": [
                {
                    "apiVersion": "example.com/v1",
                    "kind": "NodeSet",
                    "name": "gpu",
                    "uid": "0e8b7a5c-6a1f-4a0e-9a8e-2c6a4f1c1a11",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": f"c{i}",
                    "image": f"registry.invalid/team/slurmd@{DIGEST}",
                    "env": [{"name": f"VARIABLE_{i}", "value": "y" * 30} for i in range(6)],
                    "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
                    "volumeMounts": [{"name": "etc", "mountPath": f"/etc/{i}"}],
                }
                for i in range(2)
            ],
            "volumes": [{"name": "etc", "emptyDir": {}}],
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }


def conditions_of(kind: str, name: str, conditions: list[Any]) -> dict[str, Any]:
    """Return a patch of the status."""
    metadata = {"name": name}
    status = {"conditions": conditions}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "status": status}


class Recorder:
    def __init__(self, server: KubeServer) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=server.ca_file)

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        return json.loads(self.raw(method, path, body, kind))

    def raw(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> bytes:
        request = urllib.request.Request(
            self._server.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._server.admin_token}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            return error.read()

    def restart(self) -> None:
        """Restart the server: a new watch cache has no old resourceVersion."""
        self._server.restart()

    def keep(self, name: str, content: bytes) -> None:
        (HERE / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes")


def main() -> None:
    with KubeServer(controllers=False, kubelet=False) as server:
        server.ensure_namespace("slurm")
        record(Recorder(server))


def record(to: Recorder) -> None:
    nodes, pods = "/api/v1/nodes", "/api/v1/namespaces/slurm/pods"
    before = to.send("GET", nodes)["metadata"]["resourceVersion"]
    for i in range(3):
        to.send("POST", nodes, node(f"g{i}"))
    ours = {"type": "SlurmDrain", "status": "True", "reason": "Slurm", "message": "k8s: cordoned"}
    patch = conditions_of("Node", "g0", [ours])
    force = "?force=true&fieldManager=sunk-sync-mirror"
    to.keep("answer-apply-node.json", to.raw("PATCH", f"{nodes}/g0/status{force}", patch, APPLY))
    labels = {"labels": {"sunk.coreweave.com/cluster": "slurm"}}
    metadata = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "g0", **labels}}
    to.send("PATCH", f"{nodes}/g0{force}", metadata, APPLY)
    to.send("PATCH", f"{nodes}/g0", {"spec": {"unschedulable": True}}, STRATEGIC)
    to.send("DELETE", f"{nodes}/g2")
    record_pods(to, pods)
    record_watches(to, nodes, pods, before)
    record_refusals(to, nodes)


def record_pods(to: Recorder, pods: str) -> None:
    to.send("POST", pods, pod("slurmd-g0", "slurm", nodeName="g0", hostname="g0"))
    to.send("POST", pods, pod("work-0", "slurm", schedulerName="slurm-slurm"))
    status = {"phase": "Running", "conditions": [condition("Ready", "True")]}
    to.send("PATCH", f"{pods}/slurmd-g0/status", {"status": status}, STRATEGIC)
    ours = [
        condition("SlurmNodeStateIdle", "True", ""),
        condition("SlurmNodeStateDrain", "True", "k8s: x"),
    ]
    patch = conditions_of("Pod", "slurmd-g0", ours)
    path = f"{pods}/slurmd-g0/status?force=true&fieldManager=sunk-sync-mirror"
    to.keep("answer-apply-pod.json", to.raw("PATCH", path, patch, APPLY))


def record_watches(to: Recorder, nodes: str, pods: str, before: str) -> None:
    watch = "watch=true&allowWatchBookmarks=true&timeoutSeconds=4"
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    to.keep("watch-nodes.json", to.raw("GET", f"{nodes}?{watch}&resourceVersion={before}"))
    to.keep("watchlist-nodes.json", to.raw("GET", f"{nodes}?{watch}&{initial}"))
    to.keep("watch-pods.json", to.raw("GET", f"{pods}?{watch}&resourceVersion={before}"))
    to.keep("list-nodes-page-1.json", to.raw("GET", f"{nodes}?limit=1"))
    token = to.send("GET", f"{nodes}?limit=1")["metadata"]["continue"]
    to.keep("list-nodes-page-2.json", to.raw("GET", f"{nodes}?limit=1&continue={token}"))
    to.keep("list-pods.json", to.raw("GET", pods))
    to.keep("list-nodes-empty.json", to.raw("GET", f"{nodes}?labelSelector=none%3Dthere"))


def record_refusals(to: Recorder, nodes: str) -> None:
    other = {"name": "g0", "uid": "0e8b7a5c-6a1f-4a0e-9a8e-2c6a4f1c1a11"}
    patch = {"apiVersion": "v1", "kind": "Node", "metadata": other}
    force = "?force=true&fieldManager=sunk-sync-mirror"
    to.keep("error-uid.json", to.raw("PATCH", f"{nodes}/g0{force}", patch, APPLY))
    gone = {"apiVersion": "v1", "kind": "Node", "metadata": {**other, "name": "none"}}
    to.keep("error-uid-gone.json", to.raw("PATCH", f"{nodes}/none{force}", gone, APPLY))
    to.keep("error-status-gone.json", to.raw("PATCH", f"{nodes}/none/status{force}", gone, APPLY))
    to.keep("error-not-found.json", to.raw("GET", f"{nodes}/none"))
    to.keep("error-no-such-path.json", to.raw("GET", "/api/v1/nodez/none"))
    bad = {**patch, "metadata": {"name": "g0", "labels": {"a b": "c"}}}
    to.keep("error-invalid.json", to.raw("PATCH", f"{nodes}/g0{force}", bad, APPLY))
    to.restart()
    to.keep("watch-gone.json", to.raw("GET", f"{nodes}?watch=true&resourceVersion=1"))


if __name__ == "__main__":
    main()
