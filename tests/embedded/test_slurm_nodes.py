"""The embedded Slurm: operations of administrators and users, and events of nodes."""

import pytest

from sunk_sync.embedded.slurm.memory import Loss, Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.embedded.slurm_kit import Generation, job_states, node_state, number, slurm_of

LONG = JobRequest(duration_s=None, cpus=4, memory_mb=1000, required_nodes=("n1",))
WHOLE = JobRequest(duration_s=10, exclusive=True, required_nodes=("n1",))


def test_nodes_are_idle_from_the_start() -> None:
    slurm = slurm_of()
    assert [node_state(slurm, name) for name in slurm.nodes] == ["IDLE"] * 3
    assert slurm.nodes["n1"].boot_s == slurm.epoch_s
    assert slurm.next_s() is None


@pytest.mark.parametrize(
    ("generation", "after"), [("26.05", ("IDLE", "")), ("24.11", ("IDLE", "fan"))]
)
def test_an_undrain_removes_the_reason_only_on_26_05(
    generation: Generation, after: tuple[str, str]
) -> None:
    slurm = slurm_of(generation=generation)
    assert slurm.drain("n1", reason="fan", now_s=1) is None
    assert (node_state(slurm), slurm.nodes["n1"].reason) == ("IDLE+DRAIN", "fan")
    assert slurm.nodes["n1"].reason_s == slurm.epoch_s
    slurm.undrain("n1", now_s=2)
    assert "NOT_RESPONDING" in node_state(slurm)
    assert (node_state(slurm, at=3), slurm.nodes["n1"].reason) == after


def test_scontrol_requires_a_reason_but_slurmctld_does_not() -> None:
    slurm = slurm_of()
    for change in (slurm.drain, slurm.down, slurm.fail):
        assert number(change("n1", reason="", now_s=1)) == 0
    assert slurm.update("n1", Update(state="DRAIN"), now_s=1) is None
    assert node_state(slurm) == "IDLE+DRAIN"


@pytest.mark.parametrize(("generation", "error"), [("26.05", 2180), ("24.11", 2028)])
def test_an_idle_node_cannot_be_resumed(generation: Generation, error: int) -> None:
    assert number(slurm_of(generation=generation).resume("n1", now_s=1)) == error


def test_names_are_changed_in_order_up_to_the_first_unknown_one() -> None:
    slurm = slurm_of()
    assert number(slurm.update(["n3", "n2", "n[1,9]"], Update(comment="x"), now_s=1)) == 2018
    assert [node.comment for node in slurm.nodes.values()] == ["x", "x", "x"]
    assert number(slurm.update(["n3", "n0"], Update(comment="y"), now_s=1)) == 2018
    assert number(slurm.update("n[", Update(comment="y"), now_s=1)) == 2018
    assert [node.comment for node in slurm.nodes.values()] == ["x", "x", "x"]


def test_a_node_record_never_changes() -> None:
    slurm = slurm_of()
    before = slurm.nodes["n1"]
    slurm.drain("n1", reason="x", now_s=1)
    assert before.flags == frozenset()
    assert before.reason == ""


def test_changes_wake_the_listener_and_are_counted() -> None:
    woken: list[int] = []
    setup = Setup(nodes=[NodeSpec(name="n1")])
    slurm = SlurmWorld(setup, wake=lambda: woken.append(1))
    count = slurm.changes
    woken.clear()
    slurm.drain("n1", reason="x", now_s=1)
    assert len(woken) == slurm.changes - count == 1


def test_a_node_with_a_dead_slurmd_is_silent_then_down_until_it_registers() -> None:
    """The ping at 100 s fails; SlurmdTimeout is 300 s."""
    slurm = slurm_of()
    slurm.kill_slurmd("n1", now_s=10)
    assert node_state(slurm, at=99) == "IDLE"
    assert node_state(slurm, at=101) == "IDLE+NOT_RESPONDING"
    assert node_state(slurm, at=311) == "DOWN+NOT_RESPONDING"
    node = slurm.nodes["n1"]
    assert (node.reason, node.reason_user) == ("Not responding", "slurm")
    slurm.start_slurmd("n1", now_s=320)
    assert (node_state(slurm), slurm.nodes["n1"].reason) == ("IDLE", "")


