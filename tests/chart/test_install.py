"""install, upgrade, rollback, uninstall on a real API server."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.helm import NAMESPACE, Helm
from tests.real.testbed import KubeServer
from tests.real.testbed.errors import BedError
from tests.real.testbed.rest import RestError
from tools.chart import CHART, DEPLOY

pytestmark = pytest.mark.real

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/sunk-sync-slurm-hooks-key"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/sunk-sync"
KEY = base64.b64encode(b"0123456789abcdef").decode()
ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.fixture
def installed(cluster_helm: Helm, kube: KubeServer) -> Iterator[Helm]:
    """The chart with its defaults, in a namespace that enforces Pod Security `restricted`."""
    kube.kubectl("label", "namespace", NAMESPACE, f"{ENFORCE}=restricted", "--overwrite")
    command(cluster_helm, "install")
    yield cluster_helm
    for _ in range(2):  # the test may have uninstalled it
        try:
            command(cluster_helm, "uninstall")
        except BedError:
            break
    kube.kubectl("delete", "secret", "-n", NAMESPACE, "sunk-sync-slurm-hooks-key")
    kube.kubectl("label", "namespace", NAMESPACE, f"{ENFORCE}-")


def command(helm: Helm, what: str, values: Any = None) -> str:
    chart = [CHART] if what in ("install", "upgrade") else []
    return helm.run(what, "sunk-sync", *chart, "--namespace", NAMESPACE, values=values)


def fill_key(kube: KubeServer) -> None:
    """As sunk-sync does when it starts for the first time."""
    content_type = "application/merge-patch+json"
    kube.rest.call("PATCH", SECRET, {"data": {"key": KEY}}, content_type=content_type)


def key(kube: KubeServer) -> Any:
    return (kube.rest.call("GET", SECRET).get("data") or {}).get("key")


def test_an_upgrade_and_a_rollback_keep_the_hooks_key(installed: Helm, kube: KubeServer) -> None:
    """Running placeholders and the gate have tokens of this key."""
    assert key(kube) is None
    fill_key(kube)
    before = kube.rest.call("GET", DEPLOYMENT)
    command(installed, "upgrade", {"settings": {"log-level": "debug"}})
    after = kube.rest.call("GET", DEPLOYMENT)
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert key(kube) == KEY
    command(installed, "rollback")
    assert key(kube) == KEY
    again = kube.rest.call("GET", DEPLOYMENT)
    assert again["spec"]["template"] == before["spec"]["template"]


def test_an_upgrade_without_changes_changes_nothing(installed: Helm, kube: KubeServer) -> None:
    """No restart."""
    before = kube.rest.call("GET", DEPLOYMENT)["metadata"]["generation"]
    command(installed, "upgrade")
    assert kube.rest.call("GET", DEPLOYMENT)["metadata"]["generation"] == before


def test_uninstall_leaves_the_hooks_key_and_a_second_install_takes_it(
    installed: Helm, kube: KubeServer
) -> None:
    """Nothing else stays behind."""
    fill_key(kube)
    said = command(installed, "uninstall")
    assert "sunk-sync-slurm-hooks-key" in said
    kinds = "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings"
    labels = "app.kubernetes.io/name=sunk-sync"
    left = [
        *listed(kube, kinds, labels),
        *listed(kube, "clusterroles,clusterrolebindings", labels),
    ]
    assert left == ["sunk-sync-slurm-hooks-key"]
    command(installed, "install")
    assert key(kube) == KEY


def listed(kube: KubeServer, kinds: str, labels: str) -> list[str]:
    text = kube.kubectl("get", kinds, "-A", "-l", labels, "-o", "json")
    return [one["metadata"]["name"] for one in json.loads(text)["items"]]


def test_the_pod_is_admitted_as_restricted(installed: Helm, kube: KubeServer) -> None:
    """Pod Security refuses a worse one in the same namespace, so that it looks."""
    template = kube.rest.call("GET", DEPLOYMENT)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    kube.rest.call("POST", path, {**pod, "spec": template["spec"]})
    del template["spec"]["containers"][0]["securityContext"]
    with pytest.raises(RestError) as refused:
        kube.rest.call("POST", path, {**pod, "spec": template["spec"]})
    assert refused.value.status == 403
    assert installed


def test_a_namespace_that_does_not_exist_is_named(cluster_helm: Helm, kube: KubeServer) -> None:
    """And a second try with the right one succeeds, by an upgrade: see deploy/README.md."""
    missing = {"scheduler": {"scope": {"namespaces": "nowhere"}}}
    with pytest.raises(BedError, match='namespaces "nowhere" not found'):
        command(cluster_helm, "install", missing)
    try:
        with pytest.raises(BedError, match="cannot re-use a name that is still in use"):
            command(cluster_helm, "install")
        command(cluster_helm, "upgrade", {"scheduler": {"scope": {"namespaces": "team-a"}}})
    finally:
        command(cluster_helm, "uninstall")
        kube.kubectl("delete", "secret", "-n", NAMESPACE, "sunk-sync-slurm-hooks-key")


def test_helm_takes_over_from_the_manifests(cluster_helm: Helm, kube: KubeServer) -> None:
    """The key stays, and nothing restarts."""
    kube.kubectl("apply", "-k", DEPLOY / "manifests")
    fill_key(kube)
    before = kube.rest.call("GET", DEPLOYMENT)
    with pytest.raises(BedError, match="cannot be imported"):
        command(cluster_helm, "install")
    try:
        cluster_helm.run(
            "install", "sunk-sync", CHART, "--namespace", NAMESPACE, "--take-ownership"
        )
        after = kube.rest.call("GET", DEPLOYMENT)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"] == before["spec"], "no restart"
        assert key(kube) == KEY
    finally:
        command(cluster_helm, "uninstall")
        kube.kubectl("delete", "secret", "-n", NAMESPACE, "sunk-sync-slurm-hooks-key")


def test_a_second_release_of_the_same_cluster_is_refused(installed: Helm) -> None:
    """Both would write; the Secret of the hooks key belongs to the first."""
    with pytest.raises(BedError, match=r"sunk-sync-slurm-hooks-key.*cannot be imported"):
        installed.run("install", "other", CHART, "--namespace", NAMESPACE)


def test_the_notes_name_the_next_commands(cluster_helm: Helm) -> None:
    """Three of them, for these values."""
    flags = ("install", "sunk-sync", str(CHART), "--namespace", "hpc", "--dry-run=client")
    notes = cluster_helm.run(*flags, values={}).partition("NOTES:")[2]
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  kubectl")]
    assert commands == [
        "kubectl -n hpc create secret generic sunk-sync-slurm-token --from-file=token=PATH",
        "kubectl -n hpc rollout status deployment/sunk-sync",
        "kubectl -n hpc exec deployment/sunk-sync -- sunk-sync doctor",
    ]
    assert "schedulerName: hpc-slurm, in hpc." in notes
