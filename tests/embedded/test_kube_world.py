"""The embedded Kubernetes: what happens by itself, and what users do."""

import json
from typing import Any

import pytest

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY, EXIT_CODE, RUN, START_DELAY
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.nodes import GRACE_S
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.wire import Answer, Question

NODES = "/api/v1/nodes"


@pytest.fixture
def world() -> Kubernetes:
    """One Node, whose heartbeats are far apart."""
    world = Kubernetes(heartbeat_s=1e6)
    world.add_node("n1")
    world.advance(0)
    return world


def watch(world: Kubernetes, path: str = NODES, **query: str) -> Subscription:
    opened = KubeApi(world).answer(
        Question(path=path, query={"watch": "true", **query}), world.now_s
    )
    assert isinstance(opened, Subscription)
    return opened


def events(watching: Subscription, now_s: float = 0) -> list[str]:
    """Return events as `ADDED n1`."""
    lines = [json.loads(line) for line in watching.take(now_s)]
    return [f"{one['type']} {one['object']['metadata'].get('name', '')}".strip() for one in lines]


def ask(world: Kubernetes, path: str, **query: str) -> Any:
    answer = KubeApi(world).answer(Question(path=path, query=query), world.now_s)
    assert isinstance(answer, Answer)
    return json.loads(answer.body)


def state_of(world: Kubernetes, name: str = "p") -> tuple[str, str]:
    """Return phase and readiness of the Pod."""
    pod = world.pod(name)
    assert pod is not None
    return pod["status"]["phase"], condition(pod, "Ready").get("status", "")


def condition(an_object: Any, kind: str) -> dict[str, Any]:
    found = [one for one in an_object["status"].get("conditions", ()) if one["type"] == kind]
    return found[0] if found else {}


def node(world: Kubernetes, name: str = "n1") -> dict[str, Any]:
    found = world.node(name)
    assert found is not None
    return found


def test_a_bound_pod_runs_at_once(world: Kubernetes) -> None:
    world.add_pod("p", node="n1")
    assert state_of(world) == ("Pending", "")
    world.advance(0)
    assert state_of(world) == ("Running", "True")


def test_a_pod_without_a_node_waits_for_one(world: Kubernetes) -> None:
    world.add_pod("p")
    world.advance(100)
    assert state_of(world) == ("Pending", "")
    body = json.dumps({"metadata": {"name": "p"}, "target": {"name": "n1"}}).encode()
    path = "/api/v1/namespaces/default/pods/p/binding"
    KubeApi(world).answer(Question(method="POST", path=path, body=body), 100)
    world.advance(100)
    assert state_of(world) == ("Running", "True")


def test_a_delay_of_the_pod_overrides_the_one_of_its_node(world: Kubernetes) -> None:
    world.annotate("n1", {START_DELAY: "5"})
    world.add_pod("p", node="n1")
    world.add_pod("q", node="n1", metadata={"annotations": {START_DELAY: "9"}})
    world.advance(5)
    assert state_of(world, "p")[0] == "Running"
    assert state_of(world, "q")[0] == "Pending"
    assert world.next_s() == 9
    world.advance(9)
    assert state_of(world, "q")[0] == "Running"


def test_a_later_change_of_a_delay_counts_from_the_start_of_the_step(world: Kubernetes) -> None:
    world.add_pod("p", node="n1", metadata={"annotations": {START_DELAY: "inf"}})
    world.advance(50)
    assert state_of(world)[0] == "Pending"
    world.annotate("p", {START_DELAY: "60"}, namespace="default")
    world.advance(59)
    assert state_of(world)[0] == "Pending"
    world.advance(60)
    assert state_of(world)[0] == "Running"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_containers_end_after_their_run_time(world: Kubernetes, code: str, phase: str) -> None:
    knobs = {RUN: "10", EXIT_CODE: code}
    world.add_pod("p", node="n1", metadata={"annotations": knobs})
    world.advance(10)
    assert state_of(world) == (phase, "False")