def test_the_reason_of_a_drained_node_says_that_its_slurmd_died() -> None:
    """As both releases do it (tests/real/test_silent_slurmd.py)."""
    slurm = slurm_of()
    slurm.drain("n1", reason="k8s: x", now_s=1)
    slurm.kill_slurmd("n1", now_s=2)
    assert node_state(slurm, at=400) == "DOWN+DRAIN+NOT_RESPONDING"
    said = "k8s: x : Not responding"
    assert slurm.nodes["n1"].reason == said
    slurm.start_slurmd("n1", now_s=401)
    assert (node_state(slurm), slurm.nodes["n1"].reason) == ("IDLE+DRAIN", said)


@pytest.mark.parametrize("again", ["restart", "reconfigure"])
def test_no_node_stays_unknown_whose_slurmd_never_comes_back(again: str) -> None:
    """Host seed 7720009. A node that is DOWN stays it, as in tests/real/test_silent_slurmd.py."""
    slurm = slurm_of()
    slurm.drain("n2", reason="x", now_s=1)
    slurm.update("n3", Update(state="DOWN", reason="fan"), now_s=1)
    for name in slurm.nodes:
        slurm.kill_slurmd(name, now_s=2)
    getattr(slurm, again)(now_s=400)
    states = [node_state(slurm, name) for name in slurm.nodes]
    assert states == ["DOWN", "DOWN+DRAIN", "DOWN"]
    getattr(slurm, again)(now_s=401)
    silent = "DOWN+NOT_RESPONDING"
    states = [node_state(slurm, name, at=802) for name in slurm.nodes]
    assert states == [silent, "DOWN+DRAIN+NOT_RESPONDING", silent]


@pytest.mark.parametrize("again", ["restart", "reconfigure"])
def test_a_power_action_goes_on_after(again: str) -> None:
    """Its end was forgotten, and the node stayed UNKNOWN for ever (host seed 7720143)."""
    slurm = slurm_of(power_saving=True)
    slurm.update("n1", Update(state="POWER_DOWN"), now_s=1)
    assert node_state(slurm, at=2.5) == "IDLE+POWERING_DOWN"
    getattr(slurm, again)(now_s=3)
    assert node_state(slurm, at=200) == "IDLE+POWERED_DOWN"
    slurm.update("n1", Update(state="POWER_UP"), now_s=201)
    assert "POWERING_UP" in node_state(slurm, at=203)
    getattr(slurm, again)(now_s=204)
    assert node_state(slurm, at=900) == "IDLE"


def test_a_slurmd_that_returns_in_time_does_not_go_down() -> None:
    slurm = slurm_of()
    slurm.kill_slurmd("n1", now_s=10)
    slurm.start_slurmd("n1", now_s=20)
    assert node_state(slurm, at=400) == "IDLE"


@pytest.mark.parametrize(
    ("returns", "silent", "after"),
    [(2, True, "IDLE"), (2, False, "IDLE"), (1, True, "IDLE"), (1, False, "DOWN"),
     (0, True, "DOWN"), (0, False, "DOWN")],
)  # fmt: skip
def test_return_to_service_decides_which_down_nodes_return(
    returns: int, silent: bool, after: str
) -> None:
    slurm = slurm_of(return_to_service=returns)
    slurm.kill_slurmd("n1", now_s=1)
    if not silent:
        slurm.down("n1", reason="fan", now_s=2)
    slurm.start_slurmd("n1", now_s=400)
    assert node_state(slurm) == after


def test_a_node_with_too_few_gpus_is_drained_until_an_undrain() -> None:
    """A repair ends INVALID_REG, but not DRAIN."""
    slurm = slurm_of()
    slurm.set_gres_found("n1", "gpu:2", now_s=1)
    slurm.start_slurmd("n1", now_s=2)
    assert node_state(slurm) == "IDLE+DRAIN+INVALID_REG"
    assert slurm.nodes["n1"].reason.endswith("(2 < 4)")
    assert number(slurm.resume("n1", now_s=3)) == 2180
    slurm.set_gres_found("n1", None, now_s=4)
    slurm.start_slurmd("n1", now_s=5)
    assert node_state(slurm) == "IDLE+DRAIN"
    slurm.undrain("n1", now_s=6)
    assert node_state(slurm, at=8) == "IDLE"


