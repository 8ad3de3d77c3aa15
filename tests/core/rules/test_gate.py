"""No job starts beside a Pod whose own job is not confirmed running: row L7."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerGate, Relist
from sunk_sync.core.model.facts import CallEnded, GateCall, Observed
from tests.kit.build import BOUND, Core, deleted, job, node, running, slurmd_pod, two_hosts

RUNS = running(BOUND)


def ask(core: Core, *slurm_nodes: str, job_id: str = "99") -> GateCall:
    """A prolog asks now."""
    core.now += 1
    call = GateCall(1, job_id, slurm_nodes or ("n1",), core.now, core.now + 60)
    core.see(call)
    return call


def answer(core: Core, name: str = "n1") -> bool | None:
    """What the caller is told about this host; None: nothing."""
    answers = [want.go for want in core.wants(name) if isinstance(want, AnswerGate)]
    return answers[0] if answers else None


def test_a_job_may_start_where_no_pod_lives_L7() -> None:
    """Also on a host that only Slurm knows."""
    core = two_hosts()
    ask(core, "n1", "n9")
    assert (answer(core), answer(core, "n9"), answer(core, "n2")) == (True, True, None)


def test_a_pod_must_be_confirmed_by_a_read_begun_after_the_call_L7() -> None:
    """Then go; until then the jobs are listed."""
    core = two_hosts(BOUND, RUNS)
    call = ask(core)
    assert answer(core) is False
    assert Relist("jobs", call.asked_s) in core.wants("n1")
    core.see(Observed(RUNS, call.asked_s - 0.1))
    assert answer(core) is False
    core.see(Observed(RUNS, call.asked_s))
    assert answer(core) is True
    assert not [want for want in core.wants("n1") if isinstance(want, Relist)]


@pytest.mark.parametrize(
    "state", ["PENDING", "SUSPENDED", "CANCELLED+COMPLETING", "PREEMPTED", "COMPLETED"]
)
def test_ended_suspended_and_waiting_jobs_mean_wait_L7(state: str) -> None:
    """The caller is told for whom."""
    core = two_hosts(BOUND, job(BOUND, state=state, slurm_nodes=("n1",)))
    call = ask(core)
    core.see(Observed(job(BOUND, state=state, slurm_nodes=("n1",)), call.asked_s + 1))
    (told,) = [want for want in core.wants("n1") if isinstance(want, AnswerGate)]
    assert (told.go, told.why) == (False, "Pod ns/p1")


def test_a_missing_job_means_wait_until_the_containers_are_gone_L7() -> None:
    """Whoever bound the Pod."""
    core = two_hosts(BOUND)
    ask(core)
    assert answer(core) is False
    core.see(replace(BOUND, ended=True))
    assert answer(core) is True


def test_a_pod_that_is_gone_is_not_waited_for_L7() -> None:
    """The watch's word is enough."""
    core = two_hosts(BOUND)
    ask(core)
    core.see(deleted("pods", BOUND))
    assert answer(core) is True


def test_a_job_that_runs_elsewhere_confirms_nothing_here_L7() -> None:
    """The host is what is asked about."""
    core = two_hosts(BOUND, running(BOUND, at=("n2",)))
    call = ask(core)
    core.see(Observed(running(BOUND, at=("n2",)), call.asked_s + 1))
    assert answer(core) is False


def test_a_job_passes_its_own_pod_once_it_was_read_to_be_its_own_L7_P23() -> None:
    """After Slurm lost its state the number may be another's."""
    core = two_hosts(BOUND, RUNS)
    call = ask(core, job_id="7")
    assert answer(core) is False
    core.see(Observed(RUNS, call.asked_s))
    assert answer(core) is True


@pytest.mark.parametrize("lost", ["slurmd Pod", "rival"])
def test_where_nobody_knows_the_node_pods_on_any_that_it_may_be_count_L7(lost: str) -> None:
    """A slurmd Pod that is being replaced, or two claims on one Slurm node: unknown is wait."""
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
    """Nobody would read it."""
    core = two_hosts(BOUND)
    ask(core)
    core.see(CallEnded(1))
    assert answer(core) is None


def test_the_node_s_own_state_does_not_matter_L7() -> None:
    """An unready Node proves no container gone (P25b)."""
    core = two_hosts(BOUND)
    core.see(node("kn1", ready="Unknown"))
    ask(core)
    assert answer(core) is False
