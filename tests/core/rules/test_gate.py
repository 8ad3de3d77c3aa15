"""No job starts beside a Pod whose own job is not confirmed running: row L7."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerGate, GetObject, Relist
from sunk_sync.core.model.calls import CallEnded, GateCall
from sunk_sync.core.model.facts import BindTried, Job, Observed, Pod
from sunk_sync.core.model.timing import BINDING_S
from tests.kit.build import BOUND, Core, deleted, job, node, pod, running, slurmd_pod, two_hosts

RUNS = running(BOUND)


def ask(core: Core, *slurm_nodes: str, job_id: str = "99") -> GateCall:
    """A prolog asks now."""
    core.now += 1
    call = GateCall(1, job_id, slurm_nodes or ("n1",), core.now, core.now + 60)
    core.see(call)
    return call


def answer(core: Core, name: str = "n1") -> bool | None:
    """Return what the caller is answered about this host; None for no answer."""
    answers = [want.go for want in core.wants(name, AnswerGate)]
    return answers[0] if answers else None


def test_a_job_may_start_where_no_pod_lives_also_on_a_host_without_node_L7() -> None:
    core = two_hosts()
    ask(core, "n1", "n9")
    assert (answer(core), answer(core, "n9"), answer(core, "n2")) == (True, True, None)


def test_a_pod_must_be_confirmed_by_a_read_begun_after_the_call_L7() -> None:
    core = two_hosts(BOUND, RUNS)
    call = ask(core)
    assert answer(core) is False
    assert Relist("jobs", call.asked_s) in core.wants("n1")
    core.see(Observed(RUNS, call.asked_s - 0.1))
    assert answer(core) is False
    core.see(Observed(RUNS, call.asked_s))
    assert answer(core) is True
    assert not core.wants("n1", Relist)


@pytest.mark.parametrize(
    "state", ["PENDING", "SUSPENDED", "CANCELLED+COMPLETING", "PREEMPTED", "COMPLETED"]
)
def test_a_pod_whose_job_does_not_run_means_wait_for_it_L7(state: str) -> None:
    its = job(BOUND, state=state, slurm_nodes=("n1",))
    core = two_hosts(BOUND, its)
    call = ask(core)
    core.see(Observed(its, call.asked_s + 1))
    (told,) = core.wants("n1", AnswerGate)
    assert (told.go, told.why) == (False, "Pod ns/p1")


@pytest.mark.parametrize("gone", [False, True])
def test_a_pod_without_job_means_wait_until_it_is_gone_or_ended_L7(gone: bool) -> None:
    core = two_hosts(BOUND)
    ask(core)
    assert answer(core) is False
    core.see(deleted("pods", BOUND) if gone else replace(BOUND, ended=True))
    assert answer(core) is True


def test_a_job_that_runs_on_another_host_does_not_confirm_its_pod_L7() -> None:
    its = running(BOUND, at=("n2",))
    core = two_hosts(BOUND, its)
    call = ask(core)
    core.see(Observed(its, call.asked_s + 1))
    assert answer(core) is False


def test_a_job_passes_its_own_pod_once_a_read_confirms_its_identity_L7_P23() -> None:
    """After Slurm lost its state the id may be another job's."""
    core = two_hosts(BOUND, RUNS)
    call = ask(core, job_id="7")
    assert answer(core) is False
    core.see(Observed(RUNS, call.asked_s))
    assert answer(core) is True


@pytest.mark.parametrize("lost", ["slurmd Pod", "rival"])
def test_where_the_node_is_unknown_pods_on_any_possible_node_count_L7(lost: str) -> None:
    core = two_hosts(BOUND)
    if lost == "rival":
        core.see(slurmd_pod("n1", name="rival", uid="rival", node_name="kn2"))
    else:
        core.see(deleted("slurmd_pods", slurmd_pod("n1")))
    ask(core)
    assert answer(core) is False
    core.see(deleted("pods", BOUND))
    assert answer(core) is True


def test_a_call_that_ended_is_not_answered_L7() -> None:
    core = two_hosts(BOUND)
    ask(core)
    core.see(CallEnded(1))
    assert answer(core) is None


def test_a_pod_on_a_node_that_is_not_ready_is_waited_for_L7() -> None:
    """Such a Node does not prove that the containers ended (P25b)."""
    core = two_hosts(BOUND)
    core.see(node("kn1", ready="Unknown"))
    ask(core)
    assert answer(core) is False


ARRIVES = pod("p2")
ITS = running(ARRIVES, job_id="8")


