"""Doctor on real servers, with the permissions of the manifests."""

import io
import json

import pytest

from sunk_sync.cli.doctor import doctor
from sunk_sync.settings.sources import load
from tests.real.conftest import for_each_slurm
from tests.real.service import MANIFESTS
from tests.real.testbed import Bed, KubeServer, SlurmConf

pytestmark = [
    pytest.mark.real,
    pytest.mark.both_slurms("26.05 shows its configuration, 24.11 does not"),
]


class Installation:
    """A test bed, the account of the manifests and a token file."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.token_file = bed.kube.directory / "doctor.token"
        self.renew_token()
        bed.kube.kubectl("apply", "-k", str(MANIFESTS))
        self.put_key(bed.kube, "0123456789abcdef")
        self._kubeconfig = bed.kube.kubeconfig_for("sunk-sync", "slurm")

    @staticmethod
    def put_key(kube: KubeServer, key: str | None) -> None:
        """As sunk-sync does when it starts; None: as the manifests bring the Secret."""
        filled = json.dumps({"data": None, "stringData": {"key": key} if key else None})
        kube.kubectl(
            *("patch", "secret", "-n", "slurm", "sunk-sync-slurm-hooks-key"),
            *("--type=merge", "-p", filled),
        )

    def renew_token(self, lifespan_s: int = 7200, *, user: str = "root") -> None:
        self.token_file.write_text(self.bed.slurm.token(lifespan_s, user=user))

    async def examine(self, **more: str) -> tuple[int, str]:
        """Run doctor; return exit code and text."""
        flags = {
            "kubeconfig": str(self._kubeconfig),
            "slurm-api-base": self.bed.slurm.url,
            "slurm-auth-token-file": str(self.token_file),
        }
        file = io.StringIO()
        given = flags | {key.replace("_", "-"): value for key, value in more.items()}
        return await doctor(load(given, {}, "slurm"), file), file.getvalue()


RESERVED = {"n2": "CoreSpecCount=2 MemSpecLimit=4000"}
CONF = SlurmConf(slurmds=2, kinds=RESERVED)
server_bed = for_each_slurm(lambda version: Bed.start(slurm=version, conf=CONF))


@pytest.fixture(scope="module")
def installation(server_bed: Bed) -> Installation:
    return Installation(server_bed)


async def test_a_correct_installation_has_no_findings(installation: Installation) -> None:
    code, text = await installation.examine(slurm_kill_wait="2s")
    assert code == 0, text
    assert "0 wrong, 0 doubtful" in text
    assert "that are needed" in text
    assert "slurmctld and this process agree" in text
    assert "2 Slurm nodes have their host, 2 by a slurmd Pod" in text
    assert installation.bed.slurm.version in text


async def test_a_hooks_key_that_is_not_there_is_doubtful_L5(installation: Installation) -> None:
    kube = installation.bed.kube
    installation.put_key(kube, None)
    try:
        _, text = await installation.examine()
    finally:
        installation.put_key(kube, "0123456789abcdef")
    assert "Secret slurm/sunk-sync-slurm-hooks-key is empty" in text


async def test_kill_wait_is_compared_if_slurm_reports_it(installation: Installation) -> None:
    """26.05 reports KillWait; for 24.11 it must be set."""
    tells = installation.bed.slurm.version.startswith("26.")
    code, text = await installation.examine(slurm_kill_wait="30s")
    assert (code, "Slurm's KillWait is 2s" in text) == ((1, True) if tells else (0, False))
    code, text = await installation.examine()
    assert ("is assumed" in text) == (not tells)
    assert code == 0


async def test_a_namespace_without_our_role_is_found(installation: Installation) -> None:
    code, text = await installation.examine(slurmd_namespace="slurm,kube-system")
    assert code == 2
    assert "may not list, watch, get, patch pods in kube-system" in text


async def test_an_administrators_account_gives_a_warning(installation: Installation) -> None:
    admin = str(installation.bed.kube.admin_kubeconfig)
    code, text = await installation.examine(kubeconfig=admin, slurm_kill_wait="2s")
    assert code == 0
    assert "may do everything here" in text


async def test_double_claims_and_foreign_comments_are_found(installation: Installation) -> None:
    slurm, kube = installation.bed.slurm, installation.bed.kube
    slurm.update_slurm_node("n1", comment="rack 7")
    kube.annotate_pod("slurmd-n2", "slurm", {"sunk.coreweave.com/slurm-node": "n1"})
    try:
        code, text = await installation.examine(slurm_kill_wait="2s")
    finally:
        kube.annotate_pod("slurmd-n2", "slurm", {"sunk.coreweave.com/slurm-node": "n2"})
    assert code == 1
    assert "n1 is claimed by Pod slurm/slurmd-n1 and Pod slurm/slurmd-n2" in text
    code, text = await installation.examine(slurm_kill_wait="2s")
    assert code == 0
    assert "comment of somebody else, 1: n1" in text
    slurm.update_slurm_node("n1", comment="")


async def test_a_slurm_node_larger_than_what_its_node_has_left_is_found_P28(
    installation: Installation,
) -> None:
    """n2 keeps 2 cores and 4000 MiB from jobs, n1 nothing."""
    kube = installation.bed.kube
    for name in ("n1", "n2"):
        kube.set_allocatable(name, cpu="14", memory="60000Mi")
    code, text = await installation.examine(slurm_kill_wait="2s")
    assert code == 0
    assert "1: n1 (16 CPUs, 14 left; 64000 MiB, 60000 left)" in text
    kube.set_allocatable("n1", cpu="16", memory="64000Mi")
    _, text = await installation.examine(slurm_kill_wait="2s")
    assert "2 Nodes have room for all that Slurm gives to jobs there" in text


async def test_a_refused_token_is_found(installation: Installation) -> None:
    installation.token_file.write_text("garbage")
    code, text = await installation.examine()
    assert code == 2
    assert "is no JWT" in text
    assert "renew the token" in text
    installation.renew_token()


async def test_a_token_without_rights_is_found(installation: Installation) -> None:
    """24.11 does not report its SlurmUser, so it is only a warning."""
    tells = installation.bed.slurm.version.startswith("26.")
    installation.renew_token(user="slurm")
    code, text = await installation.examine(slurm_kill_wait="2s")
    assert (code, "is of slurm" in text) == (0, True)
    installation.renew_token(user="daemon")
    code, text = await installation.examine(slurm_kill_wait="2s")
    assert code == (1 if tells else 0)
    assert ("only root and slurm" in text) == tells
    assert ("right only where SlurmUser" in text) != tells
    installation.renew_token()


async def test_slurmctld_down_is_found(installation: Installation) -> None:
    """A ping would not show it, because slurmrestd answers it."""
    slurm = installation.bed.slurm
    slurm.stop_slurmctld()
    try:
        code, text = await installation.examine()
    finally:
        slurm.start_slurmctld()
        slurm.wait_until_idle()
    assert code == 2
    assert "is slurmctld up?" in text


async def test_doctor_changes_nothing(installation: Installation) -> None:
    kube, slurm = installation.bed.kube, installation.bed.slurm

    def versions() -> object:
        nodes = [kube.node(name)["metadata"]["resourceVersion"] for name in ("n1", "n2")]
        events = kube.kubectl("get", "events", "-A", "-o", "name")
        return nodes, events, [slurm.slurm_node(name)["comment"] for name in ("n1", "n2")]

    before = versions()
    await installation.examine()
    assert versions() == before
