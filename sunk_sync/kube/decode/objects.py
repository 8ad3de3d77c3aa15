"""The subset of Kubernetes objects on the wire that we read; unknown fields are skipped unread.

`gc=False`: none of these can be part of a cycle.
"""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from sunk_sync.core.model import names

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

NOT_GIVEN = msgspec.Raw()

ObjectT = TypeVar("ObjectT")


class NodeAnnotations(Struct, gc=False, frozen=True):
    cloud_cordon_reason: str = field(name=names.CLOUD_CORDON_REASON, default="")
    cordon_reason: str = field(name=names.CORDON_REASON, default="")
    slurm_node: str = field(name=names.SLURM_NODE, default="")
    cordoned_for_drain: str = field(name=names.CORDONED_FOR_DRAIN, default="")
    keep_cordon: str = field(name=names.KEEP_CORDON, default="")
    drain: str | None = field(name=names.DRAIN, default=None)
    initial_events_end: str = field(name=INITIAL_EVENTS_END, default="")


class NodeLabels(Struct, gc=False, frozen=True):
    cluster: str | None = field(name=names.LABEL_CLUSTER, default=None)
    namespace: str | None = field(name=names.LABEL_NAMESPACE, default=None)
    nodeset: str | None = field(name=names.LABEL_NODESET, default=None)
    pod: str | None = field(name=names.LABEL_POD, default=None)


class PodAnnotations(Struct, gc=False, frozen=True):
    slurm_node: str = field(name=names.SLURM_NODE, default="")
    cordon: str = field(name=names.CORDON, default="")
    pending_deletion: str | None = field(name=names.PENDING_DELETION, default=None)
    drained: str = field(name=names.DRAINED, default="")
    drain: str | None = field(name=names.DRAIN, default=None)
    initial_events_end: str = field(name=INITIAL_EVENTS_END, default="")


class PodLabels(Struct, gc=False, frozen=True):
    nodeset: str = field(name=names.LABEL_NODESET, default="")


class Owner(Struct, gc=False, frozen=True):
    kind: str = ""
    name: str = ""


class Condition(Struct, gc=False, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class NodeMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    annotations: NodeAnnotations | None = None
    labels: NodeLabels | None = None


class NodeSpec(Struct, gc=False, frozen=True):
    unschedulable: bool = False


class Conditions(Struct, gc=False, frozen=True):
    conditions: list[Condition] | None = None


class Node(Struct, gc=False, frozen=True):
    metadata: NodeMeta
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: Conditions = Conditions()


class PodMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: PodAnnotations | None = None
    labels: PodLabels | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None


class Container(Struct, gc=False, frozen=True):
    resources: msgspec.Raw = NOT_GIVEN


class PodSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    host_network: bool = False
    containers: tuple[Container, ...] = ()


class PodStatus(Struct, gc=False, frozen=True):
    phase: str = "Pending"
    conditions: list[Condition] | None = None


class Pod(Struct, gc=False, frozen=True):
    metadata: PodMeta
    kind: str = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Answers that hold objects.


class Event(Struct, Generic[ObjectT], gc=False, frozen=True):
    """One line of a watch."""

    type: str
    object: ObjectT


class ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str | None = field(name="continue", default=None)


class List(Struct, frozen=True):
    kind: str
    metadata: ListMeta
    items: list[msgspec.Raw]


class AnyMeta(Struct, frozen=True, rename="camel"):
    name: Any = ""
    namespace: Any = ""
    resource_version: Any = "0"


class AnyObject(Struct, frozen=True):
    metadata: AnyMeta = AnyMeta()
