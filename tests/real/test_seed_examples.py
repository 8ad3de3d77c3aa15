"""The two Pods of SUNK's older page, applied unchanged, on a Slurm with GPUs and accounting."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import require
from tests.real.pod_bed import EXTRA_LINES, PARTITIONS, PodBed, pod_bed
from tests.real.service import Service, allow
from tests.real.testbed import SlurmConf
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]
EXAMPLES = Path(__file__).with_name("examples")
NAMESPACE = "tenant-slurm-staging"
POD = "slurm-test"
LABELS = {"gpu.nvidia.com/model": "H100_NVLINK_80GB"}
LABELLED = ("n2", "n3")
ROOM = {"cpu": "128", "memory": "1000Gi", "nvidia.com/gpu": "8", "rdma/ib": "1"}
ENFORCED = ("AccountingStorageEnforce=associations,limits,qos", "AccountingStorageTRES=gres/gpu")
KILL_WAIT_S = 30


@dataclass(frozen=True)
class LargeHosts(SlurmConf):
    """Eight h100 on each, and the user of the page's Pods."""

    def slurm_conf(self, version: str, **ports: Any) -> str:
        text = super().slurm_conf(version, **ports)
        return text.replace("RealMemory=64000 Gres=gpu:", "RealMemory=1031000 Gres=gpu:h100:")

    def gres_conf(self) -> str:
        return super().gres_conf().replace("Name=gpu", "Name=gpu Type=h100")


CONF = LargeHosts(
    cpus=128,
    gpus=8,
    kill_wait_s=KILL_WAIT_S,
    accounting=True,
    users={"k8s": 1001},
    partitions=PARTITIONS,
    extra_lines=(*EXTRA_LINES, *ENFORCED),
)


@pytest.fixture(scope="module", params=SLURM_SUITES)
def bed(request: pytest.FixtureRequest) -> Iterator[PodBed]:
    require(kube=KUBE_DEFAULT, slurm=request.param)
    with pod_bed(request.param, CONF) as made:
        made.bed.slurm.sacctmgr("add", "user", "k8s", "account=root")
        for name in CONF.names:
            grow(made, name)
        allow(made.bed, NAMESPACE)
        yield made


def grow(bed: PodBed, name: str) -> None:
    """Write the resources and labels that device plugins report on a real cluster."""
    path = f"/api/v1/nodes/{name}"
    status = {"status": {"capacity": ROOM, "allocatable": ROOM}}
    labels = {"metadata": {"labels": LABELS if name in LABELLED else {}}}
    for where, patch in ((f"{path}/status", status), (path, labels)):
        bed.bed.kube.patch(where, patch)


@pytest.fixture
def service(bed: PodBed) -> Iterator[Service]:
    flags = {
        "scheduler_name": "tenant-slurm-staging-slurm-scheduler",
        "watch_namespace": NAMESPACE,
        "gpu_types": "H100_NVLINK_80GB=h100",
        "slurm_kill_wait": f"{KILL_WAIT_S}s",
        "termination_offset": "5s",
    }
    with bed.service(gate=False, **flags) as service:
        yield service
        bed.bed.kube.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--wait=false")
        bed.until(lambda: not jobs(bed), "every job ended", within_s=60)
        bed.bed.slurm.wait_until_idle(deadline_s=60)


def apply(bed: PodBed, example: str, *, name: str = POD) -> None:
    text = (EXAMPLES / f"{example}.yaml").read_text()
    file = bed.bed.kube.directory / f"{name}.yaml"
    file.write_text(text.replace(f"name: {POD}\n", f"name: {name}\n"))
    bed.bed.kube.kubectl("apply", "-f", file)


def running_on(bed: PodBed, name: str = POD) -> str:
    """Return the Node on which the Pod runs; empty if it does not run."""
    pod = bed.bed.kube.pod_if_any(name, NAMESPACE)
    return str(pod["spec"]["nodeName"]) if pod and pod["status"]["phase"] == "Running" else ""


def jobs(bed: PodBed) -> dict[str, Any]:
    live = {"PENDING", "RUNNING", "COMPLETING"}
    found = [job for job in bed.jobs() if live & set(job["job_state"])]
    return {job["name"].split("/")[2]: job for job in found}


@pytest.mark.usefixtures("service")
def test_the_example_of_a_full_node_runs_unchanged(bed: PodBed) -> None:
    apply(bed, "full-node")
    bed.until(lambda: running_on(bed), "it runs")
    assert running_on(bed) in LABELLED
    job = jobs(bed)[POD]
    assert (job["user_name"], job["account"]) == ("root", "root")
    assert job["comment"] == "A Kubernetes job"
    assert job["tres_per_node"] == "gres/gpu:h100:8"
    assert "cpu=128" in job["tres_alloc_str"]
    assert job["excluded_nodes"] == "n1"


@pytest.mark.usefixtures("service")
def test_the_example_of_a_single_gpu_runs_unchanged(bed: PodBed) -> None:
    """Two Pods of one user share a host."""
    apply(bed, "single-gpu")
    apply(bed, "single-gpu", name="another")
    bed.until(lambda: running_on(bed) and running_on(bed, "another"), "both run")
    assert running_on(bed) == running_on(bed, "another")
    assert running_on(bed) in LABELLED
    for name in (POD, "another"):
        job = jobs(bed)[name]
        assert (job["user_id"], job["user_name"], job["account"]) == (1001, "k8s", "root")
        assert job["tres_per_node"] == "gres/gpu:h100:1"
        assert "gres/gpu=1" in job["tres_alloc_str"]


@pytest.mark.usefixtures("service")
def test_a_pod_of_a_user_without_an_account_shows_it_P5(bed: PodBed) -> None:
    bed.bed.slurm.sacctmgr("delete", "user", "k8s")
    apply(bed, "single-gpu")

    bed.until(lambda: "(2045)" in str(bed.bed.kube.pod(POD, NAMESPACE)["status"]), "it shows 2045")
    bed.bed.slurm.sacctmgr("add", "user", "k8s", "account=root")
