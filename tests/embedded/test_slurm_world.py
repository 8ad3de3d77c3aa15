"""The embedded Slurm: operations of administrators and users, and events of nodes."""

import pytest

from sunk_sync.embedded.slurm.memory import Knobs, Loss, Partition, Setup
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import SlurmError
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld

BOTH = pytest.mark.parametrize("generation", ["26.05", "24.11"])
LONG = JobRequest(duration_s=None, cpus=4, memory_mb=1000, required_nodes=("n1",))
WHOLE = JobRequest(duration_s=10, exclusive=True, required_nodes=("n1",))


def world_of(generation: str = "26.05", *, nodes: int = 3, **knobs: object) -> SlurmWorld:
    setup = Setup(
        nodes=[NodeSpec(name=f"n{number}", gres="gpu:4") for number in range(1, nodes + 1)],
        generation=generation,  # type: ignore[arg-type]
        knobs=Knobs(**knobs),  # type: ignore[arg-type]
    )
    return SlurmWorld(setup)


def state(world: SlurmWorld, name: str = "n1", *, at: float | None = None) -> str:
    """Return the state as a listing shows it."""
    world.advance(world.now_s if at is None else at)
    world.count_all()
    return "+".join(state_of(world.nodes[name]))


def number(error: SlurmError | None) -> int | None:
    return None if error is None else error.number


def test_nodes_are_idle_from_the_start() -> None:
    world = world_of()
    assert [state(world, name) for name in world.nodes] == ["IDLE"] * 3
    assert world.nodes["n1"].boot_s == world.epoch_s
    assert world.next_s() is None


@pytest.mark.parametrize(
    ("generation", "after"), [("26.05", ("IDLE", "")), ("24.11", ("IDLE", "fan"))]
)
def test_an_undrain_removes_the_reason_only_on_26_05(
    generation: str, after: tuple[str, str]
) -> None:
    """24.11 keeps the text."""
    world = world_of(generation)
    assert world.drain("n1", reason="fan", now_s=1) is None
    assert (state(world), world.nodes["n1"].reason) == ("IDLE+DRAIN", "fan")
    assert world.nodes["n1"].reason_s == world.epoch_s
    world.undrain("n1", now_s=2)
    assert "NOT_RESPONDING" in state(world)
    assert (state(world, at=3), world.nodes["n1"].reason) == after


def test_scontrol_requires_a_reason() -> None:
    """slurmctld itself does not."""
    world = world_of()
    for change in (world.drain, world.down, world.fail):
        assert number(change("n1", reason="", now_s=1)) == 0
    assert world.update("n1", Update(state="DRAIN"), now_s=1) is None
    assert state(world) == "IDLE+DRAIN"


@pytest.mark.parametrize(("generation", "error"), [("26.05", 2180), ("24.11", 2028)])
def test_an_idle_node_cannot_be_resumed(generation: str, error: int) -> None:
    assert number(world_of(generation).resume("n1", now_s=1)) == error


def test_names_are_changed_in_order_up_to_the_first_unknown_one() -> None:
    world = world_of()
    assert number(world.update(["n3", "n2", "n[1,9]"], Update(comment="x"), now_s=1)) == 2018
    assert [node.comment for node in world.nodes.values()] == ["x", "x", "x"]
    assert number(world.update(["n3", "n0"], Update(comment="y"), now_s=1)) == 2018
    assert number(world.update("n[", Update(comment="y"), now_s=1)) == 2018
    assert [node.comment for node in world.nodes.values()] == ["x", "x", "x"]


def test_a_record_never_changes() -> None:
    world = world_of()
    before = world.nodes["n1"]
    world.drain("n1", reason="x", now_s=1)
    assert before.flags == frozenset()
    assert before.reason == ""


def test_changes_wake_the_listener_and_are_counted() -> None:
    woken: list[int] = []
    setup = Setup(nodes=[NodeSpec(name="n1")])
    world = SlurmWorld(setup, wake=lambda: woken.append(1))
    count = world.changes
    woken.clear()
    world.drain("n1", reason="x", now_s=1)
    assert len(woken) == world.changes - count == 1


