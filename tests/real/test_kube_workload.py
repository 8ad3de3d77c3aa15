"""Workload Pods with a real API server and etcd: reads and writes."""

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Action, Bind, EndPod, GetGang, SetMetadata, SetScheduled
from sunk_sync.core.model.facts import Node, Observed, Pod, Reference
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.pod_spec import (
    Gang,
    PodRules,
    PodTerm,
    Requirement,
    Spread,
    Taint,
    Term,
    Toleration,
)
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Request
from sunk_sync.kube.decode.source_decoder import OFFERING_NODES, PODS, Unreadable
from sunk_sync.kube.write.push import KubePush
from tests.real.pod_groups import make_pod_group, remove_kind
from tests.real.test_kube_client import client_of
from tests.real.testbed import KubeServer, kube_objects
from tests.real.testbed.kubelet import END_DELAY, RUN, START_DELAY

pytestmark = pytest.mark.real

NAMESPACE = "workloads"
GIB = 2**30
WITHIN_S = 15
Json = dict[str, Any]
LASTS = {END_DELAY: "inf"}


class Place:
    """One namespace and one Node of a test, and its Pods."""

    def __init__(self, server: KubeServer, node_name: str) -> None:
        self.server = server
        self.node_name = node_name

    def make(self, name: str, *, spec: Json | None = None, **metadata: Any) -> Reference:
        """Create a Pod that names our scheduler."""
        made = kube_objects.pod(name, namespace=NAMESPACE, spec=spec)
        made["spec"]["schedulerName"] = "slurm-scheduler"
        made["metadata"] |= metadata
        return Reference("Pod", NAMESPACE, name, self.server.create_pod(made))

    def pod(self, name: str) -> Json:
        served: Json = self.server.pod(name, NAMESPACE)
        return served

    def remove(self, name: str) -> None:
        self.server.delete_pod(name, NAMESPACE, grace_s=0)

    def condition(self, name: str, kind: str) -> Json:
        return kube_objects.conditions(self.pod(name)).get(kind, {})

    async def until(self, name: str, phase: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while self.pod(name)["status"]["phase"] != phase:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.fixture
def place(kube: KubeServer, request: pytest.FixtureRequest) -> Iterator[Place]:
    kube.ensure_namespace(NAMESPACE)
    name = f"w{abs(hash(request.node.nodeid)) % 10**8}"
    kube.add_nodes(name)
    yield Place(kube, name)
    for pod in kube.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        kube.delete_pod(pod["metadata"]["name"], NAMESPACE, grace_s=0)
    kube.delete_node(name)


async def push(place: Place, action: Action) -> Outcome:
    async with client_of(place.server) as client:
        (outcome,) = await KubePush(client, relist={}, nodes=OFFERING_NODES).push([action])
        return outcome


async def push_done(place: Place, action: Action) -> Done:
    outcome = await push(place, action)
    assert isinstance(outcome, Done), outcome
    return outcome


async def push_refused(place: Place, action: Action) -> Refused:
    outcome = await push(place, action)
    assert isinstance(outcome, Refused), outcome
    return outcome


async def read(place: Place, path: str, wire: Any) -> Any:
    async with client_of(place.server) as client:
        seen: Observed | Unreadable | KubeError = await client.call(Request(path=path), wire.object)
    assert isinstance(seen, Observed), seen
    return seen.row


async def row(place: Place, name: str) -> Pod:
    found = await read(place, f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", PODS)
    assert isinstance(found, Pod)
    return found


def shown(outcome: Outcome) -> Pod:
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Pod)
    return seen.row


def asks(name: str, *, limits: Json | None = None, **requests: Any) -> Json:
    resources: Json = {"requests": requests} | ({"limits": limits} if limits else {})
    return kube_objects.CONTAINER | {"name": name, "resources": resources}


DISK: Json = {"ephemeral-storage": "1M"}
NODE_TERM: Json = {
    "matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
SPREAD: Json = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SPREAD |= {"labelSelector": {}}
APART: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
FULL: Json = {
    "containers": [
        asks("a", cpu="1500m", memory="1.5Gi"),
        asks("b", limits={"cpu": "1000e-3", "memory": "1k"}),
    ],
    "initContainers": [
        asks("c", cpu="1") | {"restartPolicy": "Always"},
        asks("d", cpu="3", **DISK),
    ],
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "terminationGracePeriodSeconds": 11,
    "schedulingGates": [{"name": "example.com/later"}],
    "priorityClassName": "system-node-critical",  # allowed in any namespace, without a quota
    "affinity": {
        "nodeAffinity": {kube_objects.REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}},
        "podAntiAffinity": {kube_objects.REQUIRED: [APART]},
    },
    "topologySpreadConstraints": [SPREAD],
}


async def test_a_pod_is_read_with_the_defaults_of_the_server_P6_P7_P8(place: Place) -> None:
    """The API server turns limits without requests into requests."""
    annotations = {names.PREFIX + "partition": "gpu", names.PREFIX + "timeout": "90"}
    labels = {names.POD_GROUP_LABELS[0]: "g"}
    place.make("full", spec=FULL, annotations=annotations, labels=labels)
    found = await row(place, "full")
    assert dict(found.spec.requests) == {
        "cpu": 4000,
        "ephemeral-storage": 10**6,
        "memory": 3 * GIB // 2 + 1000,
    }
    assert found.spec.node_selector == (("pool", "gpu"),)
    assert found.spec.terms == (
        Term((Requirement("n", "Gt", ("3",)),), (Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert Toleration("gpu", "Exists", "", "NoSchedule") in found.spec.tolerations
    assert (found.spec.grace_s, found.spec.priority_class) == (11, "system-node-critical")
    assert found.spec.rules == PodRules(
        apart=(PodTerm("kubernetes.io/hostname", ()),), spread=(Spread("zone", ()),)
    )
    assert (found.gated, found.phase, found.node_name, found.ended) == (True, "Pending", "", False)
    assert found.settings == (("partition", "gpu"), ("timeout", "90"))
    assert found.gang == Gang("group", "g")
    assert found.created_s > 1_700_000_000
    assert not found.spec.static_cpu


async def test_the_qos_class_comes_from_the_server_P27(place: Place) -> None:
    room = {"cpu": "2", "memory": "1Gi"}
    place.make("whole", spec={"containers": [asks("a", limits=room)]})
    place.make("parts", spec={"containers": [asks("a", limits=room | {"cpu": "1500m"})]})
    place.make("burst", spec={"containers": [asks("a", cpu="2", memory="1Gi")]})
    for name, static in (("whole", True), ("parts", False), ("burst", False)):
        assert (await row(place, name)).spec.static_cpu == static


async def test_two_pods_of_one_template_share_one_spec(place: Place) -> None:
    """A real server adds a token volume of another name to each Pod."""
    spec = {"containers": [asks("a", cpu="1")], "automountServiceAccountToken": True}
    for name in ("one", "two"):
        place.make(name, spec=spec)
    assert place.pod("one")["spec"] != place.pod("two")["spec"]
    one, two = await row(place, "one"), await row(place, "two")
    assert one.spec is two.spec


async def test_labels_taints_and_allocatable_of_a_node_are_read_P7_P28(place: Place) -> None:
    path = f"/api/v1/nodes/{place.node_name}"
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    place.server.patch(path, {"spec": {"taints": taints}})
    found = await read(place, path, OFFERING_NODES)
    assert isinstance(found, Node)
    assert Taint("gpu", "NoSchedule", "yes") in found.offer.taints
    assert dict(found.offer.allocatable) == {"cpu": 16_000, "memory": 64 * GIB, "pods": 250}
    assert dict(found.offer.labels)["kubernetes.io/hostname"] == place.node_name


async def test_one_write_binds_and_writes_the_job_id_P11(place: Place) -> None:
    reference = place.make("p", annotations=LASTS)
    before = place.pod("p")
    place.server.annotate_node(place.node_name, {START_DELAY: "inf"})
    await push_done(place, Bind(reference, place.node_name, "17", "n1"))
    bound = await row(place, "p")
    assert (bound.node_name, bound.job_id, bound.bound_for) == (place.node_name, "17", "17")
    assert [(one.type, one.status) for one in bound.conditions] == [("PodScheduled", "True")]
    assert before["metadata"]["annotations"] == LASTS
    written = {names.JOB_ID: "17", names.BOUND_FOR: "17"}
    assert place.pod("p")["metadata"]["annotations"] == LASTS | written


async def test_the_binding_corrects_the_job_id_of_a_waiting_pod_P11_P17(place: Place) -> None:
    reference = place.make("p")
    hint = SetMetadata(reference, names.MANAGER_SUBMIT, (), ((names.JOB_ID, "17"),))
    assert shown(await push(place, hint)).job_id == "17"
    await push_done(place, Bind(reference, place.node_name, "18", "n1"))
    assert (await row(place, "p")).job_id == "18"


async def test_a_repeated_binding_succeeds_and_another_is_refused_P11(place: Place) -> None:
    reference = place.make("p")
    here = place.node_name
    for _ in range(2):
        bound = await push_done(place, Bind(reference, here, "17", "n1"))
    assert shown(bound).node_name == here
    for other in (Bind(reference, "elsewhere", "17", "n1"), Bind(reference, here, "18", "n1")):
        assert shown(await push_refused(place, other)).job_id == "17"
    assert place.pod("p")["spec"]["nodeName"] == here


async def test_a_recreated_pod_is_not_bound_in_place_of_the_old_one_P11(place: Place) -> None:
    old = place.make("p")
    place.remove("p")
    await push_refused(place, Bind(old, place.node_name, "17", "n1"))
    place.make("p")
    await push_refused(place, Bind(old, place.node_name, "17", "n1"))
    assert "nodeName" not in place.pod("p")["spec"]
    assert names.JOB_ID not in place.pod("p")["metadata"].get("annotations", {})


async def test_a_pod_that_is_ending_or_gated_is_not_bound_P11(place: Place) -> None:
    gated = place.make("gated", spec={"schedulingGates": [{"name": "example.com/later"}]})
    ending = place.make("ending", finalizers=["example.com/hold"])
    place.server.delete_pod("ending", NAMESPACE)
    try:
        for reference in (gated, ending):
            refused = await push_refused(place, Bind(reference, place.node_name, "17", "n1"))
            assert shown(refused).node_name == ""
    finally:
        place.server.patch_pod("ending", NAMESPACE, {"metadata": {"finalizers": None}})


async def test_a_pod_ends_with_a_reason_and_its_own_grace_period_P16(place: Place) -> None:
    spec = {"terminationGracePeriodSeconds": 77}
    reference = place.make("p", annotations=LASTS, spec=spec)
    await push(place, Bind(reference, place.node_name, "17", "n1"))
    await place.until("p", "Running")
    end = EndPod(reference, "PreemptionByScheduler", "Slurm preempted job 17")
    assert shown(await push_done(place, end)).terminating
    metadata = place.pod("p")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 77
    condition = place.condition("p", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "Slurm preempted job 17"
    assert place.condition("p", "PodScheduled")["status"] == "True"
    assert place.condition("p", "Ready")["status"] == "True"
    deadline = metadata["deletionTimestamp"]
    await push_done(place, end)
    metadata = place.pod("p")["metadata"]
    assert metadata["deletionTimestamp"] == deadline
    assert names.MANAGER_RELEASE in {one["manager"] for one in metadata["managedFields"]}


async def test_ending_a_gone_or_replaced_pod_succeeds_without_a_write_P16(place: Place) -> None:
    old = place.make("p")
    end = EndPod(old, "SlurmJobEnded", "over")
    place.remove("p")
    assert await push(place, end) == Done(end, missing=True)
    place.make("p")
    assert await push(place, end) == Done(end, missing=True)
    assert "deletionTimestamp" not in place.pod("p")["metadata"]
    assert not place.condition("p", "DisruptionTarget")


async def test_an_ended_pod_and_an_unbound_one_are_deleted_at_once_P16(place: Place) -> None:
    waiting = place.make("waiting")
    over = place.make("over", annotations={RUN: "0"})
    await push(place, Bind(over, place.node_name, "17", "n1"))
    await place.until("over", "Succeeded")
    assert (await row(place, "over")).ended
    for reference in (waiting, over):
        await push_done(place, EndPod(reference, "SlurmJobEnded", "over"))
    await asyncio.sleep(0.5)
    left = place.server.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    assert left == []


async def test_a_pod_shows_why_it_waits_until_it_is_bound_P1(place: Place) -> None:
    place.server.annotate_node(place.node_name, {START_DELAY: "inf"})
    reference = place.make("p")
    waits = SetScheduled(reference, "Unschedulable", "job 17 waits: Resources")
    shows = shown(await push_done(place, waits))
    assert shows.conditions[0].message == "job 17 waits: Resources"
    first = place.condition("p", "PodScheduled")
    assert first["status"] == "False"
    await asyncio.sleep(1.1)
    await push(place, SetScheduled(reference, "Unschedulable", "job 17 waits: Priority"))
    second = place.condition("p", "PodScheduled")
    assert second["message"] == "job 17 waits: Priority"
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    await push(place, Bind(reference, place.node_name, "17", "n1"))
    await push_refused(place, waits)
    bound = place.condition("p", "PodScheduled")
    assert bound["status"] == "True"
    assert bound.get("reason", "") == ""


async def test_a_binding_between_read_and_write_wins_P1(place: Place) -> None:
    """The version of the read is a precondition: the server answers 409."""
    place.server.annotate_node(place.node_name, {START_DELAY: "inf"})
    reference = place.make("p")

    class Meanwhile:
        """A client that binds the Pod right after it was read."""

        async def call(self, request: Any, decode: Any, /) -> Any:
            answer = await client.call(request, decode)
            if request.method == "GET":
                await push(place, Bind(reference, place.node_name, "17", "n1"))
            return answer

    async with client_of(place.server) as client:
        writer = KubePush(Meanwhile(), relist={})
        (outcome,) = await writer.push([SetScheduled(reference, "Unschedulable", "waits")])
    assert type(outcome).__name__ == "Unsure", outcome
    assert place.condition("p", "PodScheduled")["status"] == "True"


async def test_a_mark_on_a_waiting_pod_is_read_back_P17(place: Place) -> None:
    reference = place.make("p")
    mark = SetMetadata(reference, names.MANAGER_SUBMIT, (), ((names.CANCELLED, "17/"),))
    assert shown(await push_done(place, mark)).cancelled == "17/"


async def test_the_size_of_a_gang_comes_from_its_pod_group_G1(place: Place) -> None:
    make_pod_group(place.server.rest, NAMESPACE, "train", size=5)
    try:
        assert await gang_size(place, "group", "train") == (5, "")
    finally:
        remove_kind(place.server.rest)


async def gang_size(
    place: Place, kind: Literal["group", "job"], name: str, *, owner: str = ""
) -> tuple[int, str]:
    """Read the size of a gang, and why it has none."""
    (seen,) = (await push_done(place, GetGang(kind, NAMESPACE, name, 0.0, owner))).seen
    assert isinstance(seen, GangSize)
    return seen.size, seen.why


async def test_the_size_of_a_gang_comes_from_its_job_G1_G9(place: Place) -> None:
    template = {"spec": {"containers": [kube_objects.CONTAINER], "restartPolicy": "Never"}}
    job = {
        "metadata": {"name": "train"},
        "spec": {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "suspend": True,
            "template": template,
        },
    }
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    made = place.server.rest.call("POST", path, job)
    try:
        owner = made["metadata"]["uid"]
        assert await gang_size(place, "job", "train", owner=owner) == (3, "")
        size, why = await gang_size(place, "job", "train", owner="an earlier one")
        assert (size, "another Job" in why) == (0, True)
        for kind in ("job", "group"):
            size, why = await gang_size(place, kind, "none")
            assert (size, bool(why)) == (0, True)
    finally:
        place.server.rest.call("DELETE", f"{path}/train")
