"""Several Pods and their claims at once, on the real servers: row P8."""

import time
from collections.abc import Iterator

import pytest

from tests.real.stage import Host, eventually, stays
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
from tests.real.workloads import Load, PodStage, replaced, workload_spec

STAGE_HOSTS = 30
BOUND_WITHIN_S = 45
TOLD_WITHIN_S = 70
"""A condition of a Pod is written at most once a minute."""
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


def three_claims(storage: Storage, name: str, storage_class: str) -> list[str]:
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        storage.add_claim(one, storage_class)
    return names


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
    claims = three_claims(storage, "gang", NETWORK)
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


def put_volume(pods: PodStage, storage: Storage, name: str, host: Host) -> None:
    """Let a Pod on this host bind the claim to a volume that only this host reaches."""
    storage.add_claim(name, LOCAL)
    storage.add_volume(name, LOCAL, host.name)
    alone = pods.load(host, **with_claim(name))
    alone.until_bound(within_s=BOUND_WITHIN_S)
    leave(alone)


def leave(load: Load) -> None:
    load.delete(now=True)
    load.until(lambda: not load.live)


def test_each_member_of_a_gang_goes_to_the_host_of_its_volume_P8(
    pods: PodStage, storage: Storage
) -> None:
    first, second, third, fourth = pods.pool("apart", 4)
    for number, host in enumerate((third, first)):
        put_volume(pods, storage, f"apart-{number}", host)
    storage.add_claim("apart-2", NETWORK)
    loads = gang(pods, "apart", "apart-0", "apart-1", "apart-2")
    until_bound(loads, "a gang with volumes of two hosts")
    assert [load.node for load in loads[:2]] == [third.name, first.name]
    assert loads[2].node in {second.name, fourth.name}
    (job,) = loads[0].jobs
    print(f"the job requires {job['required_nodes']} and excludes {job['excluded_nodes']}")


def test_a_gang_that_comes_again_returns_to_its_volumes_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("again", 5)
    claims = three_claims(storage, "again", DYNAMIC)
    loads = gang(pods, "again", *claims)
    until_bound(loads, "a gang whose volumes are made")
    nodes = [load.node for load in loads]
    loads[0].delete(now=True)
    eventually(lambda: all(load.gone for load in loads), "the other members end too")
    loads = gang(pods, "again", *claims)
    until_bound(loads, "the same gang again")
    assert [load.node for load in loads] == nodes
    assert len(loads[0].jobs) == 1
    assert [len(storage.volumes_of(name)) for name in claims] == [1, 1, 1]


def test_a_gang_waits_for_the_host_of_its_volume_though_others_are_free_P8(
    pods: PodStage, storage: Storage
) -> None:
    host, *_ = pods.pool("awaited", 3)
    put_volume(pods, storage, "awaited-0", host)
    storage.add_claim("awaited-1", NETWORK)
    user_job = pods.occupy(host)
    loads = gang(pods, "awaited", "awaited-0", "awaited-1")
    loads[0].until(lambda: loads[0].live)
    assert stays(lambda: not loads[0].node)
    pods.scancel(user_job)
    until_bound(loads, "a gang that waited for the host of a volume")
    assert loads[0].node == host.name
    assert len(loads[0].jobs) == 1


@pytest.mark.night("it says so after a minute")
def test_a_gang_with_two_volumes_of_one_host_has_no_job_and_says_why_P8(
    pods: PodStage, storage: Storage
) -> None:
    host, other, _ = pods.pool("close", 3)
    for number, where in enumerate((host, host, other)):
        put_volume(pods, storage, f"close-{number}", where)
    loads = gang(pods, "close", "close-0", "close-1", "close-2")
    told = "reaches the volumes of Pods"
    loads[0].until(lambda: told in loads[0].message, within_s=TOLD_WITHIN_S)
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


def test_two_pods_get_volumes_on_two_nodes_if_one_has_room_for_one_of_them_P28(
    pods: PodStage, storage: Storage
) -> None:
    """Slurm counts 16 CPUs, and the Nodes have 3 for Pods. While the first Pod waits for its
    volume, the second one gets none there: it could never be bound to it."""
    for host in pods.pool("narrow", 2):
        pods.bed.kube.set_allocatable(host.name, cpu="3")
    for name in ("narrow-1", "narrow-2"):
        storage.add_claim(name, DYNAMIC)
    spec = {"nodeSelector": {"pool": "narrow"}, "containers": workload_spec(cpu="2")["containers"]}
    storage.delay_s = 2.0
    try:
        loads = [pods.load(**spec, **with_claim(name)) for name in ("narrow-1", "narrow-2")]
        until_bound(loads, "two Pods, two Nodes with room for one")
    finally:
        storage.delay_s = 0.0
    assert len({load.node for load in loads}) == 2
    assert [storage.nodes_of(f"narrow-{number}") for number in (1, 2)] == [
        [load.node] for load in loads
    ]


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
