"""The measure of P25: how long other jobs ran beside Pods whose own job had ended."""

from typing import Any

from sunk_sync.core.alarms import DoubleAllocation
from sunk_sync.core.model.facts import CallEnded, GateCall, Pod
from tests.kit.build import Core, deleted, job, observed, pod, room, running, slurm_node

BOUND = pod(node_name="kn1", phase="Running")
BUSY = slurm_node(state="ALLOCATED+DRAIN")


class Scene:
    """A host whose Pod's job ended at second 1,000; samples twice a second."""

    def __init__(self, *others: Pod, state: str = "CANCELLED", script: bool = False, **chosen: Any):
        ran = running(BOUND, script=script)
        self.core = Core(*room(), BOUND, *others, ran, **chosen)
        self.overlap = DoubleAllocation()
        self.core.see(job(BOUND, state=state, slurm_nodes=("n1",), script=script))
        self.sample()

    def sample(self) -> float:
        """Seconds measured so far."""
        self.overlap.sample(self.core.graph, now=self.core.now)
        return self.overlap.seconds

    def wait(self, seconds: float) -> float:
        """Let so much time pass, Slurm nodes being read as they stand."""
        for _ in range(int(2 * seconds)):
            self.core.wait(0.5)
            self.core.confirm("slurm_nodes")
            self.sample()
        return self.overlap.seconds


def test_a_job_that_came_first_is_measured_until_the_pod_is_gone_P25() -> None:
    """From the end of the Pod's job, for whoever holds the node now came since."""
    scene = Scene()
    scene.core.see(observed(BUSY))
    assert scene.wait(10) == 10
    assert scene.overlap.hosts == 1
    scene.core.see(deleted("pods", BOUND))
    assert scene.wait(5) == 10
    assert scene.overlap.hosts == 0


def test_a_node_that_was_not_read_since_the_end_says_nothing_P25() -> None:
    """It reads ALLOCATED for the Pod's own job; what is read later settles the time between."""
    scene = Scene()
    scene.core.see(observed(BUSY))
    scene.core.wait(3)
    assert scene.sample() == 0
    scene.core.confirm("slurm_nodes")
    assert scene.sample() == 3


def test_a_host_that_stays_free_costs_nothing_P25() -> None:
    """The drain came in time."""
    scene = Scene()
    scene.core.see(observed(slurm_node(state="IDLE+DRAIN")))
    assert scene.wait(10) == 0


def test_what_still_completes_is_no_other_job_P25() -> None:
    """The epilog of the Pod's own job."""
    scene = Scene()
    scene.core.see(observed(slurm_node(state="ALLOCATED+COMPLETING")))
    assert scene.wait(10) == 0


def test_a_script_that_completes_holds_its_host_P25() -> None:
    """Nobody else can have started there."""
    scene = Scene(state="CANCELLED+COMPLETING", script=True)
    scene.core.see(observed(BUSY))
    assert scene.wait(10) == 0


def test_a_requeued_job_holds_nothing_P25() -> None:
    """It waits again, and its Pod still ends; measured from when that is first seen."""
    scene = Scene()
    again = job(BOUND, state="PENDING", requeued=True, script=False)
    scene.core.see(observed(again), observed(BUSY))
    scene.wait(4)
    assert scene.overlap.seconds == 4


def test_a_job_of_ours_there_explains_a_busy_node_P25() -> None:
    """Its Pod is bound only when the other is gone (P11)."""
    other = pod("p2")
    scene = Scene(other)
    scene.core.see(observed(running(other, job_id="8")))
    scene.core.see(observed(BUSY))
    assert scene.wait(10) == 0


def test_so_does_one_whose_pod_is_bound_there_P25() -> None:
    """Both stand on one machine by right: the second was bound before the first one's job ended."""
    other = pod("p2", node_name="kn1", phase="Running", job_id="8")
    scene = Scene(other)
    scene.core.see(observed(running(other, job_id="8")))
    scene.core.see(observed(BUSY))
    assert scene.wait(10) == 0


def test_with_the_gate_only_who_was_let_pass_counts_P25() -> None:
    """Jobs that share the node and never asked ran there before."""
    scene = Scene(gate="on")
    scene.core.see(observed(BUSY))
    assert scene.wait(5) == 0
    scene.core.see(GateCall(1, "9", ("n1",), scene.core.now, scene.core.now + 60))
    assert scene.wait(5) == 0
    scene.core.see(CallEnded(1))
    assert scene.wait(5) == 5
