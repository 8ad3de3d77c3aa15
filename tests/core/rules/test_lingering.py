"""Drains of a host where a Pod lives without its job: rows P25, L6, P30 and S9."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import Drain, Undrain
from sunk_sync.core.model.calls import CallEnded, StopCall
from sunk_sync.core.model.facts import Job, Row
from tests.kit.build import BOUND, Core, deleted, job, node, room, slurm_node, slurmd_pod

LIVES = Drain("n1", "k8s: pod still terminating")


def core_of(*rows: Row, **chosen: Any) -> Core:
    return Core(*room("n1"), *room("n2"), *rows, **{"gate": "off", **chosen})


def its(state: str, **fields: Any) -> Job:
    return job(BOUND, state=state, **{"slurm_nodes": ("n1",), "script": False, **fields})


@pytest.mark.parametrize(
    ("state", "fields", "chosen", "drained"),
    [
        ("RUNNING", {}, {}, False),
        ("CANCELLED", {}, {}, True),
        ("PREEMPTED", {}, {}, True),
        ("CANCELLED", {}, {"gate": "on"}, False),
        ("CANCELLED+COMPLETING", {"script": True}, {}, False),
        ("CANCELLED", {"script": True}, {}, True),
        ("CANCELLED", {"slurm_nodes": ()}, {}, True),
    ],
)
def test_a_host_is_drained_while_a_pod_there_outlives_its_job_P25(
    state: str, fields: dict[str, Any], chosen: dict[str, Any], drained: bool
) -> None:
    """The gate, or a script of the job that still ends, holds the host without a drain."""
    core = core_of(BOUND, its(state, **fields), **chosen)
    assert core.wants("n1", Drain) == ([LIVES] if drained else [])
    assert not core.wants("n2", Drain)


def test_the_drain_ends_with_the_pod_P25() -> None:
    core = core_of(BOUND, its("CANCELLED"))
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod still terminating"))
    assert not core.wants("n1", Drain)
    because = core.verdict().because
    assert because.startswith("drained: Pod ns/p1 lives though its job has ended")
    core.see(deleted("pods", BOUND))
    assert core.verdict().because.startswith("undrained")


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize(
    ("state", "slurm_nodes", "drained"),
    [
        ("RUNNING", ("n2",), True),
        ("PENDING", (), True),
        ("CANCELLED", ("n2",), True),
        ("RUNNING", (), False),
        ("RUNNING", ("n1", "n2"), False),
        ("SUSPENDED", ("n1",), False),
    ],
)
def test_a_host_is_drained_while_the_job_of_a_pod_there_is_elsewhere_P25(
    state: str, slurm_nodes: tuple[str, ...], drained: bool, script: bool
) -> None:
    """Requeued, or bound by somebody else. Simulator, seed 551932: the drain came only after the
    job had ended elsewhere, and another job had started. Where the hosts of the job were not
    read, it may be here.
    """
    core = core_of(BOUND, its(state, slurm_nodes=slurm_nodes, script=script))
    assert core.wants("n1", Drain) == ([LIVES] if drained else [])
    why = "has ended" if state == "CANCELLED" else "is not here"
    assert (f"lives though its job {why}" in core.verdict().because) == drained
    core.see(deleted("pods", BOUND))
    assert not core.wants("n1", Drain)


def test_a_deletion_that_takes_too_long_drains_the_host_until_the_pod_is_gone_L6() -> None:
    """A script that was answered `drain` asks again or is killed; its Pod lives on."""
    core = core_of(BOUND, its("CANCELLED+COMPLETING", script=True))
    core.see(StopCall(1, "7", core.now, core.now + 30))
    assert not core.wants("n1", Drain)
    core.wait(28)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod deletion timeout")]
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod deletion timeout"), CallEnded(1))
    assert not core.wants("n1", Drain, Undrain)
    core.wait(30)
    core.see(its("CANCELLED", script=True))
    assert not core.wants("n1", Drain, Undrain)
    core.see(deleted("pods", BOUND))
    assert core.wants("n1", Undrain)


def test_a_call_decides_its_host_at_once_L6() -> None:
    """Not only the next read of the job does."""
    core = core_of(BOUND, its("CANCELLED+COMPLETING", script=True))
    decided = core.see(StopCall(1, "7", core.now, core.now))
    assert ("host", "n1") in [one.key for one in decided]
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod deletion timeout")]


def test_a_script_that_got_a_signal_while_its_job_runs_drains_nothing_L6() -> None:
    core = core_of(BOUND, its("RUNNING", script=True))
    core.see(StopCall(1, "7", core.now, core.now + 30))
    core.wait(60)
    assert not core.wants("n1", Drain)


@pytest.mark.parametrize(
    ("policy", "drained"), [("keep", True), ("readopt", False), ("end", False)]
)
def test_only_with_keep_a_pod_without_job_drains_its_host_P30(policy: str, drained: bool) -> None:
    core = core_of(BOUND, lost_job=policy)
    for after_s in (1.0, 59.0, 1.0):
        assert not core.wants("n1", Drain)
        core.see_listing("jobs", after_s=after_s)
    assert core.wants("n1", Drain) == ([Drain("n1", "k8s: pod without job")] if drained else [])


def test_with_readopt_a_job_is_submitted_before_the_host_is_drained_P30() -> None:
    """A drain would make Slurm refuse the allocation. Here it is not answered."""
    core = core_of(BOUND, lost_job="readopt", gate="on")
    core.lose_jobs()
    assert core.submission(BOUND)
    assert not core.wants("n1", Drain)
    core.see_listing("jobs", after_s=10.0)
    assert core.wants("n1", Drain)


def test_the_host_stays_drained_after_slurm_refused_the_readoption_P30() -> None:
    """The record that the refusal leaves is no job of the Pod, so it does not lift the drain."""
    core = core_of(BOUND, lost_job="readopt", gate="on")
    core.lose_jobs()
    left = job(BOUND, state="FAILED", job_id="8", script=False)
    core.see_listing("jobs", left, after_s=1.0)
    assert core.wants("n1", Drain)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod without job"))
    core.see_listing("jobs", left, after_s=1.0)
    assert not core.wants("n1", Undrain)
    assert not core.submission(BOUND)


def test_a_job_that_returns_lifts_the_drain_P30() -> None:
    core = core_of(BOUND)
    core.lose_jobs()
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod without job"), its("RUNNING"))
    assert core.verdict().because.startswith("undrained")


@pytest.mark.parametrize(
    ("row", "drain"),
    [
        (node("kn1", ready="Unknown"), Drain("n1", "k8s: node not ready", absence=True)),
        (node("kn1", unschedulable=True), LIVES),
        (slurmd_pod("n1", terminating=True), LIVES),
    ],
    ids=["Node not ready", "cordon", "slurmd terminating"],
)
def test_the_rank_of_a_pod_that_outlives_its_job_S9(row: Row, drain: Drain) -> None:
    """The order is S8, S7, P30, L6, P25, S5, S6, S1, S3, S4."""
    core = core_of(BOUND, its("CANCELLED"))
    core.see(row)
    core.wait(41)
    assert core.wants("n1", Drain) == [drain]
