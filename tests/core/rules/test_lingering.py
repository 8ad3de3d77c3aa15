"""A Pod that still needs a host which no job of its own holds: rows P25, L6, P30."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import Drain
from sunk_sync.core.model.facts import Job, Row, StopCall
from tests.kit.build import BOUND, Core, deleted, job, listing, node, room, slurm_node, slurmd_pod


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
def test_the_host_of_a_pod_that_outlives_its_job_is_held_P25(
    state: str, fields: dict[str, Any], chosen: dict[str, Any], drained: bool
) -> None:
    """Unless the gate stands, or a script that still ends holds it by itself."""
    core = core_of(BOUND, its(state, **fields), **chosen)
    wanted = [Drain("n1", "k8s: pod still terminating")] if drained else []
    assert core.wants("n1", Drain) == wanted
    assert not core.wants("n2", Drain)


def test_the_hold_ends_with_the_pod_P25() -> None:
    """Undrained as any drain of ours."""
    core = core_of(BOUND, its("CANCELLED"))
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod still terminating"))
    assert not core.wants("n1", Drain)
    assert core.verdict("n1").because.startswith(
        "drained: Pod ns/p1 lives though its job has ended"
    )
    core.see(deleted("pods", BOUND))
    assert core.verdict("n1").because.startswith("undrained")


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
def test_the_host_of_a_pod_whose_job_is_not_there_is_held_P25(
    state: str, slurm_nodes: tuple[str, ...], drained: bool, script: bool
) -> None:
    """Requeued, or bound by somebody else; found by the simulator: it was held only once the job
    had ended elsewhere, and another began there meanwhile (551932). Where nobody has read yet
    where it runs, it may be there.
    """
    its_job = job(BOUND, state=state, slurm_nodes=slurm_nodes, script=script)
    core = core_of(BOUND, its_job)
    wanted = [Drain("n1", "k8s: pod still terminating")] if drained else []
    assert core.wants("n1", Drain) == wanted
    why = "has ended" if state == "CANCELLED" else "is not here"
    assert (f"lives though its job {why}" in core.verdict("n1").because) == drained
    core.see(deleted("pods", BOUND))
    assert not core.wants("n1", Drain)


def test_a_deletion_that_takes_too_long_is_a_cause_of_its_own_L6() -> None:
    """Until the Pod is gone; before that the drain is undecided."""
    core = core_of(BOUND, its("CANCELLED+COMPLETING", script=True))
    core.see(StopCall(1, "7", core.now, core.now + 30))
    assert not core.wants("n1", Drain)
    core.wait(28)
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod deletion timeout")]


@pytest.mark.parametrize(
    ("policy", "drained"), [("keep", True), ("readopt", False), ("end", False)]
)
def test_the_host_of_a_pod_without_job_is_drained_P30(policy: str, drained: bool) -> None:
    """Unless it ends, or is about to be readopted."""
    core = core_of(BOUND, lost_job=policy)
    for begun_s in (1001.0, 1061.0):
        assert not core.wants("n1", Drain)
        core.now = begun_s
        core.see(*listing("jobs", begun_s=begun_s))
    wanted = [Drain("n1", "k8s: pod without job")] if drained else []
    assert core.wants("n1", Drain) == wanted


def test_a_job_that_comes_back_lifts_it_P30() -> None:
    """slurmctld was behind."""
    core = core_of(BOUND)
    core.lose_jobs()
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="k8s: pod without job"), its("RUNNING"))
    assert core.verdict("n1").because.startswith("undrained")


def test_a_lost_node_ranks_before_a_pod_that_lingers_S9() -> None:
    """And the lingering Pod before a terminating slurmd."""
    core = core_of(BOUND, its("CANCELLED"))
    core.see(node("kn1", ready="Unknown"))
    core.wait(41)
    (drain,) = core.wants("n1", Drain)
    assert isinstance(drain, Drain)
    assert drain.reason == "k8s: node not ready"


@pytest.mark.parametrize("cause", ["terminating", "cordoned"])
def test_a_pod_that_lingers_ranks_before_these_S9(cause: str) -> None:
    """S8, S7, P30, L6, P25, S5, S6, S1, S3, S4."""
    core = core_of(BOUND, its("CANCELLED"))
    if cause == "cordoned":
        core.see(node("kn1", unschedulable=True))
    else:
        core.see(slurmd_pod("n1", terminating=True))
    assert core.wants("n1", Drain) == [Drain("n1", "k8s: pod still terminating")]
