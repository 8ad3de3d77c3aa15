"""The kind NodeSet through the life of a release: helm upgrades it, and never removes it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import NAMESPACE, Helm
from tests.real import node_sets
from tests.real.node_sets import CRDS, NAME, applied, node_set
from tests.real.testbed import KubeServer
from tests.real.testbed.errors import BedError
from tools.chart import CHART

pytestmark = pytest.mark.real

SECRET = "sunk-sync-slurm-hooks-key"
ON = {"nodesets": {"enabled": True}}
OFF = {"nodesets": {"enabled": False}}
NOT_OURS = {"nodesets": {"enabled": True, "crd": {"create": False}}}
KEPT = "[CustomResourceDefinition] nodesets.sunk-sync.dev"


@pytest.fixture
def installed(cluster_helm: Helm, kube: KubeServer) -> Iterator[Helm]:
    """The chart with the component, and a stored NodeSet."""
    command(cluster_helm, "install", values=ON)
    node_sets.wait_established(kube)
    assert applied(kube, node_set())[0]
    yield cluster_helm
    command(cluster_helm, "uninstall", "--ignore-not-found")
    kube.kubectl("delete", "secret", "-n", NAMESPACE, SECRET, "--ignore-not-found")
    node_sets.remove(kube)


def command(helm: Helm, what: str, *flags: str, values: Any = None, chart: Path = CHART) -> str:
    charts = [chart] if what in ("install", "upgrade") else []
    return helm.run(what, "sunk-sync", *charts, "--namespace", NAMESPACE, *flags, values=values)


def stored(kube: KubeServer) -> Any:
    return kube.rest.call("GET", f"{node_sets.path()}/cpu")["metadata"]["uid"]


def test_uninstall_keeps_the_kind_and_the_node_sets(installed: Helm, kube: KubeServer) -> None:
    """Their slurmd Pods go on; a second installation follows them again."""
    before = stored(kube)
    assert KEPT in command(installed, "uninstall")
    assert stored(kube) == before
    command(installed, "install", values=ON)
    assert stored(kube) == before


def test_the_component_switched_off_keeps_the_kind(installed: Helm, kube: KubeServer) -> None:
    """Only the permissions go."""
    before = stored(kube)
    command(installed, "upgrade", values=OFF)
    assert stored(kube) == before
    roles = kube.kubectl("get", "roles", "-n", NAMESPACE, "-o", "name")
    assert "sunk-sync-nodesets" not in roles
    command(installed, "upgrade", values=ON)
    assert "sunk-sync-nodesets" in kube.kubectl("get", "roles", "-n", NAMESPACE, "-o", "name")
    assert stored(kube) == before


def test_an_upgrade_brings_a_newer_kind(installed: Helm, kube: KubeServer, tmp_path: Path) -> None:
    """helm leaves what is in the folder crds/ of a chart as it was first installed."""
    newer = tmp_path / "sunk-sync"
    shutil.copytree(CHART, newer)
    file = newer / "files" / "nodesets.yaml"
    was = "Number of slurmd Pods. Without"
    text = file.read_text(encoding="utf-8")
    assert text.count(was) == 1
    file.write_text(text.replace(was, "Newer. Without"), encoding="utf-8")
    before = stored(kube)
    command(installed, "upgrade", values=ON, chart=newer)
    (version,) = kube.rest.call("GET", f"{CRDS}/{NAME}")["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["replicas"]["description"].startswith("Newer. Without")
    assert stored(kube) == before


def test_a_second_release_shares_the_kind_and_does_not_make_it(
    installed: Helm, kube: KubeServer
) -> None:
    """Two Slurm clusters in one Kubernetes."""
    other = {"clusterName": "other"}
    flags = ("install", "other", str(CHART), "--namespace", "team-a")
    with pytest.raises(BedError, match=r"nodesets\.sunk-sync\.dev.*cannot be imported"):
        installed.run(*flags, values={**other, **ON})
    try:
        installed.run(*flags, values={**other, **NOT_OURS})
        assert "sunk-sync" in kube.kubectl("get", "roles", "-n", "team-a", "-o", "name")
    finally:
        installed.run("uninstall", "other", "--namespace", "team-a", "--ignore-not-found")
        kube.kubectl("delete", "secret", "-n", "team-a", "--all")
