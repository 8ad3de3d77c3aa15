"""Wire shapes of workload Pods, of other Pods, and of Nodes for the scheduler.

Raw: parts that thousands of objects share; a cache finds them by their bytes. `gc=False`: none of
these can be part of a reference cycle.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Raw, Struct, field

from sunk_sync.core.model import names
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.kube.decode.wire_hosts import WireCondition, WireNodeAnnotations

ABSENT = Raw()


def _ours(name: str) -> str:
    return names.PREFIX + name.replace("_", "-")


class WireWorkloadMarks(Struct, gc=False, frozen=True, rename=_ours):
    """Annotations of sunk-sync that set no field of a job."""

    gang: str = ""
    gang_size: str | None = None
    job_id: str = ""
    bound_for: str = ""
    cancelled: str = ""
    resubmit: str = ""
    lws_size: str | None = field(name=names.LWS_SIZE, default=None)


SETTING_FIELDS = tuple(name.replace("-", "_") for name in SETTINGS)
if TYPE_CHECKING:
    WirePodAnnotations = WireWorkloadMarks
else:
    WirePodAnnotations = msgspec.defstruct(
        "WirePodAnnotations",
        [(name, str | None, None) for name in SETTING_FIELDS],
        bases=(WireWorkloadMarks,),
        rename=_ours,
        frozen=True,
        gc=False,
    )


class WireOwner(Struct, gc=False, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class WirePodMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: WirePodAnnotations | None = None
    labels: dict[str, str] | None = None
    owner_references: list[WireOwner] | None = None
    creation_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    deletion_timestamp: str | None = None


class WireContainer(Struct, gc=False, frozen=True, rename="camel"):
    resources: Raw = ABSENT
    ports: Raw = ABSENT
    restart_policy: str = ""


class WireClaimSource(Struct, gc=False, frozen=True, rename="camel"):
    claim_name: str = ""


class WirePodVolume(Struct, gc=False, frozen=True, rename="camel"):
    name: str = ""
    persistent_volume_claim: WireClaimSource | None = None
    ephemeral: Raw = ABSENT


class WirePodSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = ""
    priority_class_name: str = ""
    termination_grace_period_seconds: int = 30
    containers: list[WireContainer] = []
    init_containers: list[WireContainer] | None = None
    scheduling_gates: list[Raw] | None = None
    resource_claims: list[Raw] | None = None
    volumes: list[WirePodVolume] | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT


class WireContainerState(Struct, gc=False, frozen=True):
    terminated: Raw = ABSENT


class WireContainerStatus(Struct, gc=False, frozen=True):
    state: WireContainerState = WireContainerState()


class WirePodStatus(Struct, gc=False, frozen=True, rename="camel"):
    phase: str = "Pending"
    qos_class: str = ""
    conditions: list[WireCondition] | None = None
    container_statuses: list[WireContainerStatus] | None = None


class WirePod(Struct, gc=False, frozen=True):
    metadata: WirePodMeta
    kind: str = "Pod"
    spec: WirePodSpec = WirePodSpec()
    status: WirePodStatus = WirePodStatus()


class WireOtherPodMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class WireOtherPodSpec(Struct, gc=False, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[WireContainer] = []
    init_containers: list[WireContainer] | None = None
    affinity: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT


class WireOtherPod(Struct, gc=False, frozen=True):
    metadata: WireOtherPodMeta
    kind: str = "Pod"
    spec: WireOtherPodSpec = WireOtherPodSpec()


# Parts of a Pod, decoded only if their bytes are not in the cache


class WireResources(Struct, gc=False, frozen=True):
    requests: dict[str, str | int | float] | None = None


class WireRequirement(Struct, gc=False, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class WireTerm(Struct, gc=False, frozen=True, rename="camel"):
    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class WireNodeSelector(Struct, gc=False, frozen=True, rename="camel"):
    node_selector_terms: list[WireTerm] | None = None


class WireNodeAffinity(Struct, gc=False, frozen=True):
    required: WireNodeSelector | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[Raw] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class WireLabelSelector(Struct, gc=False, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[WireRequirement] | None = None


class WirePodTerm(Struct, gc=False, frozen=True, rename="camel"):
    topology_key: str = ""
    label_selector: WireLabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: WireLabelSelector | None = None


class WirePort(Struct, gc=False, frozen=True, rename="camel"):
    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = "TCP"


class WirePodAffinity(Struct, gc=False, frozen=True):
    required: list[WirePodTerm] | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[Raw] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class WireAffinity(Struct, gc=False, frozen=True, rename="camel"):
    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireToleration(Struct, gc=False, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class WireSpread(Struct, gc=False, frozen=True, rename="camel"):
    when_unsatisfiable: str = ""
    topology_key: str = ""
    label_selector: WireLabelSelector | None = None
    max_skew: int = 1
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class WireOfferingNodeMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    annotations: WireNodeAnnotations | None = None
    labels: Raw = ABSENT


class WireOfferingNodeSpec(Struct, gc=False, frozen=True):
    unschedulable: bool = False
    taints: Raw = ABSENT


class WireOfferingNodeStatus(Struct, gc=False, frozen=True):
    conditions: list[WireCondition] | None = None
    allocatable: Raw = ABSENT


class WireOfferingNode(Struct, gc=False, frozen=True):
    metadata: WireOfferingNodeMeta
    kind: str = "Node"
    spec: WireOfferingNodeSpec = WireOfferingNodeSpec()
    status: WireOfferingNodeStatus = WireOfferingNodeStatus()


class WireTaint(Struct, gc=False, frozen=True):
    key: str = ""
    effect: str = ""
    value: str = ""
