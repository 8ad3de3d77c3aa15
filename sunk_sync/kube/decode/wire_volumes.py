"""Wire shapes of claims, volumes and classes of storage, with the fields that rules read."""

from msgspec import Struct, field

from sunk_sync.core.model import names
from sunk_sync.kube.decode.wire_pods import WireLabelSelector, WireNodeSelector, WireRequirement

WireQuantity = str | int | float


class WireClaimAnnotations(Struct, frozen=True):
    bound: str = field(name=names.BIND_COMPLETED, default="")
    selected_node: str = field(name=names.SELECTED_NODE, default="")
    selected_for: str = field(name=names.VOLUME_FOR, default="")
    storage_class: str = field(name=names.OLD_STORAGE_CLASS, default="")


class WireClaimMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: WireClaimAnnotations | None = None
    deletion_timestamp: str | None = None


class WireStorage(Struct, frozen=True):
    storage: WireQuantity = 0


class WireClaimResources(Struct, frozen=True):
    requests: WireStorage | None = None


class WireClaimSpec(Struct, frozen=True, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str = ""
    selector: WireLabelSelector | None = None
    resources: WireClaimResources | None = None


class WireVolumeClaim(Struct, frozen=True):
    metadata: WireClaimMeta
    kind: str = "PersistentVolumeClaim"
    spec: WireClaimSpec = WireClaimSpec()


class WireVolumeMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class WireClaimReference(Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class WireVolumeAffinity(Struct, frozen=True):
    required: WireNodeSelector | None = None


class WireCsiVolume(Struct, frozen=True, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class WireVolumeSpec(Struct, frozen=True, rename="camel"):
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str = ""
    capacity: WireStorage | None = None
    node_affinity: WireVolumeAffinity | None = None
    claim_ref: WireClaimReference | None = None
    csi: WireCsiVolume | None = None


class WireVolumeStatus(Struct, frozen=True):
    phase: str = ""


class WireVolume(Struct, frozen=True):
    metadata: WireVolumeMeta
    kind: str = "PersistentVolume"
    spec: WireVolumeSpec = WireVolumeSpec()
    status: WireVolumeStatus = WireVolumeStatus()


class WireDriverRoom(Struct, frozen=True):
    count: int | None = None


class WireNodeDriver(Struct, frozen=True):
    name: str = ""
    allocatable: WireDriverRoom | None = None


class WireCsiNodeSpec(Struct, frozen=True):
    drivers: list[WireNodeDriver] | None = None


class WireCsiNode(Struct, frozen=True):
    metadata: WireVolumeMeta
    kind: str = "CSINode"
    spec: WireCsiNodeSpec = WireCsiNodeSpec()


class WireCsiDriverSpec(Struct, frozen=True, rename="camel"):
    storage_capacity: bool = False


class WireCsiDriver(Struct, frozen=True):
    metadata: WireVolumeMeta
    kind: str = "CSIDriver"
    spec: WireCsiDriverSpec = WireCsiDriverSpec()


class WireCapacityMeta(Struct, frozen=True, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    uid: str = ""


class WireStorageCapacity(Struct, frozen=True, rename="camel"):
    metadata: WireCapacityMeta
    kind: str = "CSIStorageCapacity"
    storage_class_name: str = ""
    capacity: WireQuantity | None = None
    maximum_volume_size: WireQuantity | None = None
    node_topology: WireLabelSelector | None = None


class WireTopology(Struct, frozen=True, rename="camel"):
    match_label_expressions: list[WireRequirement] | None = None


class WireStorageClass(Struct, frozen=True, rename="camel"):
    metadata: WireVolumeMeta
    kind: str = "StorageClass"
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: list[WireTopology] | None = None
