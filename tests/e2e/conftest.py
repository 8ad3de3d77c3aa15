"""Fixtures of the tests with real kubelets. They run with `-m e2e` alone (`make e2e`)."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.cluster import RealCluster, real_cluster
from tests.e2e.requirements import why_no_kubelets
from tests.real.testbed.cache import SLURM_SUITES
from tests.real.testbed.sandbox import sweep

SHOWN_LINES = 40


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out of a run that does not name their mark."""
    if "e2e" in str(config.option.markexpr):
        return
    left_out = [item for item in items if item.get_closest_marker("e2e")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def require(slurm: str) -> None:
    """Skip if real kubelets cannot run here; in CI fail instead."""
    if reason := why_no_kubelets(slurm):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    sweep()


@pytest.fixture(scope="session", params=SLURM_SUITES)
def clusters(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """One cluster for each version of Slurm."""
    require(request.param)
    begun = time.monotonic()
    with real_cluster(request.param) as cluster:
        print(f"{cluster.slurm.version}: the cluster is up after {time.monotonic() - begun:.1f} s")
        yield cluster


@pytest.fixture
def cluster(clusters: RealCluster, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The cluster without a NodeSet. After a failed test it shows what is there."""
    failed = request.session.testsfailed
    since = clusters.service.mark()
    yield clusters
    if request.session.testsfailed > failed:
        lines = [one for one in clusters.service.lines(since=since) if _is_told(one)]
        print(clusters.show(), *lines[-SHOWN_LINES:], sep="\n")
    clusters.clear()
    for path in clusters.kubelets.shared.iterdir():
        path.unlink()
    assert not clusters.service.lines("surprise", since=since)
    assert not clusters.service.lines(since=since, level="error")


def _is_told(line: Mapping[str, Any]) -> bool:
    """Whether it is no write that only shows a state."""
    return not str(line.get("action")).startswith("set-") or "pending-deletion" in str(line)
