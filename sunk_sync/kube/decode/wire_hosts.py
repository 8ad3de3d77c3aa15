"""Wire shapes of Nodes, slurmd Pods, lists and watch events, with the fields that rules read.

`gc=False`: none of these can be part of a reference cycle.
"""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from sunk_sync.core.model import names

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

NOT_GIVEN = msgspec.Raw()

ObjectT = TypeVar("ObjectT")


class WireNodeAnnotations(Struct, gc=False, frozen=True):
    cloud_cordon_reason: str = field(name=names.CLOUD_CORDON_REASON, default="")
    cordon_reason: str = field(name=names.CORDON_REASON, default="")
    slurm_node: str = field(name=names.SLURM_NODE, default="")
    cordoned_for_drain: str = field(name=names.CORDONED_FOR_DRAIN, default="")
    keep_cordon: str = field(name=names.KEEP_CORDON, default="")
    drain: str | None = field(name=names.DRAIN, default=None)
    lock: str = field(name=names.LOCK, default="")


class WireNodeLabels(Struct, gc=False, frozen=True):
    cluster: str | None = field(name=names.LABEL_CLUSTER, default=None)
    namespace: str | None = field(name=names.LABEL_NAMESPACE, default=None)
    nodeset: str | None = field(name=names.LABEL_NODESET, default=None)
    pod: str | None = field(name=names.LABEL_POD, default=None)


class WireSlurmdPodAnnotations(Struct, gc=False, frozen=True):
    slurm_node: str = field(name=names.SLURM_NODE, default="")
    cordon: str = field(name=names.CORDON, default="")
    pending_deletion: str | None = field(name=names.PENDING_DELETION, default=None)
    drained: str = field(name=names.DRAINED, default="")
    drain: str | None = field(name=names.DRAIN, default=None)
    deletion_cost: str = field(name=names.DELETION_COST, default="")


class WireSlurmdPodLabels(Struct, gc=False, frozen=True):
    revision: str = field(name=names.LABEL_REVISION, default="")
    shape: str = field(name=names.LABEL_SHAPE, default="")
    busy: str = field(name=names.LABEL_BUSY, default="")
    nodeset: str = field(name=names.LABEL_NODESET, default="")


class WireSlurmdPodOwner(Struct, gc=False, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class WireCondition(Struct, gc=False, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class WireNodeMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    annotations: WireNodeAnnotations | None = None
    labels: WireNodeLabels | None = None


class WireNamespaceAnnotations(Struct, gc=False, frozen=True):
    user: str = field(name=names.DEFAULT_USER, default="")
    group: str = field(name=names.DEFAULT_GROUP, default="")
    account: str = field(name=names.DEFAULT_ACCOUNT, default="")


class WireNamespaceMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    annotations: WireNamespaceAnnotations | None = None
    labels: dict[str, str] | None = None


class WireNamespace(Struct, gc=False, frozen=True):
    metadata: WireNamespaceMeta
    kind: str = "Namespace"


class WireNodeSpec(Struct, gc=False, frozen=True):
    unschedulable: bool = False
    taints: msgspec.Raw = NOT_GIVEN


class WireNodeStatus(Struct, gc=False, frozen=True):
    conditions: list[WireCondition] | None = None


class WireNode(Struct, gc=False, frozen=True):
    metadata: WireNodeMeta
    kind: str = "Node"
    spec: WireNodeSpec = WireNodeSpec()
    status: WireNodeStatus = WireNodeStatus()


class WireSlurmdPodMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: WireSlurmdPodAnnotations | None = None
    labels: WireSlurmdPodLabels | None = None
    owner_references: list[WireSlurmdPodOwner] | None = None
    deletion_timestamp: str | None = None


class WireSlurmdContainer(Struct, gc=False, frozen=True):
    resources: msgspec.Raw = NOT_GIVEN


class WireSlurmdPodSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    host_network: bool = False
    tolerations: msgspec.Raw = NOT_GIVEN
    containers: tuple[WireSlurmdContainer, ...] = ()


class WireWaiting(Struct, gc=False, frozen=True):
    reason: str = ""
    message: str = ""


class WireContainerState(Struct, gc=False, frozen=True):
    waiting: WireWaiting | None = None


class WireContainerStatus(Struct, gc=False, frozen=True):
    state: WireContainerState | None = None


class WireSlurmdPodStatus(Struct, gc=False, frozen=True, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    container_statuses: list[WireContainerStatus] | None = None
    conditions: list[WireCondition] | None = None


class WireSlurmdPod(Struct, gc=False, frozen=True):
    metadata: WireSlurmdPodMeta
    kind: str = "Pod"
    spec: WireSlurmdPodSpec = WireSlurmdPodSpec()
    status: WireSlurmdPodStatus = WireSlurmdPodStatus()


class WireEvent(Struct, Generic[ObjectT], gc=False, frozen=True):
    """One line of a watch."""

    type: str
    object: ObjectT


class WireBookmarkAnnotations(Struct, gc=False, frozen=True):
    initial_events_end: str = field(name=INITIAL_EVENTS_END, default="")


class WireBookmarkMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    annotations: WireBookmarkAnnotations | None = None


class WireBookmark(Struct, gc=False, frozen=True):
    """The object of a bookmark. Its spec is not valid: that of a Pod has null as containers."""

    metadata: WireBookmarkMeta


class WireListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str | None = field(name="continue", default=None)


class WireList(Struct, frozen=True):
    kind: str
    metadata: WireListMeta
    items: list[msgspec.Raw]


class WireAnyMeta(Struct, frozen=True, rename="camel"):
    name: Any = ""
    namespace: Any = ""
    resource_version: Any = "0"


class WireAnyObject(Struct, frozen=True):
    metadata: WireAnyMeta = WireAnyMeta()
