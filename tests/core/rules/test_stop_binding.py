"""L6: what a placeholder is told that Slurm has told to end."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerStop, Bind, SetScheduled
from sunk_sync.core.model.facts import CallEnded, StopCall
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.rules.workload.bind import ENDED_S
from tests.kit.build import OFFER, POD, Core, job, node, pod, running, slurm_node, slurmd_pod


def core_of(*, started: bool) -> Core:
    """A Pod that is not bound yet, whose job runs on n1."""
    held = replace(running(POD), script=True, started=started)
    hosts = (node("kn1", offer=OFFER), slurmd_pod("n1"), slurm_node("n1"))
    return Core(*hosts, POD, held)


def stop(core: Core) -> StopCall:
    """Its script was told to end just now."""
    return StopCall(1, job(pod()).job_id, core.now, core.now + 30.0)


@pytest.mark.parametrize(("started", "at_once"), [(False, True), (True, False)])
def test_a_binding_that_may_be_on_its_way_is_waited_for_L6(started: bool, at_once: bool) -> None:
    """Only a placeholder that said that it started can have been bound to."""
    core = core_of(started=started)
    core.see(stop(core))
    assert [want.verdict for want in core.workload_wants(pod(), AnswerStop)] == ["gone"] * at_once
    core.wait(BINDING_S)
    assert [want.verdict for want in core.workload_wants(pod(), AnswerStop)] == ["gone"]


def test_a_binding_that_arrives_meanwhile_keeps_the_script_L6() -> None:
    """Found by the simulator: it was told that all were gone while its binding was under way."""
    core = core_of(started=True)
    core.see(stop(core))
    core.wait(1.0)
    core.see(pod(node_name="kn1", job_id=job(pod()).job_id))
    core.wait(BINDING_S)
    assert "gone" not in [want.verdict for want in core.workload_wants(pod(), AnswerStop)]


def test_so_it_is_where_its_job_was_read_as_ended_meanwhile_L6() -> None:
    """Found by the simulator (252012): the next job of the Pod had not started, so all was well."""
    core = core_of(started=True)
    core.see(stop(core))
    ended = job(pod(), state="PREEMPTED", slurm_nodes=("n1",))
    core.see(replace(ended, script=True, started=True))
    assert not core.workload_wants(pod(), AnswerStop)
    core.wait(BINDING_S)
    assert [want.verdict for want in core.workload_wants(pod(), AnswerStop)] == ["gone"]


def test_nothing_is_bound_to_a_placeholder_that_was_told_to_end_P11() -> None:
    """Slurm gives its hosts to others as soon as the script is gone."""
    core = core_of(started=True)
    assert core.workload_wants(pod(), Bind)
    core.see(stop(core))
    assert not core.workload_wants(pod(), Bind)
    core.see(CallEnded(1))  # found by the simulator: as soon as it had its answer (60143)
    assert not core.workload_wants(pod(), Bind)
    core.wait(5.0)
    (said,) = core.workload_wants(pod(), SetScheduled)
    assert said.message.endswith("is allocated: Slurm is ending its script")


def test_a_job_that_runs_long_after_that_began_once_more_F1() -> None:
    """Found by the simulator: slurmctld was killed and forgot the end; the Pod waited for ever
    (554682).
    """
    core = core_of(started=True)
    call = stop(core)
    core.see(call, CallEnded(1))
    core.wait(call.until_s + ENDED_S - core.now - 0.1)
    assert not core.workload_wants(pod(), Bind)
    core.wait(0.2)
    assert core.workload_wants(pod(), Bind)


def test_another_job_under_the_id_was_not_told_to_end_P23() -> None:
    """Slurm that lost its state counts from the start again."""
    core = core_of(started=True)
    core.see(stop(core), CallEnded(1))
    held = running(pod(), submitted_at=2)
    core.see(held)
    assert core.workload_wants(pod(), Bind)


def test_nor_was_one_that_was_just_made_under_the_id_P23() -> None:
    """Found by the simulator (252352): Slurm's answer to a submission does not tell its time."""
    core = core_of(started=True)
    core.see(running(pod(), submitted_at=1))
    core.see(stop(core), CallEnded(1))
    core.see(job(pod(), submitted_at=0))
    core.see(running(pod(), submitted_at=2))
    assert core.workload_wants(pod(), Bind)
