"""Component nodesets where the kind NodeSet is missing: it says so once, and the rest runs."""

import asyncio
import io
import time
from collections.abc import Iterator

import pytest

from sunk_sync.cli.doctor import doctor
from sunk_sync.settings.sources import load
from tests.real import node_sets
from tests.real.conftest import require
from tests.real.node_sets import node_set
from tests.real.service import MANIFESTS, NAMESPACE, Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = pytest.mark.real

ROLES = MANIFESTS.parent / "nodesets" / "roles.yaml"
SOURCE = "node_sets"
REMEDY = "the kind NodeSet is missing: kubectl apply -k deploy/nodesets"
NOTICED_S = 8.0
"""A look in 5 s at the latest, and the time of the API server to serve the kind."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Without the kind, with the permissions."""
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with Stage(SLURM_DEFAULT, hosts=8) as stage:
        stage.bed.kube.kubectl("apply", "-f", ROLES)
        yield stage


@pytest.fixture
def service(stage: Stage) -> Iterator[Service]:
    yield stage.serve(components="syncer,nodesets")
    stage.quit()
    node_sets.remove(stage.bed.kube)


def examined(service: Service) -> str:
    flags = {name.replace("_", "-"): value for name, value in service.settings.items()}
    file = io.StringIO()
    asyncio.run(doctor(load(flags, {}, NAMESPACE), file))
    return file.getvalue()


def warnings(service: Service, *, since: int) -> list[str]:
    """Return the lines about NodeSets that an operator sees."""
    lines = service.lines(since=since, source=SOURCE)
    return [str(one["why"]) for one in lines if one["level"] in ("warning", "error")]


def pods(stage: Stage) -> int:
    label = "sunk.coreweave.com%2Fnodeset%3Dcpu"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={label}"
    return len(stage.bed.kube.rest.call("GET", path)["items"])


def until_drained_and_free(host: Host) -> None:
    host.cordon()
    host.until_drained("k8s: node cordoned")
    host.uncordon()
    host.until_free()


def test_a_missing_kind_is_told_once_and_the_rest_runs(stage: Stage, service: Service) -> None:
    """The log, /readyz, doctor and a drain."""
    host = stage.take()
    assert service.readyz()[0] == 200
    shown = "kubernetes: nodesets: degraded: not listed yet: " + REMEDY
    assert shown in service.readyz_verbose()[1]
    until_drained_and_free(host)
    one_line = [f"{REMEDY}, or set nodesets.enabled and nodesets.crd.create in the chart"]
    assert stays(lambda: warnings(service, since=0) == one_line, for_s=12)
    assert "fail nodesets" in examined(service)
    assert service.metric("sunk_sync_source_listed", source=SOURCE) == 0


def test_the_kind_is_noticed_when_it_is_made(stage: Stage, service: Service) -> None:
    """Without a restart, and the NodeSet that stands there gets its Pods."""
    time.sleep(6)  # so that the longest pause is under way
    begun = service.mark()
    node_sets.install(stage.bed.kube)
    begun_s = time.monotonic()
    eventually(
        lambda: service.lines("source listed", since=begun, source=SOURCE),
        "the kind is noticed",
        within_s=NOTICED_S,
    )
    print(f"noticed {time.monotonic() - begun_s:.1f} s after the API server served it")
    stage.bed.kube.rest.call("POST", node_sets.path(), node_set(replicas=2))
    eventually(lambda: pods(stage) == 2, "two Pods")
    assert "degraded" not in service.readyz_verbose()[1]
    assert "ok   nodesets" in examined(service)


def test_a_kind_that_is_deleted_is_told_once_and_may_come_back(
    stage: Stage, service: Service
) -> None:
    """Its NodeSets end first: each is drained, and then loses its finalizer (N23)."""
    kube = stage.bed.kube
    node_sets.install(kube)
    eventually(lambda: service.lines("source listed", source=SOURCE), "listed", within_s=NOTICED_S)
    begun = service.mark()
    node_sets.remove(kube)
    eventually(lambda: warnings(service, since=begun), "it is told", within_s=NOTICED_S)
    assert stays(lambda: len(warnings(service, since=begun)) == 1, for_s=6)
    until_drained_and_free(stage.take())
    node_sets.install(kube)
    eventually(
        lambda: service.lines("source back", since=begun, source=SOURCE),
        "it is back",
        within_s=NOTICED_S,
    )
