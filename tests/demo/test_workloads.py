"""The Pods of the demo: actions of users, claims about them, their rows on the screen."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sunk_sync.core.model.names import DISRUPTION_CONDITION, JOB_ID
from sunk_sync.demo.snapshot import row_of
from sunk_sync.demo.stage.callers import job_name
from sunk_sync.demo.stage.users import ENDED_EARLY, OVERLAP, TEAM, Users
from sunk_sync.demo.stage.worlds import GPU, PLAIN_HOSTS, URGENT, WORKLOAD_HOSTS, Worlds
from sunk_sync.demo.story.residents import on_host, waiting
from sunk_sync.embedded.slurm.model.job import Job, JobRequest

HOST = WORKLOAD_HOSTS[0]


@pytest.fixture
async def worlds() -> AsyncIterator[Worlds]:
    worlds = Worlds()
    yield worlds
    await worlds.aclose()


@pytest.fixture
def users(worlds: Worlds) -> Users:
    return Users(worlds)


def allocate(worlds: Worlds, pod: str, *, nodes: int = 1) -> Job:
    """Allocate the placeholder of a Pod as the service does, and let it pass the gate."""
    uid = (worlds.kube.pod(pod, namespace=TEAM) or {"metadata": {"uid": "-"}})["metadata"]["uid"]
    request = JobRequest(
        name=f"k8s/{TEAM}/{pod}/0123abcd",
        admin_comment=f"… {TEAM}/{pod}/{uid} …",
        kind="allocation",
        partition=GPU,
        nodes=nodes,
        cpus=16,
        duration_s=None,
    )
    made = worlds.slurm.allocate(request, now_s=worlds.slurm_now_s)
    assert isinstance(made, int)
    worlds.slurm.release_gate(made, now_s=worlds.slurm_now_s)
    return worlds.slurm.jobs[made]


def bind(worlds: Worlds, name: str, job: Job, *, host: str = HOST) -> None:
    """Create a Pod bound to the host of the job."""
    worlds.kube.add_pod(
        name,
        namespace=TEAM,
        node=host,
        metadata={"annotations": {JOB_ID: str(job.job_id), "embedded/end-delay-s": "5"}},
        spec={"schedulerName": "slurm-demo", "terminationGracePeriodSeconds": 10},
    )
    worlds.kube.advance(worlds.kube.now_s)


async def test_a_pod_is_bound_only_where_its_one_job_runs(worlds: Worlds, users: Users) -> None:
    job = allocate(worlds, "train")
    assert not users.is_bound("train")
    bind(worlds, "train", job)
    assert users.is_bound("train")
    row = row_of(worlds, HOST, because="")
    assert (row.jobs, row.status) == (f"{job.job_id} train", "pod")
    allocate(worlds, "train")
    assert not users.is_bound("train"), "two jobs"


async def test_a_gang_is_bound_on_one_machine_for_each_pod(worlds: Worlds, users: Users) -> None:
    job = allocate(worlds, "a", nodes=2)
    bind(worlds, "a", job, host=job.nodes[0])
    assert not users.is_bound("a", "b")
    bind(worlds, "b", job, host=job.nodes[1])
    assert users.is_bound("a", "b")


async def test_a_job_beside_a_running_pod_is_a_violation(worlds: Worlds, users: Users) -> None:
    """A job that waits at the gate does not count."""
    bind(worlds, "train", allocate(worlds, "train"))
    assert not users.violation()
    users.cancel_placeholder("train")
    users.submit("ada", HOST, partition=URGENT)
    worlds.slurm.advance(worlds.slurm_now_s + 2)
    (job,) = users.jobs_of("ada")
    assert job.configuring
    assert not users.violation()
    assert on_host(users, HOST) == f"{job.job_id - 1} train, {job.job_id} ada at gate"
    worlds.slurm.release_gate(job.job_id, now_s=worlds.slurm.now_s)
    assert users.running_jobs_of("ada")
    assert users.violation() == OVERLAP


async def test_an_end_before_that_of_the_pod_is_a_violation(worlds: Worlds, users: Users) -> None:
    """Except for a Pod that ends because its job has ended."""
    bind(worlds, "train", allocate(worlds, "train"))
    users.delete("train")
    assert not users.violation()
    assert on_host(users, HOST).endswith(" train ends")
    users.cancel_placeholder("train")
    assert users.violation() == ENDED_EARLY
    condition = {"type": DISRUPTION_CONDITION, "status": "True", "reason": "SlurmJobCancelled"}
    pod = users.pod("train")
    pod["status"]["conditions"].append(condition)
    assert not users.violation()
    assert users.is_disrupted("train", "SlurmJobCancelled")


async def test_waiting_pods_are_described_with_their_reason(worlds: Worlds, users: Users) -> None:
    """The reason of Slurm for a pending job, that of the service for a Pod without a job."""
    assert waiting(users) == []
    users.apply("eval", timeout="soon")
    users.apply("low")
    uid = users.pod("low")["metadata"]["uid"]
    request = JobRequest(name=f"k8s/{TEAM}/low/0", admin_comment=uid, partition=GPU, cpus=1)
    allocate(worlds, "others", nodes=3)
    made = worlds.slurm.submit(request, now_s=worlds.slurm_now_s)
    assert waiting(users) == [f"low (job {made}: Resources)", "eval: no job yet"]


async def test_clear_frees_the_machines_of_all_pods(worlds: Worlds, users: Users) -> None:
    users.apply("train")
    users.submit("ada", *WORKLOAD_HOSTS)
    worlds.run_job(PLAIN_HOSTS[0], user="ada")
    worlds.slurm.advance(worlds.slurm_now_s + 2)
    assert not users.free_hosts()
    assert len(users.jobs_of("ada")) == len(WORKLOAD_HOSTS)
    users.clear()
    assert users.all_free()
    assert users.is_gone("train")
    assert row_of(worlds, PLAIN_HOSTS[0], because="").jobs.endswith(" ada at gate")


async def test_a_task_of_an_array_is_named_as_in_the_environment_of_slurm() -> None:
    job = Job(job_id=9, request=JobRequest(), partition=GPU)
    assert job_name(job) == "9"
    task = Job(job_id=12, request=JobRequest(), partition=GPU, array_id=9, task=2)
    assert job_name(task) == "9_2"


async def test_callers_without_a_server_retry_and_end_with_the_worlds(worlds: Worlds) -> None:
    before = asyncio.all_tasks()
    worlds.start_callers("http://127.0.0.1:1")
    await asyncio.sleep(0.3)
    jobs = [job for job in worlds.slurm.jobs.values() if job.nodes]
    assert all(job.configuring for job in jobs)
    await worlds.aclose()
    assert asyncio.all_tasks() == before