def test_a_node_with_a_dead_slurmd_is_silent_then_down_until_it_registers() -> None:
    """At the next ping, after SlurmdTimeout, with its registration."""
    world = world_of()
    world.kill_slurmd("n1", now_s=10)
    assert state(world, at=99) == "IDLE"
    assert state(world, at=101) == "IDLE+NOT_RESPONDING"
    assert state(world, at=311) == "DOWN+NOT_RESPONDING"
    node = world.nodes["n1"]
    assert (node.reason, node.reason_user) == ("Not responding", "slurm")
    world.start_slurmd("n1", now_s=320)
    assert (state(world), world.nodes["n1"].reason) == ("IDLE", "")


def test_a_drained_node_whose_slurmd_dies_keeps_its_reason() -> None:
    world = world_of()
    world.drain("n1", reason="k8s: x", now_s=1)
    world.kill_slurmd("n1", now_s=2)
    assert state(world, at=400) == "DOWN+DRAIN+NOT_RESPONDING"
    assert world.nodes["n1"].reason == "k8s: x"
    world.start_slurmd("n1", now_s=401)
    assert (state(world), world.nodes["n1"].reason) == ("IDLE+DRAIN", "k8s: x")


def test_a_slurmd_that_returns_in_time_does_not_go_down() -> None:
    world = world_of()
    world.kill_slurmd("n1", now_s=10)
    world.start_slurmd("n1", now_s=20)
    assert state(world, at=400) == "IDLE"


@pytest.mark.parametrize(
    ("returns", "silent", "after"),
    [
        (2, True, "IDLE"),
        (2, False, "IDLE"),
        (1, True, "IDLE"),
        (1, False, "DOWN"),
        (0, True, "DOWN"),
        (0, False, "DOWN"),
    ],
)
def test_return_to_service_decides_which_down_nodes_return(
    returns: int, silent: bool, after: str
) -> None:
    """2: every node that registers; 1: only silent ones; 0: none."""
    world = world_of(return_to_service=returns)
    world.kill_slurmd("n1", now_s=1)
    if not silent:
        world.down("n1", reason="fan", now_s=2)
    world.start_slurmd("n1", now_s=400)
    assert state(world) == after


def test_a_node_with_too_few_gpus_is_drained_until_an_undrain() -> None:
    """A repair ends INVALID_REG, but not DRAIN."""
    world = world_of()
    world.set_gres_found("n1", "gpu:2", now_s=1)
    world.start_slurmd("n1", now_s=2)
    assert state(world) == "IDLE+DRAIN+INVALID_REG"
    assert world.nodes["n1"].reason.endswith("(2 < 4)")
    assert number(world.resume("n1", now_s=3)) == 2180
    world.set_gres_found("n1", None, now_s=4)
    world.start_slurmd("n1", now_s=5)
    assert state(world) == "IDLE+DRAIN"
    world.undrain("n1", now_s=6)
    assert state(world, at=8) == "IDLE"


def test_an_invalid_registration_replaces_the_reason_once() -> None:
    """Once; a later text stays."""
    world = world_of()
    world.drain("n1", reason="k8s: x", now_s=1)
    world.set_gres_found("n1", "gpu:a100:1(S:0)", now_s=2)
    world.start_slurmd("n1", now_s=2)
    assert world.nodes["n1"].reason.endswith("(1 < 4)")
    world.update("n1", Update(reason="k8s: again"), now_s=3)
    world.start_slurmd("n1", now_s=4)
    assert world.nodes["n1"].reason == "k8s: again"


