"""A job starts on a Node that is its own: rows L1-L4a."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind, Cordon, Drain, RecordEvent
from sunk_sync.core.model.calls import CallEnded, LockCall
from sunk_sync.core.model.facts import Lost, Node, reference_of
from sunk_sync.core.model.lock_actions import AnswerLock, GetNodePods, Lock, Unlock
from sunk_sync.core.model.node_lock import TAINT, LockState, NodePods, tolerates_lock
from sunk_sync.core.model.pod_spec import Toleration
from sunk_sync.core.translate.slurmd_pod import STAYS
from tests.kit.build import (
    BOUND,
    OFFER,
    POD,
    SCHEDULER,
    SMALL,
    Core,
    deleted,
    node,
    running,
    slurm_node,
    slurmd_pod,
    two_hosts,
)
from tests.kit.node_sets import node_set, record, set_pod

WAIT_S, LINGER_S = 60.0, 10.0
SLURMD = slurmd_pod("n1", tolerates_lock=True)
SHIELD = (Toleration("sunk.coreweave.com/lock", "Exists", effect="NoExecute"),)
SHIELDED = replace(BOUND, spec=replace(SMALL, tolerations=SHIELD))


def kn1(state: LockState = "", **fields: Any) -> Node:
    """Make Node kn1 with this lock."""
    return node("kn1", lock=state, tainted=bool(state), **fields)


def made(*rows: Any, **chosen: Any) -> Core:
    """Make two hosts whose slurmd tolerates the lock."""
    core = two_hosts(*rows, **{"lock": True, **chosen})
    core.see(SLURMD, slurmd_pod("n2", tolerates_lock=True))
    return core


def ask(
    core: Core, *slurm_nodes: str, job_id: str = "99", call: int = 1, **fields: Any
) -> LockCall:
    """A prolog asks now."""
    core.now += 1
    times = {"asked_s": core.now, "began_s": core.now, "until_s": core.now + 55}
    fact = LockCall(
        call=call, job_id=job_id, slurm_nodes=slurm_nodes or ("n1",), **{**times, **fields}
    )
    core.see(fact)
    return fact


def listed(core: Core, *intolerant: str, tolerant: tuple[str, ...] = ()) -> None:
    """Show the foreign Pods on Node kn1, by a listing that begins now."""
    core.now += 0.01
    core.see(NodePods("kn1", core.now, intolerant, tolerant))


def states(core: Core) -> list[LockState]:
    """Return the states of the lock that are wanted."""
    return [want.state for want in core.wants("n1", Lock)]


def answers(core: Core, name: str = "n1") -> list[tuple[bool, str]]:
    """Return what the callers are answered: go, and why."""
    return [(want.go, want.why) for want in core.wants(name, AnswerLock)]


def events(core: Core) -> list[tuple[str, str]]:
    """Return the reason and message of each wanted Event."""
    return [(want.reason, want.message) for want in core.wants("n1", RecordEvent)]


def test_nobody_asks_and_nothing_is_locked_L1() -> None:
    core = made()
    assert not core.wants("n1", Lock, Unlock, GetNodePods)


def test_an_unlocked_node_gets_taint_and_pending_in_one_write_L1() -> None:
    core = made()
    ask(core)
    assert core.wants("n1", Lock) == [Lock(reference_of(kn1()), "pending")]
    assert answers(core) == [(False, "its taint is not set yet")]
    assert not core.wants("n2", Lock, AnswerLock)


@pytest.mark.parametrize("locks", [True, False])
def test_a_nodeset_can_do_without_the_lock_and_nothing_is_written_then_L1(locks: bool) -> None:
    spec = node_set(1, lock=locks)
    pod = set_pod(0, spec, tolerates_lock=True)
    core = Core(spec, node("kcpu-0"), pod, record(0, "IDLE", spec), lock=True)
    ask(core, "cpu-0")
    assert bool(core.wants("cpu-0", Lock)) == locks
    told = answers(core, "cpu-0")
    assert told == ([(False, "its taint is not set yet")] if locks else [(True, "")])
    assert not core.wants("cpu-0", RecordEvent)


def test_a_listing_that_began_after_the_taint_shows_who_lives_there_L1() -> None:
    core = made()
    ask(core)
    core.see(NodePods("kn1", core.now))
    core.now += 1
    core.see(kn1("pending"))
    assert states(core) == []
    want = GetNodePods(reference_of(kn1()), SLURMD.uid, SCHEDULER, core.now)
    assert core.wants("n1", GetNodePods) == [want]
    core.see(NodePods("kn1", core.now - 0.1))
    assert core.wants("n1", GetNodePods) == [want]
    listed(core)
    assert states(core) == ["locked"]
    assert answers(core) == [(False, "no foreign Pod lives there")]


def test_go_once_the_node_shows_the_lock_L1() -> None:
    core = made()
    ask(core)
    core.see(kn1("locked"))
    wants = core.wants("n1", Lock, Unlock, GetNodePods, AnswerLock)
    assert wants == [AnswerLock(1, "n1", "kn1", go=True)]


def test_while_a_foreign_pod_lives_it_is_listed_again_L1() -> None:
    core = made()
    ask(core)
    core.see(kn1("pending"))
    began_s = core.now
    listed(core, "ns/a", "ns/b")
    assert answers(core) == [(False, "Pods ns/a, ns/b live there")]
    assert not core.wants("n1", GetNodePods)
    assert core.verdict().look_again_s == pytest.approx(core.now + 0.05)
    core.wait(0.05)
    assert core.wants("n1", GetNodePods)[0].after_s == pytest.approx(began_s + 0.01)
    core.now = began_s + 5
    listed(core, "ns/a")
    assert core.verdict().look_again_s == pytest.approx(core.now + 0.25, abs=0.01)
    core.now = began_s + 50
    listed(core, "ns/a")
    assert core.verdict().look_again_s == pytest.approx(core.now + 1)
    listed(core)
    assert states(core) == ["locked"]


def test_a_node_that_is_locked_already_is_answered_at_once_L1() -> None:
    core = made()
    core.see(kn1("locked"))
    ask(core)
    ask(core, call=2, job_id="100")
    assert answers(core) == [(True, ""), (True, "")]
    assert not core.wants("n1", Lock, Unlock, GetNodePods)


def test_a_call_for_two_nodes_asks_for_both_L1() -> None:
    core = made()
    ask(core, "n1", "n2")
    assert [core.wants(name, Lock)[0].reference.name for name in ("n1", "n2")] == ["kn1", "kn2"]


@pytest.mark.parametrize("job_id", ["7", "99"])
def test_the_lock_of_a_placeholder_is_strict_L2(job_id: str) -> None:
    """Job 7 is a placeholder, job 99 is anybody's."""
    core = made(running(BOUND, at=("n2",)))
    ask(core, job_id=job_id)
    core.see(kn1("pending"))
    listed(core, tolerant=("ns/t",))
    strict = job_id == "7"
    assert states(core) == ([] if strict else ["locked"])
    if strict:
        assert answers(core) == [(False, "Pods ns/t live there")]
        listed(core)
        assert states(core) == ["locked_strict"]
        core.see(kn1("locked_strict"))
        assert answers(core) == [(True, "")]


