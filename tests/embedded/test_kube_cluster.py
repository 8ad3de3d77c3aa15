"""The embedded Kubernetes: what happens by itself, and what users do."""

import json
from typing import Any

import pytest

from sunk_sync.embedded.kubernetes.api.watch import Subscription
from sunk_sync.embedded.kubernetes.kubelet import END_DELAY, EXIT_CODE, RUN, START_DELAY
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.nodes import GRACE_S
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from tests.embedded.kube_kit import ask, get, node, pod, watch

NODES = "/api/v1/nodes"
POD = "/api/v1/namespaces/default/pods/p"


@pytest.fixture
def kube() -> Kubernetes:
    """One Node with rare heartbeats."""
    kube = Kubernetes(heartbeat_s=1e6)
    kube.add_node("n1")
    kube.advance(0)
    return kube


def watch_from_now(kube: Kubernetes, path: str = NODES, **query: str) -> Subscription:
    return watch(kube, path, resourceVersion=str(kube.store.version), **query)


def bind(kube: Kubernetes, *, now_s: float) -> int:
    """Bind Pod p to n1; return the status."""
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    return ask(kube, "POST", f"{POD}/binding", body, now_s=now_s).status


def events(watching: Subscription, now_s: float = 0) -> list[str]:
    """Return events as `ADDED n1`."""
    lines = [json.loads(line) for line in watching.take(now_s)]
    return [f"{one['type']} {one['object']['metadata'].get('name', '')}".strip() for one in lines]


def state_of(kube: Kubernetes, name: str = "p") -> tuple[str, str]:
    """Return phase and readiness of the Pod."""
    found = pod(kube, name)
    return found["status"]["phase"], condition(found, "Ready").get("status", "")


def condition(an_object: Any, kind: str) -> dict[str, Any]:
    found = [one for one in an_object["status"].get("conditions", ()) if one["type"] == kind]
    return found[0] if found else {}