def test_a_reboot_waits_for_jobs_and_takes_boot_time() -> None:
    """REBOOT_REQUESTED, REBOOT_ISSUED, IDLE."""
    world = world_of()
    world.submit(WHOLE, now_s=0)
    world.advance(2)
    assert world.reboot("n[1-2]", now_s=2) is None
    assert state(world, at=4) == "ALLOCATED+REBOOT_REQUESTED"
    assert state(world, "n2") == "DOWN+REBOOT_ISSUED"
    assert world.nodes["n2"].reason == "reboot requested : reboot issued"
    assert state(world, at=13) == "DOWN+REBOOT_ISSUED"
    world.start_slurmd("n1", now_s=14)
    assert state(world) == "DOWN+REBOOT_ISSUED"
    assert (state(world, at=80), world.nodes["n1"].reason) == ("IDLE", "")
    assert state(world, "n2") == "IDLE"


def test_a_reboot_asap_drains_until_it_is_done() -> None:
    world = world_of()
    world.reboot("n1", now_s=1, asap=True)
    assert state(world) == "IDLE+DRAIN+REBOOT_REQUESTED"
    assert world.nodes["n1"].reason == "Reboot ASAP"
    assert state(world, at=100) == "IDLE"
    assert number(world.reboot("n9", now_s=101)) == 2018
    assert number(world_of(reboot_program=False).reboot("n1", now_s=1)) == -1


def test_a_cancelled_reboot_does_not_happen() -> None:
    """DOWN, RESUME."""
    world = world_of()
    world.reboot("n1", now_s=1)
    world.down("n1", reason="over", now_s=1.1)
    world.resume("n1", now_s=1.2)
    assert state(world, at=100) == "IDLE"


def test_power_down_and_up() -> None:
    """POWERING_DOWN, POWERED_DOWN, POWERING_UP, IDLE."""
    world = world_of(power_saving=True)
    world.update("n1", Update(state="POWER_DOWN", reason="saving"), now_s=1)
    assert (state(world), world.nodes["n1"].reason) == ("IDLE+POWER_DOWN", "saving")
    assert state(world, at=3) == "IDLE+POWERING_DOWN"
    assert (state(world, at=40), world.nodes["n1"].reason) == ("IDLE+POWERED_DOWN", "saving")
    assert number(world.resume("n1", now_s=41)) == 2180
    world.update("n1", Update(state="POWER_UP"), now_s=42)
    assert state(world) == "IDLE+POWERED_DOWN+POWER_UP"
    assert state(world, at=44) == "IDLE+NOT_RESPONDING+POWERING_UP"
    assert state(world, at=110) == "IDLE"


def test_power_down_asap_drains_and_resume_stops_it() -> None:
    world = world_of(power_saving=True)
    world.update("n1", Update(state="POWER_DOWN_ASAP"), now_s=1)
    assert (state(world), world.nodes["n1"].reason) == (
        "IDLE+DRAIN+POWER_DOWN", "POWER_DOWN_ASAP",
    )  # fmt: skip
    assert state(world, at=3) == "IDLE+DRAIN+POWERING_DOWN"
    assert world.resume("n1", now_s=4) is None
    assert state(world, at=60) == "IDLE+POWERED_DOWN"


def test_dynamic_nodes_can_be_added_and_deleted() -> None:
    """Static and busy nodes stay."""
    world = world_of()
    spec = NodeSpec(name="dyn1", features=("dyn",))
    assert world.add_node(spec, now_s=1) is None
    assert state(world, "dyn1") == "IDLE+DYNAMIC_NORM"
    assert number(world.add_node(spec, now_s=2)) == 2168
    job_id = world.submit(JobRequest(features=("dyn",), duration_s=None), now_s=2)
    world.advance(4)
    assert number(world.remove_node("dyn1", now_s=4)) == 2016
    assert isinstance(job_id, int)
    world.cancel(job_id, now_s=5)
    world.advance(6)
    assert world.remove_node("dyn1", now_s=6) is None
    assert number(world.remove_node("dyn1", now_s=7)) == 2018
    assert number(world.remove_node("n1", now_s=8)) == 2028


