"""Claims, volumes and classes of storage as the API server serves them (row P8)."""

import json
from typing import Any

import pytest

from sunk_sync.core.model.pod_spec import Requirement, Term
from sunk_sync.core.model.volumes import CsiDriver, CsiNode, StorageClass, Volume, VolumeClaim
from sunk_sync.kube.decode.source_decoder import (
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Unreadable,
)
from tests.kit.pod_rows import row, seen

Json = dict[str, Any]


def named(kind: str, name: str, **parts: Any) -> Json:
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": "7", **parts.pop("meta", {})}
    return {"kind": kind, "metadata": metadata, **parts}


def claim(spec: Json, **annotations: str) -> VolumeClaim:
    meta = {"namespace": "ns", "annotations": annotations}
    got: VolumeClaim = seen(
        VOLUME_CLAIMS, named("PersistentVolumeClaim", "c", meta=meta, spec=spec)
    )
    return got


def test_a_claim_is_read_with_what_it_asks_for_P8() -> None:
    spec = {
        "storageClassName": "fast",
        "volumeAttributesClassName": "gold",
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1.5Gi"}},
        "selector": {"matchLabels": {"disk": "ssd"}},
    }
    assert claim(spec) == VolumeClaim(
        namespace="ns", name="c", uid="u-c", storage_class="fast", attributes_class="gold",
        modes=("ReadWriteOnce",), block=True, size=3 << 29,
        selector=(Requirement("disk", "In", ("ssd",)),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "annotations", "volume", "bound"),
    [
        ({"volumeName": "v"}, {"pv.kubernetes.io/bind-completed": "yes"}, "v", True),
        ({"volumeName": "v"}, {}, "v", False),
        ({}, {"pv.kubernetes.io/bind-completed": "yes"}, "", False),
    ],
    ids=["bound", "not complete", "no volume"],
)
def test_a_claim_is_bound_once_kubernetes_says_so_P8(
    spec: Json, annotations: dict[str, str], volume: str, *, bound: bool
) -> None:
    got = claim(spec, **annotations)
    assert (got.volume, got.bound) == (volume, bound)


def test_the_node_of_a_claim_and_its_job_are_read_P8() -> None:
    got = claim({}, **{
        "volume.kubernetes.io/selected-node": "n1",
        "sunk.coreweave.com/volume-for": "slurm-scheduler/12",
        "volume.beta.kubernetes.io/storage-class": "old",
    })  # fmt: skip
    assert (got.selected_node, got.selected_for) == ("n1", "slurm-scheduler/12")
    assert got.storage_class == "old"


def test_a_claim_with_a_wrong_size_is_unreadable_alone_P8() -> None:
    spec = {"resources": {"requests": {"storage": "much"}}}
    wrong = named("PersistentVolumeClaim", "c", meta={"namespace": "ns"}, spec=spec)
    got = VOLUME_CLAIMS.object(json.dumps(wrong).encode())
    assert isinstance(got, Unreadable)
    assert "no quantity" in got.why


def test_a_volume_is_read_with_its_nodes_and_its_owner_P8() -> None:
    line = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    spec = {
        "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "nodeAffinity": affinity,
        "volumeAttributesClassName": "gold",
        "capacity": {"storage": 10}, "claimRef": {"namespace": "ns", "name": "c", "uid": "u-c"},
    }  # fmt: skip
    got = seen(VOLUMES, named("PersistentVolume", "v", spec=spec, status={"phase": "Bound"}))
    assert got == Volume(
        name="v", uid="u-v", storage_class="local", attributes_class="gold",
        modes=("ReadWriteOnce",), size=10,
        terms=(Term((Requirement("kubernetes.io/hostname", "In", ("n1",)),)),),
        claim="ns/c", claim_uid="u-c",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "available"),
    [("Available", True), ("Pending", True), ("Bound", False), ("Released", False),
     ("Failed", False)],
)  # fmt: skip
def test_only_a_volume_that_nobody_used_is_available_P8(phase: str, *, available: bool) -> None:
    got = seen(VOLUMES, named("PersistentVolume", "v", status={"phase": phase}))
    assert got.available == available


def test_zones_in_labels_of_a_volume_count_as_its_nodes_P8() -> None:
    labels = {"topology.kubernetes.io/zone": "a__b", "other": "x"}
    got = seen(VOLUMES, named("PersistentVolume", "v", meta={"labels": labels}))
    lines = (Requirement("topology.kubernetes.io/zone", "In", ("a", "b")),)
    assert got.terms == (Term(lines),)