def test_an_invalid_registration_replaces_the_reason_once() -> None:
    slurm = slurm_of()
    slurm.drain("n1", reason="k8s: x", now_s=1)
    slurm.set_gres_found("n1", "gpu:a100:1(S:0)", now_s=2)
    slurm.start_slurmd("n1", now_s=2)
    assert slurm.nodes["n1"].reason.endswith("(1 < 4)")
    slurm.update("n1", Update(reason="k8s: again"), now_s=3)
    slurm.start_slurmd("n1", now_s=4)
    assert slurm.nodes["n1"].reason == "k8s: again"


def test_a_reboot_waits_for_jobs_and_takes_boot_time() -> None:
    slurm = slurm_of()
    slurm.submit(WHOLE, now_s=0)
    slurm.advance(2)
    assert slurm.reboot("n[1-2]", now_s=2) is None
    assert node_state(slurm, at=4) == "ALLOCATED+REBOOT_REQUESTED"
    assert node_state(slurm, "n2") == "DOWN+REBOOT_ISSUED"
    assert slurm.nodes["n2"].reason == "reboot requested : reboot issued"
    assert node_state(slurm, at=13) == "DOWN+REBOOT_ISSUED"
    slurm.start_slurmd("n1", now_s=14)
    assert node_state(slurm) == "DOWN+REBOOT_ISSUED"
    assert (node_state(slurm, at=80), slurm.nodes["n1"].reason) == ("IDLE", "")
    assert node_state(slurm, "n2") == "IDLE"


def test_a_reboot_asap_drains_until_it_is_done() -> None:
    slurm = slurm_of()
    slurm.reboot("n1", now_s=1, asap=True)
    assert node_state(slurm) == "IDLE+DRAIN+REBOOT_REQUESTED"
    assert slurm.nodes["n1"].reason == "Reboot ASAP"
    assert node_state(slurm, at=100) == "IDLE"
    assert number(slurm.reboot("n9", now_s=101)) == 2018
    assert number(slurm_of(reboot_program=False).reboot("n1", now_s=1)) == -1


def test_down_and_resume_cancel_a_reboot() -> None:
    slurm = slurm_of()
    slurm.reboot("n1", now_s=1)
    slurm.down("n1", reason="over", now_s=1.1)
    slurm.resume("n1", now_s=1.2)
    assert node_state(slurm, at=100) == "IDLE"


def test_a_node_is_powered_down_and_up() -> None:
    slurm = slurm_of(power_saving=True)
    slurm.update("n1", Update(state="POWER_DOWN", reason="saving"), now_s=1)
    assert (node_state(slurm), slurm.nodes["n1"].reason) == ("IDLE+POWER_DOWN", "saving")
    assert node_state(slurm, at=3) == "IDLE+POWERING_DOWN"
    assert (node_state(slurm, at=40), slurm.nodes["n1"].reason) == ("IDLE+POWERED_DOWN", "saving")
    assert number(slurm.resume("n1", now_s=41)) == 2180
    slurm.update("n1", Update(state="POWER_UP"), now_s=42)
    assert node_state(slurm) == "IDLE+POWERED_DOWN+POWER_UP"
    assert node_state(slurm, at=44) == "IDLE+NOT_RESPONDING+POWERING_UP"
    assert node_state(slurm, at=110) == "IDLE"


def test_power_down_asap_drains_and_resume_stops_it() -> None:
    slurm = slurm_of(power_saving=True)
    slurm.update("n1", Update(state="POWER_DOWN_ASAP"), now_s=1)
    assert node_state(slurm) == "IDLE+DRAIN+POWER_DOWN"
    assert slurm.nodes["n1"].reason == "POWER_DOWN_ASAP"
    assert node_state(slurm, at=3) == "IDLE+DRAIN+POWERING_DOWN"
    assert slurm.resume("n1", now_s=4) is None
    assert node_state(slurm, at=60) == "IDLE+POWERED_DOWN"