def test_a_job_waits_for_the_scheduler_runs_ends_and_is_forgotten() -> None:
    """PENDING, RUNNING, COMPLETED+COMPLETING, COMPLETED, nothing."""
    world = world_of()
    job_id = world.submit(WHOLE, now_s=0.5)
    assert isinstance(job_id, int)
    assert world.jobs[job_id].state == "PENDING"
    assert world.next_s() == 1
    assert state(world, at=1) == "ALLOCATED"
    assert state(world, at=11.1) == "IDLE+COMPLETING"
    assert world.jobs[job_id].ending
    assert state(world, at=12) == "IDLE"
    assert world.jobs[job_id].state == "COMPLETED"
    world.advance(400)
    assert world.jobs == {}


def test_mixed_depends_on_the_count_of_the_last_listing() -> None:
    """Before it a read by name shows ALLOCATED, and after the job's end still MIXED."""
    world = world_of()
    job_id = world.submit(LONG, now_s=0)
    world.advance(2)
    assert state_of(world.nodes["n1"]) == ("ALLOCATED",)
    assert state(world) == "MIXED"
    assert isinstance(job_id, int)
    world.cancel(job_id, now_s=3)
    world.advance(4)
    assert state_of(world.nodes["n1"]) == ("MIXED",)
    assert state(world) == "IDLE"


def test_a_drained_node_finishes_its_jobs_and_takes_no_new_ones() -> None:
    """DRAIN+ALLOCATED, then DRAIN."""
    world = world_of()
    world.submit(WHOLE, now_s=0)
    world.advance(1)
    world.drain("n1", reason="x", now_s=2)
    second = world.submit(WHOLE, now_s=3)
    assert state(world, at=5) == "ALLOCATED+DRAIN"
    assert state(world, at=20) == "IDLE+DRAIN"
    assert isinstance(second, int)
    assert (world.jobs[second].state, world.jobs[second].state_reason) == (
        "PENDING",
        "ReqNodeNotAvail",
    )
    world.undrain("n1", now_s=21)
    assert state(world, at=24) == "ALLOCATED"


@pytest.mark.parametrize(("requeue", "after"), [(True, ("PENDING", 1)), (False, ("NODE_FAIL", 0))])
def test_down_ends_or_requeues_jobs(requeue: bool, after: tuple[str, int]) -> None:
    """On all nodes of the job at once."""
    world = world_of()
    request = JobRequest(nodes=2, exclusive=True, requeue=requeue, required_nodes=("n1", "n2"))
    job_id = world.submit(request, now_s=0)
    world.advance(1)
    assert state(world, "n2") == "ALLOCATED"
    world.down("n1", reason="dead", now_s=2)
    assert isinstance(job_id, int)
    assert (world.jobs[job_id].state, world.jobs[job_id].restarts) == after
    assert state(world, "n2") == "IDLE"
    assert state(world) == "DOWN"


def test_down_frees_the_node_of_completing_jobs() -> None:
    world = world_of()
    job_id = world.submit(JobRequest(ending_s=20, required_nodes=("n1",)), now_s=0)
    assert isinstance(job_id, int)
    world.advance(1)
    world.cancel(job_id, now_s=2)
    assert state(world, at=3) == "IDLE+COMPLETING"
    world.down("n1", reason="dead", now_s=4)
    assert state(world) == "DOWN"


def test_jobs_share_a_node_until_it_is_full() -> None:
    """The third waits; it starts when one has ended, after COMPLETING."""
    world = world_of(nodes=1)
    ids = [
        world.submit(JobRequest(cpus=8, memory_mb=1000, duration_s=None), now_s=0) for _ in range(3)
    ]
    assert state(world, at=2) == "ALLOCATED"
    assert [world.jobs[job_id].state for job_id in ids if isinstance(job_id, int)] == [
        "RUNNING", "RUNNING", "PENDING",
    ]  # fmt: skip
    assert world.cancel(1, now_s=3) is None
    assert state(world) == "MIXED+COMPLETING"
    world.advance(5)
    assert world.jobs[3].state == "RUNNING"


