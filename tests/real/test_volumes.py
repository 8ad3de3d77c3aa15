"""Pods with claims on the real servers: row P8. Each test prints how long a Pod took.

The volume controller of Kubernetes binds claims to volumes. The provisioner is a stand-in.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.real.conftest import with_settings
from tests.real.service import NAMESPACE
from tests.real.stage import eventually, stays
from tests.real.volumes import (
    DYNAMIC,
    FULL,
    LOCAL,
    NEEDS,
    PLAIN,
    SELECTED,
    SILENT,
    VOLUME_FOR,
    Storage,
    claim_spec,
    with_claim,
)
from tests.real.workloads import HOSTNAME, Load, PodStage, lives, replaced, workload_spec

STAGE_HOSTS = 40
BOUND_WITHIN_S = 45
"""Kubernetes looks for volumes of a claim that does not wait every 15 s."""
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
MADE_S: dict[str, float] = {}
"""When each Pod was made, by UID."""
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
    begun_s = time.monotonic()
    load = pods.load(**{"nodeSelector": {"pool": pool}, **with_claim(*claims), **spec})
    MADE_S[load.uid] = begun_s
    return load


class Placed(NamedTuple):
    took_s: float
    nodes: list[str]


def placed(pods: PodStage, name: str, *, size: int = 3) -> Placed:
    """Make a StatefulSet whose replicas need most of a host each, wait for them, and delete it."""
    (container,) = workload_spec(cpu="9")["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    pod = {**workload_spec(), "containers": [container], "nodeSelector": {"pool": name}}
    spec = {
        "serviceName": name,
        "replicas": size,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(DYNAMIC)}],
    }
    call, begun_s = pods.bed.kube.rest.call, time.monotonic()
    call("POST", SETS, {"metadata": {"name": name}, "spec": spec})
    loads = [Load(pods.bed, f"{name}-{number}") for number in range(size)]
    for load in loads:
        eventually(partial(pods.bed.kube.pod_if_any, load.name, NAMESPACE), f"{load.name} is made")
        load.until_bound(within_s=BOUND_WITHIN_S)
    made = Placed(time.monotonic() - begun_s, [load.node for load in loads])
    call("DELETE", f"{SETS}/{name}?propagationPolicy=Foreground")
    sets = partial(call, "GET", SETS)
    eventually(lambda: not sets()["items"], "the set is gone, and its Pods before it")
    return made


def until_bound(load: Load, what: str, *, since_s: float | None = None) -> float:
    """Wait for the binding; print how long it took, since the Pod was made unless said otherwise.

    Return when it was seen.
    """
    begun_s = MADE_S[load.uid] if since_s is None else since_s
    load.until_bound(within_s=BOUND_WITHIN_S)
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
    assert load.node == job["nodes"]
    assert load.node in names
    assert storage.nodes_of("first") == [load.node]
    assert storage.is_bound("first")
    assert storage.made_s[storage.claim("first")["metadata"]["uid"]] < seen_s
    load.until(lambda: VOLUME_FOR not in storage.marks("first"))
    assert storage.marks("first")[SELECTED] == load.node


def test_a_pod_is_not_bound_before_its_volume_is_there_P8(pods: PodStage, storage: Storage) -> None:
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
    begun_s = time.monotonic()
    storage.add_volume("disk-2", LOCAL, first.name)
    until_bound(late, "static, after another volume appears", since_s=begun_s)
    assert late.node == first.name
    assert storage.volumes_of("local-2") == ["disk-2"]
    assert NEEDS not in storage.marks("local-2")
    assert SELECTED not in storage.marks("local-2")


def test_a_claim_of_an_immediate_class_is_waited_for_without_a_job_P8(
    pods: PodStage, storage: Storage
) -> None:
    hosts = pods.pool("immediate", 3)
    storage.add_claim("immediate", PLAIN)
    load = pod_in(pods, "immediate", "immediate")
    load.until(lambda: load.message.startswith("pod has unbound immediate PersistentVolumeClaims"))
    assert stays(lambda: not load.jobs)
    begun_s = time.monotonic()
    storage.add_volume("plain", PLAIN, hosts[1].name)
    until_bound(load, "immediate, after a volume appears", since_s=begun_s)
    assert storage.is_bound("immediate")
    assert load.node == hosts[1].name
    assert len(load.jobs) == 1


def test_a_claim_that_does_not_exist_is_waited_for_without_a_job_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("absent", 1)
    load = pod_in(pods, "absent", "absent")
    load.until(lambda: load.message == 'persistentvolumeclaim "absent" not found')
    assert stays(lambda: not load.jobs)
    begun_s = time.monotonic()
    storage.add_claim("absent", DYNAMIC)
    until_bound(load, "after its claim is made", since_s=begun_s)


def test_a_node_gets_no_more_volumes_than_it_may_attach_P8(
    pods: PodStage, storage: Storage
) -> None:
    """The limits of drivers are those of the real CSINodes."""
    hosts = pods.pool("attach", 2)
    for host in hosts:
        storage.limit(host.name, 1)
    for number in range(3):
        storage.add_claim(f"attach-{number}", DYNAMIC)
    loads = [pod_in(pods, "attach", f"attach-{number}") for number in range(2)]
    for load in loads:
        until_bound(load, "one volume for each Node")
    assert {load.node for load in loads} == {host.name for host in hosts}
    late = pod_in(pods, "attach", "attach-2")
    late.until(lambda: "2 node(s) exceed max volume count" in late.message)
    print(late.message)
    assert stays(lambda: not late.jobs and not late.node)
    begun_s = time.monotonic()
    storage.limit(loads[1].node, 2)
    until_bound(late, "after the limit of a Node was raised", since_s=begun_s)
    assert late.node == loads[1].node
    print("jobs:", [len(load.jobs) for load in (*loads, late)])


def test_a_volume_is_made_where_the_driver_has_room_P8(pods: PodStage, storage: Storage) -> None:
    """A claim asks for 1 GiB. Only one host of the pool has room for it."""
    small, large, _ = pods.pool("room", 3)
    storage.tell_room(small.name, "100Mi")
    storage.tell_room(large.name, "10Gi")
    try:
        storage.add_claim("room-1", DYNAMIC)
        load = pod_in(pods, "room", "room-1")
        until_bound(load, "where the driver has room")
        assert (load.node, len(load.jobs)) == (large.name, 1)
        storage.tell_room(large.name, "1Mi")
        storage.add_claim("room-2", DYNAMIC)
        late = pod_in(pods, "room", "room-2")
        late.until(lambda: "3 node(s) did not have enough free storage" in late.message)
        print(late.message)
        assert stays(lambda: not late.jobs and not late.node)
        begun_s = time.monotonic()
        storage.tell_room(small.name, "2Gi")
        until_bound(late, "after the driver had room on another host", since_s=begun_s)
        assert (late.node, len(late.jobs)) == (small.name, 1)
    finally:
        storage.tell_nothing()


def test_a_host_for_which_no_volume_can_be_made_is_left_for_another_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("fails", 2)
    storage.fails_once.add("fails")
    storage.add_claim("fails", DYNAMIC)
    load = pod_in(pods, "fails", "fails")
    until_bound(load, "after the provisioner fails on one host")
    (bad,) = [node for name, node in storage.failed if name == "fails"]
    first, second = load.jobs
    assert first["nodes"] == bad != load.node == second["nodes"]
    assert replaced(first)
    assert not lives(first)
    why = f'the provisioner of claim "fails" makes no volume on Node {bad}: failed to provision'
    (said,) = load.events_of("SlurmJobReplaced")
    assert f"{why} volume with StorageClass" in said
    assert said.endswith(FULL)
    assert storage.marks("fails")[SELECTED] == load.node
    assert storage.nodes_of("fails") == [load.node]
    load.until(lambda: VOLUME_FOR not in storage.marks("fails"))


def test_a_volume_that_can_be_made_nowhere_costs_few_jobs_P8(
    pods: PodStage, storage: Storage
) -> None:
    (host,) = pods.pool("nowhere", 1)
    storage.fails_on.add(host.name)
    storage.add_claim("nowhere", DYNAMIC)
    load = pod_in(pods, "nowhere", "nowhere")
    load.until(lambda: len(load.jobs) >= 2, within_s=60)
    time.sleep(20)
    print(f"nowhere: {len(load.jobs)} jobs in 20 s, {load.message}")
    assert len(load.jobs) <= 8
    assert not load.node
    load.delete(now=True)
    load.until(lambda: not load.live)
    load.until(lambda: {SELECTED, VOLUME_FOR}.isdisjoint(storage.marks("nowhere")))


@with_settings(volume_timeout="10s")
def test_a_provisioner_that_never_answers_holds_no_host_and_leaves_no_mark_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("silent", 2)
    storage.add_claim("silent", SILENT)
    begun_s = time.monotonic()
    load = pod_in(pods, "silent", "silent")
    load.until(lambda: load.jobs and not lives(load.jobs[0]), within_s=40)
    print(f"silent: its first job ended after {time.monotonic() - begun_s:.2f} s")
    first = load.jobs[0]
    assert replaced(first)
    why = f'claim "silent" got no volume on Node {first["nodes"]} within 10 s'
    load.until(lambda: any(why in message for _, message in load.events))
    load.until(lambda: len(load.jobs) == 2 and storage.marks("silent").get(SELECTED))
    assert storage.marks("silent")[SELECTED] == load.jobs[1]["nodes"] != first["nodes"]
    load.delete(now=True)
    load.until(lambda: not load.live)
    load.until(lambda: {SELECTED, VOLUME_FOR}.isdisjoint(storage.marks("silent")))
    assert storage.volumes_of("silent") == []


def test_two_pods_with_one_read_write_once_claim_run_on_one_node_P8(
    pods: PodStage, storage: Storage
) -> None:
    hosts = pods.pool("shared", 3)
    storage.add_volume("shared", LOCAL, *(host.name for host in hosts))
    storage.add_claim("shared", LOCAL)
    first = pod_in(pods, "shared", "shared")
    until_bound(first, "the first Pod of a claim")
    second = pod_in(pods, "shared", "shared")
    until_bound(second, "the second Pod of the claim")
    assert second.node == first.node
    elsewhere = next(host.name for host in hosts if host.name != first.node)
    third = pod_in(pods, "shared", "shared", nodeSelector={HOSTNAME: elsewhere})
    third.until(lambda: "not where another Pod uses the ReadWriteOnce volume" in third.message)
    print(third.message)
    assert not third.jobs


def test_the_volume_of_a_generic_ephemeral_volume_is_made_where_the_job_runs_P8(
    pods: PodStage, storage: Storage
) -> None:
    pods.pool("scratch", 2)
    template = {"spec": claim_spec(DYNAMIC)}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    load = pod_in(pods, "scratch", volumes=volumes)
    until_bound(load, "ephemeral")
    made = f"{load.name}-scratch"
    assert storage.nodes_of(made) == [load.node]
    owners = storage.claim(made)["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == [load.uid]


def test_the_replicas_of_a_stateful_set_return_to_the_hosts_of_their_volumes_P8(
    pods: PodStage, storage: Storage
) -> None:
    hosts = pods.pool("set", 3)
    where = placed(pods, "set")
    print(f"StatefulSet: three Pods bound after {where.took_s:.2f} s")
    assert set(where.nodes) == {host.name for host in hosts}
    for number, node in enumerate(where.nodes):
        assert storage.nodes_of(f"data-set-{number}") == [node]
    again = placed(pods, "set")
    print(f"StatefulSet: three Pods bound again after {again.took_s:.2f} s")
    assert again.nodes == where.nodes
    assert all(len(storage.volumes_of(f"data-set-{number}")) == 1 for number in range(3))