def asking(cpu: str, **knobs: str) -> dict[str, Any]:
    """Return the spec of a Pod with this CPU request."""
    container = {"name": "c", "image": "none.invalid/none:1"}
    resources = {"requests": {"cpu": cpu, "example.com/none": "1"}}
    return {
        "spec": {"containers": [container | {"resources": resources}]},
        "metadata": {"annotations": knobs},
    }


def test_a_kubelet_rejects_a_pod_that_does_not_fit(world: Kubernetes) -> None:
    """A Pod that is being deleted still counts; an ended one does not."""
    world.add_node("n2", cpus=4)
    world.add_pod("first", node="n2", **asking("3", **{END_DELAY: "10", START_DELAY: "5"}))
    world.add_pod("second", node="n2", **asking("1500m"))
    world.advance(0)
    second = world.pod("second")
    assert second is not None
    status = second["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu,"
        " requested: 1500, used: 3000, capacity: 4000"
    )
    world.advance(5)
    assert state_of(world, "first")[0] == "Running"
    world.delete_pod("first")
    world.advance(6)
    world.add_pod("third", node="n2", **asking("1500m"))
    world.advance(7)
    assert state_of(world, "third")[0] == "Failed"
    world.advance(15)
    assert world.pod("first") is None
    world.add_pod("fourth", node="n2", **asking("4"))
    world.advance(16)
    assert state_of(world, "fourth")[0] == "Running"


def test_a_kubelet_counts_pods_that_ran_before_a_restore(world: Kubernetes) -> None:
    world.add_node("n2", cpus=4)
    world.add_pod("first", node="n2", **asking("3"))
    world.advance(0)
    world.restore(world.backup())
    world.add_pod("second", node="n2", **asking("2"))
    world.advance(1)
    assert state_of(world, "second")[0] == "Failed"
    assert state_of(world, "first")[0] == "Running"


def test_a_gated_pod_is_bound_only_after_its_gates_are_removed(world: Kubernetes) -> None:
    """The condition names the gate (P1); the binding sets it to True."""
    world.add_pod("p", spec={"schedulingGates": [{"name": "example.com/later"}]})
    pod = world.pod("p")
    assert pod is not None
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    path = "/api/v1/namespaces/default/pods/p"
    bind = json.dumps({"metadata": {"name": "p"}, "target": {"name": "n1"}}).encode()
    binding = Question(method="POST", path=f"{path}/binding", body=bind)
    refused = KubeApi(world).answer(binding, 1)
    assert isinstance(refused, Answer)
    assert refused.status == 409
    headers = {"content-type": "application/merge-patch+json"}
    free = json.dumps({"spec": {"schedulingGates": None}}).encode()
    KubeApi(world).answer(Question(method="PATCH", path=path, body=free, headers=headers), 2)
    KubeApi(world).answer(binding, 3)
    world.advance(3)
    assert state_of(world) == ("Running", "True")


def test_a_deleted_pod_is_gone_after_its_kubelet_ended_it(world: Kubernetes) -> None:
    world.add_pod("p", node="n1", metadata={"annotations": {END_DELAY: "7"}})
    world.advance(1)
    watching = watch(world, "/api/v1/pods", resourceVersion=str(world.store.version))
    world.delete_pod("p")
    world.advance(7.5)
    assert world.pod("p") is not None
    world.advance(8)
    assert world.pod("p") is None
    told = ["MODIFIED p", "MODIFIED p", "MODIFIED p", "DELETED p"]
    assert events(watching) == told


def test_a_new_pod_of_the_same_name_starts_anew(world: Kubernetes) -> None:
    world.add_pod("p", node="n1", metadata={"annotations": {END_DELAY: "7"}})
    world.advance(1)
    world.delete_pod("p")
    world.delete_pod("p", grace_s=0)
    world.add_pod("p", node="n1")
    world.advance(20)
    assert state_of(world) == ("Running", "True")