def test_a_higher_priority_starts_first() -> None:
    world = world_of(nodes=1)
    for priority in (1, 5):
        world.submit(JobRequest(exclusive=True, priority=priority), now_s=0)
    world.advance(2)
    assert [job.state for job in world.jobs.values()] == ["PENDING", "RUNNING"]


@pytest.mark.parametrize(
    ("request_", "error"),
    [(JobRequest(partition="nosuch"), 2000), (JobRequest(required_nodes=("n9",)), 2018)],
)
def test_an_impossible_job_is_refused(request_: JobRequest, error: int) -> None:
    refused = world_of().submit(request_, now_s=1)
    assert isinstance(refused, SlurmError)
    assert refused.number == error


def test_a_cancel_of_an_unknown_or_ended_job_is_an_error() -> None:
    world = world_of()
    assert number(world.cancel(7, now_s=1)) == 2017
    world.submit(JobRequest(), now_s=1)
    assert world.cancel(1, now_s=1) is None
    assert number(world.cancel(1, now_s=1)) == 2021


def test_a_job_runs_in_its_partition() -> None:
    nodes = [NodeSpec(name=name) for name in ("a1", "b1")]
    partitions = (
        Partition(name="a", nodes=("a1", "gone"), default=True),
        Partition(name="b", nodes=("b1",)),
    )
    world = SlurmWorld(Setup(nodes=nodes, partitions=partitions))
    world.submit(JobRequest(partition="b"), now_s=0)
    world.submit(JobRequest(nodes=2), now_s=0)
    assert (state(world, "a1", at=2), state(world, "b1")) == ("IDLE", "MIXED")


@pytest.mark.parametrize("forgets", [False, True])
def test_a_reconfigure_resets_fields_set_by_rest_but_no_drain(forgets: bool) -> None:
    """The real ones keep comments; the knob rehearses their loss."""
    world = world_of(reconfigure_forgets_comments=forgets)
    given = Update(comment="mark", extra="e", weight=9, features=("f",), gres="")
    world.update("n1", given, now_s=1)
    world.drain("n1", reason="x", now_s=1)
    world.reconfigure(now_s=2)
    assert state(world) == "UNKNOWN+DRAIN"
    assert state(world, at=3) == "IDLE+DRAIN"
    node = world.nodes["n1"]
    assert (node.reason, node.weight, node.features, node.gres) == ("x", 1, (), "gpu:4")
    assert (node.comment, node.extra) == (("", "") if forgets else ("mark", "e"))


@pytest.mark.parametrize(
    ("loss", "early", "late", "jobs"),
    [
        ("nothing", "early", "late", 1),
        ("recent", "early", "", 0),
        ("everything", "", "", 0),
    ],
)
def test_a_restart_loses_unsaved_state(loss: Loss, early: str, late: str, jobs: int) -> None:
    """SIGTERM nothing, SIGKILL the last seconds, a lost disk everything."""
    world = world_of()
    world.update("n1", Update(comment="early"), now_s=1)
    world.update("n2", Update(comment="late"), now_s=20)
    world.submit(JobRequest(required_nodes=("n3",)), now_s=20)
    world.add_node(NodeSpec(name="dyn1"), now_s=20)
    world.restart(now_s=21, lose_state=loss)
    assert (world.nodes["n1"].comment, world.nodes["n2"].comment) == (early, late)
    assert len(world.jobs) == jobs
    assert ("dyn1" in world.nodes) == (loss == "nothing")
    assert state(world) == "UNKNOWN"
    assert state(world, at=25) == "IDLE"


def test_saved_state_survives_a_kill() -> None:
    world = world_of()
    world.update("n1", Update(comment="x"), now_s=10)
    world.restart(now_s=20, lose_state="recent")
    assert world.nodes["n1"].comment == "x"


def test_job_ids_are_reused_after_a_loss_of_state() -> None:
    """An id alone is therefore no identity."""
    world = world_of()
    world.advance(10)
    assert world.submit(JobRequest(), now_s=10) == 1
    world.restart(now_s=11, lose_state="recent")
    assert world.submit(JobRequest(), now_s=12) == 1


