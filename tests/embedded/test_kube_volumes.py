"""Claims and volumes of the embedded Kubernetes, and the controllers that bind them."""

import json
from typing import Any

import pytest

from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import VOLUME_CLAIMS, VOLUMES
from tests.embedded.kube_kit import ask, get, watch
from tests.sim import words
from tests.sim.words import Object
from tests.sim.workloads.storage import (
    AT_ONCE,
    LOCAL,
    MADE,
    add_claim,
    add_classes,
    add_volume,
    host_of,
    with_claims,
)

CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/c"
VOLUME = "/api/v1/persistentvolumes/v"
MERGE = {"content-type": "application/merge-patch+json"}


def cluster(*, of: str, volumes: tuple[str, ...] = (), **knobs: str) -> Kubernetes:
    """Return a cluster with Nodes k1 and k2, claim `c`, and these volumes on k1."""
    kube = Kubernetes(heartbeat_s=0)
    for node in ("k1", "k2"):
        kube.add_node(node)
    add_classes(kube, **knobs)
    for name in volumes:
        add_volume(kube, name, of, node="k1")
    add_claim(kube, "c", of, namespace="default")
    kube.advance(1)
    return kube


def patch(kube: Kubernetes, path: str, body: Any, *, now_s: float = 0) -> int:
    return ask(kube, "PATCH", path, body, headers=MERGE, now_s=now_s).status


def select(kube: Kubernetes, node: str | None, *, now_s: float = 1) -> None:
    marks = {"annotations": {words.SELECTED_NODE: node}}
    assert patch(kube, CLAIM, {"metadata": marks}, now_s=now_s) == 200
    kube.advance(now_s)


def reserve(kube: Kubernetes, **owner: str) -> None:
    reference = {"namespace": "default", "name": "c", **owner}
    assert patch(kube, VOLUME, {"spec": {"claimRef": reference}}) == 200
    kube.advance(kube.now_s)


def claim(kube: Kubernetes) -> Object:
    found: Object = get(kube, CLAIM)
    return found


def volumes(kube: Kubernetes) -> list[Object]:
    items: list[Object] = get(kube, "/api/v1/persistentvolumes")["items"]
    return items


def phases(kube: Kubernetes) -> tuple[str, list[str]]:
    return claim(kube)["status"]["phase"], [one["status"]["phase"] for one in volumes(kube)]


@pytest.mark.parametrize(
    ("of", "there", "expected"),
    [
        (MADE, (), ("Pending", [])),
        (LOCAL, ("v",), ("Pending", ["Available"])),
        (AT_ONCE, (), ("Pending", [])),
        (AT_ONCE, ("v", "w"), ("Bound", ["Bound", "Available"])),
    ],
)
def test_only_claims_of_an_immediate_class_are_bound_without_a_pod(
    of: str, there: tuple[str, ...], expected: tuple[str, list[str]]
) -> None:
    assert phases(cluster(of=of, volumes=there)) == expected