def test_a_bound_pod_runs_at_once(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1")
    assert state_of(kube) == ("Pending", "")
    kube.advance(0)
    assert state_of(kube) == ("Running", "True")


def test_a_pod_without_a_node_waits_for_one(kube: Kubernetes) -> None:
    kube.add_pod("p")
    kube.advance(100)
    assert state_of(kube) == ("Pending", "")
    bind(kube, now_s=100)
    kube.advance(100)
    assert state_of(kube) == ("Running", "True")


def test_a_delay_of_the_pod_overrides_the_one_of_its_node(kube: Kubernetes) -> None:
    kube.annotate("n1", {START_DELAY: "5"})
    kube.add_pod("p", node="n1")
    kube.add_pod("q", node="n1", metadata={"annotations": {START_DELAY: "9"}})
    kube.advance(5)
    assert (state_of(kube, "p")[0], state_of(kube, "q")[0]) == ("Running", "Pending")
    assert kube.next_s() == 9
    kube.advance(9)
    assert state_of(kube, "q")[0] == "Running"


def test_a_later_change_of_a_delay_counts_from_the_start_of_the_step(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1", metadata={"annotations": {START_DELAY: "inf"}})
    kube.advance(50)
    assert state_of(kube)[0] == "Pending"
    kube.annotate("p", {START_DELAY: "60"}, namespace="default")
    kube.advance(59)
    assert state_of(kube)[0] == "Pending"
    kube.advance(60)
    assert state_of(kube)[0] == "Running"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_containers_end_after_their_run_time(kube: Kubernetes, code: str, phase: str) -> None:
    knobs = {RUN: "10", EXIT_CODE: code}
    kube.add_pod("p", node="n1", metadata={"annotations": knobs})
    kube.advance(10)
    assert state_of(kube) == (phase, "False")


def asking(cpu: str, **knobs: str) -> dict[str, Any]:
    """Return the spec of a Pod with this CPU request."""
    resources = {"requests": {"cpu": cpu, "example.com/none": "1"}}
    container = {"name": "c", "image": "none.invalid/none:1", "resources": resources}
    return {"spec": {"containers": [container]}, "metadata": {"annotations": knobs}}


def test_a_kubelet_rejects_a_pod_that_does_not_fit(kube: Kubernetes) -> None:
    """A Pod that is being deleted counts; an ended one does not."""
    kube.add_node("n2", cpus=4)
    kube.add_pod("first", node="n2", **asking("3", **{END_DELAY: "10", START_DELAY: "5"}))
    kube.add_pod("second", node="n2", **asking("1500m"))
    kube.advance(0)
    status = pod(kube, "second")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu,"
        " requested: 1500, used: 3000, capacity: 4000"
    )
    kube.advance(5)
    assert state_of(kube, "first")[0] == "Running"
    kube.delete_pod("first")
    kube.advance(6)
    kube.add_pod("third", node="n2", **asking("1500m"))
    kube.advance(7)
    assert state_of(kube, "third")[0] == "Failed"
    kube.advance(15)
    assert kube.pod("first") is None
    kube.add_pod("fourth", node="n2", **asking("4"))
    kube.advance(16)
    assert state_of(kube, "fourth")[0] == "Running"


def test_a_kubelet_counts_pods_that_ran_before_a_restore(kube: Kubernetes) -> None:
    kube.add_node("n2", cpus=4)
    kube.add_pod("first", node="n2", **asking("3"))
    kube.advance(0)
    kube.restore(kube.backup())
    kube.add_pod("second", node="n2", **asking("2"))
    kube.advance(1)
    assert state_of(kube, "second")[0] == "Failed"
    assert state_of(kube, "first")[0] == "Running"


def test_a_gated_pod_is_bound_only_after_its_gates_are_removed(kube: Kubernetes) -> None:
    kube.add_pod("p", spec={"schedulingGates": [{"name": "example.com/later"}]})
    assert pod(kube)["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert bind(kube, now_s=1) == 409
    headers = {"content-type": "application/merge-patch+json"}
    ask(kube, "PATCH", POD, {"spec": {"schedulingGates": None}}, now_s=2, headers=headers)
    assert bind(kube, now_s=3) == 201
    kube.advance(3)
    assert state_of(kube) == ("Running", "True")


def test_a_deleted_pod_is_gone_after_its_kubelet_ended_it(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1", metadata={"annotations": {END_DELAY: "7"}})
    kube.advance(1)
    watching = watch_from_now(kube, "/api/v1/pods")
    kube.delete_pod("p")
    kube.advance(7.5)
    assert kube.pod("p") is not None
    kube.advance(8)
    assert kube.pod("p") is None
    assert events(watching) == ["MODIFIED p", "MODIFIED p", "MODIFIED p", "DELETED p"]


def test_a_new_pod_of_the_same_name_starts_anew(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1", metadata={"annotations": {END_DELAY: "7"}})
    kube.advance(1)
    kube.delete_pod("p")
    kube.delete_pod("p", grace_s=0)
    kube.add_pod("p", node="n1")
    kube.advance(20)
    assert state_of(kube) == ("Running", "True")


def test_a_readiness_set_by_a_user_stays(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1")
    kube.advance(0)
    kube.set_pod_ready("p", ready=False)
    kube.advance(100)
    assert state_of(kube) == ("Running", "False")


def test_heartbeats_come_every_ten_seconds() -> None:
    kube = Kubernetes()
    kube.add_node("n1")
    kube.advance(25)
    assert condition(node(kube), "Ready")["lastHeartbeatTime"] == "2026-01-01T00:00:20Z"
    assert condition(node(kube), "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert kube.next_s() == 30


def test_a_cordon_adds_a_taint(kube: Kubernetes) -> None:
    kube.cordon("n1")
    kube.advance(0)
    assert node(kube)["spec"]["unschedulable"]
    taints = [one["key"] for one in node(kube)["spec"]["taints"]]
    assert taints == ["node.kubernetes.io/unschedulable"]
    kube.cordon("n1", on=False)
    kube.advance(0)
    assert node(kube)["spec"] == {}


def test_a_silent_node_becomes_unknown_and_its_pods_not_ready() -> None:
    kube = Kubernetes()
    kube.add_node("n1")
    kube.add_pod("p", node="n1")
    kube.advance(1)
    kube.silence("n1")
    kube.add_pod("late", node="n1")
    kube.advance(GRACE_S)
    assert condition(node(kube), "Ready")["status"] == "True"
    kube.advance(GRACE_S + 1)
    assert condition(node(kube), "Ready")["status"] == "Unknown"
    assert node(kube)["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
    assert state_of(kube) == ("Running", "False")
    assert state_of(kube, "late")[0] == "Pending"
    kube.silence("n1", on=False)
    kube.advance(GRACE_S + 1)
    assert condition(node(kube), "Ready")["status"] == "True"
    assert "taints" not in node(kube)["spec"]
    assert state_of(kube, "late")[0] == "Running"


def test_a_node_that_is_silent_for_a_moment_stays_ready() -> None:
    kube = Kubernetes()
    kube.add_node("n1")
    kube.silence("n1")
    kube.silence("n1")
    kube.advance(GRACE_S - 1)
    kube.silence("n1", on=False)
    kube.advance(GRACE_S + 1)
    assert condition(node(kube), "Ready")["status"] == "True"


def test_a_kubelet_can_report_not_ready(kube: Kubernetes) -> None:
    kube.set_node_ready("n1", ready=False)
    kube.advance(0)
    assert condition(node(kube), "Ready")["status"] == "False"
    assert node(kube)["spec"]["taints"][0]["key"] == "node.kubernetes.io/not-ready"


def test_a_deleted_node_sends_no_heartbeat(kube: Kubernetes) -> None:
    kube.silence("n1")
    kube.remove_node("n1")
    kube.advance(1000)
    assert kube.node("n1") is None
    assert kube.next_s() is None


def test_deleting_a_namespace_deletes_its_objects(kube: Kubernetes) -> None:
    kube.add_pod("p", namespace="one", node="n1")
    ask(kube, "DELETE", "/api/v1/namespaces/one")
    kube.advance(0)
    assert list(kube.pods("one")) == []
    assert get(kube, "/api/v1/namespaces/one")["reason"] == "NotFound"


def test_the_same_operations_give_the_same_objects() -> None:
    def life() -> Any:
        kube = Kubernetes()
        for name in ("a", "b"):
            kube.add_node(name)
            kube.add_pod(f"p-{name}", node=name)
        kube.cordon("a")
        kube.advance(33)
        return get(kube, "/api/v1/nodes"), get(kube, "/api/v1/pods")

    assert life() == life()


def test_a_restore_brings_back_the_objects_and_ends_open_watches(kube: Kubernetes) -> None:
    backup = kube.backup()
    watching = watch(kube, NODES)
    assert events(watching) == ["ADDED n1"]
    kube.add_node("n2")
    kube.cordon("n1")
    kube.add_pod("p", node="n1")
    version = kube.store.version
    kube.restore(backup)
    assert watching.closed
    assert [one["metadata"]["name"] for one in kube.nodes()] == ["n1"]
    assert "unschedulable" not in node(kube)["spec"]
    assert kube.pod("p") is None
    assert kube.store.version < version
    kube.advance(1)
    assert kube.node("n2") is None


def test_restored_pods_continue_to_run(kube: Kubernetes) -> None:
    kube.add_pod("p", node="n1", metadata={"annotations": {START_DELAY: "5"}})
    backup = kube.backup()
    kube.delete_pod("p", grace_s=0)
    kube.restore(backup)
    kube.advance(5)
    assert state_of(kube) == ("Running", "True")


def test_a_watch_from_a_future_version_sends_nothing(kube: Kubernetes) -> None:
    watching = watch(kube, NODES, resourceVersion=str(kube.store.version + 2))
    kube.annotate("n1", {"a": "1"})
    kube.annotate("n1", {"a": "2"})
    assert events(watching) == []
    kube.annotate("n1", {"a": "3"})
    assert events(watching) == ["MODIFIED n1"]


def test_the_history_is_bounded() -> None:
    kube = Kubernetes(history_max=10, heartbeat_s=1e6)
    kube.add_node("n1")
    version = str(kube.store.version)
    for count in range(11):
        kube.annotate("n1", {"a": str(count)})
    watching = watch(kube, NODES, resourceVersion=version)
    assert events(watching) == ["ERROR"]
    assert watching.closed
    assert watching.next_s() is None


def test_a_watch_sends_bookmarks_every_minute_and_before_its_end(kube: Kubernetes) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "100"}
    watching = watch_from_now(kube, **query)
    assert watching.next_s() == 60
    assert events(watching, 59) == []
    assert events(watching, 60) == ["BOOKMARK"]
    assert watching.next_s() == 98
    assert events(watching, 98) == ["BOOKMARK"]
    assert watching.next_s() == 100
    assert not watching.closed
    assert events(watching, 100) == []
    assert watching.closed


def test_a_watch_without_bookmarks_sends_none(kube: Kubernetes) -> None:
    watching = watch_from_now(kube, timeoutSeconds="100")
    assert watching.next_s() == 100
    assert events(watching, 99) == []
    kube.annotate("n1", {"a": "1"})
    assert events(watching, 101) == ["MODIFIED n1"]
    assert watching.closed


def test_a_watch_wakes_its_reader(kube: Kubernetes) -> None:
    woken: list[str] = []
    watching = watch_from_now(kube, labelSelector="a=b")
    watching.wake = lambda: woken.append("x")
    kube.annotate("n1", {"c": "d"})
    assert woken == []
    kube.annotate("n1", {}, labels={"a": "b"})
    assert woken == ["x"]
    watching.close()
    watching.close()
    kube.annotate("n1", {}, labels={"a": "c"})
    assert woken == ["x", "x"]


def test_a_refused_operation_raises_an_error(kube: Kubernetes) -> None:
    with pytest.raises(RefusalError) as refused:
        kube.cordon("none")
    assert refused.value.status == 404
    with pytest.raises(RefusalError, match="already exists"):
        kube.add_node("n1")


def test_an_access_review_reports_denied_permissions(kube: Kubernetes) -> None:
    kube.denied.add(("patch", "nodes/status"))

    def may(**attributes: str) -> bool:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = ask(kube, "POST", path, {"spec": {"resourceAttributes": attributes}})
        return bool(json.loads(answer.body)["status"]["allowed"])

    assert may(verb="patch", resource="nodes")
    assert not may(verb="patch", resource="nodes", subresource="status")
