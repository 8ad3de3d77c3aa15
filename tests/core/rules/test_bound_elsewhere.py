"""P18, P19: a bound Pod whose job waits: bound by somebody else, or by us before a requeue."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, EndPod
from sunk_sync.core.model.event_kinds import EVENT_BOUND_ELSEWHERE
from tests.kit.build import BOUND, job, pod, running, two_hosts


@pytest.mark.parametrize("job_id", ["", "7"])
@pytest.mark.parametrize(("node_name", "state"), [("kn1", "PENDING"), ("kn2", "RUNNING")])
def test_the_job_of_a_pod_bound_by_others_is_replaced_P18(
    node_name: str, state: str, job_id: str
) -> None:
    """The Pod may carry the job's id, because its job waited for long."""
    theirs = pod(node_name=node_name, job_id=job_id)
    its = job(theirs, state=state, slurm_nodes=("n1",) if state == "RUNNING" else ())
    core = two_hosts(theirs, its)
    assert core.cancels(theirs) == [("7", True)]
    assert not core.ends(theirs)
    assert core.events(theirs) == [EVENT_BOUND_ELSEWHERE]


def test_an_allocation_whose_record_was_not_read_is_not_replaced_P18() -> None:
    """Simulator, seed 215772: a Pod's new job was cancelled as that of a Pod elsewhere."""
    ours = pod(node_name="kn1")
    core = two_hosts(ours, job(ours, script=False, submitted_at=0, state="CONFIGURING+RUNNING"))
    assert not core.workload_wants(ours, CancelJob, EndPod)
    core.see(running(ours, script=False, submitted_at=5, at=("n2",)))
    assert core.cancels(ours)


def test_a_pod_that_we_bound_ends_when_its_job_was_requeued_P19() -> None:
    core = two_hosts(BOUND, job(BOUND, requeued=True))
    assert core.cancels(BOUND)
    (end,) = core.workload_wants(BOUND, EndPod)
    assert "requeued" in end.message


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING+RUNNING"])
def test_a_job_that_runs_elsewhere_was_requeued_although_nobody_saw_it_P19(state: str) -> None:
    """Simulator, seed 270039: slurmctld was killed and forgot that the job had started."""
    core = two_hosts(BOUND, running(BOUND))
    assert not core.workload_wants(BOUND, CancelJob, EndPod)
    again = job(BOUND, state=state, slurm_nodes=() if state == "PENDING" else ("n2",))
    core.see(again)
    assert core.cancels(BOUND) == [("7", True)]
    (end,) = core.workload_wants(BOUND, EndPod)
    assert "requeued" in end.message
    identity = replace(again.identity, replaced=True)
    core.see(replace(again, identity=identity, state=frozenset({"CANCELLED"})))
    assert core.ends(BOUND)


@pytest.mark.parametrize(("state", "hosts"), [("PENDING", ()), ("RUNNING", ("n2",))])
@pytest.mark.parametrize("bound_for", ["7", "6", ""])
def test_after_a_restart_the_binding_shows_who_bound_P19_F1(
    state: str, hosts: tuple[str, ...], bound_for: str
) -> None:
    """Simulator, seed 551932: after kills of both daemons the Pod stayed without a job."""
    ours = pod(node_name="kn1", job_id="7", bound_for=bound_for)
    core = two_hosts(ours, job(ours, state=state, slurm_nodes=hosts))
    assert core.cancels(ours)
    assert bool(core.ends(ours)) == (bound_for == "7")
