"""P25b: a Pod that cannot end because its Node is gone or does not answer."""

from typing import Any, Literal

from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerGate, CancelJob, GetObject, RecordEvent
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.event_kinds import EVENT_NODE_SILENT
from sunk_sync.core.model.facts import Pod
from tests.kit.build import Core, deleted, node, pod, room, running

POD = pod(node_name="kn1", phase="Running", job_id="7")
ENDING = pod(node_name="kn1", phase="Running", job_id="7", terminating=True)


def core_of(row: Pod = ENDING, **chosen: Any) -> Core:
    """The Pod is on host n1, by job 7."""
    return Core(*room(), row, running(POD), **chosen)


def lose_node(core: Core) -> None:
    """The watch reports that Node kn1 is deleted."""
    core.wait(1)
    core.see(deleted("nodes", node()))


def answer(core: Core, found: Literal["no", "unknown"]) -> None:
    """Answer a read of Node kn1 by name, a second later."""
    core.wait(1)
    core.answer(node(), found)


def test_a_deleted_node_is_read_by_name_before_anything_ends_P25b() -> None:
    core = core_of()
    lose_node(core)
    assert core.workload_wants(ENDING) == [GetObject("Node", "", "kn1", 0.0)]


def test_a_terminating_pod_on_a_deleted_node_counts_as_gone_P25b() -> None:
    """Its job ends, and no gate waits for it."""
    core = core_of(gate="on")
    lose_node(core)
    core.see(GateCall(1, "9", ("n1",), core.now, core.now + 60))
    assert not core.wants("n1", AnswerGate)[0].go
    answer(core, "no")
    assert core.cancels(ENDING) == [("7", False)]
    assert core.wants("n1", AnswerGate)[0].go
    assert core.verdict().because


def test_a_read_without_a_result_is_repeated_P25b() -> None:
    """403, a time-out or a Node that exists after all prove nothing."""
    core = core_of()
    lose_node(core)
    answer(core, "unknown")
    asked_s = core.now
    assert core.workload_wants(ENDING) == []
    core.wait(31)
    assert core.workload_wants(ENDING) == [GetObject("Node", "", "kn1", asked_s)]


def test_a_pod_that_is_not_terminating_is_left_alone_on_a_deleted_node_P25b() -> None:
    """Kubernetes deletes such Pods after a while."""
    core = core_of(POD)
    lose_node(core)
    answer(core, "no")
    assert core.workload_wants(POD) == []


def test_a_node_that_was_created_again_counts_for_its_pods_P25b() -> None:
    core = core_of()
    lose_node(core)
    answer(core, "no")
    core.wait(1)
    core.see(node(uid="another"))
    assert core.workload_wants(ENDING) == []
    assert core.graph.workloads.residents.on("kn1", slurm_node="n1").all


def test_a_pod_that_terminates_later_counts_as_gone_at_once_P25b() -> None:
    """The read for another Pod on the same Node is enough."""
    other = pod("p2", node_name="kn1", phase="Running", job_id="8")
    core = core_of()
    core.see(other, running(other, job_id="8"))
    lose_node(core)
    answer(core, "no")
    core.see(replace(other, terminating=True))
    assert core.workload_wants(other, CancelJob)
    assert not core.graph.host("n1").residents.all


def test_a_silent_node_proves_nothing_and_makes_an_event_after_its_grace_P25b() -> None:
    """The job stays, and the gate waits as long as it may."""
    core = core_of(gate="on")
    core.see(node(ready="Unknown"))
    core.see(GateCall(1, "9", ("n1",), core.now, core.now + 60))
    core.wait(39)
    assert core.workload_wants(ENDING) == []
    core.wait(2)
    (event,) = core.workload_wants(ENDING)
    assert event.event is EVENT_NODE_SILENT
    assert "Node kn1 does not answer (Ready is Unknown)" in event.message
    assert not core.wants("n1", AnswerGate)[0].go


def test_the_event_ends_when_the_node_is_ready_again_P25b() -> None:
    core = core_of()
    core.see(node(ready="Unknown"))
    core.wait(41)
    assert core.workload_wants(ENDING, RecordEvent)
    core.see(node())
    assert core.workload_wants(ENDING) == []


def test_no_node_is_missing_before_nodes_were_listed_P25b() -> None:
    core = Core(ENDING, running(POD), listed=False)
    assert core.workload_wants(ENDING, GetObject) == []
    core.see_listing("nodes")
    assert core.workload_wants(ENDING, GetObject) == [GetObject("Node", "", "kn1", 0.0)]


def test_the_read_of_a_node_is_forgotten_with_the_last_pod_there_P25b() -> None:
    core = core_of()
    lose_node(core)
    answer(core, "no")
    assert core.graph.workloads.residents.nodes_asked
    core.see(deleted("pods", ENDING))
    assert not core.graph.workloads.residents.nodes_asked
