"""How long other jobs ran beside Pods whose own job had ended (P25)."""

from typing import Any

import pytest

from sunk_sync.core.alarms import DoubleAllocation
from sunk_sync.core.model.calls import CallEnded, GateCall
from sunk_sync.core.model.facts import Pod
from tests.kit.build import Core, deleted, job, pod, room, running, slurm_node

BOUND = pod(node_name="kn1", phase="Running")
BUSY = slurm_node(state="ALLOCATED+DRAIN")
WAITING = pod("p2")
NEIGHBOUR = pod("p2", node_name="kn1", phase="Running", job_id="8")


class Measured:
    """A host whose Pod's job ended at second 1,000."""

    def __init__(self, *others: Pod, state: str = "CANCELLED", script: bool = False, **chosen: Any):
        self.core = Core(*room(), BOUND, *others, running(BOUND, script=script), **chosen)
        self.overlap = DoubleAllocation()
        self.core.see(job(BOUND, state=state, slurm_nodes=("n1",), script=script))
        self.sample()

    def sample(self) -> float:
        """Return the seconds measured so far."""
        self.overlap.sample(self.core.graph, now=self.core.now)
        return self.overlap.seconds

    def wait(self, seconds: int) -> float:
        """Read the Slurm nodes and sample twice a second; return the seconds measured so far."""
        for _ in range(2 * seconds):
            self.core.wait(0.5)
            self.core.confirm("slurm_nodes")
            self.sample()
        return self.overlap.seconds


def test_another_job_is_measured_from_the_end_of_the_pods_job_until_the_pod_is_gone_P25() -> None:
    measured = Measured()
    measured.core.see(BUSY)
    assert measured.wait(10) == 10
    assert measured.overlap.hosts == 1
    measured.core.see(deleted("pods", BOUND))
    assert measured.wait(5) == 10
    assert measured.overlap.hosts == 0


def test_a_node_that_was_not_read_since_the_end_counts_only_once_it_is_read_P25() -> None:
    """Until then it is ALLOCATED for the Pod's own job."""
    measured = Measured()
    measured.core.see(BUSY)
    measured.core.wait(3)
    assert measured.sample() == 0
    measured.core.confirm("slurm_nodes")
    assert measured.sample() == 3


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "ALLOCATED+COMPLETING"])
def test_a_host_that_is_free_or_runs_the_jobs_epilog_counts_nothing_P25(state: str) -> None:
    measured = Measured()
    measured.core.see(slurm_node(state=state))
    assert measured.wait(10) == 0


def test_while_the_script_of_the_job_completes_no_other_job_can_start_P25() -> None:
    measured = Measured(state="CANCELLED+COMPLETING", script=True)
    measured.core.see(BUSY)
    assert measured.wait(10) == 0


def test_a_requeued_job_of_a_pod_that_still_ends_holds_no_host_P25() -> None:
    measured = Measured()
    measured.core.see(job(BOUND, state="PENDING", requeued=True, script=False), BUSY)
    assert measured.wait(4) == 4


@pytest.mark.parametrize("other", [WAITING, NEIGHBOUR], ids=["unbound", "bound"])
def test_a_job_of_ours_there_explains_a_busy_node_P25(other: Pod) -> None:
    """Its Pod is bound only after the other is gone (P11), or was bound before the job ended."""
    measured = Measured(other)
    measured.core.see(running(other, job_id="8"))
    measured.core.see(BUSY)
    assert measured.wait(10) == 0


def test_with_the_gate_only_a_job_that_passed_it_counts_P25() -> None:
    """Jobs that share the node and never asked ran there before."""
    measured = Measured(gate="on")
    measured.core.see(BUSY)
    assert measured.wait(5) == 0
    measured.core.see(GateCall(1, "9", ("n1",), measured.core.now, measured.core.now + 60))
    assert measured.wait(5) == 0
    measured.core.see(CallEnded(1))
    assert measured.wait(5) == 5
