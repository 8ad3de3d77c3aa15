"""A placeholder that was told to end keeps its host until its Pods are gone: row L6."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerStop, Drain
from sunk_sync.core.model.facts import CallEnded, Job, Pod, Row, StopCall
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.model.verdict import Verdict
from tests.kit.build import Core, deleted, identity, job, pod, room

BOUND = pod(node_name="kn1", job_id="7")


def core(*rows: Row) -> Core:
    return Core(*room("n1"), *rows)


def its(*pods: Pod, state: str = "RUNNING") -> Job:
    return job(*(pods or (BOUND,)), state=state, slurm_nodes=("n1",))


def call(world: Core, *, until_s: float = 30.0) -> StopCall:
    asked = StopCall(1, "7", world.now, world.now + until_s)
    world.see(asked)
    return asked


def told(world: Core, of: Pod = BOUND) -> list[str]:
    standing = world.reconciler.standing.get(workload_key(identity(of).workload))
    verdict = standing.verdict if standing else Verdict()
    return [want.verdict for want in verdict.wants if isinstance(want, AnswerStop)]


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED+COMPLETING", "PREEMPTED+COMPLETING"])
def test_the_script_is_told_when_its_pod_is_gone_L6(state: str) -> None:
    """Slurm calls a cancelled job ended at once, though its script still holds the host."""
    world = core(BOUND, its(state=state))
    call(world)
    assert not told(world)
    world.see(deleted("pods", BOUND))
    assert told(world) == ["gone"]


def test_what_was_told_of_the_pod_before_the_job_ended_counts_L6() -> None:
    """Usually the Pod goes first, and our own cancel ends the job."""
    world = core(BOUND, its())
    world.see(deleted("pods", BOUND))
    world.see(its(state="CANCELLED+COMPLETING"))
    call(world)
    assert told(world) == ["gone"]


def test_containers_that_ended_are_as_good_L6() -> None:
    """The Pod object may stay for ever."""
    world = core(replace(BOUND, ended=True), its())
    call(world)
    assert told(world) == ["gone"]


def test_a_placeholder_without_a_bound_pod_may_end_once_no_binding_is_under_way_L6() -> None:
    """Nothing of it runs; where its script never started none was ever made."""
    one = pod()
    world = core(one, its(one))
    call(world)
    assert not told(world, one)
    world.wait(BINDING_S)
    assert told(world, one) == ["gone"]
    early = core(one, replace(its(one), started=False))
    call(early)
    assert told(early, one) == ["gone"]


def test_shortly_before_it_is_killed_the_host_is_drained_L6() -> None:
    """And the script is told so."""
    world = core(BOUND, its(state="CANCELLED+COMPLETING"))
    call(world)
    world.wait(27.9)
    assert not told(world)
    assert not world.wants("n1", Drain)
    world.wait(0.2)
    assert told(world) == ["drain"]
    assert world.verdict("n1").because.startswith("drained: Pod ns/p1 outlives its job")


def test_a_call_that_ended_is_not_answered_L6() -> None:
    """Nobody would read it."""
    world = core(BOUND, its())
    call(world)
    world.see(deleted("pods", BOUND), CallEnded(1))
    assert not told(world)
