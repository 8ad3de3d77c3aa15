"""Without any one verb of the table a claim fails, the service says why, and doctor finds it."""

import asyncio
import io
from collections.abc import Iterator

import pytest

from sunk_sync.cli.doctor import doctor
from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS, Permission
from sunk_sync.settings.sources import load
from tests.chart.helm import Helm
from tests.real.conftest import check_health, require, require_helm
from tests.real.permissions import claims
from tests.real.permissions.account import (
    ALL_PODS_TOO,
    LOCK_TOO,
    NODE_SETS_TOO,
    OWN,
    VALUES,
    Account,
)
from tests.real.permissions.scene import HOSTS, Scene
from tests.real.service import Service
from tests.real.stage import eventually
from tests.real.testbed import Bed, SlurmConf
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.workloads import CONF, PARTITIONS

pytestmark = [pytest.mark.real, pytest.mark.night("each permission in turn: five minutes")]

SLURMDS = 4
ROWS = [
    pytest.param(
        values,
        one,
        verb,
        id=f"{one.where} {one.spelled} {verb}" + " of the lock" * (one is LOCKED_PODS),
    )
    for values, permissions, purpose in (
        (VALUES, [one for one in PERMISSIONS if one.component != "nodesets"], ""),
        (NODE_SETS_TOO, [one for one in PERMISSIONS if one.component == "nodesets"], ""),
        (ALL_PODS_TOO, [ALL_PODS], ""),
        (LOCK_TOO, [LOCKED_PODS], " of the lock"),
    )
    for one in permissions
    for verb, _ in one.verbs
]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    conf = SlurmConf(
        slurmds=SLURMDS, external_nodes=len(HOSTS), partitions=PARTITIONS, extra_lines=CONF
    )
    with Bed.start(conf=conf, hosts=False) as bed:
        bed.kube.add_nodes(*conf.slurmd_names)
        scene = Scene(bed)
        yield scene
        scene.close()


@pytest.fixture(scope="module")
def account(
    request: pytest.FixtureRequest, scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Account]:
    """The account with the Roles for these values of the chart."""
    require_helm()
    made = Account(scene.bed.kube, Helm(tmp_path_factory.mktemp("helm")), request.param)
    yield made
    made.remove()


def service_of(scene: Scene, account: Account, *, elect: bool) -> Service:
    return scene.service(
        leader_elect=str(elect).lower(),
        watch_all_pods=str(account.all_pods).lower(),
        lock=str(account.lock).lower(),
        components="syncer,scheduler" + ",nodesets" * account.node_sets,
    )


def says(service: Service, one: Permission, verb: str) -> bool:
    """Whether the log above debug, or /readyz?verbose, has the answer of the API server.

    The log names a second reason of an outage only after a minute.
    """
    wanted = f'cannot {verb} resource "{one.resource}"'
    lines = [str(line) for line in service.lines() if line.get("level") != "debug"]
    if any(wanted in line for line in lines):
        return True
    answers = service.lines("metrics server open", since=service.begun)
    return bool(answers) and wanted in service.readyz_verbose()[1]


def examined(service: Service) -> str:
    """What doctor says with the settings of the service."""
    flags = {name.replace("_", "-"): value for name, value in service.settings.items()}
    file = io.StringIO()
    asyncio.run(doctor(load(flags, {}, OWN), file))
    return file.getvalue()


@pytest.mark.parametrize(
    ("account", "elect", "lease"),
    [
        (VALUES, False, True),
        (VALUES, True, True),
        (VALUES, True, False),
        (ALL_PODS_TOO, False, True),
        (NODE_SETS_TOO, False, True),
        (LOCK_TOO, False, True),
    ],
    ids=["table", "Lease", "no Lease", "all Pods", "NodeSets", "lock"],
    indirect=["account"],
)
def test_with_all_permissions_every_claim_holds(
    scene: Scene, account: Account, elect: bool, lease: bool
) -> None:
    service = service_of(scene, account, elect=elect)
    try:
        broken = scene.play(service, restart=not elect, lease=lease)
        assert not broken, service.tail()
        if not elect:  # on a busy machine a Lease of this duration may be lost: an error in the log
            check_health(service, since=0)
        assert "ok   permissions" in examined(service)
    finally:
        service.kill9()


@pytest.mark.parametrize(("account", "one", "verb"), ROWS, indirect=["account"])
def test_without_one_verb_its_claim_fails(
    scene: Scene, account: Account, one: Permission, verb: str
) -> None:
    """For `list` the API server also restarts: no watch then continues without a listing.

    For `create` of Leases there is no Lease.
    """
    grant = (one.where, one.spelled, verb)
    wanted = claims.LOCKED if one is LOCKED_PODS else claims.WITHOUT[grant]
    service = service_of(scene, account, elect=one.resource == "leases")
    with account.without(one, verb):
        try:
            broken = scene.play(
                service,
                wanted=wanted,
                restart=verb == "list",
                lease=wanted != claims.LEADS_AGAIN,
            )
            assert broken == {wanted}, service.tail()
            eventually(lambda: says(service, one, verb), "the service says what it may not do")
            assert wanted != claims.READY or service.readyz()[0] != 200
            assert f"may not {verb} {one.spelled}" in examined(service)
        finally:
            service.kill9()
