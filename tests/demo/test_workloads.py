"""The demo's Pods: what its people do, what it sees of them, and how it puts that into words."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sunk_sync.core.model.names import DISRUPTION_CONDITION, JOB_ID
from sunk_sync.demo.scene import row_of
from sunk_sync.demo.stage.callers import spelled
from sunk_sync.demo.stage.users import BEREFT, CROWDED, TEAM, Users
from sunk_sync.demo.stage.worlds import GPU, PLAIN_HOSTS, URGENT, WORK_HOSTS, Worlds
from sunk_sync.demo.story.residents import on_host, waiting
from sunk_sync.embedded.slurm.model.job import Job, JobRequest

HOST = WORK_HOSTS[0]


@pytest.fixture
async def worlds() -> AsyncIterator[Worlds]:
    worlds = Worlds()
    yield worlds
    await worlds.aclose()


@pytest.fixture
def users(worlds: Worlds) -> Users:
    return Users(worlds)


def allocate(worlds: Worlds, pod: str, *, nodes: int = 1) -> Job:
    """The placeholder of a Pod, as the service makes it; the gate lets it in."""
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
    """A Pod that stands where the job runs."""
    worlds.kube.add_pod(
        name,
        namespace=TEAM,
        node=host,
        metadata={"annotations": {JOB_ID: str(job.job_id), "embedded/end-delay-s": "5"}},
        spec={"schedulerName": "slurm-demo", "terminationGracePeriodSeconds": 10},
    )
    worlds.kube.advance(worlds.kube.now_s)


async def test_a_pod_is_bound_only_where_its_one_job_runs(worlds: Worlds, users: Users) -> None:
    """And nowhere else, and not by the number alone."""
    job = allocate(worlds, "train")
    assert not users.is_bound("train")
    bind(worlds, "train", job)
    assert users.is_bound("train")
    row = row_of(worlds, HOST, because="")
    assert (row.jobs, row.mood) == (f"{job.job_id} train", "held")
    allocate(worlds, "train")
    assert not users.is_bound("train"), "two jobs"


async def test_a_gang_is_bound_when_all_of_it_is(worlds: Worlds, users: Users) -> None:
    """Each on a machine of the one job."""
    job = allocate(worlds, "a", nodes=2)
    bind(worlds, "a", job, host=job.nodes[0])
    assert not users.is_bound("a", "b")
    bind(worlds, "b", job, host=job.nodes[1])
    assert users.is_bound("a", "b")


async def test_two_on_one_machine_are_wrong_at_any_moment(worlds: Worlds, users: Users) -> None:
    """A job that waits at the gate is not."""
    bind(worlds, "train", allocate(worlds, "train"))
    assert not users.wrong()
    users.cancel_placeholder("train")
    users.submit("ada", HOST, partition=URGENT)
    worlds.slurm.advance(worlds.slurm_now_s + 2)
    (job,) = users.jobs_of("ada")
    assert job.configuring
    assert not users.wrong()
    assert on_host(users, HOST) == f"{job.job_id - 1} train, {job.job_id} ada at gate"
    worlds.slurm.release_gate(job.job_id, now_s=worlds.slurm.now_s)
    assert users.jobs_at_work("ada")
    assert users.wrong() == CROWDED


async def test_a_job_that_ends_before_its_deleted_pod_is_wrong(
    worlds: Worlds, users: Users
) -> None:
    """But for a Pod that is told to go because its job has ended."""
    bind(worlds, "train", allocate(worlds, "train"))
    users.delete("train")
    assert not users.wrong()
    assert on_host(users, HOST).endswith(" train ends")
    users.cancel_placeholder("train")
    assert users.wrong() == BEREFT
    condition = {"type": DISRUPTION_CONDITION, "status": "True", "reason": "SlurmJobCancelled"}
    pod = users.pod("train")
    pod["status"]["conditions"].append(condition)
    assert not users.wrong()
    assert users.told("train", "SlurmJobCancelled")


async def test_pods_that_wait_are_told_with_their_reason(worlds: Worlds, users: Users) -> None:
    """Slurm's for a job in the queue, the service's own for one that gets none."""
    assert waiting(users) == []
    users.apply("eval", timeout="soon")
    users.apply("low")
    uid = users.pod("low")["metadata"]["uid"]
    request = JobRequest(name=f"k8s/{TEAM}/low/0", admin_comment=uid, partition=GPU, cpus=1)
    allocate(worlds, "others", nodes=3)
    made = worlds.slurm.submit(request, now_s=worlds.slurm_now_s)
    assert waiting(users) == [f"low (job {made}: Resources)", "eval: no job yet"]


async def test_whoever_is_left_can_be_sent_away(worlds: Worlds, users: Users) -> None:
    """Jobs on other machines stay."""
    users.apply("train")
    users.submit("ada", *WORK_HOSTS)
    worlds.run_job(PLAIN_HOSTS[0], user="ada")
    worlds.slurm.advance(worlds.slurm_now_s + 2)
    assert not users.free_hosts()
    assert len(users.jobs_of("ada")) == len(WORK_HOSTS)
    users.leave()
    assert users.has_room()
    assert users.is_gone("train")
    assert row_of(worlds, PLAIN_HOSTS[0], because="").jobs.endswith(" ada at gate")


async def test_a_task_of_an_array_names_itself_as_slurm_does() -> None:
    """SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID."""
    job = Job(job_id=9, request=JobRequest(), partition=GPU)
    assert spelled(job) == "9"
    task = Job(job_id=12, request=JobRequest(), partition=GPU, array_id=9, task=2)
    assert spelled(task) == "9_2"


async def test_callers_of_a_closed_door_ask_again_and_end_when_told(worlds: Worlds) -> None:
    """The gate of a job stays shut while nobody answers."""
    before = asyncio.all_tasks()
    worlds.open_gate("http://127.0.0.1:1")
    await asyncio.sleep(0.3)
    jobs = [job for job in worlds.slurm.jobs.values() if job.nodes]
    assert all(job.configuring for job in jobs)
    await worlds.aclose()
    assert asyncio.all_tasks() == before
