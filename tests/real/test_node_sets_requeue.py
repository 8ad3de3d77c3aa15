"""N28: jobs that are requeued, instead of waiting for their end, on real servers."""

import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import CONF, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.testbed import SlurmConf

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.both_slurms("24.11 has no request to requeue"),
]

LONG = "#!/bin/sh\nsleep 600\n"
SHORT = "#!/bin/sh\nsleep 8\n"
SHORT_LIVED = {"method": "partition", "partitions": ["spare"]}
TWO_PARTITIONS = SlurmConf(
    slurmds=1, cpus=4, extra_lines=(*CONF.extra_lines, "PartitionName=spare Nodes=ALL")
)


farms = for_each_slurm(lambda version: farm_with(version, conf=TWO_PARTITIONS))


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    for job in farms.slurm.rest.call("GET", farms.slurm.path("jobs/"))["jobs"]:
        farms.slurm.cancel(str(job["job_id"]))
    farms.clear()


def run(farm: Farm, script: str, name: str, **fields: object) -> str:
    fields = {"partition": "spare", "requeue": True, **fields}
    job = farm.slurm.submit(script, required_nodes=[name], **fields)
    wait_for(lambda: farm.job(job)["job_state"] == ["RUNNING"], f"job {job} running")
    return job


def uids(farm: Farm) -> set[str]:
    return {pod["metadata"]["uid"] for pod in farm.pods_of().values()}


def runs_again(farm: Farm, job: str) -> bool:
    """Whether it was requeued once, and waits."""
    found = farm.job(job)
    return (found["job_state"], found["restart_cnt"]) == (["PENDING"], 1)


def test_jobs_of_a_partition_are_requeued_for_an_update_and_others_run_on_N28(farm: Farm) -> None:
    farm.make(2, updateJobs=SHORT_LIVED, updateStrategy={"type": "RollingUpdate",
              "rollingUpdate": {"maxUnavailable": 2}})  # fmt: skip
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    old = farm.slurm.version == "24.11"
    spare = run(farm, SHORT if old else LONG, "cpu-0")
    kept = run(farm, SHORT, "cpu-1", partition="main")
    before = uids(farm)
    farm.change(template={"metadata": {"labels": {"newer": "true"}}})
    if old:
        why = "slurmrestd requeues jobs only from API v0.0.45 on"
        wait_for(lambda: why in str(farm.events("SlurmJobsNotRequeued")), "the Event")
    else:
        took_s = wait_for(lambda: runs_again(farm, spare), "the job requeued")
        print(f"requeued {took_s:.2f} s after the change")
        wait_for(lambda: farm.events("SlurmJobsRequeued"), "the Event")
        wait_for(lambda: "partition main" in str(farm.events("SlurmJobsNotRequeued")), "the other")
    wait_for(lambda: not uids(farm) & before, "no older Pod", deadline_s=60)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    ended = farm.job(kept)
    assert (ended["job_state"], ended["restart_cnt"]) == (["COMPLETED"], 0)


def test_a_scale_in_requeues_jobs_after_its_timeout_and_never_those_that_must_not_be_N28(
    farm: Farm,
) -> None:
    """On 24.11 both run to their end."""
    farm.make(2, updateJobs={"method": "time", "after": "1h"}, scaleInTimeout="3s")
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    old = farm.slurm.version == "24.11"
    job = run(farm, SHORT if old else LONG, "cpu-0")
    kept = run(farm, SHORT, "cpu-1", requeue=False)
    begun_s = time.monotonic()
    farm.scale(0)
    wait_for(lambda: old or runs_again(farm, job), "the job requeued")
    if not old:
        took_s = time.monotonic() - begun_s
        print(f"requeued {took_s:.2f} s after the scale-in")
        assert took_s > 2.5
        wait_for(lambda: "--no-requeue" in str(farm.events("SlurmJobsNotRequeued")), "the other")
    wait_for(lambda: not farm.pods_of(), "both Pods gone", deadline_s=60)
    ended = farm.job(kept)
    assert (ended["job_state"], ended["restart_cnt"]) == (["COMPLETED"], 0)


def test_one_task_of_an_array_is_requeued_and_its_sibling_runs_on_N28(farm: Farm) -> None:
    """On 24.11 both run to their end."""
    farm.make(2, updateJobs={"method": "time", "after": "1h"}, scaleInTimeout="1s", cpus=1)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    old = farm.slurm.version == "24.11"
    array = farm.slurm.submit(
        SHORT if old else LONG, array="0-1", requeue=True, excluded_nodes=farm.slurm.conf.names
    )
    wait_for(lambda: set(tasks(farm, array)) == {"cpu-0", "cpu-1"}, "both tasks running")
    before = tasks(farm, array)
    farm.scale(1)
    if not old:
        wait_for(lambda: len(tasks(farm, array)) == 1, "one task requeued")
    wait_for(lambda: len(farm.pods_of()) == 1, "one Pod gone", deadline_s=60)
    # A node whose task was not yet seen to run goes first.
    (stays,) = farm.pods_of()
    kept = farm.job(before[stays])
    assert (kept["job_state"], kept["restart_cnt"]) == (["RUNNING"], 0) or old


def tasks(farm: Farm, array: str) -> dict[str, str]:
    """Return the record number of the running task on each Slurm node."""
    jobs = farm.slurm.rest.call("GET", farm.slurm.path("jobs/"))["jobs"]
    return {
        one["nodes"]: str(one["job_id"])
        for one in jobs
        if str(one["array_job_id"]["number"]) == array and one["job_state"] == ["RUNNING"]
    }
