"""A placeholder that was told to end keeps its host until its Pods are gone: row L6."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerStop, Drain
from sunk_sync.core.model.facts import CallEnded, Job, Pod, StopCall
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.model.verdict import Verdict
from tests.kit.build import BOUND, POD, Core, deleted, identity, job, two_hosts


def its(*pods: Pod, state: str = "RUNNING") -> Job:
    return job(*(pods or (BOUND,)), state=state, slurm_nodes=("n1",))


def call(core: Core, *, until_s: float = 30.0) -> StopCall:
    asked = StopCall(1, "7", core.now, core.now + until_s)
    core.see(asked)
    return asked


def told(core: Core, of: Pod = BOUND) -> list[str]:
    standing = core.reconciler.standing.get(workload_key(identity(of).workload))
    verdict = standing.verdict if standing else Verdict()
    return [want.verdict for want in verdict.wants if isinstance(want, AnswerStop)]


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED+COMPLETING", "PREEMPTED+COMPLETING"])
def test_the_script_is_told_when_its_pod_is_gone_L6(state: str) -> None:
    """Slurm calls a cancelled job ended at once, though its script still holds the host."""
    core = two_hosts(BOUND, its(state=state))
    call(core)
    assert not told(core)
    core.see(deleted("pods", BOUND))
    assert told(core) == ["gone"]


def test_what_was_told_of_the_pod_before_the_job_ended_counts_L6() -> None:
    """Usually the Pod goes first, and our own cancel ends the job."""
    core = two_hosts(BOUND, its())
    core.see(deleted("pods", BOUND))
    core.see(its(state="CANCELLED+COMPLETING"))
    call(core)
    assert told(core) == ["gone"]


def test_containers_that_ended_are_as_good_L6() -> None:
    """The Pod object may stay for ever."""
    core = two_hosts(replace(BOUND, ended=True), its())
    call(core)
    assert told(core) == ["gone"]


def test_a_placeholder_without_a_bound_pod_may_end_once_no_binding_is_under_way_L6() -> None:
    """Nothing of it runs; where its script never started none was ever made."""
    core = two_hosts(POD, its(POD))
    call(core)
    assert not told(core, POD)
    core.wait(BINDING_S)
    assert told(core, POD) == ["gone"]
    early = two_hosts(POD, replace(its(POD), started=False))
    call(early)
    assert told(early, POD) == ["gone"]


def test_shortly_before_it_is_killed_the_host_is_drained_L6() -> None:
    """And the script is told so."""
    core = two_hosts(BOUND, its(state="CANCELLED+COMPLETING"))
    call(core)
    core.wait(27.9)
    assert not told(core)
    assert not core.wants("n1", Drain)
    core.wait(0.2)
    assert told(core) == ["drain"]
    assert core.verdict("n1").because.startswith("drained: Pod ns/p1 outlives its job")


def test_a_call_that_ended_is_not_answered_L6() -> None:
    """Nobody would read it."""
    core = two_hosts(BOUND, its())
    call(core)
    core.see(deleted("pods", BOUND), CallEnded(1))
    assert not told(core)
