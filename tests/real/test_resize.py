"""A bound Pod that is resized in place, with the real servers: Slurm cannot enlarge its job."""

from typing import Any

import pytest

from tests.real.service import Service
from tests.real.stage import Host
from tests.real.workloads import FOREVER, Load, PodStage, workload_spec

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]

STRATEGIC = "application/strategic-merge-patch+json"
CONDITION = "SlurmJobTooSmall"


def resize(pods: PodStage, load: Load, cpu: str, memory: str) -> None:
    """As a kubelet that supports it allows: it has reported the resources of each container."""
    rest, path = pods.bed.kube.rest, f"/api/v1/namespaces/{load.namespace}/pods/{load.name}"
    (container,) = workload_spec(cpu, memory)["containers"]
    told = {"name": container["name"], "image": "none", "imageID": "", "ready": True,
            "restartCount": 0, "resources": container["resources"]}  # fmt: skip
    status: dict[str, Any] = {"status": {"phase": "Running", "containerStatuses": [told]}}
    rest.call("PATCH", f"{path}/status", status, content_type=STRATEGIC)
    change = {"name": container["name"], "resources": container["resources"]}
    rest.call("PATCH", f"{path}/resize", {"spec": {"containers": [change]}}, content_type=STRATEGIC)


def test_a_pod_that_outgrows_its_job_says_so_until_it_fits_again_P20(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    load = pods.load(host, knobs=FOREVER)
    job_id = load.until_bound()
    resize(pods, load, "3", "64Mi")
    load.until(lambda: load.condition(CONDITION)[:2] == ("True", "PodResized"))
    assert f"3 CPUs, and Slurm job {job_id} holds 1." in load.condition(CONDITION)[2]
    load.until(lambda: load.events_of(CONDITION) == [load.condition(CONDITION)[2]])
    load.until(lambda: load.events_of("SettingsIgnored"))
    since = scheduler.mark()
    resize(pods, load, "1", "64Mi")
    load.until(lambda: load.condition(CONDITION)[0] == "")

    def written() -> set[str]:
        return {line["action"] for line in scheduler.writes(since=since, pod=load.path)}

    load.until(lambda: written() == {"set-conditions"})
    assert load.condition("PodScheduled")[0] == "True"
    assert not load.terminating
