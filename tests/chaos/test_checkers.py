"""Each checker reports a violating history, and nothing of the same history without it."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.chaos.checkers import (
    ENDED_JOB_S,
    LOST_JOB_S,
    PAUSE_S,
    SUBMISSIONS_MAX,
    WAITING_S,
    Allocations,
    FalseCancels,
    HumanDrains,
    LonelyJobs,
    LonelyPods,
    OneWriter,
    Pairing,
    Sides,
    Submissions,
    Timed,
    WaitingPods,
    Write,
    alarming,
    stuck,
    unconverged,
)
from tests.chaos.run import CALM_S, LONG_CALM_S, RECOVERY_S
from tests.chaos.views import (
    JobRow,
    KubeView,
    PodRow,
    SlurmNodeRow,
    SlurmView,
    expand,
    is_complete,
    job_row,
    pod_row,
)
from tests.real.stage import prefixed

RUNNING = frozenset({"RUNNING"})
STEP_S = 0.5
POD = PodRow(uid="u1", name="web-1", node="n1", phase="Running", ready=True, cpus=16)
JOB = JobRow(
    job_id="1",
    name="k8s/slurm/web-1/x",
    states=RUNNING,
    hosts=frozenset({"n1"}),
    cpus_per_host=16,
    pods=frozenset({"u1"}),
)
PLAIN = JobRow(job_id="2", name="plain", states=RUNNING, hosts=frozenset({"n1"}), cpus_per_host=16)


def kube(*pods: PodRow, at_s: float = 0.0, **more: object) -> KubeView:
    rows = {pod.uid: pod for pod in pods}
    return KubeView(asked_s=at_s, answered_s=at_s + 0.1, pods=rows, **more)  # type: ignore[arg-type]


def slurm(*jobs: JobRow, at_s: float = 0.2, nodes: Sequence[SlurmNodeRow] = ()) -> SlurmView:
    nodes = nodes or (SlurmNodeRow(name="n1", cpus=16), SlurmNodeRow(name="n2", cpus=16))
    rows = {node.name: node for node in nodes}
    return SlurmView(asked_s=at_s, answered_s=at_s + 0.1, jobs=jobs, nodes=rows)


def sides(pods: Sequence[PodRow], jobs: Sequence[JobRow], *, at_s: float = 0.0) -> Sides:
    return Sides(
        kube(*pods, at_s=at_s),
        slurm(*jobs, at_s=at_s + 0.2),
        kube(*pods, at_s=at_s + 0.4),
    )


def job(base: JobRow = JOB, **fields: object) -> JobRow:
    known = {name: getattr(base, name) for name in JobRow.__struct_fields__}
    return JobRow(**{**known, **fields})


def pod(base: PodRow = POD, **fields: object) -> PodRow:
    known = {name: getattr(base, name) for name in PodRow.__struct_fields__}
    return PodRow(**{**known, **fields})


def double(pods: Sequence[PodRow], *jobs: JobRow) -> list[str]:
    return list(Allocations().check(sides(pods, jobs), 0.0))


def test_a_pod_and_its_own_job_are_one_allocation() -> None:
    assert double([POD], JOB) == []


def test_a_running_job_beside_a_live_pod_is_a_double_allocation() -> None:
    (found,) = double([POD], PLAIN)
    assert "n1 has 16 CPUs, in use: Pod web-1: 16, job 2 plain: 16" in found


def test_a_placeholder_without_a_pod_there_uses_nothing() -> None:
    assert double([POD], JOB, job(job_id="3", pods=frozenset({"u2"}))) == []


def test_a_pod_outside_its_allocation_counts_beside_what_runs_there() -> None:
    elsewhere = job(hosts=frozenset({"n2"}))
    assert double([POD], elsewhere) == []
    assert double([POD], elsewhere, PLAIN)
    assert double([POD, pod(uid="u2", name="web-2")], elsewhere)


def test_two_live_pods_that_do_not_fit_are_a_double_allocation() -> None:
    assert double([POD, pod(uid="u2", name="web-2")], JOB)


def test_a_job_that_waits_at_the_gate_or_completes_allocates_nothing() -> None:
    for state in ("CONFIGURING", "COMPLETING"):
        assert double([POD], job(PLAIN, states=frozenset({"RUNNING", state}))) == []


def test_a_job_that_slurmctld_forgot_to_have_ended_allocates_nothing() -> None:
    """It was killed, and starts with what it had saved: until it notices, the job runs again."""
    checker = Allocations()
    ended = job(PLAIN, states=frozenset({"COMPLETED"}), started_s=7.0)
    assert not list(checker.check(sides([], [ended]), 0.0))
    again = job(PLAIN, started_s=7.0)
    assert not list(checker.check(sides([POD], [again]), 0.0))
    requeued = job(PLAIN, started_s=9.0)
    assert list(checker.check(sides([POD], [requeued]), 0.0))


def test_a_pod_that_ended_around_the_read_of_slurm_proves_nothing() -> None:
    before, after = kube(POD), kube(pod(phase="Failed"), at_s=0.4)
    assert not list(Allocations().check(Sides(before, slurm(PLAIN), after), 0.0))


def test_smaller_pods_share_a_host() -> None:
    small = [pod(uid=f"u{i}", name=f"web-{i}", cpus=4) for i in range(4)]
    jobs = [job(job_id=f"{i}", pods=frozenset({f"u{i}"}), cpus_per_host=4) for i in range(4)]
    assert double(small, *jobs) == []
    assert double(small, *jobs, job(PLAIN, cpus_per_host=1))


def broken_after(
    checker: Timed, pods: Sequence[PodRow], *jobs: JobRow, calm: bool = True
) -> float | None:
    """Repeat this state; return when the checker reports it, which it does once."""
    for number in range(400):
        at_s = number * STEP_S
        if list(checker.check(sides(pods, jobs, at_s=at_s), at_s if calm else 0.0)):
            return at_s
    return None


def test_the_calms_of_a_run_are_long_enough_for_every_limit() -> None:
    assert CALM_S - RECOVERY_S > ENDED_JOB_S
    assert LONG_CALM_S - RECOVERY_S > LOST_JOB_S


def test_a_pod_whose_job_has_ended_must_end_soon() -> None:
    ended = job(states=frozenset({"CANCELLED"}))
    found_s = broken_after(LonelyPods(), [POD], ended)
    assert found_s == pytest.approx(ENDED_JOB_S, abs=2 * STEP_S)


def test_a_pod_whose_job_runs_elsewhere_must_end_soon() -> None:
    found_s = broken_after(LonelyPods(), [POD], job(hosts=frozenset({"n2"})))
    assert found_s == pytest.approx(ENDED_JOB_S, abs=2 * STEP_S)


def test_a_pod_whose_job_slurm_has_lost_may_live_longer() -> None:
    assert broken_after(LonelyPods(), [POD]) == pytest.approx(LOST_JOB_S, abs=2 * STEP_S)


def test_a_pod_with_its_job_or_at_its_end_is_fine() -> None:
    assert broken_after(LonelyPods(), [POD], JOB) is None
    assert broken_after(LonelyPods(), [pod(terminating=True)]) is None
    assert broken_after(LonelyPods(), [pod(node="")]) is None


def test_a_placeholder_without_a_pod_must_end_soon() -> None:
    for states in (RUNNING, frozenset({"PENDING"})):
        found_s = broken_after(LonelyJobs(), [], job(states=states))
        assert found_s == pytest.approx(ENDED_JOB_S, abs=2 * STEP_S)
    assert broken_after(LonelyJobs(), [POD], JOB) is None
    assert broken_after(LonelyJobs(), [], PLAIN) is None


def test_a_placeholder_of_ended_pods_must_end_soon() -> None:
    for phase in ("Succeeded", "Failed"):
        found_s = broken_after(LonelyJobs(), [pod(phase=phase)], JOB)
        assert found_s == pytest.approx(ENDED_JOB_S, abs=2 * STEP_S)
    beside = job(pods=frozenset({"u1", "u2"}))
    assert broken_after(LonelyJobs(), [POD, pod(uid="u2", phase="Failed")], beside) is None


WAITS = pod(node="", phase="Pending", ready=False, owner="job-1")
PENDING = job(states=frozenset({"PENDING"}), hosts=frozenset())
ENDED = job(states=frozenset({"CANCELLED"}))


def nodes(*states: str) -> list[SlurmNodeRow]:
    return [
        SlurmNodeRow(name=f"n{number}", states=frozenset(state.split("+")), cpus=16)
        for number, state in enumerate(states, 1)
    ]


def stuck_after(
    pods: Sequence[PodRow], *jobs: JobRow, free: int = 0, complete: Sequence[str] = ()
) -> float | None:
    """Repeat this state of a Slurm of three hosts; return when a Pod counts as stuck."""
    checker = WaitingPods()
    view = nodes(*["IDLE"] * free, *["ALLOCATED"] * (3 - free))
    for number in range(400):
        at_s = number * STEP_S
        more = {"complete": frozenset(complete)}
        both = [kube(*pods, at_s=at_s + late_s, **more) for late_s in (0.0, 0.4)]
        seen = Sides(both[0], slurm(*jobs, at_s=at_s + 0.2, nodes=view), both[1])
        if list(checker.check(seen, at_s)):
            return at_s
    return None


@pytest.mark.parametrize(
    ("jobs", "free", "limit_s"),
    [
        ([], 0, WAITING_S),
        ([ENDED], 0, WAITING_S + PAUSE_S),
        ([ENDED, ENDED, ENDED], 0, WAITING_S + 4 * PAUSE_S),
        ([PENDING], 3, WAITING_S),
        ([JOB], 0, WAITING_S),
        ([job(began=False)], 0, LOST_JOB_S),
        ([PENDING], 0, None),
    ],
)
def test_a_waiting_pod_has_a_job_that_starts_where_there_is_room_and_is_bound_then(
    jobs: list[JobRow], free: int, limit_s: float | None
) -> None:
    found_s = stuck_after([WAITS], *jobs, free=free)
    assert found_s == (limit_s if limit_s is None else pytest.approx(limit_s, abs=2 * STEP_S))


def test_room_is_what_is_left_for_all_who_wait() -> None:
    foreign = job(PLAIN, states=PENDING.states, hosts=frozenset())
    assert stuck_after([WAITS], PENDING, free=1) is not None
    assert stuck_after([WAITS], PENDING, foreign, free=1) is None
    assert stuck_after([WAITS], PENDING, job(foreign, held=True), free=1) is not None
    assert stuck_after([WAITS, pod(uid="u2", name="web-2")], PENDING, free=1) is None
    assert stuck_after([WAITS], PENDING, PLAIN, free=1) is None


def test_a_gang_waits_for_its_other_pods_and_a_pod_for_the_person_who_cancelled() -> None:
    rank = pod(WAITS, gang=True)
    runs = pod(uid="u2", name="web-2", owner="job-1", gang=True)
    whole = ["job-1"]
    assert stuck_after([rank], complete=whole) is not None
    assert stuck_after([rank], complete=["job-2"]) is None
    assert stuck_after([rank, runs], complete=whole) is None
    assert stuck_after([rank, pod(runs, phase="Failed")], complete=whole) is not None
    assert stuck_after([WAITS, runs]) is not None
    assert stuck_after([pod(WAITS, cancelled="7")]) is None
    assert list(stuck(kube(rank, complete=frozenset(whole)))) == [rank]


def test_a_pod_that_waits_for_a_person_who_did_not_cancel_is_reported() -> None:
    checker = FalseCancels(lambda: ["7"])
    assert not list(checker.check(kube(pod(WAITS, cancelled="7"))))
    assert list(checker.check(kube(pod(WAITS, cancelled="8"))))
    assert not list(checker.check(kube(pod(cancelled="8"))))


def test_a_slow_machine_has_more_time() -> None:
    found_s = broken_after(LonelyJobs(slack=3.0), [], JOB)
    assert found_s == pytest.approx(3 * ENDED_JOB_S, abs=2 * STEP_S)


def test_the_time_counts_only_while_nothing_is_disturbed() -> None:
    assert broken_after(LonelyJobs(), [], JOB, calm=False) is None


def test_a_pod_that_was_away_between_counts_from_its_return() -> None:
    checker = LonelyPods()
    limit_s = int(LOST_JOB_S)
    for at_s in range(limit_s):
        assert not list(checker.check(sides([POD], [], at_s=at_s), at_s))
    assert not list(checker.check(sides([POD], [JOB], at_s=limit_s), limit_s))
    assert not list(checker.check(sides([POD], [], at_s=limit_s + 5), limit_s + 5))


def drained(*states: str, reason: str = "bad DIMM", at_s: float = 5.0) -> SlurmView:
    node = SlurmNodeRow(name="n1", states=frozenset(states), reason=reason, cpus=16)
    return slurm(at_s=at_s, nodes=[node])


def human() -> HumanDrains:
    made = HumanDrains()
    made.drained("n1", reason="bad DIMM", at_s=2.0)
    return made


def test_a_human_drain_that_is_lifted_or_renamed_is_reported() -> None:
    assert list(human().check(drained("IDLE")))
    assert list(human().check(drained("IDLE", "DRAIN", reason="k8s: node cordoned")))
    assert not list(human().check(drained("IDLE", "DRAIN")))


def test_a_human_drain_counts_from_its_confirmation_until_the_human_lifts_it() -> None:
    assert not list(human().check(drained("IDLE", at_s=1.0)))
    lifted = human()
    lifted.lifting("n1")
    assert not list(lifted.check(drained("IDLE")))


def test_a_drain_that_slurmctld_may_not_have_saved_does_not_count() -> None:
    killed = human()
    killed.lost(since_s=1.0)
    assert not list(killed.check(drained("IDLE")))
    saved = human()
    saved.lost(since_s=3.0)
    assert list(saved.check(drained("IDLE")))


def submitted(count: int, *, every_s: float) -> list[JobRow]:
    return [
        job(job_id=f"{i}", name=f"k8s/slurm/web-1/{i}", submitted_s=1000 + i * every_s)
        for i in range(count)
    ]


def test_one_submission_too_many_within_a_minute_is_reported() -> None:
    assert not list(Submissions(list).check(slurm(*submitted(SUBMISSIONS_MAX, every_s=1))))
    assert list(Submissions(list).check(slurm(*submitted(SUBMISSIONS_MAX + 1, every_s=1))))
    assert not list(Submissions(list).check(slurm(*submitted(SUBMISSIONS_MAX + 1, every_s=13))))


def test_a_submission_counts_once_however_often_it_is_seen() -> None:
    checker = Submissions(list)
    for _ in range(3):
        assert not list(checker.check(slurm(*submitted(SUBMISSIONS_MAX, every_s=1))))


def test_a_process_that_starts_may_submit_again() -> None:
    checker = Submissions(lambda: [1001.0])
    assert not list(checker.check(slurm(*submitted(2 * SUBMISSIONS_MAX, every_s=1))))
    assert list(checker.check(slurm(*submitted(2 * SUBMISSIONS_MAX + 1, every_s=0.9))))


def written(*writes: tuple[float, str]) -> list[str]:
    """Replica a holds the Lease from 10 s, b from 20 s."""
    checker = OneWriter()
    for at_s, holder in ((10.0, "a"), (20.0, "b")):
        checker.see_kube(kube(holder=holder, acquired_s=at_s))
    given = [Write(at_s, writer, "PATCH x") for at_s, writer in writes]
    return list(checker.check(given, lambda holder: holder))


def test_only_the_holder_of_the_lease_writes() -> None:
    assert not written((11.0, "a"), (19.9, "a"), (20.5, "b"))
    assert not written((5.0, "a"), (20.01, "a"), (20.01, "b"))
    assert written((20.5, "a"))
    assert written((12.0, "b"))


def test_an_error_in_the_log_that_no_fault_explains_is_reported() -> None:
    expected = [
        {"level": "error", "event": "lost the Lease: this process ends"},
        {"level": "warning", "event": "source lost"},
    ]
    assert not list(alarming(expected))
    (rule,) = alarming([*expected, {"level": "error", "event": "rule failed", "key": "n1"}])
    assert "rule failed" in rule
    (traceback,) = alarming([{"event": "not JSON", "text": "Traceback"}])
    assert "Traceback" in traceback


def test_a_pod_is_read_as_kubernetes_sends_it() -> None:
    sent: dict[str, Any]
    container = {"resources": {"requests": {"cpu": "4"}}}
    sent = {
        "metadata": {
            "uid": "u",
            "name": "p",
            "deletionTimestamp": "now",
            "ownerReferences": [{"uid": "job-1"}],
            "annotations": prefixed({"gang": "job", "cancelled": "7/"}),
        },
        "spec": {"nodeName": "n1", "containers": [container, container]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    expected = PodRow(
        uid="u",
        name="p",
        node="n1",
        phase="Running",
        terminating=True,
        ready=True,
        cpus=8,
        owner="job-1",
        gang=True,
        cancelled="7",
    )
    assert pod_row(sent) == expected
    sent["metadata"]["annotations"] |= prefixed({"resubmit": "please"})
    assert not pod_row(sent).cancelled


@pytest.mark.parametrize(
    ("parallelism", "status", "complete"),
    [
        (3, {}, False),
        (3, {"active": 3}, True),
        (3, {"active": 2, "succeeded": 1}, True),
        (3, {"active": 1, "succeeded": 1}, False),
        (2, {"active": 2}, True),
    ],
)
def test_a_job_is_complete_if_it_wants_no_more_pods_than_it_has(
    parallelism: int, status: dict[str, int], complete: bool
) -> None:
    spec = {"completions": 3, "parallelism": parallelism}
    assert is_complete({"spec": spec, "status": status}) == complete


def test_a_job_is_read_as_slurmrestd_sends_it() -> None:
    number = {"set": True, "number": 8}
    sent = {
        "job_id": 7,
        "name": "k8s/slurm/p/x",
        "job_state": ["RUNNING"],
        "nodes": "n[1-2]",
        "cpus": number,
        "node_count": {"set": True, "number": 2},
        "submit_time": number,
        "start_time": number,
        "admin_comment": '{"sunk-sync": {"pods": ["slurm/p/u1", "slurm/q/u2"]}}',
        "command": "",
        "state_reason": "None",
        "batch_flag": True,
        "extra": "k8s: started",
        "array_task_id": {"set": False, "number": 0},
        "array_task_string": "",
    }
    read = job_row(sent)
    assert read.hosts == {"n1", "n2"}
    assert read.pods == {"u1", "u2"}
    assert read.cpus_per_host == 4
    assert read.began
    assert not job_row({**sent, "extra": ""}).began
    array = {**sent, "admin_comment": '{"sunk-sync": {"uids": ["u1", "u2", "u3"]}}'}
    assert job_row({**array, "array_task_string": "0,2%5"}).pods == {"u1", "u3"}
    assert job_row({**array, "array_task_id": {"set": True, "number": 1}}).pods == {"u2"}
    noted = {**sent, "admin_comment": "rack 7"}
    assert job_row(noted).pods == frozenset()
    assert job_row({**noted, "command": sent["admin_comment"]}).pods == {"u1", "u2"}
    assert job_row({**sent, "state_reason": "JobHeldAdmin"}).held


def test_hostlists_are_expanded() -> None:
    assert list(expand("n[1-3,7],x2")) == ["n1", "n2", "n3", "n7", "x2"]
    assert list(expand("")) == []


def test_a_read_of_slurm_is_checked_between_two_reads_of_kubernetes() -> None:
    pairing = Pairing()
    pairing.see_slurm(slurm(at_s=0.0))
    assert not list(pairing.see_kube(kube(at_s=1.0)))
    pairing.see_slurm(slurm(at_s=2.0))
    assert not list(pairing.see_kube(kube(at_s=2.05)))
    assert len(list(pairing.see_kube(kube(at_s=3.0)))) == 1


def test_a_read_of_kubernetes_that_ends_during_one_of_slurm_is_passed_over() -> None:
    pairing = Pairing()
    for at_s in (0.0, 0.95):
        assert not list(pairing.see_kube(kube(at_s=at_s)))
    pairing.see_slurm(slurm(at_s=1.0))
    (sides,) = pairing.see_kube(kube(POD, at_s=2.0))
    assert sides.slurm.asked_s == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((kube(POD), slurm(JOB)), ""),
        ((kube(POD, cordoned=frozenset({"n1"})), slurm(JOB)), "n1 is cordoned"),
        ((kube(POD), drained("IDLE", "DRAIN")), "Slurm node n1 is DRAIN+IDLE"),
        ((kube(), drained("IDLE", "DRAIN", reason="Prolog error")), ""),
        ((kube(pod(node="")), slurm()), "web-1 is not ready on a Node"),
        ((kube(pod(terminating=True)), slurm(JOB)), "web-1 is not ready on a Node"),
        ((kube(POD), slurm()), "web-1 on n1 has []"),
        ((kube(POD), slurm(JOB, job(job_id="9"))), "web-1 on n1 has ["),
        ((kube(POD), slurm(job(hosts=frozenset({"n2"})))), "web-1 on n1 has ["),
        ((kube(pod(phase="Succeeded")), slurm(JOB)), "has ended, and its job 1"),
        ((kube(), slurm(JOB)), "job 1 RUNNING n1 is left"),
        ((kube(), slurm(PLAIN)), ""),
    ],
)
def test_what_has_not_converged_is_named(given: tuple[KubeView, SlurmView], why: str) -> None:
    found = "; ".join(unconverged(*given))
    assert why in found
    assert bool(why) == bool(found)