def test_a_strict_lock_needs_a_listing_begun_after_its_call_L2() -> None:
    core = made()
    ask(core, call=1)
    core.see(kn1("pending"))
    listed(core)
    core.see(kn1("locked"), CallEnded(1))
    call = ask(core, call=2, strict=True)
    assert core.wants("n1", GetNodePods)[0].after_s == call.asked_s
    assert states(core) == []
    listed(core, tolerant=("ns/t",))
    assert states(core) == []
    listed(core)
    assert states(core) == ["locked_strict"]


def test_a_strict_lock_is_enough_for_every_job_L2() -> None:
    core = made()
    core.see(kn1("locked_strict"))
    ask(core)
    ask(core, call=2, strict=True)
    assert answers(core) == [(True, ""), (True, "")]


def test_a_plain_call_does_not_wait_for_a_strict_one_L2() -> None:
    core = made()
    core.see(kn1("locked"))
    ask(core)
    ask(core, call=2, strict=True)
    assert [go for go, _ in answers(core)] == [True, False]


def locked_host(state: LockState = "locked") -> Core:
    """Return a locked host whose job runs."""
    core = made()
    ask(core)
    core.see(kn1(state), slurm_node("n1", "ALLOCATED"), CallEnded(1))
    return core


def unlocks(core: Core) -> bool:
    return core.wants("n1", Unlock) == [Unlock(reference_of(kn1()))]


@pytest.mark.parametrize("state", ["ALLOCATED", "IDLE+COMPLETING", "UNKNOWN"])
def test_the_lock_stays_while_a_job_runs_or_slurmctld_does_not_say_so_L3(state: str) -> None:
    core = locked_host()
    for _ in range(2):
        core.see_listing("slurm_nodes", slurm_node("n1", state), after_s=LINGER_S + 1)
        assert not unlocks(core)


@pytest.mark.parametrize("state", ["pending", "locked", "locked_strict"])
def test_it_is_released_by_a_read_begun_after_the_end_and_the_linger_L3(state: LockState) -> None:
    core = locked_host(state)
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=100)
    assert not unlocks(core)
    core.wait(LINGER_S + 5)
    assert not unlocks(core), "no read began after the linger"
    core.see_listing("slurm_nodes", slurm_node("n1"))
    assert unlocks(core)
    core.see(kn1())
    assert not core.wants("n1", Unlock)


