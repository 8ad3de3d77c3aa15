"""Fixtures: helm, and a real API server with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.helm import Helm
from tests.real.conftest import require, require_helm
from tests.real.testbed import KubeServer
from tests.real.testbed.cache import KUBE_DEFAULT


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    require_helm()
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def kube() -> Iterator[KubeServer]:
    """A server without a kubelet: no Pod runs."""
    require(kube=KUBE_DEFAULT)
    with KubeServer(kubelet=False) as server:
        for name in ("slurm", "team-a", "team-b", "workers"):
            server.ensure_namespace(name)
        yield server


@pytest.fixture(scope="session")
def cluster_helm(kube: KubeServer, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as the administrator of the real API server."""
    require_helm()
    home: Path = tmp_path_factory.mktemp("helm")
    return Helm(home, kube.admin_kubeconfig)
