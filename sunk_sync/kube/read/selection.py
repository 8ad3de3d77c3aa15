"""The objects that sunk-sync lists and watches. Each kind is a row of `COLLECTIONS`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from sunk_sync.core.model.facts import NAMESPACES, OTHER_PODS, Source
from sunk_sync.core.model.node_set import GROUP, VERSION
from sunk_sync.kube.decode.source_decoder import (
    CSI_DRIVERS,
    CSI_NODES,
    NODE_SETS,
    NODES,
    OFFERING_NODES,
    OTHERS,
    PODS,
    SLURMD_PODS,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    SourceDecoder,
)
from sunk_sync.kube.decode.source_decoder import (
    NAMESPACES as NAMESPACE_DECODER,
)

EVERYWHERE = "*"
Selectors = tuple[tuple[str, str], ...]


class SelectionScope(Struct, frozen=True, kw_only=True):
    """The part of Kubernetes that the operator chose. The namespace `*` means all."""

    slurmd_namespace: tuple[str, ...] = (EVERYWHERE,)
    slurmd_selector: str = ""
    watch_namespace: tuple[str, ...] = (EVERYWHERE,)
    scheduler_name: str = ""
    schedules: bool = False
    watch_all_pods: bool = False
    node_sets: bool = False


class Selection(Struct, frozen=True, kw_only=True):
    """One source to read. `paths` are its collections: one, or one for each namespace."""

    decoder: SourceDecoder[Any]
    paths: tuple[str, ...]
    selectors: Selectors = ()
    missing: str = ""
    """As in Collection."""

    @property
    def source(self) -> Source:
        return self.decoder.source


WATCHED: Final = ("watch", "changes arrive within milliseconds")
"""A verb with its reason, for RBAC."""


class Collection(Struct, frozen=True, kw_only=True):
    """Objects of one kind, the rows of one source."""

    title: str
    """Their name in /readyz."""
    decoder: SourceDecoder[Any]
    offering: SourceDecoder[Any] | None = None
    """Decoder to use instead if sunk-sync schedules Pods, or has NodeSets."""
    resource: str
    group: str = ""
    """For example `slinky.slurm.net`; empty: the core group."""
    version: str = "v1"
    where: Literal["cluster", "slurmd", "work"]
    """The whole cluster, the namespaces of slurmd Pods, or those of workload Pods."""
    selectors: Callable[[SelectionScope], Selectors] = lambda _: ()
    is_read: Callable[[SelectionScope], bool] = lambda _: True
    missing: str = ""
    """What to say if the API server does not know the kind; empty: Kubernetes always has it."""
    component: str = "syncer"
    verbs: tuple[tuple[str, str], ...] = (
        ("list", "sunk-sync starts from a complete listing"),
        WATCHED,
    )
    """Verbs with reasons, for RBAC."""

    def selection(self, scope: SelectionScope) -> Selection:
        offers = scope.schedules or scope.node_sets
        decoder = self.offering if self.offering and offers else self.decoder
        return Selection(
            decoder=decoder,
            paths=self._paths(scope),
            selectors=self.selectors(scope),
            missing=self.missing,
        )

    def _paths(self, scope: SelectionScope) -> tuple[str, ...]:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespaces = {
            "cluster": (EVERYWHERE,),
            "slurmd": scope.slurmd_namespace,
            "work": scope.watch_namespace,
        }[self.where]
        if EVERYWHERE in namespaces:
            return (f"{root}/{self.resource}",)
        once = dict.fromkeys(namespaces)
        return tuple(f"{root}/namespaces/{name}/{self.resource}" for name in once)


def _of_others(scope: SelectionScope) -> Selectors:
    """Select Pods of other schedulers that are on a Node and have not ended."""
    fields = (
        "spec.nodeName!=",
        "status.phase!=Succeeded",
        "status.phase!=Failed",
        f"spec.schedulerName!={scope.scheduler_name}",
    )
    return (("fieldSelector", ",".join(fields)),)


KIND_MISSING: Final = (
    "the kind NodeSet is missing: kubectl apply -k deploy/nodesets,"
    " or set nodesets.enabled and nodesets.crd.create in the chart"
)


def _of_storage(title: str, decoder: SourceDecoder[Any], *, resource: str, why: str) -> Collection:
    """Make a collection of storage.k8s.io, which is read from the first Pod with a claim on."""
    return Collection(
        title=title,
        decoder=decoder,
        resource=resource,
        group="storage.k8s.io",
        where="cluster",
        is_read=lambda scope: scope.schedules,
        component="scheduler",
        verbs=(("list", f"{why}, from the first Pod with a claim on"), WATCHED),
    )


COLLECTIONS: Final[Mapping[Source, Collection]] = {
    "nodes": Collection(
        title="nodes", decoder=NODES, offering=OFFERING_NODES, resource="nodes", where="cluster"
    ),
    "slurmd_pods": Collection(
        title="slurmd pods",
        decoder=SLURMD_PODS,
        resource="pods",
        where="slurmd",
        selectors=lambda scope: (("labelSelector", scope.slurmd_selector),),
    ),
    "pods": Collection(
        title="workload pods",
        decoder=PODS,
        resource="pods",
        where="work",
        selectors=lambda scope: (("fieldSelector", f"spec.schedulerName={scope.scheduler_name}"),),
    ),
    "node_sets": Collection(
        title="nodesets",
        decoder=NODE_SETS,
        resource="nodesets",
        group=GROUP,
        version=VERSION,
        where="slurmd",
        is_read=lambda scope: scope.node_sets,
        missing=KIND_MISSING,
        component="nodesets",
        verbs=(
            ("list", "reads which slurmd Pods should exist (N1)"),
            WATCHED,
        ),
    ),
    OTHER_PODS: Collection(
        title="pods of others",
        decoder=OTHERS,
        resource="pods",
        where="cluster",
        selectors=_of_others,
        is_read=lambda scope: scope.watch_all_pods,
        component="scheduler",
        verbs=(
            ("list", "reads what other Pods take and forbid, for --watch-all-pods (P8, P28)"),
            ("watch", "keeps this up to date"),
        ),
    ),
    NAMESPACES: Collection(
        title="namespaces",
        decoder=NAMESPACE_DECODER,
        resource="namespaces",
        where="cluster",
        is_read=lambda scope: scope.schedules,
        component="scheduler",
        verbs=(
            ("list", "reads the defaults of Namespaces (P5), and labels that Pods select (P8)"),
            WATCHED,
        ),
    ),
    "volume_claims": Collection(
        title="claims",
        decoder=VOLUME_CLAIMS,
        resource="persistentvolumeclaims",
        where="work",
        is_read=lambda scope: scope.schedules,
        component="scheduler",
        verbs=(
            ("list", "reads claims once at the start, and from the first Pod with a claim on"),
            WATCHED,
        ),
    ),
    "volumes": Collection(
        title="volumes",
        decoder=VOLUMES,
        resource="persistentvolumes",
        where="cluster",
        is_read=lambda scope: scope.schedules,
        component="scheduler",
        verbs=(
            ("list", "reads which Nodes reach a volume, from the first Pod with a claim on"),
            WATCHED,
        ),
    ),
    "storage_classes": _of_storage(
        "storage classes",
        STORAGE_CLASSES,
        resource="storageclasses",
        why="reads when a claim gets its volume",
    ),
    "csi_nodes": _of_storage(
        "csi nodes", CSI_NODES, resource="csinodes", why="reads how many volumes a Node may attach"
    ),
    "csi_drivers": _of_storage(
        "csi drivers", CSI_DRIVERS, resource="csidrivers", why="reads which drivers tell their room"
    ),
    "storage_capacities": _of_storage(
        "storage capacities",
        STORAGE_CAPACITIES,
        resource="csistoragecapacities",
        why="reads where there is room for a volume",
    ),
}
