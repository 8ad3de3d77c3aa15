"""Which Pods go first, on real servers: by the ends of jobs, deletion cost, and drains (N6, N12).

Seconds are printed (`-rP`).
"""

import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import require
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.stage import stays
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.rest import RestError

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SLEEP = "#!/bin/sh\nsleep 600\n"
HOURS_10 = 600
COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(scope="module")
def farms() -> Iterator[Farm]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with farm_with(SLURM_DEFAULT) as made:
        yield made


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    for job in farms.slurm.rest.call("GET", farms.slurm.path("jobs/"))["jobs"]:
        if job["job_state"] == ["RUNNING"]:
            farms.slurm.cancel(str(job["job_id"]))
    farms.clear()
    assert not farms.service.lines("surprise")


def job_on(farm: Farm, name: str, *, minutes: int | None = None) -> str:
    """Let a job run on this Slurm node; `minutes`: its time limit."""
    limit = {} if minutes is None else {"time_limit": {"set": True, "number": minutes}}
    job = farm.slurm.submit(SLEEP, required_nodes=[name], **limit)
    wait_for(lambda: "MIXED" in farm.records()[name], "the job running")
    return str(job)


def test_a_scale_in_does_not_wait_for_a_long_job_beside_an_idle_node_N6(farm: Farm) -> None:
    """The job that ends first has no limit, so the other one was chosen."""
    farm.make(2)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    endless = job_on(farm, "cpu-0")
    long = job_on(farm, "cpu-1", minutes=HOURS_10)
    farm.scale(1)
    wait_for(lambda: "DRAIN" in farm.records()["cpu-1"], "the one with a limit is to go")
    farm.slurm.cancel(endless)
    wait_for(lambda: set(farm.records()) == {"cpu-1"}, "the idle one gone", deadline_s=40)
    wait_for(lambda: farm.usable(1), "the long one in use")
    assert farm.job(long)["job_state"] == ["RUNNING"]


def test_of_busy_pods_the_one_goes_whose_jobs_end_first_N6(farm: Farm) -> None:
    farm.make(3)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    for number, minutes in enumerate((HOURS_10, 5, HOURS_10 - 1)):
        job_on(farm, f"cpu-{number}", minutes=minutes)
    began_s = time.monotonic()
    farm.scale(2)
    wait_for(lambda: "DRAIN" in farm.records()["cpu-1"], "the first to end is to go")
    print(f"drained {time.monotonic() - began_s:.2f} s after `kubectl scale` began")
    assert stays(lambda: drained(farm) == {"cpu-1"})


def drained(farm: Farm) -> set[str]:
    return {name for name, state in farm.records().items() if "DRAIN" in state}


def test_a_deletion_cost_decides_and_a_wrong_one_is_refused_N6(farm: Farm) -> None:
    farm.make(3)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    with pytest.raises(RestError, match="must be a 32bit integer"):
        annotate(farm, "cpu-0", "much")
    annotate(farm, "cpu-0", "-10")
    farm.scale(2)
    wait_for(lambda: set(farm.records()) == {"cpu-1", "cpu-2"}, "the cheap one gone")


def annotate(farm: Farm, pod: str, cost: str) -> None:
    body = {"metadata": {"annotations": {COST: cost}}}
    farm.kube.patch(f"/api/v1/namespaces/slurm/pods/{pod}", body)


def test_drains_of_a_person_do_not_stop_an_update_of_the_shape_N12_N11(farm: Farm) -> None:
    """With 25 % of 4, one may be unavailable: both drained ones were taken, and nothing more."""
    farm.make(4)
    wait_for(lambda: farm.is_available(4), "four nodes in Slurm")
    for name in ("cpu-2", "cpu-3"):
        farm.slurm.scontrol("update", f"nodename={name}", "state=drain", "reason=fan broken")
    wait_for(lambda: farm.status().get("draining") == 2, "both drains in the status")
    farm.change(memory="1Gi")
    wait_for(lambda: sizes(farm) == [1024, 1024, 2048, 2048], "two updated", deadline_s=60)
    wait_for(lambda: farm.condition()[0] == "DrainedByOthers", "the condition")
    message = farm.condition()[1]
    print(message)
    assert message.startswith("cpu-2, cpu-3: drained by ")
    assert "(fan broken)" in message
    assert set(farm.pods_of()) == {"cpu-0", "cpu-1", "cpu-2", "cpu-3"}
    for name in ("cpu-2", "cpu-3"):
        farm.slurm.scontrol("update", f"nodename={name}", "state=resume")
    wait_for(lambda: farm.is_updated(4), "all updated", deadline_s=60)


def sizes(farm: Farm) -> list[int]:
    found = [one for one in farm.slurm.slurm_nodes() if one["name"].startswith("cpu-")]
    return sorted(one["real_memory"] for one in found)