def test_a_class_is_read_with_its_topologies_P8() -> None:
    line = {"key": "zone", "values": ["a"]}
    got = seen(STORAGE_CLASSES, named(
        "StorageClass", "s", provisioner="example.com/disk",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [line]}],
    ))  # fmt: skip
    assert got == StorageClass(
        name="s", uid="u-s", waits=True, provisioner="example.com/disk",
        terms=(Term((Requirement("zone", "In", ("a",)),)),),
    )  # fmt: skip


def test_a_volume_is_read_with_its_driver_P8() -> None:
    csi = {"driver": "example.com/disk", "volumeHandle": "h1", "fsType": "ext4"}
    got = seen(VOLUMES, named("PersistentVolume", "v", spec={"csi": csi}))
    assert (got.driver, got.handle) == ("example.com/disk", "h1")


@pytest.mark.parametrize(("spec", "tells"), [({"storageCapacity": True}, True), ({}, False)])
def test_a_driver_is_read_with_whether_it_tells_its_room_P8(
    spec: dict[str, Any], *, tells: bool
) -> None:
    got = seen(CSI_DRIVERS, named("CSIDriver", "d", spec=spec))
    assert got == CsiDriver(name="d", uid="u-d", tells_room=tells)


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"capacity": "10Gi"}, 10 << 30),
        ({"capacity": "10Gi", "maximumVolumeSize": "4Gi"}, 4 << 30),
        ({}, -1),
    ],
)
def test_room_is_read_with_the_largest_volume_P8(fields: dict[str, Any], size: int) -> None:
    got = seen(STORAGE_CAPACITIES, named(
        "CSIStorageCapacity", "c", storageClassName="made",
        nodeTopology={"matchLabels": {"zone": "a"}}, **fields,
    ))  # fmt: skip
    assert (got.storage_class, got.size) == ("made", size)
    assert got.nodes == (Requirement("zone", "In", ("a",)),)


@pytest.mark.parametrize(("topology", "nodes"), [({}, ()), (None, None)])
def test_room_for_all_nodes_differs_from_room_for_none_P8(
    topology: object, nodes: tuple[Requirement, ...] | None
) -> None:
    got = seen(STORAGE_CAPACITIES, named(
        "CSIStorageCapacity", "c", capacity="1", nodeTopology=topology
    ))  # fmt: skip
    assert got.nodes == nodes


def test_a_node_is_read_with_the_limits_of_its_drivers_P8() -> None:
    drivers = [
        {"name": "b", "nodeID": "x", "topologyKeys": ["zone"], "allocatable": {"count": 25}},
        {"name": "a", "nodeID": "x", "topologyKeys": None, "allocatable": {"count": 0}},
        {"name": "no limit", "nodeID": "x", "topologyKeys": None},
        {"name": "no count", "nodeID": "x", "topologyKeys": None, "allocatable": {}},
    ]
    got = seen(CSI_NODES, named("CSINode", "n", spec={"drivers": drivers}))
    assert got == CsiNode(name="n", uid="u-n", limits=(("a", 0), ("b", 25)))
    assert seen(CSI_NODES, named("CSINode", "n", spec={"drivers": None})).limits == ()


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_a_class_without_a_provisioner_makes_no_volumes_P8(provisioner: str) -> None:
    got = seen(STORAGE_CLASSES, named("StorageClass", "s", provisioner=provisioner))
    assert (got.provisions, got.waits, got.terms) == (False, False, None)


@pytest.mark.parametrize(
    ("volumes", "claims"),
    [
        (None, ()),
        ([{"name": "token", "projected": {"sources": []}}], ()),
        ([{"name": "a", "persistentVolumeClaim": {"claimName": "b"}},
          {"name": "c", "persistentVolumeClaim": {"claimName": "a"}}], ("a", "b")),
        ([{"name": "a", "persistentVolumeClaim": {"claimName": "x"}},
          {"name": "b", "persistentVolumeClaim": {"claimName": "x"}}], ("x",)),
        ([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
         ("w1-scratch",)),
    ],
    ids=["none", "a token", "two", "one twice", "made for the Pod"],
)  # fmt: skip
def test_the_claims_of_a_pod_are_those_of_its_volumes_P8(
    volumes: Any, claims: tuple[str, ...]
) -> None:
    spec: Json = {} if volumes is None else {"volumes": volumes}
    assert row(spec, name="w1").volume_claims == claims
