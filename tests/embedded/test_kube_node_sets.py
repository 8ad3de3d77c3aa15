"""The custom resource NodeSet in the embedded Kubernetes, and what Pods of its names meet."""

from typing import Any

import msgspec

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.wire import Answer, Question

SETS = "/apis/sunk-sync.dev/v1alpha1/namespaces/default/nodesets"
PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
ONE = {"metadata": {"name": "cpu"}, "spec": {"replicas": 2, "template": {}}}


def ask(
    kube: Kubernetes, method: str, path: str, body: Any = None, *, kind: str = "application/json"
) -> tuple[int, Any]:
    answer = KubeApi(kube).answer(
        Question(
            method=method,
            path=path,
            query={"fieldManager": "m"},
            headers={"content-type": kind},
            body=msgspec.json.encode(body) if body is not None else b"",
        ),
        kube.now_s,
    )
    assert isinstance(answer, Answer)
    known = answer.content_type == "application/json"
    return answer.status, msgspec.json.decode(answer.body) if known else answer.body


def installed() -> Kubernetes:
    kube = Kubernetes()
    kube.install_node_sets()
    return kube


def applied(*, held: bool) -> Any:
    metadata = {"name": "cpu", **({"finalizers": ["x.dev/drain"]} if held else {})}
    return {"apiVersion": "sunk-sync.dev/v1alpha1", "kind": "NodeSet", "metadata": metadata}


def test_without_the_kind_its_path_is_unknown() -> None:
    kube = Kubernetes()
    assert ask(kube, "GET", SETS)[0] == 404
    assert ask(kube, "POST", SETS, ONE)[0] == 404
    assert ask(kube, "GET", "/apis/sunk-sync.dev/v1alpha1")[0] == 404


def test_its_group_is_shown_once_it_is_installed() -> None:
    status, shown = ask(installed(), "GET", "/apis/sunk-sync.dev/v1alpha1")
    assert status == 200
    assert [one["name"] for one in shown["resources"]] == ["nodesets", "nodesets/status"]


def test_its_generation_counts_changes_of_the_spec_and_the_deletion() -> None:
    kube = installed()
    status, made = ask(kube, "POST", SETS, ONE)
    assert (status, made["metadata"]["generation"]) == (201, 1)
    patch = {"status": {"replicas": 1}, "spec": {"replicas": 9}}
    _, shown = ask(kube, "PATCH", f"{SETS}/cpu/status", patch, kind=MERGE)
    assert (shown["spec"]["replicas"], shown["metadata"]["generation"]) == (2, 1)
    assert shown["status"] == {"replicas": 1}
    _, changed = ask(kube, "PATCH", f"{SETS}/cpu", {"spec": {"replicas": 3}}, kind=MERGE)
    assert changed["metadata"]["generation"] == 2
    ask(kube, "PATCH", f"{SETS}/cpu", applied(held=True), kind=APPLY)
    status, going = ask(kube, "DELETE", f"{SETS}/cpu")
    assert status == 200
    assert going["metadata"]["generation"] == 3


def test_a_finalizer_keeps_it_until_its_owner_gives_it_up() -> None:
    kube = installed()
    ask(kube, "POST", SETS, ONE)
    ask(kube, "PATCH", f"{SETS}/cpu", applied(held=True), kind=APPLY)
    ask(kube, "DELETE", f"{SETS}/cpu")
    assert ask(kube, "GET", f"{SETS}/cpu")[0] == 200
    ask(kube, "PATCH", f"{SETS}/cpu", applied(held=False), kind=APPLY)
    assert ask(kube, "GET", f"{SETS}/cpu")[0] == 404


def test_a_pod_that_ends_keeps_its_name_and_says_so() -> None:
    """Measured on 1.35.4: 409 "object is being deleted"."""
    kube = installed()
    kube.add_node("k1")
    kube.add_pod("cpu-0", node="k1", metadata={"annotations": {"embedded/end-delay-s": "9"}})
    kube.advance(1)
    kube.delete_pod("cpu-0")
    body = {
        "metadata": {"name": "cpu-0"},
        "spec": {"containers": [{"name": "main", "image": "none.invalid/none:1"}]},
    }
    status, refused = ask(kube, "POST", PODS, body)
    assert (status, refused["reason"]) == (409, "AlreadyExists")
    assert refused["message"] == 'object is being deleted: pods "cpu-0" already exists'


def test_a_pod_that_changed_is_not_deleted_by_an_old_version() -> None:
    kube = installed()
    pod = kube.add_pod("cpu-0")
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    kube.annotate("cpu-0", {"x": "y"}, namespace="default")
    body = {"preconditions": {"uid": uid, "resourceVersion": version}}
    assert ask(kube, "DELETE", f"{PODS}/cpu-0", body)[0] == 409
    assert kube.pod("cpu-0") is not None
