"""Actions on the volumes of Pods: they choose a volume, or the Node for which one is made."""

from msgspec import Struct

from sunk_sync.core.model.facts import Reference


class ReserveVolume(Struct, frozen=True, gc=False):
    """Reserve a volume for a claim (claimRef); only if it is still free."""

    reference: Reference
    claim: Reference


class SelectNode(Struct, frozen=True, gc=False):
    """Ask the provisioner of a claim for a volume on this Node; only while it has none."""

    reference: Reference
    node_name: str
    owner: str
    """Scheduler and job that hold the Node: noted on the claim."""


class UnselectNode(Struct, frozen=True, gc=False):
    """Take the Node of a job back from a claim that has no volume."""

    reference: Reference
    owner: str


class GetProvisioning(Struct, frozen=True, gc=False):
    """Read what the provisioner of a claim says; the answer is a ProvisionerSaid."""

    reference: Reference
    after_s: float
    """Time of the last answer, or 0: it makes this read differ from the last one."""


VolumeWrite = ReserveVolume | SelectNode | UnselectNode
VolumeAction = VolumeWrite | GetProvisioning
