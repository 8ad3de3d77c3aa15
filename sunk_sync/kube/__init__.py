"""The Kubernetes side: bytes to facts, actions to requests."""

from sunk_sync.kube.answers import Trouble
from sunk_sync.kube.client import KubeClient, Permission
from sunk_sync.kube.pace import Ambient
from sunk_sync.kube.push import KubePush
from sunk_sync.kube.subject import Subject, nodes, pods, slurmd_pods
from sunk_sync.kube.watch import Watch

__all__ = [
    "Ambient",
    "KubeClient",
    "KubePush",
    "Permission",
    "Subject",
    "Trouble",
    "Watch",
    "nodes",
    "pods",
    "slurmd_pods",
]