def test_the_job_of_a_pod_that_may_come_is_read_after_the_call_L7_P11() -> None:
    """It was cancelled during its prolog, and the caller got its place (seed 9280253 of Pods)."""
    core = two_hosts(ARRIVES, ITS)
    call = ask(core)
    (told,) = core.wants("n1", AnswerGate)
    assert (told.go, told.why) == (False, "placeholder 8")
    assert Relist("jobs", call.asked_s) in core.wants("n1")
    core.see(Observed(ITS, call.asked_s - 0.1))
    assert answer(core) is False


@pytest.mark.parametrize("state", ["RUNNING", "CONFIGURING+RUNNING", "CANCELLED", "COMPLETED"])
def test_a_job_may_start_once_the_job_of_a_pod_that_may_come_was_read_L7(state: str) -> None:
    core = two_hosts(ARRIVES, ITS)
    call = ask(core)
    read = job(ARRIVES, job_id="8", state=state, slurm_nodes=("n1",))
    core.see(Observed(read, call.asked_s))
    assert answer(core) is True
    assert not core.wants("n1", Relist)


@pytest.mark.parametrize("jobs", [(), (replace(ITS, slurm_nodes=("n2",)),)])
def test_a_pod_that_does_not_come_any_more_is_not_waited_for_L7(jobs: tuple[Job, ...]) -> None:
    """Its job is gone, or elsewhere."""
    core = two_hosts(ARRIVES, ITS)
    ask(core)
    core.see_listing("jobs", *jobs)
    assert answer(core) is True


def test_a_pod_that_is_bound_elsewhere_is_not_waited_for_L7() -> None:
    core = two_hosts(ARRIVES, ITS)
    ask(core)
    core.see(replace(ARRIVES, node_name="kn2", job_id="8"))
    assert answer(core) is True


def test_a_placeholder_does_not_wait_for_its_own_pod_L7_P11() -> None:
    core = two_hosts(ARRIVES, ITS)
    ask(core, job_id="8")
    assert answer(core) is True


def reads(core: Core) -> list[GetObject]:
    return core.wants("n1", GetObject)


def test_a_pod_that_may_be_bound_without_an_answer_is_read_first_L7_P14() -> None:
    """A person cancelled its job while the binding was on its way."""
    mine = pod("p1")
    core = two_hosts(mine, job(mine, state="CANCELLED", slurm_nodes=("n1",)))
    core.see(BindTried(mine.uid, "7", core.now, "n1"))
    ask(core)
    assert answer(core) is False
    assert reads(core) == [GetObject("Pod", mine.namespace, mine.name, core.now - 1)]
    core.answer(mine, "yes")
    assert not reads(core)
    core.wait(2)
    assert reads(core)
    core.now += BINDING_S
    core.answer(mine, "yes")
    assert answer(core) is True


@pytest.mark.parametrize(
    ("change", "go"), [(BOUND, False), (None, True)], ids=["it is bound", "it is gone"]
)
def test_what_becomes_of_a_doubtful_binding_answers_the_caller_L7_P14(
    change: Pod | None, *, go: bool
) -> None:
    mine = replace(BOUND, node_name="")
    core = two_hosts(mine, job(mine, state="CANCELLED", slurm_nodes=("n1",)))
    core.see(BindTried(mine.uid, "7", core.now, "n1"))
    ask(core)
    core.see(change if change is not None else deleted("pods", mine))
    assert answer(core) is go


def test_a_binding_without_an_answer_counts_no_more_once_the_pod_is_seen_bound_L7_P14() -> None:
    """The watch was faster than the answer."""
    core = two_hosts(BOUND, RUNS)
    core.see(BindTried(BOUND.uid, "7", core.now, "n1"))
    call = ask(core)
    core.see(Observed(RUNS, call.asked_s))
    assert answer(core) is True


def test_a_doubtful_binding_to_another_host_is_not_waited_for_L7_P14() -> None:
    mine = pod("p1")
    core = two_hosts(mine)
    core.see(BindTried(mine.uid, "7", core.now, "n2"))
    ask(core)
    assert answer(core) is True


def test_a_listing_of_pods_settles_a_doubtful_binding_L7_P14() -> None:
    mine = pod("p1")
    core = two_hosts(mine)
    core.see(BindTried(mine.uid, "7", core.now, "n1"))
    ask(core)
    core.see_listing("pods", mine, after_s=BINDING_S + 1)
    assert answer(core) is True
