"""Wire shape of NodeSets, with the fields that rules read."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from sunk_sync.core.model.node_set import Counts
from sunk_sync.kube.decode.wire_hosts import WireCondition

EMPTY = Raw(b"{}")
NOTHING = Raw(b"")


class WireMeta(Struct, gc=False, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class WireReserved(Struct, gc=False, frozen=True):
    cores: int = 0
    memory: str = "0"


class WireGres(Struct, gc=False, frozen=True):
    name: str
    count: int
    type: str = ""


class WireRollingUpdate(Struct, gc=False, frozen=True, rename="camel"):
    max_unavailable: int | str = "25%"


class WireScheduledUpdate(Struct, gc=False, frozen=True, rename="camel"):
    start_time: datetime
    duration: str = "30m"


class WireStrategy(Struct, gc=False, frozen=True, rename="camel"):
    type: Literal["RollingUpdate", "OnDelete", "ScheduledUpdate"] = "RollingUpdate"
    rolling_update: WireRollingUpdate = WireRollingUpdate()
    scheduled_update: WireScheduledUpdate | None = None


class WireDynamicFeature(Struct, gc=False, frozen=True):
    prefix: str = ""


class WireFeatures(Struct, gc=False, frozen=True):
    static: list[str] = []
    dynamic: dict[str, WireDynamicFeature] = {}


class WireTopology(Struct, gc=False, frozen=True, rename="camel"):
    tree: list[str] = []
    under: str = "tree:root"
    block: str = ""
    block_topology: str = "block"


class WireUpdateJobs(Struct, gc=False, frozen=True):
    method: Literal["none", "time", "partition", "qos"] = "none"
    after: str = "0s"
    partitions: list[str] = []
    qos: list[str] = []


class WireSpec(Struct, gc=False, frozen=True, rename="camel"):
    template: Raw = EMPTY
    scaling_mode: Literal["StatefulSet", "DaemonSet"] = "StatefulSet"
    replicas: int | None = None
    pod_name_prefix: str = ""
    ordinal_padding: int = 0
    cpus: int = 0
    memory: str = "0"
    reserved: WireReserved = WireReserved()
    gres: list[WireGres] | None = None
    weight: int = 1
    extra_conf: str = ""
    features: WireFeatures = WireFeatures()
    topology: WireTopology = WireTopology()
    update_strategy: WireStrategy = WireStrategy()
    update_jobs: WireUpdateJobs = WireUpdateJobs()
    scale_in_timeout: str = ""
    min_ready_seconds: int = 0
    lock: bool = True


class WireStatus(Counts, gc=False, frozen=True, rename="camel"):
    observed_generation: int = 0
    revision: str = ""
    selector: str = ""
    conditions: list[WireCondition] | None = None


class WireNodeSet(Struct, gc=False, frozen=True):
    metadata: WireMeta
    kind: str = "NodeSet"
    spec: WireSpec = WireSpec()
    status: WireStatus = WireStatus()


class WireLimits(Struct, gc=False, frozen=True):
    limits: dict[str, str | int | float] | None = None


class WireTemplateContainer(Struct, gc=False, frozen=True):
    name: str = ""
    resources: WireLimits = WireLimits()


class WireTemplateSpec(Struct, gc=False, frozen=True, rename="camel"):
    containers: list[WireTemplateContainer] = []
    node_selector: Raw = NOTHING
    affinity: Raw = NOTHING
    tolerations: Raw = NOTHING
    host_network: Raw = NOTHING


class WireTemplate(Struct, gc=False, frozen=True):
    """The part of a template that decides what slurmd registers, and where Pods may run."""

    spec: WireTemplateSpec = WireTemplateSpec()


decode_template = msgspec.json.Decoder(WireTemplate).decode
