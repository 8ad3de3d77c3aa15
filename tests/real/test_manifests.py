"""The manifests on a real API server: applied, with the permissions of their account."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sunk_sync.kube.rbac import PERMISSIONS
from tests.real.service import MANIFESTS
from tests.real.testbed import KubeServer, RestError

pytestmark = pytest.mark.real

ACCOUNT = "system:serviceaccount:slurm:sunk-sync"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:slurm", "system:authenticated"]
PLACES = {
    "cluster": ("", "slurm", "elsewhere"),
    "slurmd": ("slurm",),
    "work": ("slurm",),
    "own": ("slurm",),
    "default": ("default",),
}

DENIED = (
    ("*", "*", "slurm"),
    ("get list create patch", "secrets", "slurm"),
    ("get", "secrets sunk-sync-slurm-token", "slurm"),
    ("update delete", "secrets sunk-sync-slurm-hooks-key", "slurm"),
    ("get", "secrets sunk-sync-slurm-hooks-key", "elsewhere"),
    ("get", "configmaps", "slurm"),
    ("create deletecollection update", "pods", "slurm"),
    ("delete get list", "pods", "elsewhere"),
    ("delete list", "pods", "default"),
    ("update", "pods/status", "slurm"),
    ("create", "pods/exec", "slurm"),
    ("create", "pods/eviction", "slurm"),
    ("create", "pods/binding", "elsewhere"),
    ("create", "pods/binding", ""),
    ("patch", "pods/status", "elsewhere"),
    ("get", "jobs.batch", "elsewhere"),
    ("list delete", "jobs.batch", "slurm"),
    ("list", "podgroups.scheduling.x-k8s.io", "slurm"),
    ("patch", "pods/ephemeralcontainers", "slurm"),
    ("patch", "pods/resize", "slurm"),
    ("list", "pods", ""),
    ("patch", "pods", "kube-system"),
    ("create delete update", "nodes", ""),
    ("update", "nodes/status", ""),
    ("get create", "nodes/proxy", ""),
    ("get", "namespaces", ""),
    ("create", "events", "kube-system"),
    ("watch delete", "events", "slurm"),
    ("list", "events", "elsewhere"),
    ("create update delete", "persistentvolumeclaims", "slurm"),
    ("patch", "persistentvolumeclaims", "elsewhere"),
    ("create update delete", "persistentvolumes", ""),
    ("create", "serviceaccounts/token", "slurm"),
    ("impersonate", "users", ""),
    ("escalate bind", "clusterroles.rbac.authorization.k8s.io", ""),
    ("create", "rolebindings.rbac.authorization.k8s.io", "slurm"),
    ("patch", "deployments.apps", "slurm"),
    ("create", "tokenreviews.authentication.k8s.io", ""),
    ("patch", "leases.coordination.k8s.io another", "slurm"),
    ("list watch update delete", "leases.coordination.k8s.io", "slurm"),
    ("get patch", "leases.coordination.k8s.io kube-scheduler", "kube-system"),
)
"""Verbs, resource and namespace."""


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeServer]:
    with KubeServer(kubelet=False) as server:
        server.kubectl("apply", "-k", str(MANIFESTS))
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
        if one.component != "nodesets"
        for verb, _ in one.verbs
        for namespace in PLACES[one.where]
    ],
)
def test_the_listed_permissions_are_allowed(
    kube: KubeServer, verb: str, resource: str, namespace: str
) -> None:
    assert may(kube, verb, resource, namespace)


@pytest.mark.parametrize(
    ("verb", "resource", "namespace"),
    [(verb, resource, where) for verbs, resource, where in DENIED for verb in verbs.split()],
)
def test_other_permissions_are_denied(
    kube: KubeServer, verb: str, resource: str, namespace: str
) -> None:
    assert not may(kube, verb, resource, namespace)


def test_applying_the_manifests_again_changes_nothing(kube: KubeServer) -> None:
    """kubectl calls every PodDisruptionBudget configured: it always sends the selector again."""
    lines = kube.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS)).splitlines()
    assert len(lines) > 10
    configured = [line for line in lines if not line.endswith(" unchanged")]
    assert configured == ["poddisruptionbudget.policy/sunk-sync configured"]
    budget = "/apis/policy/v1/namespaces/slurm/poddisruptionbudgets/sunk-sync"
    assert kube.rest.call("GET", budget)["metadata"]["generation"] == 1


def test_pod_security_restricted_admits_the_pod(kube: KubeServer) -> None:
    label = "pod-security.kubernetes.io/enforce"
    metadata = {"name": "strict", "labels": {label: "restricted"}}
    kube.create({"kind": "Namespace", "metadata": metadata})
    account = {"metadata": {"name": "sunk-sync"}}
    kube.rest.call("POST", "/api/v1/namespaces/strict/serviceaccounts", account)
    deployment = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text(encoding="utf-8"))
    pod: Any = {"kind": "Pod", "metadata": {"name": "sunk-sync", "namespace": "strict"}}
    pod["spec"] = deployment["spec"]["template"]["spec"]
    kube.create(pod)
    pod["metadata"]["name"] = "worse"
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(RestError) as refused:
        kube.create(pod)
    assert refused.value.status == 403