def test_nothing_happens_while_slurmctld_is_down() -> None:
    """Jobs end when it is back; a slurmd that died in between stays UNKNOWN."""
    world = world_of()
    world.submit(WHOLE, now_s=0)
    world.submit(JobRequest(ending_s=50, duration_s=1, required_nodes=("n3",)), now_s=0)
    world.advance(3)
    world.kill_slurmd("n2", now_s=4)
    world.stop_controller(now_s=5)
    assert world.next_s() is None
    world.advance(60)
    assert world.jobs[1].state == "RUNNING"
    world.start_controller(now_s=61)
    world.advance(65)
    assert [job.state for job in world.jobs.values()] == ["COMPLETED", "COMPLETED"]
    assert [state(world, name) for name in world.nodes] == ["IDLE", "UNKNOWN", "IDLE"]


def test_time_never_runs_backwards() -> None:
    world = world_of()
    world.advance(10)
    world.advance(5)
    assert world.now_s == 10
    assert world.epoch_s == int(world.setup.epoch_s) + 10


def test_the_same_operations_give_the_same_world_in_slurm() -> None:

    def lived() -> object:
        world = world_of()
        world.submit(WHOLE, now_s=0.3)
        world.drain("n2", reason="x", now_s=2)
        world.kill_slurmd("n3", now_s=3)
        world.restart(now_s=50, lose_state="recent")
        world.advance(500)
        return dict(world.nodes), dict(world.jobs)

    assert lived() == lived()


def test_down_does_not_change_ended_jobs_and_jobs_on_other_nodes() -> None:
    world = world_of()
    world.submit(JobRequest(duration_s=1, required_nodes=("n1",)), now_s=0)
    world.submit(JobRequest(duration_s=None, required_nodes=("n2",)), now_s=0)
    world.advance(5)
    world.submit(JobRequest(duration_s=None, required_nodes=("n1",)), now_s=5)
    world.advance(7)
    world.down("n1", reason="dead", now_s=8)
    assert [job.state for job in world.jobs.values()] == ["COMPLETED", "RUNNING", "PENDING"]


def test_timers_of_a_job_that_ended_earlier_have_no_effect() -> None:
    """Its end, its COMPLETING, its MinJobAge."""
    world = world_of(min_job_age_s=30)
    world.submit(JobRequest(duration_s=10, ending_s=20, required_nodes=("n1",)), now_s=0)
    world.advance(1)
    world.cancel(1, now_s=2)
    world.down("n1", reason="dead", now_s=3)
    world.resume("n1", now_s=4)
    assert state(world, at=25) == "IDLE"
    assert world.jobs[1].state == "CANCELLED"
    world.submit(JobRequest(duration_s=None, required_nodes=("n1",)), now_s=26)
    world.advance(28)
    world.down("n1", reason="again", now_s=29)
    world.resume("n1", now_s=30)
    world.advance(200)
    assert [job.state for job in world.jobs.values()] == ["RUNNING"]


@pytest.mark.parametrize(
    ("before", "after"),
    [("DRAIN", "IDLE"), ("DOWN", "IDLE"), ("FAIL", "IDLE"), ("FUTURE", "FUTURE")],
)
def test_state_idle_resets_all_states_but_future(before: str, after: str) -> None:
    world = world_of()
    world.update("n1", Update(state=before, reason="x"), now_s=1)
    world.update("n1", Update(state="IDLE"), now_s=2)
    assert state(world) == after


def test_jobs_of_a_dead_slurmd_end_when_its_node_is_down() -> None:
    world = world_of()
    world.submit(JobRequest(duration_s=None, requeue=False, required_nodes=("n1",)), now_s=0)
    world.kill_slurmd("n1", now_s=2)
    assert world.jobs[1].state == "RUNNING"
    world.advance(400)
    assert world.jobs[1].state == "NODE_FAIL"
