"""Recorder of one host of real servers: `python -m tests.bench.record` writes shapes/*.json.

The objects are made up, in the size of those in GPU clusters; all recorded bytes come from the
servers. Only the name of the host is replaced, so that shapes.py can insert another. `cold` is the
host before the first write of the service, `warm` the host after its writes.
"""

import json
import re
import ssl
import urllib.request
from typing import Any

from tests.bench.running import Running
from tests.bench.shapes import FOLDER, HOST
from tests.real.testbed import Bed, SlurmConf
from tests.real.testbed.kube_objects import pod, slurmd_pod

SLURM_NODE = "x1"
DIGEST = "sha256:" + "0123456789abcdef" * 4
STRATEGIC = "application/strategic-merge-patch+json"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock", "GpuUnhealthy")


def node() -> dict[str, Any]:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.AVX512-{i}": "true" for i in range(12)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": SLURM_NODE,
            "labels": {
                "kubernetes.io/hostname": SLURM_NODE,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "us-east-02",
                "gpu.nvidia.com/model": "H100_NVLINK_80GB",
                **features,
            },
            "annotations": {
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example": SLURM_NODE}),
                "projectcalico.org/IPv4Address": "10.0.0.1/24",
            },
        },
        "spec": {"podCIDR": "10.1.2.0/24", "providerID": "metal://" + SLURM_NODE},
    }


def node_status() -> dict[str, Any]:
    resources = {"cpu": "128", "memory": "2113Gi", "nvidia.com/gpu": "8", "pods": "110"}
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [
            *(_condition(kind, "False", "kubelet has sufficient of it") for kind in PRESSURES),
            _condition("Ready", "True", "kubelet is posting ready status"),
        ],
        "nodeInfo": {"kubeletVersion": "v1.35.4", "osImage": "Debian GNU/Linux 13 (trixie)"},
        "images": [
            {"names": [f"registry.invalid/team/image-{i}@{DIGEST}"], "sizeBytes": 10**9 + i}
            for i in range(12)
        ],
    }


def _condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": f"Because{kind}",
        "message": message,
        "lastHeartbeatTime": "2026-11-21T09:00:00Z",
        "lastTransitionTime": "2026-11-21T08:00:00Z",
    }


def _containers(count: int) -> list[dict[str, Any]]:
    return [
        {
            "name": f"c{i}",
            "image": f"registry.invalid/team/image-{i}@{DIGEST}",
            "env": [{"name": f"VARIABLE_{j}", "value": "y" * 30} for j in range(6)],
            "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
            "volumeMounts": [{"name": "etc", "mountPath": f"/etc/{j}"} for j in range(2)],
        }
        for i in range(count)
    ]


def pods() -> list[dict[str, Any]]:
    """Return the slurmd Pod and one workload Pod."""
    spec = {"volumes": [{"name": "etc", "emptyDir": {}}]}
    daemon = slurmd_pod(SLURM_NODE, annotations={"example.com/other": "x" * 80})
    daemon["spec"] |= {**spec, "containers": _containers(2)}
    workload = pod("work", node=SLURM_NODE, labels={"app": "training", "job-name": "pretrain-7"})
    workload["spec"] |= {
        **spec,
        "containers": _containers(1),
        "schedulerName": "default-slurm",
        "nodeSelector": {"gpu.nvidia.com/model": "H100_NVLINK_80GB"},
    }
    return [daemon, workload]


class Recorder:
    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._context = ssl.create_default_context(cafile=bed.kube.ca_file)

    def record(self, age: str) -> None:
        kube = f"{self._bed.kube.url}/api/v1"
        own = {"Authorization": f"Bearer {self._bed.kube.admin_token}"}
        self._keep(f"node-{age}", f"{kube}/nodes/{SLURM_NODE}", own)
        slurmd = f"{kube}/namespaces/slurm/pods/slurmd-{SLURM_NODE}"
        self._keep(f"slurmd-pod-{age}", slurmd, own)
        self._keep(f"pod-{age}", f"{kube}/namespaces/default/pods/work", own)
        slurm = {"X-SLURM-USER-TOKEN": self._bed.slurm.token()}
        path = self._bed.slurm.path(f"node/{SLURM_NODE}")
        self._keep(f"slurm-node-{age}", self._bed.slurm.url + path, slurm)

    def _keep(self, name: str, url: str, headers: dict[str, str]) -> None:
        context = self._context if url.startswith("https") else None
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            content = re.sub(rb"\b" + SLURM_NODE.encode() + rb"\b", HOST, answer.read())
        (FOLDER / f"{name}.json").write_bytes(content)
        print(f"{name}: {len(content)} bytes")


def main() -> None:
    with Bed.start(conf=SlurmConf(slurmds=1, external_nodes=1), hosts=False) as bed:
        bed.kube.ensure_namespace("slurm")
        bed.kube.create(node())
        status = {"status": node_status()}
        path = f"/api/v1/nodes/{SLURM_NODE}/status?fieldManager=kubelet"
        bed.kube.rest.call("PATCH", path, status, content_type=STRATEGIC)
        bed.kube.create(*pods())
        for age, flags in (("cold", ["--dry-run"]), ("warm", [])):
            token = bed.slurm.token()
            with Running(bed.kube.admin_kubeconfig, bed.slurm.url, token, flags=flags) as service:
                service.settle()
                Recorder(bed).record(age)


if __name__ == "__main__":
    main()
