"""NodeSets of the chart through the life of a release: helm never makes slurmd end by surprise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.core.model.node_set import FINALIZER
from tests.chart.helm import NAMESPACE, Helm, Values
from tests.real import node_sets
from tests.real.testbed import KubeServer
from tests.real.testbed.errors import BedError
from tools.chart import CHART

pytestmark = pytest.mark.real

SECRET = "sunk-sync-slurm-hooks-key"
MERGE = "application/merge-patch+json"
FIRST = ("--install", "--set", "compute.nodes=null")
"""The kind first, as helm says it."""


@pytest.fixture
def release(cluster_helm: Helm, kube: KubeServer) -> Iterator[Helm]:
    """Helm, and nothing installed."""
    yield cluster_helm
    command(cluster_helm, "uninstall", "--ignore-not-found")
    kube.kubectl("delete", "secret", "-n", NAMESPACE, SECRET, "--ignore-not-found")
    node_sets.remove(kube)


@pytest.fixture
def installed(release: Helm, kube: KubeServer) -> Helm:
    """A NodeSet of the chart, with a finalizer as sunk-sync sets it."""
    command(release, "upgrade", *FIRST, values=values())
    node_sets.wait_established(kube)
    command(release, "upgrade", values=values())
    body = {"metadata": {"finalizers": [FINALIZER]}}
    kube.rest.call("PATCH", f"{node_sets.path()}/gpu", body, content_type=MERGE)
    return release


def values(*, keep: bool = True, **fields: Any) -> Values:
    gpu = {"enabled": True, "image": "r.example/slurmd:1", "replicas": 2, **fields}
    return {"nodesets": {"enabled": True}, "compute": {"nodes": {"gpu": gpu}, "keep": keep}}


def command(helm: Helm, what: str, *flags: str, values: Values | None = None) -> str:
    charts = [CHART] if what in ("install", "upgrade") else []
    return helm.run(what, "sunk-sync", *charts, "--namespace", NAMESPACE, *flags, values=values)


def stored(kube: KubeServer) -> Any:
    return kube.rest.call("GET", f"{node_sets.path()}/gpu")


def test_the_first_installation_says_how_the_kind_comes_first(
    release: Helm, kube: KubeServer
) -> None:
    """Helm makes no object in the same step as its kind; nothing is installed by half."""
    with pytest.raises(BedError, match=r"once with --set compute\.nodes=null, and"):
        command(release, "upgrade", "--install", values=values())
    assert not kube.kubectl("get", "deployments", "-n", NAMESPACE, "-o", "name")
    command(release, "upgrade", *FIRST, values=values())
    node_sets.wait_established(kube)
    said = command(release, "upgrade", "--install", values=values())
    assert stored(kube)["spec"]["replicas"] == 2
    assert "NodeSets of this release: gpu." in said
    assert "WARNING" not in said.partition("NodeSets of this release")[2]


def test_an_upgrade_changes_what_the_values_change(installed: Helm, kube: KubeServer) -> None:
    """The number that an autoscaler set stays, as long as its value does not change."""
    uid = stored(kube)["metadata"]["uid"]
    kube.kubectl("scale", "-n", NAMESPACE, "nset/gpu", "--replicas=7")
    command(installed, "upgrade", values=values(minReadySeconds=9))
    spec = stored(kube)["spec"]
    assert (spec["replicas"], spec["minReadySeconds"]) == (7, 9)
    command(installed, "upgrade", values=values(minReadySeconds=9, replicas=3))
    after = stored(kube)
    assert after["spec"]["replicas"] == 3
    assert (after["metadata"]["uid"], after["metadata"]["finalizers"]) == (uid, [FINALIZER])


def test_a_name_and_a_mode_that_cannot_change_are_refused(
    installed: Helm, kube: KubeServer
) -> None:
    with pytest.raises(BedError, match="scalingMode, podNamePrefix and ordinalPadding cannot"):
        command(installed, "upgrade", values=values(scalingMode="StatefulSet"))
    assert stored(kube)["spec"]["scalingMode"] == "DaemonSet"


@pytest.mark.parametrize("gone", [{}, {"gpu": {"enabled": False}}])
def test_a_node_set_without_a_definition_stays(
    installed: Helm, kube: KubeServer, gone: Values
) -> None:
    """Its slurmd Pods and their jobs go on; kubectl deletes it."""
    command(installed, "upgrade", values={**values(), "compute": {"nodes": gone}})
    assert "deletionTimestamp" not in stored(kube)["metadata"]


def test_uninstall_leaves_node_sets_and_the_next_installation_names_them(
    installed: Helm, kube: KubeServer, tmp_path: Path
) -> None:
    """Helm 3 takes them over as they are. The command of its notes sets them to the values."""
    uid = stored(kube)["metadata"]["uid"]
    assert "[NodeSet] gpu" in command(installed, "uninstall")
    assert "deletionTimestamp" not in stored(kube)["metadata"]
    said = command(installed, "install", values=values(replicas=4))
    assert stored(kube)["spec"]["replicas"] == 2
    assert "Helm took over NodeSets that existed as they were: gpu." in said
    assert "helm get manifest sunk-sync -n slurm | kubectl apply --server-side" in said
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(installed.run("get", "manifest", "sunk-sync", "--namespace", NAMESPACE))
    kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", manifest)
    after = stored(kube)
    assert after["spec"]["replicas"] == 4
    assert (after["metadata"]["uid"], after["metadata"]["finalizers"]) == (uid, [FINALIZER])
    command(installed, "upgrade", values=values(replicas=5))
    assert stored(kube)["spec"]["replicas"] == 5


def test_without_keep_helm_deletes_and_the_finalizer_holds_the_node_set(
    installed: Helm, kube: KubeServer
) -> None:
    """Its slurmd Pods stay too: sunk-sync goes at the same time, and drains nothing."""
    kube.rest.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", slurmd_pod_of(stored(kube)))
    assert "compute.keep is false" in command(installed, "upgrade", values=values(keep=False))
    command(installed, "uninstall")
    metadata = stored(kube)["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    assert "deletionTimestamp" in metadata
    wait = ("wait", "-n", NAMESPACE, "--for=delete", "pod/gpu-n1")
    with pytest.raises(BedError, match="timed out waiting"):
        kube.kubectl(*wait, "--timeout=3s")
    node_sets.clear(kube)
    kube.kubectl(*wait, "--timeout=60s")


def slurmd_pod_of(node_set: Any) -> Any:
    """Return a Pod that the garbage collector of Kubernetes deletes when its owner is gone."""
    owner = {"apiVersion": node_set["apiVersion"], "kind": "NodeSet", "controller": True}
    owner |= {field: node_set["metadata"][field] for field in ("name", "uid")}
    spec = node_set["spec"]["template"]["spec"]
    metadata = {"name": "gpu-n1", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
