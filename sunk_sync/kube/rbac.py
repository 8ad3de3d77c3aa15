"""The permissions that sunk-sync needs: one table for the manifests, the doctor and the docs."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.facts import OTHER_PODS
from sunk_sync.core.model.node_set import GROUP
from sunk_sync.kube.read.selection import COLLECTIONS
from sunk_sync.kube.write.hooks_key import secret_name
from sunk_sync.kube.write.lease import own_object_name

Where = Literal["cluster", "slurmd", "work", "own", "default"]
"""The cluster, the namespaces of slurmd Pods or workload Pods, that of sunk-sync, or `default`."""


class Permission(Struct, frozen=True, kw_only=True):
    where: Where
    resource: str
    """`pods`, or with a subresource `pods/status`."""
    names: tuple[str, ...] = ()
    """Only objects with these names; empty: all. Names of own objects are for
    --cluster-name=slurm."""
    verbs: tuple[tuple[str, str], ...]
    group: str = ""
    component: str = "syncer"
    """The component that needs it; a component that does not run needs no permission. Lease and
    Secret: the settings say whether they are used."""

    @property
    def spelled(self) -> str:
        return " ".join((self.resource, *self.names))


_EVENT = "records on the object what sunk-sync decided and why"
_COUNT = ("patch", "counts an Event that happens again")

SCHEDULING: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "pods",
        "",
        (
            ("get", "confirms that a Pod is gone before its job is cancelled (P21)"),
            ("patch", "sets the annotations job-id and cancelled of a waiting Pod (P1, P17)"),
            ("delete", "ends a Pod by UID, with its grace period, once its job has ended (P16)"),
        ),
    ),
    (
        "pods/binding",
        "",
        (("create", "binds a Pod to the Node that Slurm allocated to its job (P11)"),),
    ),
    (
        "pods/status",
        "",
        (
            (
                "patch",
                "sets the conditions PodScheduled and DisruptionTarget (P1, P16)",
            ),
        ),
    ),
    (
        "events",
        "",
        (
            ("create", "records decisions on a Pod (P2, P10, P11)"),
            _COUNT,
            ("list", "reads why the provisioner of a claim makes no volume"),
        ),
    ),
    (
        "persistentvolumeclaims",
        "",
        (
            ("get", "reads a claim right before it selects a Node for its volume"),
            ("patch", "selects the Node for which a volume is made, or takes it back"),
        ),
    ),
    ("jobs", "batch", (("get", "reads the number of Pods in the gang of an Indexed Job (G1)"),)),
    ("podgroups", "scheduling.x-k8s.io", (("get", "reads the number of Pods in a gang (G1)"),)),
)
"""Needed in each namespace of workload Pods: resource, group, verbs with reasons."""

NODE_SETS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "pods",
        "",
        (
            ("create", "makes the slurmd Pods of a NodeSet (N1)"),
            ("delete", "ends by UID and version a Pod of a NodeSet that is drained (N8)"),
        ),
    ),
    (
        "nodesets",
        GROUP,
        (("patch", "sets the finalizer: a deleted NodeSet stays until its Pods have ended (N23)"),),
    ),
    ("nodesets/status", GROUP, (("patch", "shows the numbers and conditions of a NodeSet (N2)"),)),
)
"""Needed in each namespace of slurmd Pods for component nodesets: resource, group, verbs."""

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
"""Optional: granted by deploy/all-pods."""

LOCKED_PODS = Permission(
    where="cluster",
    resource="pods",
    verbs=(("list", "waits until no foreign Pod lives on a Node with the lock (L1)"),),
)
"""Optional, for --lock: granted by deploy/lock."""

PERMISSIONS: tuple[Permission, ...] = (
    *_READING.values(),
    Permission(
        where="cluster",
        resource="nodes",
        verbs=(
            ("get", "a Node counts as deleted only after a read by name finds none (S8)"),
            ("patch", "sets labels and the drain annotation (M3, M4), cordons (M7) and locks (L1)"),
        ),
    ),
    Permission(
        where="cluster",
        resource="nodes/status",
        verbs=(("patch", "sets SlurmDrain, SlurmRunning and the other Slurm conditions (M2)"),),
    ),
    Permission(
        where="cluster",
        resource="namespaces",
        names=("kube-system",),
        verbs=(("get", "its UID identifies this cluster in our marks on Slurm nodes (M8)"),),
    ),
    Permission(
        where="slurmd",
        resource="pods",
        verbs=(
            ("get", "a slurmd Pod counts as deleted only after a read by name finds none (S7)"),
            ("patch", "sets the annotations drain and drained (M3, S6)"),
        ),
    ),
    Permission(
        where="slurmd",
        resource="pods/status",
        verbs=(("patch", "sets the conditions SlurmNodeState… (M1)"),),
    ),
    Permission(where="slurmd", resource="events", verbs=(("create", _EVENT), _COUNT)),
    *(
        Permission(
            where="slurmd", component="nodesets", resource=resource, group=group, verbs=verbs
        )
        for resource, group, verbs in NODE_SETS
    ),
    *(
        Permission(where="work", component="scheduler", resource=resource, group=group, verbs=verbs)
        for resource, group, verbs in SCHEDULING
    ),
    Permission(
        where="cluster",
        component="scheduler",
        resource="persistentvolumes",
        verbs=(
            ("get", "reads a volume right before it reserves it"),
            ("patch", "reserves a volume for the claim of a Pod that has a host (claimRef)"),
        ),
    ),
    Permission(
        where="own",
        resource="events",
        verbs=(("create", "records what concerns the service as a whole (S19, S20)"), _COUNT),
    ),
    Permission(
        where="own",
        resource="secrets",
        names=(secret_name("slurm"),),
        verbs=(
            ("get", "reads the key of the hook tokens, which outlives a restart (L5)"),
            ("patch", "stores the key once, while the Secret is empty"),
        ),
    ),
    Permission(
        where="own",
        resource="leases",
        group="coordination.k8s.io",
        names=(own_object_name("slurm"),),
        verbs=(
            ("get", "reads which replica leads, for --leader-elect (F6)"),
            ("patch", "takes, renews and releases the Lease"),
        ),
    ),
    Permission(
        where="own",
        resource="leases",
        group="coordination.k8s.io",
        verbs=(("create", "makes the Lease again if somebody deleted it"),),
    ),
    Permission(
        where="default",
        resource="events",
        verbs=(("create", "records decisions on a Node; Events of Nodes are in `default`"), _COUNT),
    ),
)
