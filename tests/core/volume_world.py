"""The model for histories with volumes: claims, volumes, their controller and a provisioner."""

import random
from collections.abc import Iterable

from msgspec.structs import replace

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.facts import (
    SOURCES,
    VOLUME_SOURCES,
    Observed,
    Reference,
    Row,
    Source,
)
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.pod_spec import Requirement, Term
from sunk_sync.core.model.volume_actions import (
    GetProvisioning,
    ReserveVolume,
    SelectNode,
    UnselectNode,
)
from sunk_sync.core.model.volumes import (
    CsiDriver,
    CsiNode,
    ProvisionerSaid,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from tests.core.workload_world import NAMESPACE, WorkloadWorld

HOSTNAME = "kubernetes.io/hostname"


DRIVER = "example.com/disk"


def on(node_name: str) -> tuple[Term, ...]:
    return (Term((Requirement(HOSTNAME, "In", (node_name,)),)),)


class VolumeWorld(WorkloadWorld):
    sources: tuple[Source, ...] = (*SOURCES, *VOLUME_SOURCES)

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.claims: dict[str, VolumeClaim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CsiNode] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self.capacities: dict[str, StorageCapacity] = {}
        self.made = 0

    def put_claim(self, row: VolumeClaim) -> None:
        self.claims[row.name] = row
        self._changed("volume_claims", row)

    def drop_claim(self, name: str) -> None:
        row = self.claims.pop(name)
        self._changed("volume_claims", row, gone=True)
        for volume in list(self.volumes.values()):
            if volume.claim_uid == row.uid:
                self.drop_volume(volume.name)

    def put_volume(self, row: Volume) -> None:
        self.volumes[row.name] = row
        self._changed("volumes", row)

    def drop_volume(self, name: str) -> None:
        self._changed("volumes", self.volumes.pop(name), gone=True)

    def put_class(self, row: StorageClass) -> None:
        self.classes[row.name] = row
        self._changed("storage_classes", row)

    def put_driver(self, row: CsiDriver) -> None:
        self.drivers[row.name] = row
        self._changed("csi_drivers", row)

    def put_capacity(self, row: StorageCapacity) -> None:
        self.capacities[row.name] = row
        self._changed("storage_capacities", row)

    def drop_capacity(self, name: str) -> None:
        self._changed("storage_capacities", self.capacities.pop(name), gone=True)

    def put_csi_node(self, row: CsiNode) -> None:
        self.csi_nodes[row.name] = row
        self._changed("csi_nodes", row)

    def rows(self, source: Source) -> Iterable[Row]:
        match source:
            case "volume_claims":
                return self.claims.values()
            case "volumes":
                return self.volumes.values()
            case "storage_classes":
                return self.classes.values()
            case "csi_nodes":
                return self.csi_nodes.values()
            case "csi_drivers":
                return self.drivers.values()
            case "storage_capacities":
                return self.capacities.values()
            case _:
                return super().rows(source)

    # What Kubernetes and the provisioner do

    def complete(self) -> None:
        """The controller binds each claim that a volume names; a provisioner makes its volume."""
        for claim in list(self.claims.values()):
            if claim.bound:
                continue
            own = [one for one in self.volumes.values() if one.claim_uid == claim.uid]
            if own:
                self.put_claim(replace(claim, volume=own[0].name, bound=True))
            elif claim.selected_node and claim.storage_class == "made":
                self.make_for(claim, on(claim.selected_node))

    def give_up(self, claim: VolumeClaim) -> None:
        """The provisioner cannot make the volume on that Node."""
        self.put_claim(replace(claim, selected_node=""))

    def make_for(self, claim: VolumeClaim, terms: tuple[Term, ...]) -> None:
        self.made += 1
        name, path = f"made-{self.made}", f"{NAMESPACE}/{claim.name}"
        self.put_volume(Volume(
            name=name, uid=f"u-{name}", storage_class="made", size=10, terms=terms,
            claim=path, claim_uid=claim.uid, driver=DRIVER, handle=name,
        ))  # fmt: skip

    # Writes

    def perform(self, action: Action) -> Outcome:
        match action:
            case GetProvisioning():
                self.tick()
                words = self.rng.choice(("", "no space left"))
                return Done(action, (ProvisionerSaid(action.reference.uid, words, self.now),))
            case ReserveVolume():
                self.tick()
                return self._reserve(action)
            case SelectNode() | UnselectNode():
                self.tick()
                claim = self._claim(action.reference)
                if claim is None:
                    return Refused(action, "not found, or another UID", missing=True)
                return self._select(action, claim)
            case _:
                return super().perform(action)

    def _claim(self, reference: Reference) -> VolumeClaim | None:
        row = self.claims.get(reference.name)
        return row if row is not None and row.uid == reference.uid else None

    def _reserve(self, action: ReserveVolume) -> Outcome:
        row = self.volumes.get(action.reference.name)
        if row is None or row.uid != action.reference.uid:
            return Refused(action, "not found, or another UID", missing=True)
        if row.claim_uid not in ("", action.claim.uid) or not row.available:
            return Refused(action, "not free", (self._volume_seen(row),))
        path = f"{action.claim.namespace}/{action.claim.name}"
        row = replace(row, claim=path, claim_uid=action.claim.uid, available=False)
        self.put_volume(row)
        return Done(action, (self._volume_seen(row),))

    def _volume_seen(self, row: Volume) -> Observed:
        return Observed(row, self.orders["volumes", row.name])

    def _select(self, action: SelectNode | UnselectNode, row: VolumeClaim) -> Outcome:
        if isinstance(action, UnselectNode):
            node = row.selected_node if row.volume else ""
            mine = row.selected_for == action.owner
            after = replace(row, selected_node=node, selected_for="") if mine else row
        elif row.volume or (row.selected_node and row.selected_for != action.owner):
            return Refused(action, "not free", (self._claim_seen(row),))
        else:
            after = replace(row, selected_node=action.node_name, selected_for=action.owner)
        if after != row:
            self.put_claim(after)
        return Done(action, (self._claim_seen(after),))

    def _claim_seen(self, row: VolumeClaim) -> Observed:
        return Observed(row, self.orders["volume_claims", row.name])