def test_dynamic_nodes_can_be_added_and_deleted_but_not_static_and_busy_ones() -> None:
    slurm = slurm_of()
    spec = NodeSpec(name="dyn1", features=("dyn",))
    assert slurm.add_node(spec, now_s=1) is None
    assert node_state(slurm, "dyn1") == "IDLE+DYNAMIC_NORM"
    assert number(slurm.add_node(spec, now_s=2)) == 2168
    slurm.submit(JobRequest(features=("dyn",), duration_s=None), now_s=2)
    slurm.advance(4)
    assert number(slurm.remove_node("dyn1", now_s=4)) == 2016
    slurm.cancel(1, now_s=5)
    slurm.advance(6)
    assert slurm.remove_node("dyn1", now_s=6) is None
    assert number(slurm.remove_node("dyn1", now_s=7)) == 2018
    assert number(slurm.remove_node("n1", now_s=8)) == 2028


def test_a_job_waits_for_the_scheduler_runs_ends_and_is_forgotten() -> None:
    slurm = slurm_of()
    slurm.submit(WHOLE, now_s=0.5)
    assert slurm.jobs[1].state == "PENDING"
    assert slurm.next_s() == 1
    assert node_state(slurm, at=1) == "ALLOCATED"
    assert node_state(slurm, at=11.1) == "IDLE+COMPLETING"
    assert slurm.jobs[1].ending
    assert node_state(slurm, at=12) == "IDLE"
    assert slurm.jobs[1].state == "COMPLETED"
    slurm.advance(400)
    assert slurm.jobs == {}


def test_mixed_depends_on_the_count_of_the_last_listing() -> None:
    """Reads by name show ALLOCATED before the first listing, and MIXED after the job's end."""
    slurm = slurm_of()
    slurm.submit(LONG, now_s=0)
    slurm.advance(2)
    assert state_of(slurm.nodes["n1"]) == ("ALLOCATED",)
    assert node_state(slurm) == "MIXED"
    slurm.cancel(1, now_s=3)
    slurm.advance(4)
    assert state_of(slurm.nodes["n1"]) == ("MIXED",)
    assert node_state(slurm) == "IDLE"


def test_a_drained_node_finishes_its_jobs_and_takes_no_new_ones() -> None:
    slurm = slurm_of()
    slurm.submit(WHOLE, now_s=0)
    slurm.advance(1)
    slurm.drain("n1", reason="x", now_s=2)
    slurm.submit(WHOLE, now_s=3)
    assert node_state(slurm, at=5) == "ALLOCATED+DRAIN"
    assert node_state(slurm, at=20) == "IDLE+DRAIN"
    second = slurm.jobs[2]
    assert (second.state, second.state_reason) == ("PENDING", "ReqNodeNotAvail")
    slurm.undrain("n1", now_s=21)
    assert node_state(slurm, at=24) == "ALLOCATED"


@pytest.mark.parametrize(("requeue", "after"), [(True, ("PENDING", 1)), (False, ("NODE_FAIL", 0))])
def test_down_ends_or_requeues_jobs_on_all_their_nodes(
    requeue: bool, after: tuple[str, int]
) -> None:
    slurm = slurm_of()
    request = JobRequest(nodes=2, exclusive=True, requeue=requeue, required_nodes=("n1", "n2"))
    slurm.submit(request, now_s=0)
    slurm.advance(1)
    assert node_state(slurm, "n2") == "ALLOCATED"
    slurm.down("n1", reason="dead", now_s=2)
    assert (slurm.jobs[1].state, slurm.jobs[1].restarts) == after
    assert node_state(slurm, "n2") == "IDLE"
    assert node_state(slurm) == "DOWN"


def test_down_ends_suspended_jobs_although_the_node_counts_none() -> None:
    slurm = slurm_of()
    slurm.submit(JobRequest(requeue=False, required_nodes=("n1",)), now_s=0)
    slurm.advance(1)
    slurm.suspend_job(1, now_s=2)
    assert slurm.nodes["n1"].running == 0
    slurm.down("n1", reason="dead", now_s=3)
    assert slurm.jobs[1].state == "NODE_FAIL"


