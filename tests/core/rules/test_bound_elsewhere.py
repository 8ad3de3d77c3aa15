"""P18, P19: a bound Pod whose job waits: bound by somebody else, or by us before a requeue."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, EndPod
from sunk_sync.core.model.names import EVENT_BOUND_ELSEWHERE
from tests.kit.build import BOUND, Core, job, node, pod, running, slurm_node, slurmd_pod

HOST = (node("kn1"), slurmd_pod("n1"), slurm_node("n1"))


@pytest.mark.parametrize("told", ["", "7"])
def test_somebody_elses_binding_costs_the_job_and_not_the_pod_P18(told: str) -> None:
    """Also of a Pod that waited so long that it carries the job's id."""
    theirs = pod(node_name="kn1", job_id=told)
    core = Core(*HOST, theirs, job(theirs))
    assert core.cancels(theirs) == [("7", True)]
    assert not core.workload_wants(theirs, EndPod)
    assert core.events(theirs) == [EVENT_BOUND_ELSEWHERE]


def test_nobody_knows_where_an_allocation_is_before_its_record_was_read_P18() -> None:
    """Found by the simulator: a Pod's new job was cancelled as that of a Pod elsewhere (215772)."""
    ours = pod(node_name="kn1")
    core = Core(*HOST, ours, job(ours, script=False, submitted_at=0, state="CONFIGURING+RUNNING"))
    assert not core.workload_wants(ours, CancelJob, EndPod)
    core.see(running(ours, script=False, submitted_at=5, at=("n2",)))
    assert core.workload_wants(ours, CancelJob)


def test_a_pod_that_we_bound_ends_when_its_job_was_requeued_P19() -> None:
    """It ran before: the id on the Pod came with the binding."""
    core = Core(*HOST, BOUND, job(BOUND, requeued=True))
    assert core.workload_wants(BOUND, CancelJob)
    (end,) = core.workload_wants(BOUND, EndPod)
    assert "requeued" in end.message


@pytest.mark.parametrize("state", ["PENDING", "CONFIGURING+RUNNING"])
def test_a_job_that_runs_elsewhere_was_requeued_though_nobody_saw_it_P19(state: str) -> None:
    """Found by the simulator (270039): slurmctld was killed and forgot that it had begun."""
    hosts = (*HOST, node("kn2"), slurmd_pod("n2"), slurm_node("n2"))
    core = Core(*hosts, BOUND, running(BOUND))
    assert not core.workload_wants(BOUND, CancelJob, EndPod)
    again = job(BOUND, state=state, slurm_nodes=() if state == "PENDING" else ("n2",))
    core.see(again)
    assert core.cancels(BOUND) == [("7", True)]
    (end,) = core.workload_wants(BOUND, EndPod)
    assert "requeued" in end.message
    identity = replace(again.identity, replaced=True)
    core.see(replace(again, identity=identity, state=frozenset({"CANCELLED"})))
    assert core.workload_wants(BOUND, EndPod)


@pytest.mark.parametrize(("state", "hosts"), [("PENDING", ()), ("RUNNING", ("n2",))])
@pytest.mark.parametrize("bound_for", ["7", "6", ""])
def test_a_restarted_process_knows_whom_we_bound_by_the_binding_alone_P19_F1(
    state: str, hosts: tuple[str, ...], bound_for: str
) -> None:
    """Found by the simulator: slurmctld was killed and forgot that the job had begun, then we were
    killed: the Pod stayed, as if somebody else had bound it, without a job (551932).
    """
    ours = pod(node_name="kn1", job_id="7", bound_for=bound_for)
    rows = (*HOST, node("kn2"), slurmd_pod("n2"), slurm_node("n2"))
    core = Core(*rows, ours, job(ours, state=state, slurm_nodes=hosts))
    assert core.workload_wants(ours, CancelJob)
    assert bool(core.workload_wants(ours, EndPod)) == (bound_for == "7")
