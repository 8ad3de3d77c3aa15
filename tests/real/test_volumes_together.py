"""Several Pods and their claims at once, on the real servers: row P8."""

import time
from collections.abc import Iterator

import pytest

from tests.real.stage import eventually, stays
from tests.real.testbed import RestError
from tests.real.volumes import (
    DYNAMIC,
    FULL,
    LOCAL,
    NETWORK,
    SELECTED,
    SILENT,
    Storage,
    with_claim,
)
from tests.real.workloads import Load, PodStage, replaced

STAGE_HOSTS = 20
BOUND_WITHIN_S = 45
pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("scheduler"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def storage(pods: PodStage) -> Iterator[Storage]:
    with Storage(pods.bed) as storage:
        yield storage


def gang(pods: PodStage, name: str, *claims: str) -> list[Load]:
    """Create a gang whose members have one of these claims each."""
    size = {"gang": name, "gang_size": str(len(claims))}
    pool = {"pool": name}
    return [pods.load(annotations=size, nodeSelector=pool, **with_claim(one)) for one in claims]


def until_bound(loads: list[Load], what: str) -> None:
    begun_s = time.monotonic()
    for load in loads:
        load.until_bound(within_s=BOUND_WITHIN_S)
    jobs = {job["job_id"] for load in loads for job in load.jobs}
    print(f"{what}: bound after {time.monotonic() - begun_s:.2f} s, {len(jobs)} jobs")


def test_a_gang_is_bound_when_each_member_has_its_volume_G1(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("gang", 3)
    claims = [f"gang-{number}" for number in range(3)]
    for name in claims:
        storage.add_claim(name, NETWORK)
    loads = gang(pods, "gang", *claims)
    until_bound(loads, "a gang of three")
    assert len({load.node for load in loads}) == 3
    for name, load in zip(claims, loads, strict=True):
        assert len(storage.volumes_of(name)) == 1
        assert storage.marks(name)[SELECTED] == load.node


def test_a_gang_of_which_one_volume_cannot_be_made_tries_other_hosts_as_a_whole_G4(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("part", 4)
    storage.add_claim("part-0", NETWORK)
    storage.add_claim("part-1", NETWORK)
    storage.fails_once.add("part-1")
    loads = gang(pods, "part", "part-0", "part-1")
    until_bound(loads, "a gang of which one volume fails once")
    ((_, bad),) = [one for one in storage.failed if one[0] == "part-1"]
    first, second = loads[0].jobs
    print(f"given up on {bad}; the next job excludes {second['excluded_nodes']}")
    assert bad not in {load.node for load in loads}
    assert replaced(first)
    assert [len(storage.volumes_of(f"part-{number}")) for number in range(2)] == [1, 1]
    assert any(message.endswith(FULL) for message in loads[0].events_of("SlurmJobReplaced"))


def test_a_gang_whose_volumes_are_on_different_hosts_holds_none_and_says_why_P8(
    pods: PodStage, storage: Storage
) -> None:
    """A limit: each host of a gang must suit the volumes of every member."""
    hosts = pods.pool("apart", 2)
    for number, host in enumerate(hosts):
        storage.add_claim(f"apart-{number}", LOCAL)
        storage.add_volume(f"apart-{number}", LOCAL, host.name)
        alone = pods.load(host, **with_claim(f"apart-{number}"))
        alone.until_bound(within_s=BOUND_WITHIN_S)
        alone.delete(now=True)
        alone.until(lambda alone=alone: not alone.live)
    loads = gang(pods, "apart", "apart-0", "apart-1")
    loads[0].until(lambda: "didn't match PersistentVolume's node affinity" in loads[0].message)
    print(loads[0].message)
    assert stays(lambda: not loads[0].jobs)


@pytest.mark.parametrize("storage_class", [DYNAMIC, LOCAL])
def test_two_pods_that_come_at_once_share_the_one_volume_of_their_claim_P8(
    pods: PodStage, storage: Storage, storage_class: str
) -> None:
    name = f"both-{storage_class}"
    hosts = pods.pool(name, 2)
    if storage_class == LOCAL:
        for host in hosts:
            storage.add_volume(f"both-{host.name}", LOCAL, host.name)
    storage.add_claim(name, storage_class)
    loads = [pods.load(nodeSelector={"pool": name}, **with_claim(name)) for _ in range(2)]
    until_bound(loads, f"two Pods at once with one claim, {storage_class}")
    assert len(storage.volumes_of(name)) == 1
    assert storage.nodes_of(name) == [loads[0].node] == [loads[1].node]


def test_a_claim_that_is_deleted_while_its_volume_is_made_gives_the_job_back_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("deleted", 1)
    storage.add_claim("deleted", SILENT)
    load = pods.load(nodeSelector={"pool": "deleted"}, **with_claim("deleted"))
    load.until(lambda: storage.marks("deleted").get(SELECTED))
    storage.delete_claim("deleted")
    load.until(lambda: not load.live)
    assert all(replaced(job) for job in load.jobs)
    eventually(lambda: is_gone(storage, "deleted"), "the claim is gone")
    assert stays(lambda: not load.live)
    storage.add_claim("deleted", DYNAMIC)
    until_bound([load], "after its claim was made again")
    assert storage.nodes_of("deleted") == [load.node]


def is_gone(storage: Storage, name: str) -> bool:
    try:
        storage.claim(name)
    except RestError as error:
        return error.status == 404
    return False
