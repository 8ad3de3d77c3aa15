"""P30: a bound Pod of which Slurm knows no job any more."""

from sunk_sync.core.model.actions import Drain, SubmitJob, Undrain
from sunk_sync.core.model.facts import ListingEnded, ListingStarted
from tests.kit.build import BOUND, OFFER, Core, job, node, observed, slurm_node, slurmd_pod

REASON = "k8s: pod without job"


def core_of(policy: str) -> Core:
    """The Pod stands on host n1, and one complete listing holds no job of it."""
    core = Core(
        node("kn1", offer=OFFER), slurmd_pod("n1"), slurm_node("n1"), BOUND,
        lost_job=policy, gate="on",
    )  # fmt: skip
    list_jobs(core, 1.0)
    return core


def list_jobs(core: Core, after_s: float, *rows: object) -> None:
    """Another complete listing of jobs, so much later."""
    core.wait(after_s)
    begun = ListingStarted("jobs", begun_s=core.now, order=core.now)
    core.see(begun, *(observed(row, core.now) for row in rows), ListingEnded("jobs"))  # type: ignore[arg-type]


def drained(core: Core) -> bool:
    return bool(core.wants("n1", Drain))


def test_two_listings_a_minute_apart_drain_the_host_P30() -> None:
    core = core_of("keep")
    list_jobs(core, 59.0)
    assert not drained(core)
    list_jobs(core, 1.0)
    assert drained(core)


def test_readopt_asks_for_another_job_before_it_drains_P30() -> None:
    """A drain of our own would refuse the allocation."""
    core = core_of("readopt")
    list_jobs(core, 60.0)
    assert core.workload_wants(BOUND, SubmitJob)
    assert not drained(core)
    list_jobs(core, 10.0)
    assert drained(core), "nobody answered"


def test_readopt_that_slurm_refused_keeps_the_host_drained_P30() -> None:
    """The record that the refusal leaves is no job of the Pod: the drain is not lifted for it."""
    core = core_of("readopt")
    list_jobs(core, 60.0)
    left = job(BOUND, state="FAILED", job_id="8", script=False)
    list_jobs(core, 1.0, left)
    assert drained(core)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASON))
    list_jobs(core, 1.0, left)
    assert not core.wants("n1", Undrain)
    assert not core.workload_wants(BOUND, SubmitJob)
