"""The embedded API server for clients other than ours: tables, discovery, unusual requests."""

import json
from datetime import timedelta
from typing import Any

import pytest

from sunk_sync.embedded.kubernetes.api.table import span
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from tests.embedded.kube_kit import ask, get, pod, watch

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


@pytest.fixture
def kube() -> Kubernetes:
    """A cordoned Node of 90 s, one running Pod and one waiting Pod."""
    kube = Kubernetes(heartbeat_s=1e6)
    kube.add_node("n1", labels={"node-role.kubernetes.io/gpu": ""})
    kube.add_pod("runs", node="n1")
    kube.add_pod("waits")
    kube.advance(90)
    kube.cordon("n1")
    return kube


def cells(kube: Kubernetes, path: str) -> list[list[Any]]:
    table = get(kube, path, headers=TABLE)
    assert table["kind"] == "Table"
    shown = [not column["priority"] for column in table["columnDefinitions"]]
    return [
        [cell for cell, wanted in zip(row["cells"], shown, strict=True) if wanted]
        for row in table["rows"]
    ]


def test_kubectl_shows_nodes_in_a_table(kube: Kubernetes) -> None:
    row = ["n1", "Ready,SchedulingDisabled", "gpu", "90s", "v1.35.4"]
    assert cells(kube, "/api/v1/nodes") == [row]
    kube.set_node_ready("n1", ready=False)
    kube.cordon("n1", on=False)
    assert cells(kube, "/api/v1/nodes/n1")[0][1] == "NotReady"
    ask(kube, "POST", "/api/v1/nodes", b'{"metadata":{"name":"n2"}}')
    assert cells(kube, "/api/v1/nodes")[1][1:3] == ["Unknown", "<none>"]


def test_kubectl_shows_pods_in_a_table(kube: Kubernetes) -> None:
    assert cells(kube, "/api/v1/pods") == [
        ["runs", "1/1", "Running", "0", "90s"],
        ["waits", "0/1", "Pending", "0", "90s"],
    ]
    kube.annotate("runs", {"embedded/run-s": "0"}, namespace="default")
    kube.advance(91)
    assert cells(kube, "/api/v1/pods")[0][1:3] == ["0/1", "Completed"]
    kube.add_pod("ends", node="n1", metadata={"annotations": {"embedded/end-delay-s": "inf"}})
    kube.advance(92)
    kube.delete_pod("ends")
    assert cells(kube, "/api/v1/pods")[0][:3] == ["ends", "1/1", "Terminating"]


def test_kubectl_shows_leases_events_and_namespaces_in_tables(kube: Kubernetes) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Node", "name": "n1"},
        "reason": "Because",
        "message": "it is so",
        "type": "Normal",
    }
    path = "/api/v1/namespaces/default/events"
    ask(kube, "POST", path, event)
    assert cells(kube, path) == [["<unknown>", "Normal", "Because", "node/n1", "it is so"]]
    kube.advance(95)
    assert cells(kube, "/api/v1/namespaces")[0] == ["default", "Active", "95s"]
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    ask(kube, "POST", leases, b'{"metadata":{"name":"l"},"spec":{"holderIdentity":"h"}}')
    assert cells(kube, leases) == [["l", "h", "0s"]]


def test_an_event_shows_its_own_last_time(kube: Kubernetes) -> None:
    at = (kube.wall() - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {"metadata": {"name": "e"}, "involvedObject": {}, "lastTimestamp": at}
    path = "/api/v1/namespaces/default/events"
    ask(kube, "POST", path, event)
    assert cells(kube, path)[0][0] == "5m"


def test_a_watch_of_tables_declares_its_columns_once(kube: Kubernetes) -> None:
    watching = watch(kube, "/api/v1/nodes", headers=TABLE)
    kube.annotate("n1", {"a": "b"})
    first, second = (json.loads(line)["object"] for line in watching.take(kube.now_s))
    assert first["columnDefinitions"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "n1"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"),
        (720, "12m"), (10_799, "179m"), (10_800, "3h"), (18_180, "5h3m"), (61_200, "17h"),
        (190_800, "2d5h"), (1_036_800, "12d"), (63_072_000, "2y"),
    ],
)  # fmt: skip
def test_durations_are_formatted_as_by_kubectl(seconds: int, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/api/v1", "APIResourceList"),
        ("/apis/coordination.k8s.io", "APIGroup"),
        ("/apis/coordination.k8s.io/v1", "APIResourceList"),
        ("/apis/storage.k8s.io/v1", "APIResourceList"),
        ("/apis/authorization.k8s.io/v1", "APIResourceList"),
    ],
)
def test_discovery_describes_the_server(kube: Kubernetes, path: str, kind: str) -> None:
    assert get(kube, path)["kind"] == kind


