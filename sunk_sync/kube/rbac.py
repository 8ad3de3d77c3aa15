"""What this service asks of Kubernetes: one table for the manifests, doctor and the docs."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.facts import OTHER_PODS
from sunk_sync.kube.read.selection import COLLECTIONS
from sunk_sync.kube.write.hooks_key import secret_name

Where = Literal["cluster", "slurmd", "work", "own", "default"]
"""The whole cluster, the namespaces of slurmd Pods, those of workload Pods, our own, `default`."""


class Permission(Struct, frozen=True, kw_only=True):
    """Verbs on one resource, each with its reason."""

    where: Where
    resource: str
    """`pods`, or with a subresource `pods/status`."""
    names: tuple[str, ...] = ()
    """Only objects of these names; empty: any. That of the Secret is for --cluster-name=slurm."""
    verbs: tuple[tuple[str, str], ...]
    """Verb and why."""
    group: str = ""
    component: str = "syncer"
    """Which part of the service needs it; without that part it need not be granted."""

    @property
    def spelled(self) -> str:
        """`namespaces kube-system`, `pods/status`"""
        return " ".join((self.resource, *self.names))


_EVENT = "says on the object what was decided and why"

SCHEDULING: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "pods",
        "",
        (
            ("get", "a job ends for want of its Pod only when a read by name says so (P21)"),
            ("patch", "annotations job-id and cancelled of a Pod that waits (P1, P17)"),
            ("delete", "a Pod whose job has ended, by UID and with its own grace (P16)"),
        ),
    ),
    ("pods/binding", "", (("create", "puts a Pod on the Node that Slurm gave its job (P11)"),)),
    (
        "pods/status",
        "",
        (
            (
                "patch",
                "conditions PodScheduled and DisruptionTarget: why it waits or ends (P1, P16)",
            ),
        ),
    ),
    ("events", "", (("create", "says on a Pod what was decided and why (P2, P10, P11)"),)),
    ("jobs", "batch", (("get", "how many Pods the gang of an Indexed Job has (G1)"),)),
    ("podgroups", "scheduling.x-k8s.io", (("get", "how many Pods a gang has (G1)"),)),
)
"""In every namespace of workload Pods: resource, group, verbs with their reasons."""

_READING = {
    source: Permission(
        where=one.where,
        resource=one.resource,
        group=one.group,
        component=one.component,
        verbs=one.verbs,
    )
    for source, one in COLLECTIONS.items()
}
ALL_PODS = _READING.pop(OTHER_PODS)
"""Granted by deploy/all-pods, to those who want it."""

PERMISSIONS: tuple[Permission, ...] = (
    *_READING.values(),
    Permission(
        where="cluster",
        resource="nodes",
        verbs=(
            ("get", "a Node counts as gone only when a read by name says so (S8)"),
            ("patch", "labels and the drain annotation (M3, M4); the cordon of M7"),
        ),
    ),
    Permission(
        where="cluster",
        resource="nodes/status",
        verbs=(("patch", "conditions SlurmDrain, SlurmRunning and their like (M2)"),),
    ),
    Permission(
        where="cluster",
        resource="namespaces",
        names=("kube-system",),
        verbs=(("get", "its UID is the name of this cluster in our marks on Slurm nodes (M8)"),),
    ),
    Permission(
        where="slurmd",
        resource="pods",
        verbs=(
            ("get", "a slurmd Pod counts as gone only when a read by name says so (S7)"),
            ("patch", "annotations drain and drained (M3, S6)"),
        ),
    ),
    Permission(
        where="slurmd",
        resource="pods/status",
        verbs=(("patch", "conditions SlurmNodeState… (M1)"),),
    ),
    Permission(where="slurmd", resource="events", verbs=(("create", _EVENT),)),
    *(
        Permission(where="work", component="scheduler", resource=resource, group=group, verbs=verbs)
        for resource, group, verbs in SCHEDULING
    ),
    Permission(
        where="own",
        resource="events",
        verbs=(("create", "says what concerns the service as a whole (S19, S20)"),),
    ),
    Permission(
        where="own",
        component="scheduler",
        resource="secrets",
        names=(secret_name("slurm"),),
        verbs=(
            ("get", "the key of the hook tokens outlives a restart (L5)"),
            ("patch", "puts the key there once, while the Secret is empty"),
        ),
    ),
    Permission(
        where="default",
        resource="events",
        verbs=(("create", "says on a Node what was decided and why: its Events stand here"),),
    ),
)