def test_an_older_read_does_not_release_what_a_new_call_uses_L3() -> None:
    """The prolog was answered; the last reads began before its job was allocated."""
    core = locked_host()
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=100)
    core.now += LINGER_S + 1
    ask(core, call=2)
    core.see(CallEnded(2))
    core.confirm("slurm_nodes")
    assert not unlocks(core)
    core.see_listing("slurm_nodes", slurm_node("n1", "ALLOCATED"), after_s=LINGER_S + 1)
    assert not unlocks(core)


def test_a_call_keeps_the_lock_of_an_idle_node_L3() -> None:
    core = locked_host()
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=100)
    ask(core, call=2)
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=100)
    assert not unlocks(core)
    assert answers(core) == [(True, "")]


def test_an_unreadable_slurm_releases_nothing_L3() -> None:
    core = locked_host()
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=100)
    core.see(Lost("slurm_nodes", "away", blind=True))
    core.wait(1000)
    assert not unlocks(core)


def test_a_record_that_is_gone_holds_no_lock_L3() -> None:
    core = locked_host()
    core.see_listing("slurm_nodes", slurm_node("n2"), after_s=100)
    core.see_listing("slurm_nodes", slurm_node("n2"), after_s=LINGER_S)
    assert unlocks(core)


@pytest.mark.parametrize("state", ["pending", "locked", "locked_strict"])
@pytest.mark.parametrize("runs", [False, True])
def test_after_a_restart_the_annotation_is_the_state_L4(state: LockState, runs: bool) -> None:
    record = slurm_node("n1", "ALLOCATED" if runs else "IDLE")
    core = Core(kn1(state), SLURMD, record, lock=True)
    assert not unlocks(core)
    looks = core.wants("n1", GetNodePods)
    assert bool(looks) == (runs and state == "pending")
    core.see_listing("slurm_nodes", record, after_s=LINGER_S + 2)
    assert unlocks(core) == (not runs)


def test_a_pending_lock_of_a_running_job_still_becomes_locked_L4() -> None:
    core = Core(kn1("pending"), SLURMD, slurm_node("n1", "ALLOCATED"), lock=True)
    listed(core, "ns/a")
    assert states(core) == []
    listed(core)
    assert states(core) == ["locked"]


def test_a_stray_annotation_without_taint_goes_L4() -> None:
    core = made()
    core.see(node("kn1", lock="locked"))
    core.see_listing("slurm_nodes", slurm_node("n1"), slurm_node("n2"), after_s=LINGER_S + 1)
    assert unlocks(core)


def test_a_taint_without_our_annotation_is_anothers_L4() -> None:
    core = made()
    core.see(node("kn1", tainted=True))
    core.see_listing("slurm_nodes", slurm_node("n1"), slurm_node("n2"), after_s=LINGER_S + 1)
    assert not core.wants("n1", Unlock, Lock)


def test_a_taint_that_somebody_removed_is_set_again_for_the_next_job_L4() -> None:
    core = made()
    core.see(node("kn1", lock="locked"))
    ask(core)
    assert states(core) == ["pending"]


def test_a_listing_from_before_the_taint_was_removed_does_not_count_L4() -> None:
    core = made()
    ask(core)
    core.see(kn1("pending"))
    listed(core)
    assert states(core) == ["locked"]
    core.see(node("kn1", lock="pending"))
    core.now += 1
    core.see(kn1("pending"))
    assert states(core) == []
    assert core.wants("n1", GetNodePods)[0].after_s == core.now


def late(core: Core) -> None:
    """Let the call come to its deadline while a Pod lives."""
    ask(core, began_s=core.now - WAIT_S + 3)
    core.see(kn1("pending"))
    listed(core, "ns/a")
    assert [go for go, _ in answers(core)] == [False]
    core.wait(3)


def test_after_the_deadline_the_job_starts_and_an_event_names_the_pods_L4a() -> None:
    core = made()
    late(core)
    assert answers(core) == [(True, "Pods ns/a live there")]
    message = "After 60 s the job of this Node starts: Pods ns/a live there"
    assert events(core) == [("NodeLockLate", message)]
    assert core.wants("n1", RecordEvent)[0].reference == reference_of(kn1())
    core.see(CallEnded(1), slurm_node("n1", "ALLOCATED"))
    core.now += WAIT_S
    listed(core, "ns/a")
    assert events(core) == [("NodeLockLate", message)], "the same Event, so it is recorded once"
    listed(core)
    assert states(core) == ["locked"]


