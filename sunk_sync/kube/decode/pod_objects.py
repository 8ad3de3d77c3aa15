"""The subset of a workload Pod on the wire that the scheduler reads, and of a Node what it offers.

Raw: parts that thousands of objects have in common; their bytes are looked up, not decoded again.
`gc=False`: none of these can be part of a cycle.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Raw, Struct, field

from sunk_sync.core.model import names
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.kube.decode.objects import INITIAL_EVENTS_END, Condition, NodeAnnotations

ABSENT = Raw()


def _ours(name: str) -> str:
    return names.PREFIX + name.replace("_", "-")


class WorkloadMarks(Struct, gc=False, frozen=True, rename=_ours):
    """Annotations of ours that set no field of a job."""

    gang: str = ""
    gang_size: str | None = None
    job_id: str = ""
    bound_for: str = ""
    cancelled: str = ""
    resubmit: str = ""
    lws_size: str | None = field(name=names.LWS_SIZE, default=None)
    initial_events_end: str = field(name=INITIAL_EVENTS_END, default="")


SETTING_FIELDS = tuple(name.replace("-", "_") for name in SETTINGS)
if TYPE_CHECKING:
    WirePodAnnotations = WorkloadMarks
else:
    WirePodAnnotations = msgspec.defstruct(
        "WirePodAnnotations",
        [(name, str | None, None) for name in SETTING_FIELDS],
        bases=(WorkloadMarks,),
        rename=_ours,
        frozen=True,
        gc=False,
    )


class WirePodLabels(Struct, gc=False, frozen=True):
    pod_group: str = field(name=names.POD_GROUP_LABELS[0], default="")
    older_pod_group: str = field(name=names.POD_GROUP_LABELS[1], default="")
    lws_group: str = field(name=names.LWS_GROUP, default="")


class WireOwner(Struct, gc=False, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class WirePodMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: WirePodAnnotations | None = None
    labels: WirePodLabels | None = None
    owner_references: list[WireOwner] | None = None
    creation_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    deletion_timestamp: str | None = None


class WireContainer(Struct, gc=False, frozen=True, rename="camel"):
    resources: Raw = ABSENT
    restart_policy: str = ""


class WirePodSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = ""
    priority_class_name: str = ""
    termination_grace_period_seconds: int = 30
    containers: list[WireContainer] = []
    init_containers: list[WireContainer] | None = None
    scheduling_gates: list[Raw] | None = None
    resource_claims: list[Raw] | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT


class ContainerState(Struct, gc=False, frozen=True):
    terminated: Raw = ABSENT


class ContainerStatus(Struct, gc=False, frozen=True):
    state: ContainerState = ContainerState()


class WirePodStatus(Struct, gc=False, frozen=True, rename="camel"):
    phase: str = "Pending"
    qos_class: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class WirePod(Struct, gc=False, frozen=True):
    """A workload Pod."""

    metadata: WirePodMeta
    kind: str = "Pod"
    spec: WirePodSpec = WirePodSpec()
    status: WirePodStatus = WirePodStatus()


class OtherAnnotations(Struct, gc=False, frozen=True):
    initial_events_end: str = field(name=INITIAL_EVENTS_END, default="")


class OtherMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: OtherAnnotations | None = None


class OtherSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[WireContainer] = []
    init_containers: list[WireContainer] | None = None
    overhead: Raw = ABSENT
    resources: Raw = ABSENT


class Other(Struct, gc=False, frozen=True):
    """A Pod of somebody else: what it takes of its Node."""

    metadata: OtherMeta
    kind: str = "Pod"
    spec: OtherSpec = OtherSpec()


# Parts of it, decoded where their bytes are new.


class Resources(Struct, gc=False, frozen=True):
    requests: dict[str, str | int | float] | None = None


class Requirement(Struct, gc=False, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Term(Struct, gc=False, frozen=True, rename="camel"):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Struct, gc=False, frozen=True, rename="camel"):
    node_selector_terms: list[Term] | None = None


class NodeAffinity(Struct, gc=False, frozen=True):
    required: NodeSelector | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinity(Struct, gc=False, frozen=True):
    required: list[Raw] | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Struct, gc=False, frozen=True, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, gc=False, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Spread(Struct, gc=False, frozen=True, rename="camel"):
    when_unsatisfiable: str = ""


# A Node with what it offers.


class OfferingMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    annotations: NodeAnnotations | None = None
    labels: Raw = ABSENT


class OfferingSpec(Struct, gc=False, frozen=True):
    unschedulable: bool = False
    taints: Raw = ABSENT


class OfferingStatus(Struct, gc=False, frozen=True):
    conditions: list[Condition] | None = None
    allocatable: Raw = ABSENT


class OfferingNode(Struct, gc=False, frozen=True):
    metadata: OfferingMeta
    kind: str = "Node"
    spec: OfferingSpec = OfferingSpec()
    status: OfferingStatus = OfferingStatus()


class Taint(Struct, gc=False, frozen=True):
    key: str = ""
    effect: str = ""
    value: str = ""
