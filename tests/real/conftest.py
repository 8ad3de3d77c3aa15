"""Fixtures of real servers. A whole session shares them: leave them as you found them."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.real.service import Service
from tests.real.stage import Host, Stage
from tests.real.testbed import Bed, KubeServer, SlurmServer
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES
from tests.real.testbed.requirements import why_not
from tests.real.testbed.sandbox import sweep
from tests.real.workloads import WorkloadIndex

Serve = Callable[..., Service]
SHOWN_LINES = 30


def require(*, kube: str | None = None, slurm: str | None = None, scheduler: bool = False) -> None:
    """Skip if these servers cannot run; in CI fail instead."""
    reason = why_not(kube=kube, slurm=slurm, scheduler=scheduler)
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    sweep()


@pytest.fixture(scope="session")
def kube_server() -> Iterator[KubeServer]:
    require(kube=KUBE_DEFAULT)
    with KubeServer(KUBE_DEFAULT) as server:
        yield server


@pytest.fixture(scope="session", params=SLURM_SUITES)
def slurm_server(request: pytest.FixtureRequest) -> Iterator[SlurmServer]:
    require(slurm=request.param)
    with SlurmServer(request.param) as server:
        yield server


@pytest.fixture(scope="session", params=SLURM_SUITES)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    require(kube=KUBE_DEFAULT, slurm=request.param)
    with Bed.start(kube=KUBE_DEFAULT, slurm=request.param) as both:
        yield both


@pytest.fixture(scope="session", params=SLURM_SUITES)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Many hosts with the permissions of the manifests, once for each Slurm version."""
    require(kube=KUBE_DEFAULT, slurm=request.param)
    stage = Stage(request.param)
    try:
        yield stage
    finally:
        stage.close()


@pytest.fixture(scope="session", params=SLURM_SUITES)
def workloads(request: pytest.FixtureRequest) -> Iterator[WorkloadIndex]:
    """Many hosts for workload Pods, once for each Slurm version."""
    require(kube=KUBE_DEFAULT, slurm=request.param)
    workloads = WorkloadIndex(request.param)
    try:
        yield workloads
    finally:
        workloads.close()


@pytest.fixture
def serve(stage: Stage) -> Iterator[Serve]:
    """Start the service with given settings; at the end check that it had no error.

    If the test fails, its log lines are shown.
    """
    yield from serving(stage)


@pytest.fixture
def schedule(workloads: WorkloadIndex) -> Iterator[Serve]:
    """As `serve`, on the stage for Pods."""
    yield from serving(workloads)


def serving(stage: Stage) -> Iterator[Serve]:
    """The body of a fixture that serves on this stage."""
    served: dict[Service, int] = {}

    def serve_with(**flags: str) -> Service:
        service = stage.serve(**flags)
        served.setdefault(service, service.begun if flags else service.mark())
        return service

    yield serve_with
    for service, since in served.items():
        told = [line for line in service.lines(since=since) if line.get("level") != "debug"]
        print(*told[-SHOWN_LINES:], sep="\n")
    if stage.service is not None and stage.service.running:
        check_health(stage.service, since=served.get(stage.service, 0))


@pytest.fixture
def service(serve: Serve) -> Service:
    """The service with the settings of stage.QUICK."""
    return serve()


@pytest.fixture
def host(stage: Stage) -> Host:
    """A machine that no other test uses."""
    return stage.take()


def check_health(service: Service, *, since: int) -> None:
    """Check that no rule failed, no dirty edge was missing, and no error was logged."""
    assert service.metric("sunk_sync_audit_surprises_total") == 0
    assert service.metric("sunk_sync_rule_failures_total") == 0
    assert service.metric("sunk_sync_keys_out_of_service") == 0
    assert service.lines(since=since, level="error") == []
    assert service.lines("not JSON", since=since) == []
