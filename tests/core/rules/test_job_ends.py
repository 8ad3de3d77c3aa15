"""How a job ended before its Pod was bound, what follows, and what the Pod says: row P17."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import RecordEvent, SetMetadata, SetScheduled
from sunk_sync.core.translate.job_states import may_have_begun, never_began
from tests.kit.build import POD, Core, gang_pod, identity, job, node, room, slurm_node, two_hosts

FAILED = "a prolog failed, or somebody cancelled it while a prolog ran"
ENDED = {"slurm_nodes": ("n1",), "started": False}


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        ("CANCELLED", {}, True),
        ("CANCELLED", {"slurm_nodes": ("n1", "n2")}, True),
        ("CANCELLED", {"signalled": True}, False),  # its script got a signal
        ("CANCELLED", {"started": True}, False),  # its script caught the signal
        ("CANCELLED", {"script": False}, False),  # an allocation has no script
        ("CANCELLED", {"script": False, "prolog_failed": True}, True),
        ("FAILED", {}, False),
        ("NODE_FAIL", {}, False),
        ("RUNNING", {}, False),
    ],
)
def test_a_job_never_began_if_it_has_hosts_and_no_trace_of_its_script_P17(
    state: str, fields: dict[str, Any], *, expected: bool
) -> None:
    assert never_began(job(POD, state=state, **{**ENDED, **fields})) == expected
    completing = job(POD, state=f"{state}+COMPLETING", **{**ENDED, **fields})
    assert may_have_begun(completing) == expected
    assert not never_began(completing)


def test_a_job_that_was_cancelled_while_it_waited_is_never_completing_P17() -> None:
    """So one without hosts that is COMPLETING was on some: EpilogSlurmctld runs."""
    waited = job(POD, state="CANCELLED", started=False)
    assert not never_began(waited)
    completing = job(POD, state="CANCELLED+COMPLETING", started=False)
    assert not never_began(completing)
    assert may_have_begun(completing)


@pytest.mark.parametrize("signalled", [True, False])
@pytest.mark.parametrize(("slurm_nodes", "where"), [(("n1",), " on n1"), ((), "")])
def test_a_job_that_is_completing_is_waited_for_P17(
    slurm_nodes: tuple[str, ...], where: str, *, signalled: bool
) -> None:
    """A script that catches SIGTERM gets a signal only at `KillWait`."""
    core = two_hosts(POD)
    core.see(job(POD, state="RUNNING", **ENDED))
    core.see(job(POD, state="CANCELLED+COMPLETING", **ENDED | {"slurm_nodes": slurm_nodes}))
    core.wait(400)
    (shown,) = core.workload_wants(POD, SetScheduled)
    assert f"Slurm cancels job 7{where}, and its script may still run" in shown.message
    assert not core.workload_wants(POD, SetMetadata)
    assert not core.submission(POD)
    core.see(job(POD, state="CANCELLED", **ENDED | {"signalled": signalled}))
    core.wait(6)
    if signalled:
        assert core.workload_wants(POD, SetMetadata)
        assert not core.submission(POD)
    else:
        assert core.submission(POD).excluded == ("n1",)


@pytest.mark.parametrize(
    ("state", "fields", "reason", "says"),
    [
        ("CANCELLED", {}, "Prolog error", "Slurm ended job 7 on n1 before it began: Prolog error"),
        ("CANCELLED", {}, "", f"Slurm ended job 7 on n1 before it began: {FAILED}"),
        (
            "FAILED",
            {"reason": "RaisedSignal", "signalled": True},
            "",
            "Slurm job 7 ended on n1 before its Pod was bound: FAILED (RaisedSignal)",
        ),
        (
            "DEADLINE",
            {"slurm_nodes": ()},
            "",
            "Slurm job 7 ended before its Pod was bound: DEADLINE",
        ),
    ],
)
def test_an_end_by_slurm_is_said_and_another_job_follows_P17(
    state: str, fields: dict[str, Any], reason: str, says: str
) -> None:
    core = two_hosts(POD, job(POD, state=state, **{**ENDED, "reason": "", **fields}))
    if reason:
        core.see(slurm_node("n1", "IDLE+DRAIN", reason=reason))
    core.wait(2)
    (shown,) = core.workload_wants(POD, SetScheduled)
    assert shown.message == f"{says}; another job follows"
    assert shown.reason == "SlurmJobEndedEarly"
    assert not core.workload_wants(POD, SetMetadata)
    assert not core.submission(POD)
    core.wait(4)
    assert core.submission(POD)


def test_a_person_who_cancels_is_obeyed_P17() -> None:
    for fields in ({"slurm_nodes": ()}, {"started": True}, {"signalled": True}):
        core = two_hosts(POD, job(POD, state="CANCELLED", **{**ENDED, **fields}))
        core.wait(400)
        assert not core.submission(POD)


def test_the_reason_of_the_drain_may_be_read_later_P17() -> None:
    core = two_hosts(POD, job(POD, state="CANCELLED", **ENDED))
    core.wait(2)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="Prolog error"))
    (shown,) = core.workload_wants(POD, SetScheduled)
    assert shown.message.endswith("before it began: Prolog error; another job follows")


def test_the_next_job_avoids_the_host_P17_P32() -> None:
    core = two_hosts(POD)
    core.see(job(POD, state="RUNNING", slurm_nodes=("n1",), started=False))
    core.see(job(POD, state="CANCELLED", **ENDED))
    core.wait(6)
    assert core.submission(POD).excluded == ("n1",)


def test_of_a_gang_only_slurm_knows_which_host_failed_P17() -> None:
    """It drains that host. To avoid the others would leave too few."""
    pods = (gang_pod("a"), gang_pod("b"))
    core = two_hosts(*pods, *room("n3"))
    fields: dict[str, Any] = {"slurm_nodes": ("n1", "n2"), "started": False}
    core.see(job(*pods, state="RUNNING", **fields))
    core.see(job(*pods, state="CANCELLED", **fields))
    core.wait(6)
    assert core.submission(pods[0]).excluded == ()


def test_the_pause_doubles_while_jobs_end_so_P17() -> None:
    core = two_hosts(POD)
    for number in (1, 2, 3):
        core.see(job(POD, state="CANCELLED", job_id=str(number), submitted_at=number, **ENDED))
    core.wait(19)
    assert not core.submission(POD)
    core.wait(2)
    assert core.submission(POD)


@pytest.mark.parametrize("state", ["CANCELLED", "CANCELLED+COMPLETING"])
def test_a_job_that_we_gave_up_before_it_began_is_ours_P17(state: str) -> None:
    given_up = identity(POD, replaced=True)
    core = two_hosts(POD, job(POD, state=state, identity=given_up, **ENDED))
    core.wait(2)
    assert not core.workload_wants(POD, RecordEvent)
    assert core.submission(POD)


def test_an_unknown_host_has_no_reason_P17() -> None:
    core = Core(node("kn1"), POD, job(POD, state="CANCELLED", **ENDED))
    core.wait(2)
    assert FAILED in str(core.workload_wants(POD, SetScheduled)) or not core.submission(POD)