def test_down_frees_the_node_of_completing_jobs() -> None:
    slurm = slurm_of()
    slurm.submit(JobRequest(ending_s=20, required_nodes=("n1",)), now_s=0)
    slurm.advance(1)
    slurm.cancel(1, now_s=2)
    assert node_state(slurm, at=3) == "IDLE+COMPLETING"
    slurm.down("n1", reason="dead", now_s=4)
    assert node_state(slurm) == "DOWN"


def test_jobs_share_a_node_until_it_is_full() -> None:
    slurm = slurm_of(nodes=1)
    for _ in range(3):
        slurm.submit(JobRequest(cpus=8, memory_mb=1000, duration_s=None), now_s=0)
    assert node_state(slurm, at=2) == "ALLOCATED"
    assert job_states(slurm) == ["RUNNING", "RUNNING", "PENDING"]
    assert slurm.cancel(1, now_s=3) is None
    assert node_state(slurm) == "MIXED+COMPLETING"
    slurm.advance(5)
    assert slurm.jobs[3].state == "RUNNING"


def test_a_higher_priority_starts_first() -> None:
    slurm = slurm_of(nodes=1)
    for priority in (1, 5):
        slurm.submit(JobRequest(exclusive=True, priority=priority), now_s=0)
    assert job_states(slurm, at=2) == ["PENDING", "RUNNING"]


def test_a_job_runs_in_its_partition() -> None:
    nodes = [NodeSpec(name=name) for name in ("a1", "b1")]
    partitions = (
        Partition(name="a", nodes=("a1", "gone"), default=True),
        Partition(name="b", nodes=("b1",)),
    )
    slurm = SlurmWorld(Setup(nodes=nodes, partitions=partitions))
    slurm.submit(JobRequest(partition="b"), now_s=0)
    slurm.submit(JobRequest(nodes=2), now_s=0)
    assert (node_state(slurm, "a1", at=2), node_state(slurm, "b1")) == ("IDLE", "MIXED")


@pytest.mark.parametrize("forgets", [False, True])
def test_a_reconfigure_resets_fields_set_by_rest_but_no_drain(forgets: bool) -> None:
    """The real slurmctld keeps comments; the knob simulates their loss."""
    slurm = slurm_of(reconfigure_forgets_comments=forgets)
    given = Update(comment="mark", extra="e", weight=9, features=("f",), gres="")
    slurm.update("n1", given, now_s=1)
    slurm.drain("n1", reason="x", now_s=1)
    slurm.reconfigure(now_s=2)
    assert node_state(slurm) == "UNKNOWN+DRAIN"
    assert node_state(slurm, at=3) == "IDLE+DRAIN"
    node = slurm.nodes["n1"]
    assert (node.reason, node.weight, node.gres) == ("x", 1, "gpu:4")
    assert node.features == ("a100",)
    assert (node.comment, node.extra) == (("", "") if forgets else ("mark", "e"))


@pytest.mark.parametrize(
    ("loss", "early", "late", "jobs"),
    [("nothing", "early", "late", 1), ("recent", "early", "", 0), ("everything", "", "", 0)],
)
def test_a_restart_loses_unsaved_state(loss: Loss, early: str, late: str, jobs: int) -> None:
    """SIGTERM loses nothing, SIGKILL the last seconds, a lost disk everything."""
    slurm = slurm_of()
    slurm.update("n1", Update(comment="early"), now_s=1)
    slurm.update("n2", Update(comment="late"), now_s=20)
    slurm.submit(JobRequest(required_nodes=("n3",)), now_s=20)
    slurm.add_node(NodeSpec(name="dyn1"), now_s=20)
    slurm.restart(now_s=21, lose_state=loss)
    assert (slurm.nodes["n1"].comment, slurm.nodes["n2"].comment) == (early, late)
    assert len(slurm.jobs) == jobs
    assert ("dyn1" in slurm.nodes) == (loss == "nothing")
    assert node_state(slurm) == "UNKNOWN"
    assert node_state(slurm, at=25) == "IDLE"


