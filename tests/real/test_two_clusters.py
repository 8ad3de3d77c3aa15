"""P22: two services of two Kubernetes clusters on one Slurm do not disturb each other.

Same scheduler name, same namespace, same names of Pods: only the UID of kube-system differs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import check_health, for_each_slurm
from tests.real.pod_bed import CPUS, PodBed, pod_conf
from tests.real.stage import stays
from tests.real.testbed import Bed, KubeServer, SlurmServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

HOSTS = ("n1", "n2"), ("n3", "n4")
PODS = ("a", "b")


@contextmanager
def two_clusters(version: str) -> Iterator[tuple[PodBed, PodBed]]:
    """Start one Slurm and two Kubernetes clusters; each has two of the four hosts."""
    with SlurmServer(version, pod_conf(4)) as slurm, KubeServer() as one, KubeServer() as two:
        for kube, hosts in zip((one, two), HOSTS, strict=True):
            kube.add_hosts(*hosts)
        with PodBed(Bed(one, slurm)) as first, PodBed(Bed(two, slurm)) as second:
            yield first, second


beds = for_each_slurm(two_clusters)


def uids(bed: PodBed) -> set[str]:
    return {pod["metadata"]["uid"] for pod in bed.ours()}


def jobs_of(bed: PodBed, among: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the jobs that name one of these Pods by id, with state and nodes."""
    return {
        str(job["job_id"]): (*job["job_state"], job["nodes"])
        for job in bed.jobs()
        if any(uid in job["admin_comment"] for uid in among)
    }


def test_two_services_do_not_touch_each_others_jobs_P22(beds: tuple[PodBed, PodBed]) -> None:
    one, two = beds
    first, second = (bed.service(gate=False) for bed in beds)
    with first, second:
        for bed in beds:
            for name in PODS:
                bed.make_pod(name, cpus=CPUS)
        for bed, hosts in zip(beds, HOSTS, strict=True):
            bed.until_bound(*PODS)
            assert {bed.host_of(name) for name in PODS} == set(hosts)
        theirs = uids(two)
        before = jobs_of(two, theirs)
        assert len(before) == len(jobs_of(one, uids(one))) == len(PODS)

        def untouched() -> bool:
            return uids(two) == theirs and jobs_of(two, theirs) == before

        one.cancel(one.job_of("a"))
        one.until(lambda: one.pod("a") is None, "a ended with its job")
        assert stays(untouched)
        one.delete_pod("b")
        one.until(lambda: not one.host_of("b") and not live_of(one, two), "b ended", within_s=60)
        assert stays(untouched)
        one.make_pod("a")
        one.until_bound("a")
        first.restart()
        first.settle()
        assert stays(untouched)
        # Every Pod of the first cluster is deleted while its service is down: only its own jobs
        # end.
        first.kill9()
        one.delete_pod("a")
        one.until(lambda: not uids(one), "no Pod")
        second.restart()
        assert stays(untouched)
        assert len(live_of(one, two)) == 1, "two ended what is of one"
        first.start().wait_ready()
        one.until(lambda: not live_of(one, two), "the orphan ended")
        assert stays(untouched)
        check_health(second, since=0)
        check_health(first, since=first.begun)
        one.say(f"the jobs of the second cluster from first to last: {jobs_of(two, theirs)}")


def live_of(one: PodBed, two: PodBed) -> list[str]:
    """Return the live jobs that are not of the second cluster."""
    theirs = jobs_of(two, uids(two))
    live = {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING"}
    jobs = {str(job["job_id"]): live.intersection(job["job_state"]) for job in one.jobs()}
    return [job_id for job_id, state in jobs.items() if state and job_id not in theirs]