def test_a_readiness_set_by_a_user_stays(world: Kubernetes) -> None:
    world.add_pod("p", node="n1")
    world.advance(0)
    world.set_pod_ready("p", ready=False)
    world.advance(100)
    assert state_of(world) == ("Running", "False")


def test_heartbeats_come_every_ten_seconds() -> None:
    world = Kubernetes()
    world.add_node("n1")
    world.advance(25)
    assert condition(node(world), "Ready")["lastHeartbeatTime"] == "2026-01-01T00:00:20Z"
    assert condition(node(world), "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert world.next_s() == 30


def test_a_ready_node_loses_the_not_ready_taint(world: Kubernetes) -> None:
    assert "taints" not in node(world)["spec"]


def test_a_cordon_adds_a_taint(world: Kubernetes) -> None:
    world.cordon("n1")
    world.advance(0)
    assert node(world)["spec"]["unschedulable"]
    assert [one["key"] for one in node(world)["spec"]["taints"]] == [
        "node.kubernetes.io/unschedulable"
    ]
    world.cordon("n1", on=False)
    world.advance(0)
    assert node(world)["spec"] == {}


def test_a_silent_node_becomes_unknown_and_its_pods_not_ready() -> None:
    world = Kubernetes()
    world.add_node("n1")
    world.add_pod("p", node="n1")
    world.advance(1)
    world.silence("n1")
    world.add_pod("late", node="n1")
    world.advance(GRACE_S)
    assert condition(node(world), "Ready")["status"] == "True"
    world.advance(GRACE_S + 1)
    assert condition(node(world), "Ready")["status"] == "Unknown"
    assert node(world)["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
    assert state_of(world) == ("Running", "False")
    assert state_of(world, "late")[0] == "Pending"
    world.silence("n1", on=False)
    world.advance(GRACE_S + 1)
    assert condition(node(world), "Ready")["status"] == "True"
    assert "taints" not in node(world)["spec"]
    assert state_of(world, "late")[0] == "Running"


def test_a_node_that_is_silent_for_a_moment_stays_ready() -> None:
    world = Kubernetes()
    world.add_node("n1")
    world.silence("n1")
    world.silence("n1")
    world.advance(GRACE_S - 1)
    world.silence("n1", on=False)
    world.advance(GRACE_S + 1)
    assert condition(node(world), "Ready")["status"] == "True"


def test_a_kubelet_can_report_not_ready(world: Kubernetes) -> None:
    world.set_node_ready("n1", ready=False)
    world.advance(0)
    assert condition(node(world), "Ready")["status"] == "False"
    assert node(world)["spec"]["taints"][0]["key"] == "node.kubernetes.io/not-ready"


def test_a_deleted_node_sends_no_heartbeat(world: Kubernetes) -> None:
    world.silence("n1")
    world.remove_node("n1")
    world.advance(1000)
    assert world.node("n1") is None
    assert world.next_s() is None


def test_deleting_a_namespace_deletes_its_objects(world: Kubernetes) -> None:
    world.add_pod("p", namespace="one", node="n1")
    KubeApi(world).answer(Question(method="DELETE", path="/api/v1/namespaces/one"), 0)
    world.advance(0)
    assert list(world.pods("one")) == []
    assert ask(world, "/api/v1/namespaces/one")["reason"] == "NotFound"


def test_the_same_operations_give_the_same_world_in_kubernetes() -> None:
    def life() -> Any:
        world = Kubernetes()
        for name in ("a", "b"):
            world.add_node(name)
            world.add_pod(f"p-{name}", node=name)
        world.cordon("a")
        world.advance(33)
        return ask(world, "/api/v1/nodes"), ask(world, "/api/v1/pods")

    assert life() == life()


def test_a_restore_brings_back_the_objects_and_ends_open_watches(world: Kubernetes) -> None:
    backup = world.backup()
    watching = watch(world)
    assert events(watching) == ["ADDED n1"]
    world.add_node("n2")
    world.cordon("n1")
    world.add_pod("p", node="n1")
    version = world.store.version
    world.restore(backup)
    assert watching.closed
    assert [one["metadata"]["name"] for one in world.nodes()] == ["n1"]
    assert "unschedulable" not in node(world)["spec"]
    assert world.pod("p") is None
    assert world.store.version < version
    world.advance(1)
    assert world.node("n2") is None


def test_restored_pods_continue_to_run(world: Kubernetes) -> None:
    world.add_pod("p", node="n1", metadata={"annotations": {START_DELAY: "5"}})
    backup = world.backup()
    world.delete_pod("p", grace_s=0)
    world.restore(backup)
    world.advance(5)
    assert state_of(world) == ("Running", "True")


def test_a_watch_from_a_future_version_sends_nothing(world: Kubernetes) -> None:
    watching = watch(world, resourceVersion=str(world.store.version + 2))
    world.annotate("n1", {"a": "1"})
    world.annotate("n1", {"a": "2"})
    assert events(watching) == []
    world.annotate("n1", {"a": "3"})
    assert events(watching) == ["MODIFIED n1"]


def test_the_history_is_bounded() -> None:
    world = Kubernetes(history_max=10, heartbeat_s=1e6)
    world.add_node("n1")
    version = str(world.store.version)
    for count in range(11):
        world.annotate("n1", {"a": str(count)})
    watching = watch(world, resourceVersion=version)
    assert events(watching) == ["ERROR"]
    assert watching.closed
    assert watching.next_s() is None


def test_a_watch_sends_bookmarks_every_minute_and_before_its_end(world: Kubernetes) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "100"}
    watching = watch(world, resourceVersion=str(world.store.version), **query)
    assert watching.next_s() == 60
    assert events(watching, 59) == []
    assert events(watching, 60) == ["BOOKMARK"]
    assert watching.next_s() == 98
    assert events(watching, 98) == ["BOOKMARK"]
    assert watching.next_s() == 100
    assert not watching.closed
    assert events(watching, 100) == []
    assert watching.closed


def test_a_watch_without_bookmarks_sends_none(world: Kubernetes) -> None:
    watching = watch(world, resourceVersion=str(world.store.version), timeoutSeconds="100")
    assert watching.next_s() == 100
    assert events(watching, 99) == []
    world.annotate("n1", {"a": "1"})
    assert events(watching, 101) == ["MODIFIED n1"]
    assert watching.closed


def test_a_watch_wakes_its_reader(world: Kubernetes) -> None:
    woken: list[str] = []
    watching = watch(world, labelSelector="a=b", resourceVersion=str(world.store.version))
    watching.wake = lambda: woken.append("x")
    world.annotate("n1", {"c": "d"})
    assert woken == []
    world.annotate("n1", {}, labels={"a": "b"})
    assert woken == ["x"]
    watching.close()
    watching.close()
    world.annotate("n1", {}, labels={"a": "c"})
    assert woken == ["x", "x"]


def test_operations_raise_the_refusals_of_the_api_server(world: Kubernetes) -> None:
    with pytest.raises(RefusalError) as refused:
        world.cordon("none")
    assert refused.value.status == 404
    with pytest.raises(RefusalError, match="already exists"):
        world.add_node("n1")


def test_an_access_review_reports_denied_permissions(world: Kubernetes) -> None:
    world.denied.add(("patch", "nodes/status"))

    def may(**attributes: str) -> bool:
        body = json.dumps({"spec": {"resourceAttributes": attributes}}).encode()
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = KubeApi(world).answer(Question(method="POST", path=path, body=body), 0)
        assert isinstance(answer, Answer)
        return bool(json.loads(answer.body)["status"]["allowed"])

    assert may(verb="patch", resource="nodes")
    assert not may(verb="patch", resource="nodes", subresource="status")
