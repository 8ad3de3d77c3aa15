"""The manifests on a real API server: applied, with the permissions of their account."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sunk_sync.kube.rbac import PERMISSIONS
from tests.real.testbed import KubeServer, RestError

pytestmark = pytest.mark.real

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "manifests"
ACCOUNT = "system:serviceaccount:slurm:sunk-sync"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:slurm", "system:authenticated"]
PLACES = {
    "cluster": ("", "slurm", "elsewhere"),
    "slurmd": ("slurm",),
    "work": ("slurm",),
    "own": ("slurm",),
    "default": ("default",),
}

DENIED = [
    ("*", "*", "slurm"),
    ("get", "secrets", "slurm"),
    ("list", "secrets", "slurm"),
    ("create", "secrets", "slurm"),
    ("patch", "secrets", "slurm"),
    ("get", "secrets sunk-sync-slurm-token", "slurm"),
    ("update", "secrets sunk-sync-slurm-hooks-key", "slurm"),
    ("delete", "secrets sunk-sync-slurm-hooks-key", "slurm"),
    ("get", "secrets sunk-sync-slurm-hooks-key", "elsewhere"),
    ("get", "configmaps", "slurm"),
    ("create", "pods", "slurm"),
    ("delete", "pods", "elsewhere"),
    ("delete", "pods", "default"),
    ("deletecollection", "pods", "slurm"),
    ("update", "pods", "slurm"),
    ("update", "pods/status", "slurm"),
    ("create", "pods/exec", "slurm"),
    ("create", "pods/eviction", "slurm"),
    ("create", "pods/binding", "elsewhere"),
    ("create", "pods/binding", ""),
    ("patch", "pods/status", "elsewhere"),
    ("get", "jobs.batch", "elsewhere"),
    ("list", "jobs.batch", "slurm"),
    ("delete", "jobs.batch", "slurm"),
    ("list", "podgroups.scheduling.x-k8s.io", "slurm"),
    ("patch", "pods/ephemeralcontainers", "slurm"),
    ("patch", "pods/resize", "slurm"),
    ("get", "pods", "elsewhere"),
    ("list", "pods", "elsewhere"),
    ("list", "pods", ""),
    ("patch", "pods", "kube-system"),
    ("list", "pods", "default"),
    ("create", "nodes", ""),
    ("delete", "nodes", ""),
    ("update", "nodes", ""),
    ("update", "nodes/status", ""),
    ("get", "nodes/proxy", ""),
    ("create", "nodes/proxy", ""),
    ("list", "namespaces", ""),
    ("get", "namespaces", ""),
    ("create", "events", "kube-system"),
    ("list", "events", "slurm"),
    ("delete", "events", "slurm"),
    ("create", "serviceaccounts/token", "slurm"),
    ("impersonate", "users", ""),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", ""),
    ("bind", "clusterroles.rbac.authorization.k8s.io", ""),
    ("create", "rolebindings.rbac.authorization.k8s.io", "slurm"),
    ("patch", "deployments.apps", "slurm"),
    ("create", "tokenreviews.authentication.k8s.io", ""),
    ("create", "leases.coordination.k8s.io", "slurm"),
]


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeServer]:
    """A server of its own, with the manifests applied."""
    with KubeServer(kubelet=False) as server:
        server.kubectl("apply", "-k", str(FOLDER))
        server.ensure_namespace("elsewhere")
        yield server


def may(kube: KubeServer, verb: str, resource: str, namespace: str) -> bool:
    """Ask the API server about `pods/status`, `jobs.batch` or `namespaces kube-system`."""
    what, _, name = resource.partition(" ")
    what, _, subresource = what.partition("/")
    plural, _, group = what.partition(".")
    asked = {
        "verb": verb,
        "group": "*" if plural == "*" else group,
        "resource": plural,
        "subresource": subresource,
        "name": name,
        "namespace": namespace,
    }
    review = {"spec": {"user": ACCOUNT, "groups": GROUPS, "resourceAttributes": asked}}
    answer = kube.rest.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    allowed: bool = answer["status"]["allowed"]
    return allowed


@pytest.mark.parametrize(
    ("verb", "resource", "namespace"),
    [
        (
            verb,
            f"{one.resource}{'.' * bool(one.group)}{one.group} {' '.join(one.names)}".strip(),
            namespace,
        )
        for one in PERMISSIONS
        for verb, _ in one.verbs
        for namespace in PLACES[one.where]
    ],
)
def test_the_listed_permissions_are_allowed(
    kube: KubeServer, verb: str, resource: str, namespace: str
) -> None:
    assert may(kube, verb, resource, namespace)


@pytest.mark.parametrize(("verb", "resource", "namespace"), DENIED)
def test_other_permissions_are_denied(
    kube: KubeServer, verb: str, resource: str, namespace: str
) -> None:
    assert not may(kube, verb, resource, namespace)


def test_applying_the_manifests_again_changes_nothing(kube: KubeServer) -> None:
    told = kube.kubectl("apply", "--validate=strict", "-k", str(FOLDER)).splitlines()
    assert len(told) > 10
    assert {line.split()[-1] for line in told} == {"unchanged"}


def test_pod_security_restricted_admits_the_pod(kube: KubeServer) -> None:
    label = "pod-security.kubernetes.io/enforce"
    space = {"apiVersion": "v1", "kind": "Namespace"}
    kube.create({**space, "metadata": {"name": "strict", "labels": {label: "restricted"}}})
    account: dict[str, object] = {"apiVersion": "v1", "kind": "ServiceAccount"}
    account |= {"metadata": {"name": "sunk-sync", "namespace": "strict"}}
    kube.rest.call("POST", "/api/v1/namespaces/strict/serviceaccounts", account)
    deployment = yaml.safe_load((FOLDER / "deployment.yaml").read_text(encoding="utf-8"))
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sunk-sync", "namespace": "strict"},
        "spec": template["spec"],
    }
    path = "/api/v1/namespaces/strict/pods"
    kube.rest.call("POST", path, pod)
    pod["spec"] = json.loads(json.dumps(template["spec"]))
    pod["metadata"] = {"name": "worse", "namespace": "strict"}
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(RestError) as refused:
        kube.rest.call("POST", path, pod)
    assert refused.value.status == 403