def test_a_volume_that_names_a_claim_is_bound_to_it() -> None:
    kube = cluster(of=LOCAL, volumes=("v",))
    reserve(kube)
    found = claim(kube)
    assert phases(kube) == ("Bound", ["Bound"])
    assert found["spec"]["volumeName"] == "v"
    assert words.BIND_COMPLETED in words.annotations_of(found)
    assert volumes(kube)[0]["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]


def test_a_volume_that_names_an_earlier_claim_is_released() -> None:
    kube = cluster(of=LOCAL, volumes=("v",))
    reserve(kube, uid="of-another")
    assert phases(kube) == ("Pending", ["Released"])


def test_a_provisioner_makes_a_volume_on_the_selected_node() -> None:
    kube = cluster(of=MADE, provision_s="3")
    select(kube, "k2")
    kube.advance(3)
    assert phases(kube) == ("Pending", [])
    kube.advance(4)
    assert phases(kube) == ("Bound", ["Bound"])
    assert host_of(volumes(kube)[0]) == "k2"


def test_a_volume_that_is_being_made_is_made_though_its_node_is_taken_back() -> None:
    kube = cluster(of=MADE, provision_s="3")
    select(kube, "k2")
    select(kube, None, now_s=2)
    select(kube, "k1", now_s=3)
    kube.advance(4)
    assert phases(kube) == ("Bound", ["Bound"])
    assert host_of(volumes(kube)[0]) == "k2"


@pytest.mark.parametrize(
    ("knobs", "selected"), [({"not_on": "k1,k3"}, False), ({"provision_s": "inf"}, True)]
)
def test_a_provisioner_that_fails_takes_the_node_back_or_never_answers(
    knobs: dict[str, str], *, selected: bool
) -> None:
    kube = cluster(of=MADE, volumes=(), **knobs)
    select(kube, "k1")
    kube.advance(1000)
    assert (words.SELECTED_NODE in words.annotations_of(claim(kube))) == selected
    assert not volumes(kube)
    select(kube, "k2", now_s=1001)
    assert bool(volumes(kube)) != selected


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"resourceVersion": "{version}", "uid": "{uid}"}, 200),
        ({"resourceVersion": "3"}, 409),
        ({"uid": "another"}, 422),
    ],
)
def test_a_patch_holds_only_for_the_version_and_the_uid_that_it_names(
    metadata: dict[str, str], status: int
) -> None:
    kube = cluster(of=LOCAL, volumes=("v",))
    read = get(kube, VOLUME)["metadata"]
    named = {
        key: value.format(version=read["resourceVersion"], uid=read["uid"])
        for key, value in metadata.items()
    }
    assert patch(kube, VOLUME, {"metadata": {**named, "labels": {"a": "b"}}}) == status


def test_a_deleted_claim_stays_until_no_pod_on_a_node_uses_it() -> None:
    kube = cluster(of=LOCAL, volumes=("v",))
    reserve(kube)
    kube.add_pod("p", node="k1", spec=with_claims({}, "c"))
    kube.advance(1)
    ask(kube, "DELETE", CLAIM)
    kube.advance(2)
    assert "deletionTimestamp" in claim(kube)["metadata"]
    kube.delete_pod("p", grace_s=0)
    kube.advance(3)
    assert ask(kube, "GET", CLAIM).status == 404
    assert [one["status"]["phase"] for one in volumes(kube)] == ["Released"]


def test_a_volume_that_was_made_for_a_claim_goes_with_it() -> None:
    kube = cluster(of=MADE)
    select(kube, "k1")
    assert volumes(kube)
    kube.delete(VOLUME_CLAIMS, "c", namespace="default")
    kube.advance(2)
    assert not volumes(kube)


def test_claims_and_volumes_are_listed_watched_and_shown_as_tables() -> None:
    kube = cluster(of=LOCAL)
    watched = watch(kube, "/api/v1/persistentvolumes")
    add_volume(kube, "v", LOCAL, node="k1")
    kube.advance(2)
    assert [json.loads(line)["type"] for line in watched.take(2)] == ["ADDED", "MODIFIED"]
    header = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    for path, cells in (
        ("/api/v1/persistentvolumes", ["v", "2Gi", "RWO", "Retain", "Available", "", LOCAL]),
        ("/api/v1/persistentvolumeclaims", ["c", "Pending", "", "", "RWO", LOCAL]),
        ("/apis/storage.k8s.io/v1/storageclasses", [AT_ONCE]),
    ):
        row = get(kube, path, headers=header)["rows"][0]["cells"]
        assert row[: len(cells)] == cells


def test_a_restore_takes_up_the_claims_again() -> None:
    kube = cluster(of=MADE, provision_s="3")
    select(kube, "k2")
    backup = kube.backup()
    kube.restore(backup)
    kube.advance(10)
    assert phases(kube) == ("Bound", ["Bound"])
    assert kube.store.rows(VOLUMES)
