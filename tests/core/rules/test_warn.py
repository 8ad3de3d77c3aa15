"""P25b: a Pod that cannot end because its Node is gone or does not answer."""

from sunk_sync.core.model.actions import AnswerGate, CancelJob, GetObject, RecordEvent
from sunk_sync.core.model.facts import GateCall, GetResult, Pod
from tests.kit.build import Core, deleted, job, listing, node, pod, room, running

POD = pod(node_name="kn1", phase="Running", job_id="7")
ENDING = pod(node_name="kn1", phase="Running", job_id="7", terminating=True)


def core_of(row: Pod = ENDING, *, state: str = "RUNNING", **chosen: object) -> Core:
    """The Pod stands on host n1, by job 7."""
    return Core(*room(), row, job(POD, state=state, slurm_nodes=("n1",)), **chosen)  # type: ignore[arg-type]


def lose_node(core: Core) -> None:
    """The watch tells that Node kn1 is gone."""
    core.wait(1)
    core.see(deleted("nodes", room()[0]))


def answer(core: Core, found: str) -> None:
    """A read of Node kn1 by name gives this."""
    core.wait(1)
    core.see(GetResult("Node", "", "kn1", found, "", core.now))  # type: ignore[arg-type]


def test_a_node_that_vanished_is_asked_for_by_name_P25b() -> None:
    """A listing may be wrong; nothing ends for it alone."""
    core = core_of()
    lose_node(core)
    assert core.workload_wants(ENDING) == [GetObject("Node", "", "kn1", 0.0)]


def test_a_pod_whose_node_is_gone_counts_as_gone_P25b() -> None:
    """Its job ends, and no gate waits for it."""
    core = core_of(gate="on")
    lose_node(core)
    core.see(GateCall(1, "9", ("n1",), core.now, core.now + 60))
    assert not core.wants("n1", AnswerGate)[0].go  # type: ignore[attr-defined]
    answer(core, "no")
    assert [one.job_id for one in core.workload_wants(ENDING, CancelJob)] == ["7"]
    assert core.wants("n1", AnswerGate)[0].go  # type: ignore[attr-defined]
    assert core.verdict("n1").because


def test_what_is_not_proved_is_asked_again_P25b() -> None:
    """A 403 or a time-out says nothing; nor does a Node that exists after all."""
    core = core_of()
    lose_node(core)
    answer(core, "unknown")
    asked_s = core.now
    assert core.workload_wants(ENDING) == []
    core.wait(31)
    assert core.workload_wants(ENDING) == [GetObject("Node", "", "kn1", asked_s)]


def test_a_pod_that_is_not_to_end_is_left_alone_P25b() -> None:
    """Whoever deletes Nodes has their Pods deleted too, in a while."""
    core = core_of(POD)
    lose_node(core)
    answer(core, "no")
    assert core.workload_wants(POD) == []


def test_a_node_that_is_back_stands_for_its_pods_again_P25b() -> None:
    """The old answer is forgotten."""
    core = core_of()
    lose_node(core)
    answer(core, "no")
    core.wait(1)
    core.see(node("kn1", uid="another"))
    assert core.workload_wants(ENDING) == []
    assert core.graph.workloads.residents.on("kn1", slurm_node="n1").all


def test_a_pod_that_is_to_end_later_counts_as_gone_at_once_P25b() -> None:
    """Another Pod's answer about the same Node holds for it."""
    other = pod("p2", node_name="kn1", phase="Running", job_id="8")
    core = core_of()
    core.see(other, running(other, job_id="8"))
    lose_node(core)
    answer(core, "no")
    core.see(pod("p2", node_name="kn1", phase="Running", job_id="8", terminating=True))
    assert core.workload_wants(other, CancelJob)
    assert not core.graph.host("n1").residents.all


def test_a_silent_node_proves_nothing_and_a_human_is_told_P25b() -> None:
    """The job stays, the gate waits as far as it may; after the grace an Event says what to do."""
    core = core_of(gate="on")
    core.see(node("kn1", ready="Unknown"))
    core.see(GateCall(1, "9", ("n1",), core.now, core.now + 60))
    core.wait(39)
    assert core.workload_wants(ENDING) == []
    core.wait(2)
    (told,) = core.workload_wants(ENDING)
    assert isinstance(told, RecordEvent)
    assert (told.type, told.reason) == ("Warning", "NodeSilent")
    assert "Node kn1 does not answer (Ready is Unknown)" in told.message
    assert not core.wants("n1", AnswerGate)[0].go  # type: ignore[attr-defined]


def test_the_word_ends_when_the_node_answers_P25b() -> None:
    """Ready again: its kubelet ends the Pod."""
    core = core_of()
    core.see(node("kn1", ready="Unknown"))
    core.wait(41)
    assert core.workload_wants(ENDING, RecordEvent)
    core.see(node("kn1"))
    assert core.workload_wants(ENDING) == []


def test_before_nodes_were_listed_none_is_missing_P25b() -> None:
    """An empty picture says nothing of a Node."""
    core = Core(ENDING, running(POD), listed=False)
    assert core.workload_wants(ENDING, GetObject) == []
    core.see(*listing("nodes"))
    assert core.workload_wants(ENDING, GetObject) == [GetObject("Node", "", "kn1", 0.0)]


def test_an_answer_about_a_node_is_forgotten_with_the_last_pod_that_stood_there_P25b() -> None:
    """Nothing is kept of what nobody asks for."""
    core = core_of()
    lose_node(core)
    answer(core, "no")
    assert core.graph.workloads.residents.nodes_asked
    core.see(deleted("pods", ENDING))
    assert not core.graph.workloads.residents.nodes_asked