def test_nothing_happens_while_slurmctld_is_down() -> None:
    """Then the jobs end, and a slurmd that died meanwhile stays UNKNOWN."""
    slurm = slurm_of()
    slurm.submit(WHOLE, now_s=0)
    slurm.submit(JobRequest(ending_s=50, duration_s=1, required_nodes=("n3",)), now_s=0)
    slurm.advance(3)
    slurm.kill_slurmd("n2", now_s=4)
    slurm.stop_controller(now_s=5)
    assert slurm.next_s() is None
    slurm.advance(60)
    assert slurm.jobs[1].state == "RUNNING"
    slurm.start_controller(now_s=61)
    assert job_states(slurm, at=65) == ["COMPLETED", "COMPLETED"]
    assert [node_state(slurm, name) for name in slurm.nodes] == ["IDLE", "UNKNOWN", "IDLE"]


def test_time_never_runs_backwards() -> None:
    slurm = slurm_of()
    slurm.advance(10)
    slurm.advance(5)
    assert slurm.now_s == 10
    assert slurm.epoch_s == int(slurm.setup.epoch_s) + 10


def test_the_same_operations_give_the_same_nodes_and_jobs() -> None:
    def lived() -> object:
        slurm = slurm_of()
        slurm.submit(WHOLE, now_s=0.3)
        slurm.drain("n2", reason="x", now_s=2)
        slurm.kill_slurmd("n3", now_s=3)
        slurm.restart(now_s=50, lose_state="recent")
        slurm.advance(500)
        return dict(slurm.nodes), dict(slurm.jobs)

    assert lived() == lived()


def test_down_does_not_change_ended_jobs_and_jobs_on_other_nodes() -> None:
    slurm = slurm_of()
    slurm.submit(JobRequest(duration_s=1, required_nodes=("n1",)), now_s=0)
    slurm.submit(JobRequest(duration_s=None, required_nodes=("n2",)), now_s=0)
    slurm.advance(5)
    slurm.submit(JobRequest(duration_s=None, required_nodes=("n1",)), now_s=5)
    slurm.advance(7)
    slurm.down("n1", reason="dead", now_s=8)
    assert job_states(slurm) == ["COMPLETED", "RUNNING", "PENDING"]


def test_timers_of_a_job_that_ended_earlier_have_no_effect() -> None:
    """These are the timers of its end, of COMPLETING and of MinJobAge."""
    slurm = slurm_of(min_job_age_s=30)
    slurm.submit(JobRequest(duration_s=10, ending_s=20, required_nodes=("n1",)), now_s=0)
    slurm.advance(1)
    slurm.cancel(1, now_s=2)
    slurm.down("n1", reason="dead", now_s=3)
    slurm.resume("n1", now_s=4)
    assert node_state(slurm, at=25) == "IDLE"
    assert slurm.jobs[1].state == "CANCELLED"
    slurm.submit(JobRequest(duration_s=None, required_nodes=("n1",)), now_s=26)
    slurm.advance(28)
    slurm.down("n1", reason="again", now_s=29)
    slurm.resume("n1", now_s=30)
    assert job_states(slurm, at=200) == ["RUNNING"]


@pytest.mark.parametrize(
    ("before", "after"),
    [("DRAIN", "IDLE"), ("DOWN", "IDLE"), ("FAIL", "IDLE"), ("FUTURE", "FUTURE")],
)
def test_state_idle_resets_all_states_but_future(before: str, after: str) -> None:
    slurm = slurm_of()
    slurm.update("n1", Update(state=before, reason="x"), now_s=1)
    slurm.update("n1", Update(state="IDLE"), now_s=2)
    assert node_state(slurm) == after


def test_jobs_of_a_dead_slurmd_end_when_its_node_is_down() -> None:
    slurm = slurm_of()
    slurm.submit(JobRequest(duration_s=None, requeue=False, required_nodes=("n1",)), now_s=0)
    slurm.kill_slurmd("n1", now_s=2)
    assert slurm.jobs[1].state == "RUNNING"
    slurm.advance(400)
    assert slurm.jobs[1].state == "NODE_FAIL"