def test_by_choice_the_job_is_held_until_they_are_gone_L4a() -> None:
    core = made(lock_late="hold")
    late(core)
    assert answers(core) == [(False, "Pods ns/a live there")]
    assert [reason for reason, _ in events(core)] == ["NodeLockLate"]
    listed(core)
    core.see(kn1("locked"))
    assert answers(core) == [(True, "")]


def test_a_write_that_is_refused_does_not_hold_the_job_beyond_the_deadline_L4a() -> None:
    core = made()
    ask(core)
    core.wait(WAIT_S)
    assert answers(core) == [(True, "its taint is not set yet")]
    assert [reason for reason, _ in events(core)] == ["NodeLockLate"]


def test_the_deadline_counts_from_the_first_call_of_the_prolog_L4a() -> None:
    core = made()
    ask(core, began_s=core.now + 1 - WAIT_S)
    assert [go for go, _ in answers(core)] == [True]


REFUSED = {
    "slurmd": "Pod slurm/slurmd-n1 of slurmd does not tolerate the lock",
    "a Pod of a job": "Pods of other jobs do not tolerate the lock: Pods ns/p1",
    "rivals": "Slurm node n1 is claimed more than once",
    "no Node": "Kubernetes has no Node for n1",
}


@pytest.mark.parametrize("who", REFUSED)
def test_a_lock_that_would_end_a_job_is_not_taken_L4a(who: str) -> None:
    core = made()
    if who == "slurmd":
        core.see(replace(SLURMD, tolerates_lock=False))
    elif who == "a Pod of a job":
        core.see(BOUND, running(BOUND))
    elif who == "rivals":
        core.see(slurmd_pod("n1", name="rival", uid="rival", node_name="kn2"))
    else:
        core.see(deleted("nodes", kn1()))
    ask(core)
    assert answers(core) == [(True, REFUSED[who])]
    assert states(core) == []
    told = {"rivals": []}.get(
        who, [("NodeNotLocked", f"A job starts without the lock: {REFUSED[who]}")]
    )
    assert [one for one in events(core) if one[0] == "NodeNotLocked"] == told


def test_pods_of_jobs_that_tolerate_the_lock_do_not_hinder_it_L1() -> None:
    core = made(SHIELDED, running(SHIELDED))
    ask(core)
    assert states(core) == ["pending"]


def test_without_the_setting_nothing_is_locked_or_unlocked_L1() -> None:
    core = made(lock=False)
    core.see(kn1("locked"))
    ask(core)
    core.see(CallEnded(1))
    core.see_listing("slurm_nodes", slurm_node("n1"), slurm_node("n2"), after_s=100)
    assert not core.wants("n1", Lock, Unlock, AnswerLock)


LOCKED_OFFER = replace(OFFER, taints=(TAINT,))
LOCKED_NODE = kn1("locked", offer=LOCKED_OFFER)


@pytest.mark.parametrize("lock", [True, False])
def test_a_locked_node_stays_a_host_for_pods_of_ours_if_we_lock_L1(lock: bool) -> None:
    """Without --lock the taint is anybody's, and no toleration is added."""
    core = made(POD, lock=lock)
    core.see(LOCKED_NODE)
    assert core.submission(POD).excluded == (() if lock else ("n1",))
    core.see(running(POD))
    assert core.binds(POD) == ([("p1", "kn1")] if lock else [])
    assert [want.shield for want in core.workload_wants(POD, Bind)] == [True] * lock


def test_a_pod_that_tolerates_the_lock_is_bound_as_it_is_L1() -> None:
    tolerant = replace(POD, spec=SHIELDED.spec)
    core = made(tolerant, running(tolerant))
    assert [want.shield for want in core.workload_wants(tolerant, Bind)] == [False]


@pytest.mark.parametrize("state", ["pending", "locked", "locked_strict"])
def test_the_lock_is_no_cause_for_a_drain_or_a_cordon_L1(state: LockState) -> None:
    core = made(cordon_on_slurm_drain=True)
    core.see(kn1(state, offer=LOCKED_OFFER))
    ask(core)
    assert not core.wants("n1", Drain, Cordon)


def test_slurmd_pods_of_node_sets_tolerate_the_lock_L1() -> None:
    assert Toleration(KEY, "Exists") in STAYS


KEY = "sunk.coreweave.com/lock"


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        (Toleration(KEY, "Exists"), True),
        (Toleration(KEY, "Exists", effect="NoExecute"), True),
        (Toleration(KEY, "Exists", effect="NoSchedule"), False),
        (Toleration(KEY, "Equal", "true"), True),
        (Toleration(KEY, "Equal", "false"), False),
        (Toleration(operator="Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration(KEY, "Odd", "other"), False),
    ],
)
def test_which_tolerations_keep_a_pod_L1(toleration: Toleration, stays: bool) -> None:
    assert tolerates_lock((toleration,)) == stays
