"""Fixtures of real servers. All tests of a module share them: leave them as you found them.

A whole session would keep a dozen API servers to its end, which take a third of a core.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import pytest

from tests.real.service import Service
from tests.real.stage import Host, Stage
from tests.real.testbed import Bed, KubeServer, SlurmServer
from tests.real.testbed.cache import (
    BROWSER,
    KUBE_DEFAULT,
    SLURM_SUITES,
    chart_tools,
    controllers,
    frameworks,
    promtool,
)
from tests.real.testbed.requirements import why_not, why_not_built, why_not_command, why_not_image
from tests.real.testbed.sandbox import sweep
from tests.real.workloads import PodStage

Serve = Callable[..., Service]
SHOWN_LINES = 30


def require(*, kube: str | None = None, slurm: str | None = None, scheduler: bool = False) -> None:
    """Skip if these servers cannot run; in CI fail instead."""
    _skip(why_not(kube=kube, slurm=slurm, scheduler=scheduler))
    sweep()


def require_helm() -> None:
    """Skip if the tools of the chart are not built; in CI fail instead. They need no root."""
    _skip(why_not_built([chart_tools()]))


def require_controllers() -> None:
    """Skip if the managers of JobSet, KubeRay and others are not built; in CI fail."""
    _skip(why_not_built([controllers(), frameworks()]))


def require_promtool() -> None:
    """Skip if promtool is not there; in CI fail instead. It needs no root."""
    _skip(why_not_built([promtool()]))


def require_podman() -> None:
    """Skip if the image cannot be built and run here; in CI fail instead."""
    _skip(why_not_image())
    sweep()


def require_chromium() -> None:
    """Skip if the status page cannot be opened in a browser; in CI fail instead."""
    _skip(why_not_command(BROWSER))


def _skip(reason: str | None) -> None:
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeServer]:
    require(kube=KUBE_DEFAULT)
    with KubeServer(KUBE_DEFAULT) as server:
        yield server


def for_each_slurm(
    start: Callable[..., AbstractContextManager[Any]],
    *,
    scope: Literal["session", "module", "function"] = "module",
    kube: str | None = KUBE_DEFAULT,
) -> Any:
    """Make a fixture of what `start` opens, once for each version of Slurm.

    A stage has as many hosts as its test module says: STAGE_HOSTS, STAGE_CROWD.
    """

    @pytest.fixture(scope=scope, params=SLURM_SUITES)
    def started(request: pytest.FixtureRequest) -> Iterator[Any]:
        require(kube=kube, slurm=request.param)
        with start(request.param, **_size(start, request.module)) as made:
            yield made

    return started


def _size(start: object, module: Any) -> dict[str, int]:
    if not (isinstance(start, type) and issubclass(start, Stage)):
        return {}
    names = {"hosts": "STAGE_HOSTS", "crowd": "STAGE_CROWD"}
    return {key: getattr(module, name) for key, name in names.items() if hasattr(module, name)}


slurm = for_each_slurm(SlurmServer, kube=None)
bed = for_each_slurm(lambda version: Bed.start(slurm=version))
stage = for_each_slurm(Stage)
"""Many hosts with the permissions of the manifests."""
pods = for_each_slurm(PodStage)
"""Many hosts for workload Pods."""


@pytest.fixture
def serve(stage: Stage) -> Iterator[Serve]:
    """Start the service with given settings; at the end show its log and check it for errors."""
    yield from serving(stage)


@pytest.fixture
def schedule(pods: PodStage) -> Iterator[Serve]:
    """As `serve`, on the stage for Pods."""
    yield from serving(pods)


def serving(stage: Stage) -> Iterator[Serve]:
    served: dict[Service, int] = {}

    def serve_with(**flags: str) -> Service:
        service = stage.serve(**flags)
        served.setdefault(service, service.begun if flags else service.mark())
        return service

    yield serve_with
    for service, since in served.items():
        lines = [line for line in service.lines(since=since) if line.get("level") != "debug"]
        print(*lines[-SHOWN_LINES:], sep="\n")
    if stage.service is not None and stage.service.running:
        check_health(stage.service, since=served.get(stage.service, 0))


def with_settings(**flags: str) -> pytest.MarkDecorator:
    """Mark tests whose `service` or `scheduler` has these settings."""
    return pytest.mark.parametrize("settings", [flags], ids=["+".join(flags)])


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
def service(serve: Serve, settings: dict[str, str]) -> Service:
    """The service with the settings of stage.QUICK and of the test."""
    return serve(**settings)


@pytest.fixture
def scheduler(schedule: Serve, settings: dict[str, str]) -> Service:
    """As `service`, on the stage for Pods."""
    return schedule(**settings)


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Host:
    """A host that no other test uses, of the stage of this test."""
    stage: Stage = request.getfixturevalue("pods" if "pods" in request.fixturenames else "stage")
    return stage.take()


def check_health(service: Service, *, since: int) -> None:
    """Check that no rule failed, no dirty edge was missing, and no error was logged."""
    assert service.metric("sunk_sync_audit_surprises_total") == 0
    assert service.metric("sunk_sync_rule_failures_total") == 0
    assert service.metric("sunk_sync_keys_out_of_service") == 0
    assert service.lines(since=since, level="error") == []
    assert service.lines("not JSON", since=since) == []
