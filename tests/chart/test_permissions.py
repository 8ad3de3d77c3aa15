"""The account of an installed chart may do what its settings need: doctor asks the API server."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from sunk_sync.cli.doctor import doctor
from tests.chart.helm import NAMESPACE, Helm, Values
from tests.chart.loading import loaded
from tests.chart.matrix import MATRIX
from tests.real import node_sets
from tests.real.testbed import KubeServer
from tools.chart import CHART

pytestmark = pytest.mark.real

RELEASE = "rights"
NOWHERE = "http://127.0.0.1:1"
SCOPES = (
    *("defaults", "syncer alone", "cluster scope", "cluster scope, syncer alone"),
    *("one replica", "namespaces as text", "namespaces as list", "slurmd elsewhere", "all Pods"),
    *("slurmd elsewhere, cluster scope", "another cluster name", "own hooks key"),
    *("NodeSets", "NodeSets, slurmd elsewhere", "NodeSets, cluster scope"),
    "NodeSets, syncer alone",
)


@pytest.fixture
def helm(cluster_helm: Helm, kube: KubeServer) -> Iterator[Helm]:
    """Helm; the release is removed at the end."""
    yield cluster_helm
    cluster_helm.run("uninstall", RELEASE, "--namespace", NAMESPACE)
    labels = f"app.kubernetes.io/instance={RELEASE}"
    kube.kubectl("delete", "secrets", "-n", NAMESPACE, "-l", labels)
    node_sets.remove(kube)


async def examined(helm: Helm, kube: KubeServer, folder: Path, asked: Values) -> str:
    """What doctor says of these values under the account of the release; Slurm is away."""
    settings = loaded(
        helm.objects(asked, release=RELEASE),
        folder,
        kubeconfig=str(kube.kubeconfig_for(f"{RELEASE}-sunk-sync", NAMESPACE)),
        slurm_api_base=NOWHERE,
    )
    file = io.StringIO()
    await doctor(settings, file)
    return file.getvalue()


@pytest.mark.parametrize("name", SCOPES)
async def test_doctor_finds_every_permission(
    helm: Helm, kube: KubeServer, tmp_path: Path, name: str
) -> None:
    """For each choice of components and scope."""
    values = MATRIX[name]
    helm.run("install", RELEASE, CHART, "--namespace", NAMESPACE, values=values)
    said = await examined(helm, kube, tmp_path, values)
    assert "ok   permissions" in said, said


async def test_doctor_misses_what_a_smaller_scope_leaves_out(
    helm: Helm, kube: KubeServer, tmp_path: Path
) -> None:
    """So the test above looks."""
    values = MATRIX["syncer alone"]
    helm.run("install", RELEASE, CHART, "--namespace", NAMESPACE, values=values)
    said = await examined(helm, kube, tmp_path, MATRIX["cluster scope"])
    assert "fail permissions  may not" in said, said
    assert "pods/binding" in said


async def test_doctor_misses_what_the_component_nodesets_needs(
    helm: Helm, kube: KubeServer, tmp_path: Path
) -> None:
    """NodeSets, their status, and Pods to make; Pods it may delete here for the scheduler."""
    helm.run("install", RELEASE, CHART, "--namespace", NAMESPACE, values=MATRIX["defaults"])
    said = await examined(helm, kube, tmp_path, MATRIX["NodeSets"])
    for what in (
        "may not create pods in slurm",
        "may not list, watch, patch nodesets in slurm",
        "may not patch nodesets/status in slurm",
        "for component nodesets: deploy/nodesets/roles.yaml",
    ):
        assert what in said, said
