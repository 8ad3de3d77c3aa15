"""A placeholder that was told to end keeps its host until its Pods are gone: row L6."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerStop, Drain
from sunk_sync.core.model.facts import CallEnded, Job, Pod, StopCall
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.timing import BINDING_S
from tests.kit.build import BOUND, POD, WORKLOAD, Core, deleted, job, two_hosts


def its(*pods: Pod, state: str = "RUNNING") -> Job:
    return job(*(pods or (BOUND,)), state=state, slurm_nodes=("n1",))


def call(core: Core) -> None:
    """The script of job 7 asks whether it may end; Slurm kills it in 30 s."""
    core.see(StopCall(1, "7", core.now, core.now + 30.0))


def answers(core: Core) -> list[str]:
    verdict = core.decided(workload_key(WORKLOAD))
    return [want.verdict for want in verdict.wants if isinstance(want, AnswerStop)]


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED+COMPLETING", "PREEMPTED+COMPLETING"])
def test_the_script_may_end_once_its_pod_is_gone_L6(state: str) -> None:
    """Slurm shows a cancelled job as ended at once, though its script still holds the host."""
    core = two_hosts(BOUND, its(state=state))
    call(core)
    assert not answers(core)
    core.see(deleted("pods", BOUND))
    assert answers(core) == ["gone"]


def test_a_deletion_of_the_pod_before_the_job_ended_counts_L6() -> None:
    core = two_hosts(BOUND, its())
    core.see(deleted("pods", BOUND))
    core.see(its(state="CANCELLED+COMPLETING"))
    call(core)
    assert answers(core) == ["gone"]


def test_the_script_may_end_once_the_containers_ended_L6() -> None:
    """The Pod object may stay for ever."""
    core = two_hosts(replace(BOUND, ended=True), its())
    call(core)
    assert answers(core) == ["gone"]


def test_the_script_of_an_unbound_pod_may_end_once_no_binding_is_under_way_L6() -> None:
    """At once where it never started: then no binding was sent."""
    core = two_hosts(POD, its(POD))
    call(core)
    assert not answers(core)
    core.wait(BINDING_S)
    assert answers(core) == ["gone"]
    early = two_hosts(POD, replace(its(POD), started=False))
    call(early)
    assert answers(early) == ["gone"]


def test_shortly_before_the_script_is_killed_the_answer_is_drain_L6() -> None:
    core = two_hosts(BOUND, its(state="CANCELLED+COMPLETING"))
    call(core)
    core.wait(27.9)
    assert not answers(core)
    assert not core.wants("n1", Drain)
    core.wait(0.2)
    assert answers(core) == ["drain"]
    assert core.verdict("n1").because.startswith("drained: Pod ns/p1 outlives its job")


def test_a_call_that_ended_is_not_answered_L6() -> None:
    core = two_hosts(BOUND, its())
    call(core)
    core.see(deleted("pods", BOUND), CallEnded(1))
    assert not answers(core)
