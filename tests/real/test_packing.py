"""Rows W1-W4: the weights of hosts in use, and which host Slurm then gives."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.real.conftest import Serve, for_each_slurm
from tests.real.service import Service
from tests.real.stage import Stage, eventually, stays
from tests.real.testbed import SlurmConf
from tests.real.testbed.kube import REPOSITORY

pytestmark = [pytest.mark.real, pytest.mark.timeout(100)]

SOON = ("SchedulerParameters=batch_sched_delay=0",)
SOON_S = 5.0
"""Some polls of Slurm, on a busy machine."""


class PackStage(Stage):
    """Six hosts of 8 GPUs; n4 to n6 are another kind, of weight 20 in slurm.conf."""

    def conf(self) -> SlurmConf:
        return SlurmConf(
            slurmds=6,
            gpus=8,
            extra_lines=SOON,
            kinds=dict.fromkeys(("n4", "n5", "n6"), "Weight=20"),
        )

    def start_job(self, gpus: int, *, on: str | None = None) -> str:
        """Start a job as a placeholder asks for it; return its host."""
        asked = {"cpus_per_task": gpus, "tres_per_node": f"gres/gpu:{gpus}", "tasks_per_node": 1}
        place = {"required_nodes": [on]} if on else {}
        slurm = self.bed.slurm
        job = slurm.submit("#!/bin/sh\nsleep 300\n", nodes="1", tasks=1, **asked, **place)
        found: list[str] = []

        def runs() -> bool:
            found[:] = slurm.squeue("-h", "-j", job, "-t", "RUNNING", "-o", "%N").split()
            return bool(found)

        eventually(runs, "the job runs", within_s=20)
        return found[0]

    def weights(self) -> dict[str, int]:
        return {node["name"]: node["weight"] for node in self.bed.slurm.slurm_nodes()}

    def until(self, claim: Callable[[dict[str, int]], bool], *, within_s: float = SOON_S) -> None:
        eventually(lambda: claim(self.weights()), "weights", within_s=within_s, show=self._show)

    def _show(self) -> str:
        return str(self.weights())

    def end_jobs(self) -> None:
        self.bed.slurm.run_in_root("scancel", "--user=root")
        self.bed.slurm.wait_until_idle()


stage = for_each_slurm(PackStage)

OWN = dict.fromkeys(("n1", "n2", "n3"), 1) | dict.fromkeys(("n4", "n5", "n6"), 20)
EMPTY = {name: 10_000_047 + 100 * own for name, own in OWN.items()}


@pytest.fixture
def packing(stage: PackStage, serve: Serve) -> Iterator[Service]:
    service = serve(pack="nodes")
    stage.until(lambda weights: weights == EMPTY)
    yield service
    stage.end_jobs()


def write_count(service: Service) -> float:
    return service.metric("sunk_sync_writes_total", action="set-weight")


@pytest.mark.usefixtures("packing")
def test_a_host_in_use_is_given_before_an_empty_one_and_kinds_keep_their_order_W1(
    stage: PackStage,
) -> None:
    assert stage.start_job(2, on="n3") == "n3"
    assert stage.start_job(6, on="n5") == "n5"
    used = EMPTY | {"n3": 10_000_137, "n5": 10_002_017}
    stage.until(lambda weights: weights == used)
    assert stage.start_job(1) == "n3", "an empty host of the same kind has a lower name"
    assert stage.start_job(5) == "n3"
    assert stage.start_job(8) == "n1", "n5 is in use, but of the other kind"


def test_only_another_step_is_written_W2(stage: PackStage, packing: Service) -> None:
    begun = write_count(packing)
    assert stage.start_job(1, on="n2") == "n2"
    stage.until(lambda weights: weights["n2"] == 10_000_137)
    assert stage.start_job(1, on="n2") == "n2"
    assert stays(lambda: write_count(packing) == begun + 1)


def test_a_reconfigure_is_followed_by_the_packed_weights_W3(
    stage: PackStage, packing: Service
) -> None:
    stage.start_job(3, on="n2")
    stage.until(lambda weights: weights["n2"] == 10_000_127)
    begun = write_count(packing)
    stage.bed.slurm.reconfigure()
    stage.until(lambda weights: weights == EMPTY | {"n2": 10_000_127})
    eventually(lambda: write_count(packing) == begun + len(OWN), "each was written once more")


@pytest.mark.usefixtures("packing")
def test_a_restart_of_slurmctld_is_followed_by_the_packed_weights_W3(stage: PackStage) -> None:
    stage.bed.slurm.restart_slurmctld()
    assert stage.weights() != EMPTY
    stage.until(lambda weights: weights == EMPTY, within_s=30)


@pytest.mark.usefixtures("packing")
def test_a_weight_that_an_administrator_sets_is_the_new_own_one_W3(stage: PackStage) -> None:
    stage.bed.slurm.update_slurm_node("n6", weight={"set": True, "number": 30})
    stage.until(lambda weights: weights["n6"] == 10_003_047)
    stage.bed.slurm.update_slurm_node("n6", weight={"set": True, "number": 20})
    stage.until(lambda weights: weights == EMPTY)


@pytest.mark.usefixtures("packing")
def test_the_command_of_the_uninstallation_brings_the_own_weights_back_W4(stage: PackStage) -> None:
    stage.quit()
    page = (REPOSITORY / "deploy" / "README.md").read_text()
    (command,) = re.findall(r"^scontrol show nodes .*weight=.*$", page, re.MULTILINE)
    stage.bed.slurm.run_in_root("sh", "-c", command)
    assert stage.weights() == OWN


@pytest.mark.usefixtures("packing")
def test_a_restart_without_packing_brings_the_own_weights_back_W4(
    stage: PackStage, serve: Serve
) -> None:
    stage.start_job(4, on="n1")
    stage.until(lambda weights: weights["n1"] == 10_000_127)
    service = serve(pack="off")
    stage.until(lambda weights: weights == OWN)
    assert stays(lambda: stage.weights() == OWN)
    assert write_count(service) == len(OWN)
