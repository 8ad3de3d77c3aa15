"""P30, P31: slurmctld loses its state while 20 Pods run and the service is down.

`SUNK_SYNC_LOST=all` for the policies `readopt` and `end` too (a minute and a half each).
"""

import os

import pytest

from tests.real.conftest import check_health, for_each_slurm
from tests.real.pod_bed import PodBed, pod_bed, pod_conf
from tests.real.service import Service
from tests.real.stage import stays

PODS = 20
LOST_S = 60
"""A missing job has no effect within this time."""
WITHIN_S = LOST_S + 60
REASON = "k8s: pod without job"

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.night("minutes with twenty Pods; one is enough"),
]
if_all = pytest.mark.skipif(os.environ.get("SUNK_SYNC_LOST") != "all", reason="SUNK_SYNC_LOST=all")


bed = for_each_slurm(lambda version: pod_bed(version, pod_conf(PODS)))


def forget(bed: PodBed, service: Service) -> None:
    """Kill both; start slurmctld without its state, then the service."""
    service.kill9()
    bed.bed.slurm.lose_state()
    service.start().wait_ready()


def fill(bed: PodBed) -> list[str]:
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        bed.make_pod(name)
    bed.until_bound(*names, within_s=60)
    return names


def closed(bed: PodBed) -> int:
    rows = bed.bed.slurm.slurm_nodes()
    return sum("DRAIN" in row["state"] and row["reason"] == REASON for row in rows)


def standing(bed: PodBed) -> dict[str, str]:
    """Return the Nodes of Pods that live and are not ending."""
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in bed.ours()
        if "deletionTimestamp" not in pod["metadata"]
    }


def test_with_keep_each_pod_lives_and_its_host_is_drained_P30(bed: PodBed) -> None:
    with bed.service(gate=False) as service:
        names = fill(bed)
        before = standing(bed)
        forget(bed, service)
        assert bed.states() == {}
        bed.until(lambda: closed(bed) == PODS, "all hosts closed", within_s=WITHIN_S)
        assert standing(bed) == before
        other = bed.submit("other", before[names[0]])
        reused = [name for name in names if bed.job_of(name).partition("_")[0] == other]
        bed.say(f"{PODS} Pods live on closed hosts; new job {other} has the number of {reused}")
        assert reused, [bed.job_of(name) for name in names]
        assert stays(lambda: "PENDING" in bed.states()[other])
        bed.cancel(other)
        assert stays(lambda: standing(bed) == before, for_s=3)
        assert service.writes("end-pod", since=service.begun) == []
        check_health(service, since=service.begun)
        bed.clear()


@if_all
def test_with_readopt_each_pod_gets_a_job_on_its_host_P30(bed: PodBed) -> None:
    with bed.service(gate=False, lost_job="readopt") as service:
        fill(bed)
        before = standing(bed)
        forget(bed, service)
        bed.until(lambda: readopted(bed) == before, "all Pods have jobs", within_s=WITHIN_S)
        bed.until(lambda: closed(bed) == 0, "no host is closed")
        assert standing(bed) == before
        check_health(service, since=service.begun)
        bed.clear()


def readopted(bed: PodBed) -> dict[str, str]:
    """Return the Nodes of Pods with exactly one running job there."""
    running = [job for job in bed.jobs() if "RUNNING" in job["job_state"]]
    return {job["name"].split("/")[2]: job["nodes"] for job in running}


@if_all
def test_with_end_the_pods_end_at_the_limit_per_minute_P30_P31(bed: PodBed) -> None:
    with bed.service(gate=False, lost_job="end", max_pod_ends_per_minute="12") as service:
        fill(bed)
        forget(bed, service)
        assert stays(lambda: len(standing(bed)) == PODS, for_s=LOST_S - 20)
        bed.until(lambda: len(standing(bed)) == PODS - 12, "the first twelve", within_s=60)
        assert stays(lambda: len(standing(bed)) == PODS - 12, for_s=20)
        bed.until(lambda: not standing(bed), "all ended", within_s=WITHIN_S)
        check_health(service, since=service.begun)
        bed.clear()
