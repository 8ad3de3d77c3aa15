"""Placeholders that Slurm told to end: rows L6, P11, P23 and F1."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerStop, Drain, GetObject, Relist, SetScheduled
from sunk_sync.core.model.calls import CallEnded, StopCall
from sunk_sync.core.model.facts import GetResult, Job, News, Pod
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.views.binding import ENDED_S
from tests.kit.build import BOUND, POD, WORKLOAD, Core, deleted, job, running, two_hosts


def its(*pods: Pod, state: str = "RUNNING") -> Job:
    return job(*(pods or (BOUND,)), state=state, slurm_nodes=("n1",))


def call(core: Core, *then: News) -> None:
    """The script of job 7 asks whether it may end; Slurm kills it in 30 s."""
    core.see(StopCall(1, "7", core.now, core.now + 30.0), *then)


def answers(core: Core) -> list[str]:
    verdict = core.decided(workload_key(WORKLOAD))
    return [want.verdict for want in verdict.wants if isinstance(want, AnswerStop)]


def looks(core: Core) -> list[str]:
    verdict = core.decided(workload_key(WORKLOAD))
    return [want.name for want in verdict.wants if isinstance(want, GetObject)]


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


@pytest.mark.parametrize(("found", "said"), [("no", ["gone"]), ("yes", []), ("unknown", [])])
def test_the_pod_of_a_job_that_ended_unseen_is_read_by_name_L6_P21(
    found: Any, said: list[str]
) -> None:
    """A replica that takes over meets a script that ends for a Pod that is already gone.

    Found by an upgrade under load: the host stayed allocated until Slurm killed the script.
    """
    core = two_hosts(its(state="CANCELLED+COMPLETING"))
    call(core)
    assert not answers(core)
    assert looks(core) == [BOUND.name]
    core.now += 1
    core.answer(BOUND, found, BOUND.uid if found == "yes" else "")
    assert answers(core) == said
    assert not looks(core)


def test_a_read_from_before_the_ended_job_was_seen_proves_nothing_L6_P21() -> None:
    core = two_hosts(its(state="CANCELLED+COMPLETING"))
    core.see(GetResult("Pod", BOUND.namespace, BOUND.name, "no", "", core.now - 1))
    call(core)
    assert not answers(core)
    assert looks(core)


def test_the_pods_of_an_array_that_ended_unseen_are_listed_L6_P21() -> None:
    """Its identity names them by UID alone."""
    ended = its(state="CANCELLED+COMPLETING")
    identity = replace(ended.identity, pods=(), uids=(BOUND.uid,))
    core = two_hosts(replace(ended, identity=identity))
    call(core)
    wants = core.decided(workload_key(WORKLOAD)).wants
    assert [want.source for want in wants if isinstance(want, Relist)] == ["pods"]


def test_the_script_may_end_once_the_containers_ended_L6() -> None:
    """The Pod object may stay for ever."""
    core = two_hosts(replace(BOUND, ended=True), its())
    call(core)
    assert answers(core) == ["gone"]


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


@pytest.mark.parametrize(("started", "at_once"), [(False, True), (True, False)])
def test_a_started_script_waits_for_a_possible_binding_L6(started: bool, at_once: bool) -> None:
    """Only a script that said that it started can have been bound to."""
    core = two_hosts(POD, running(POD, started=started))
    call(core)
    assert answers(core) == ["gone"] * at_once
    core.wait(BINDING_S)
    assert answers(core) == ["gone"]


def test_a_binding_that_arrives_meanwhile_keeps_the_script_L6() -> None:
    """Simulator: the script was answered `gone` while the binding was under way."""
    core = two_hosts(POD, running(POD))
    call(core)
    core.wait(1.0)
    core.see(BOUND)
    core.wait(BINDING_S)
    assert "gone" not in answers(core)


def test_the_answer_waits_for_a_binding_also_when_the_job_has_ended_L6() -> None:
    """Simulator, seed 252012: it was answered at once, as the next job had not started."""
    core = two_hosts(POD, running(POD))
    call(core)
    core.see(its(POD, state="PREEMPTED"))
    assert not answers(core)
    core.wait(BINDING_S)
    assert answers(core) == ["gone"]


def test_no_pod_is_bound_to_a_job_whose_script_is_ending_P11() -> None:
    """Simulator, seed 60143: a Pod was bound as soon as the script had its answer."""
    core = two_hosts(POD, running(POD))
    assert core.binds(POD)
    call(core)
    assert not core.binds(POD)
    core.see(CallEnded(1))
    assert not core.binds(POD)
    core.wait(5.0)
    (said,) = core.workload_wants(POD, SetScheduled)
    assert said.message.endswith("is allocated: Slurm is ending its script")


def test_a_job_that_runs_long_after_its_script_was_to_end_started_again_F1() -> None:
    """Simulator, seed 554682: slurmctld was killed and forgot the end; the Pod waited for ever."""
    core = two_hosts(POD, running(POD))
    call(core, CallEnded(1))
    core.wait(30.0 + ENDED_S - 0.1)
    assert not core.binds(POD)
    core.wait(0.2)
    assert core.binds(POD)


def test_another_job_with_the_same_id_was_not_told_to_end_P23() -> None:
    """Slurm that lost its state counts from the start again."""
    core = two_hosts(POD, running(POD))
    call(core, CallEnded(1))
    core.see(running(POD, submitted_at=2))
    assert core.binds(POD)


def test_a_new_job_with_the_same_id_was_not_told_to_end_P23() -> None:
    """Simulator, seed 252352: Slurm's answer to a submission does not contain its time."""
    core = two_hosts(POD, running(POD))
    core.see(running(POD, submitted_at=1))
    call(core, CallEnded(1))
    core.see(job(POD, submitted_at=0))
    core.see(running(POD, submitted_at=2))
    assert core.binds(POD)
