"""Claims of Pods, volumes and classes of storage, as kube-scheduler compares them."""

from typing import Final

from msgspec import Struct

from sunk_sync.core.model.pod_spec import Requirement, Term

ONE_NODE: Final = "ReadWriteOnce"
ONE_POD: Final = "ReadWriteOncePod"


class VolumeClaim(Struct, frozen=True, kw_only=True, gc=False):
    """A PersistentVolumeClaim. Source: watch of PersistentVolumeClaims."""

    namespace: str
    name: str
    uid: str
    storage_class: str = ""
    attributes_class: str = ""
    """VolumeAttributesClass; empty: none."""
    volume: str = ""
    """Name of its volume, or of the volume that it asks for."""
    bound: bool = False
    """Kubernetes has completed the binding to `volume`."""
    modes: tuple[str, ...] = ()
    block: bool = False
    """It wants a device instead of a file system."""
    size: int = 0
    """Bytes."""
    selector: tuple[Requirement, ...] = ()
    """Labels of volumes."""
    selected_node: str = ""
    """Node for which its provisioner makes the volume."""
    selected_for: str = ""
    """Scheduler and job on whose host sunk-sync selected that Node: `slurm-scheduler/12`."""
    terminating: bool = False


class Volume(Struct, frozen=True, kw_only=True, gc=False):
    """A PersistentVolume. Source: watch of PersistentVolumes."""

    name: str
    uid: str
    storage_class: str = ""
    attributes_class: str = ""
    modes: tuple[str, ...] = ()
    block: bool = False
    size: int = 0
    terms: tuple[Term, ...] | None = None
    """Nodes that can reach it; None: all."""
    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""
    claim: str = ""
    """`namespace/name` of the claim that it belongs to, or empty."""
    claim_uid: str = ""
    """Empty: the claim is reserved by name alone."""
    driver: str = ""
    """Of CSI; empty: it is not attached by one."""
    handle: str = ""
    """What its driver calls it."""
    available: bool = False
    """Phase Available or Pending: no claim has used it."""
    terminating: bool = False


class StorageClass(Struct, frozen=True, kw_only=True, gc=False):
    """A StorageClass. Source: watch of StorageClasses."""

    name: str
    uid: str
    waits: bool = False
    """A volume is bound when a Pod has a Node: WaitForFirstConsumer."""
    provisioner: str = ""
    """The CSI driver that makes and attaches its volumes; empty: none does."""
    terms: tuple[Term, ...] | None = None
    """Nodes for which it makes volumes; None: all."""

    @property
    def provisions(self) -> bool:
        """Whether it has a provisioner that makes volumes."""
        return bool(self.provisioner)


class CsiNode(Struct, frozen=True, kw_only=True, gc=False):
    """How many volumes a Node may attach. Source: watch of CSINodes."""

    name: str
    uid: str
    limits: tuple[tuple[str, int], ...] = ()
    """Driver → volumes. A driver without a limit is left out."""


class CsiDriver(Struct, frozen=True, kw_only=True, gc=False):
    """A CSIDriver. Source: watch of CSIDrivers."""

    name: str
    uid: str
    tells_room: bool = False
    """Its StorageCapacities say where it has room for new volumes."""


class StorageCapacity(Struct, frozen=True, kw_only=True, gc=False):
    """Room for new volumes of one class on some Nodes. Source: watch of CSIStorageCapacities."""

    namespace: str
    name: str
    uid: str
    storage_class: str = ""
    size: int = -1
    """Bytes of the largest volume; -1: not said, so no volume fits."""
    nodes: tuple[Requirement, ...] | None = None
    """Labels of the Nodes; None: no Node reaches it."""


class ProvisionerSaid(Struct, frozen=True, gc=False):
    """The latest Event of a claim about a volume that could not be made."""

    uid: str
    """Of the claim."""
    words: str
    """Empty: there is none, or it could not be read."""
    asked_s: float


VolumeRow = VolumeClaim | Volume | StorageClass | CsiNode | CsiDriver | StorageCapacity
