"""Rows L6 and P25: a host stays closed while a Pod lives there whose placeholder is ending."""

from sunk_sync.core.model.actions import Drain, Undrain
from sunk_sync.core.model.facts import CallEnded, Pod, StopCall
from sunk_sync.core.rules.host.drain import drain
from tests.core.rules.test_drain import ACTS
from tests.kit.build import Core, deleted, job, pod, room, running, slurm_node

KILLED_S = 10.0
ENDING = "CANCELLED+COMPLETING"
REASON = "k8s: pod deletion timeout"


def core_of() -> tuple[Core, Pod]:
    """Pod p1 on host n1 as its placeholder is cancelled; its script waits at the door."""
    bound = pod(node_name="kn1", job_id="7", terminating=True)
    core = Core(*room(), bound, job(bound, state=ENDING, slurm_nodes=("n1",)), gate="off")
    core.see(StopCall(1, "7", core.now, core.now + KILLED_S))
    return core, bound


def wants(core: Core) -> list[object]:
    ruling = drain(core.graph.host("n1"), core.graph.configuration, core.now)
    return [one for one in ruling.wants if isinstance(one, ACTS)]


def test_before_the_script_is_killed_the_host_is_closed_L6() -> None:
    core, _ = core_of()
    assert wants(core) == []
    core.now += KILLED_S - 1
    assert wants(core) == [Drain("n1", REASON)]


def test_the_host_stays_closed_when_the_call_was_answered_L6() -> None:
    """A script that was told `drain` asks again, or is killed; its Pod lives on."""
    core, bound = core_of()
    core.now += KILLED_S - 1
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=REASON), CallEnded(1))
    assert wants(core) == []
    core.now += KILLED_S
    core.see(job(bound, state="CANCELLED", slurm_nodes=("n1",)))
    assert wants(core) == []
    core.see(deleted("pods", bound))
    assert [type(one) for one in wants(core)] == [Undrain]


def test_a_script_that_was_only_sent_a_signal_closes_nothing_L6() -> None:
    """Its job runs on: no end was read."""
    core, bound = core_of()
    core.see(running(bound))
    core.now += 2 * KILLED_S
    assert wants(core) == []


def test_what_a_call_says_is_decided_at_once_L6() -> None:
    """The call itself wakes the host, not only the job's next reading."""
    core, _ = core_of()
    core.now += KILLED_S
    decided = core.see(StopCall(2, "7", core.now, core.now))
    assert ("host", "n1") in [one.key for one in decided]
