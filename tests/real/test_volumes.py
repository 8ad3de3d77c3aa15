"""Pods with claims on the real servers: row P8. Each test prints how long a Pod took.

The volume controller of Kubernetes binds claims to volumes. The provisioner is a stand-in.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.stage import stays
from tests.real.volumes import DYNAMIC, LOCAL, NEEDS, SELECTED, VOLUME_FOR, Storage, with_claim
from tests.real.workloads import Load, PodStage

STAGE_HOSTS = 40
pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("scheduler"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def storage(pods: PodStage) -> Iterator[Storage]:
    with Storage(pods.bed) as storage:
        yield storage


def pod_in(pods: PodStage, pool: str, *claims: str, **spec: Any) -> Load:
    """Create a Pod with these claims, for the hosts of this pool."""
    return pods.load(nodeSelector={"pool": pool}, **with_claim(*claims), **spec)


def until_bound(load: Load, what: str, *, within_s: float = 30) -> float:
    """Wait for the binding, and print how long it took; return when it was seen."""
    begun_s = time.monotonic()
    load.until_bound(within_s=within_s)
    seen_s = time.monotonic()
    print(f"{what}: bound after {seen_s - begun_s:.2f} s, {len(load.jobs)} jobs")
    return seen_s


def test_a_claim_that_waits_for_its_first_consumer_gets_its_volume_where_the_job_runs_P8(
    pods: PodStage, storage: Storage
) -> None:
    names = {host.name for host in pods.pool("first", 3)}
    storage.add_claim("first", DYNAMIC)
    load = pod_in(pods, "first", "first")
    seen_s = until_bound(load, "dynamic")
    (job,) = load.jobs
    assert load.node == job["nodes"] and load.node in names
    assert storage.nodes_of("first") == [load.node]
    assert storage.is_bound("first")
    assert storage.made_s[storage.claim("first")["metadata"]["uid"]] < seen_s
    load.until(lambda: VOLUME_FOR not in storage.marks("first"))
    assert storage.marks("first")[SELECTED] == load.node


def test_a_pod_is_not_bound_before_its_volume_is_there_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("slow", 2)
    storage.add_claim("slow", DYNAMIC)
    storage.delay_s = 3.0
    try:
        load = pod_in(pods, "slow", "slow")
        load.until(lambda: 'claim "slow" gets its volume on Node' in load.message)
        assert not load.node
        seen_s = until_bound(load, "dynamic, the provisioner needs 3 s")
    finally:
        storage.delay_s = 0.0
    assert storage.made_s[storage.claim("slow")["metadata"]["uid"]] < seen_s
    assert len(load.jobs) == 1


def test_a_pod_goes_to_the_host_of_its_local_volume_and_the_next_waits_for_another_P8(
    pods: PodStage, storage: Storage
) -> None:
    first, second, _ = pods.pool("local", 3)
    storage.add_claim("local-1", LOCAL)
    storage.add_claim("local-2", LOCAL)
    storage.add_volume("disk-1", LOCAL, second.name)
    load = pod_in(pods, "local", "local-1")
    until_bound(load, "static")
    assert load.node == second.name
    assert storage.volumes_of("local-1") == ["disk-1"]
    late = pod_in(pods, "local", "local-2")
    late.until(lambda: "didn't find available persistent volumes to bind" in late.message)
    print(late.message)
    assert stays(lambda: not late.jobs and not late.node)
    storage.add_volume("disk-2", LOCAL, first.name)
    until_bound(late, "static, after another volume appears")
    assert late.node == first.name
    assert storage.volumes_of("local-2") == ["disk-2"]
    assert NEEDS not in storage.marks("local-2")
    assert SELECTED not in storage.marks("local-2")