def test_every_discovered_resource_can_be_listed(kube: Kubernetes) -> None:
    for root in ("/api/v1", "/apis/coordination.k8s.io/v1", "/apis/storage.k8s.io/v1"):
        for one in get(kube, root)["resources"]:
            if "list" in one["verbs"]:
                listed = get(kube, f"{root}/{one['name']}")
                assert listed["kind"] == f"{one['kind']}List"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_endpoints_answer(kube: Kubernetes, path: str) -> None:
    assert ask(kube, "GET", path).body == b"ok"


def test_version_is_reported(kube: Kubernetes) -> None:
    assert get(kube, "/version")["gitVersion"] == "v1.35.4"


@pytest.mark.parametrize(
    ("method", "path", "rest", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("GET", "/api/v1/namespaces/default/nodes", {}, 404),
        ("GET", "/api/v1/pods/p", {}, 404),
        ("GET", "/api/v1/namespaces/default/pods/runs/binding", {}, 405),
        ("POST", "/api/v1/nodes", {"body": b"[]"}, 400),
        ("POST", "/api/v1/nodes", {"body": b'{"metadata":[1]}'}, 400),
        ("POST", "/api/v1/nodes", {"body": b'{"metadata":{"name":"%s"}}' % (b"x" * 254)}, 422),
        (
            "POST",
            "/api/v1/nodes",
            {"body": b'{"metadata":{"name":"n3","annotations":{"%s":""}}}' % (b"x" * 64)},
            422,
        ),
        ("GET", "/api/v1/nodes/n1", {"query": {"resourceVersion": "x"}}, 400),
        ("GET", "/api/v1/nodes/n1", {"query": {"resourceVersion": "99999"}}, 504),
        ("GET", "/api/v1/nodes", {"query": {"resourceVersion": "99999"}}, 504),
        (
            "GET",
            "/api/v1/nodes",
            {"query": {"continue": "e30", "resourceVersionMatch": "Exact", "resourceVersion": "1"}},
            422,
        ),
        ("GET", "/api/v1/nodes", {"query": {"continue": "e30"}}, 400),
        ("GET", "/api/v1/nodes", {"query": {"fieldSelector": "metadata.name==n1"}}, 200),
    ],
)
def test_unusual_requests_get_the_status_of_the_real_server(
    kube: Kubernetes, method: str, path: str, rest: dict[str, Any], status: int
) -> None:
    assert ask(kube, method, path, **rest).status == status


def test_a_collection_is_deleted_by_selector(kube: Kubernetes) -> None:
    for name in ("a", "b"):
        kube.add_pod(name, metadata={"labels": {"l": name}})
    path = "/api/v1/namespaces/default/pods"
    answer = ask(kube, "DELETE", path, query={"labelSelector": "l=a"})
    assert [one["metadata"]["name"] for one in json.loads(answer.body)["items"]] == ["a"]
    assert [one["metadata"]["name"] for one in kube.pods("default")] == ["b", "runs", "waits"]


def test_generate_name_makes_a_name(kube: Kubernetes) -> None:
    body = b'{"metadata":{"generateName":"e-"},"involvedObject":{}}'
    answer = ask(kube, "POST", "/api/v1/namespaces/default/events", body)
    assert json.loads(answer.body)["metadata"]["name"].startswith("e-")


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a", "Always"), ("a:latest", "Always"), ("host:5000/a", "Always"), ("a:1", "IfNotPresent"),
     ("a@sha256:0", "IfNotPresent")],
)  # fmt: skip
def test_the_pull_policy_follows_from_the_image_tag(
    kube: Kubernetes, image: str, policy: str
) -> None:
    kube.add_pod("p", spec={"containers": [{"name": "c", "image": image}]})
    assert pod(kube, "p")["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_the_qos_class_follows_from_the_resources(
    kube: Kubernetes, resources: dict[str, Any], quality: str
) -> None:
    containers = [{"name": "c", "image": "a:1", "resources": resources}]
    kube.add_pod("p", spec={"containers": containers})
    assert pod(kube, "p")["status"]["qosClass"] == quality


def field(number: int, value: bytes) -> bytes:
    """Return a field of a protobuf message."""
    return bytes([number << 3 | 2, len(value)]) + value


def protobuf(options: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, b"v1")) + field(2, options)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (b"", 200),
        (b"\x08\x05", 200),
        (b"\x08\x85\x01", 200),
        (field(2, field(1, b"another")), 409),
        (field(2, field(2, b"1")), 409),
        (b"\x08", 400),
        (b"\x12\x7f", 400),
        (b"\x0d\x01", 400),
    ],
)
def test_delete_options_of_kubectl_drain_in_protobuf_are_read(
    kube: Kubernetes, options: bytes, status: int
) -> None:
    path = "/api/v1/namespaces/default/pods/runs"
    answer = ask(kube, "DELETE", path, protobuf(options))
    assert answer.status == status
    grace_s = pod(kube, "runs")["metadata"].get("deletionGracePeriodSeconds")
    assert grace_s == {b"": 30, b"\x08\x05": 5, b"\x08\x85\x01": 133}.get(options)
