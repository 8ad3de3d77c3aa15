"""Jobs that sunk-sync does not cancel because it cannot read their Pods (P21): which they are."""

from msgspec.structs import replace

from sunk_sync.core.alarms import kept_jobs
from sunk_sync.core.model.facts import GetResult
from tests.kit.build import Core, identity, job, pod, room, running


def answered(core: Core, found: str) -> None:
    """The read by name of the absent Pod gives this."""
    core.see(GetResult("Pod", "ns", "p1", found, "", core.now))  # type: ignore[arg-type]


def test_a_job_is_counted_once_its_pod_cannot_be_read_P21() -> None:
    """Not while the question is under way."""
    core = Core(*room(), running(pod()))
    core.wait(1)
    assert not kept_jobs(core.graph)
    answered(core, "unknown")
    assert [one.job_id for one in kept_jobs(core.graph)] == ["7"]
    core.wait(31)
    answered(core, "no")
    assert not kept_jobs(core.graph)


def test_a_pod_that_shows_up_frees_its_job_P21() -> None:
    """It lives."""
    core = Core(*room(), running(pod()))
    core.wait(1)
    answered(core, "unknown")
    core.see(pod())
    assert not kept_jobs(core.graph)


def test_a_task_whose_namespace_is_not_watched_is_counted_P21() -> None:
    """An array names its Pods by UID alone: nothing can be asked."""
    named = replace(identity(pod()), pods=(), uids=("uid-p1",))
    task = running(pod(), job_id="3_0", identity=named)
    assert kept_jobs(Core(*room(), task, watch_namespaces=("other",)).graph) == [task]
    assert not kept_jobs(Core(*room(), task, watch_namespaces=("ns",)).graph)


def test_a_job_that_ended_is_not_kept_P21() -> None:
    """Slurm remembers it for a while."""
    core = Core(*room(), running(pod()))
    core.wait(1)
    answered(core, "unknown")
    core.see(job(pod(), state="CANCELLED", slurm_nodes=("n1",)))
    assert not kept_jobs(core.graph)
