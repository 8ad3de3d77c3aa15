"""How fast jobs that sunk-sync gave up are replaced: row P32."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import RecordEvent, SetScheduled
from sunk_sync.core.model.facts import Attempt, Job, Node, SubmitRefused
from tests.kit.build import (
    OFFER,
    POD,
    WORKLOAD,
    Core,
    identity,
    job,
    node,
    room,
    running,
    two_hosts,
)


def give_up(core: Core, number: int, host: str) -> None:
    """A job of the Pod starts on this host, and sunk-sync ends it."""
    fields: dict[str, Any] = {"job_id": str(number), "identity": identity(POD, replaced=True)}
    core.see(running(POD, at=(host,), **fields))
    see_job(core, job(POD, state="CANCELLED", slurm_nodes=(host,), **fields))


def see_job(core: Core, newest: Job) -> None:
    """The job is read, then listed with all other known jobs."""
    core.see(newest)
    core.see_listing("jobs", *core.graph.jobs.rows())


def kube_node(name: str, ready: str) -> Node:
    return node(name, offer=OFFER, ready=ready)


def test_nothing_is_submitted_while_no_feasible_host_is_ready_P32() -> None:
    core = two_hosts(POD)
    assert core.submission(POD)
    core.see(kube_node("kn1", "False"), kube_node("kn2", "False"))
    assert not core.submission(POD)
    core.wait(2)
    (said,) = core.workload_wants(POD, SetScheduled)
    assert said.message == "no host is ready; waiting for Node kn1, kn2"
    core.see(kube_node("kn2", "True"))
    assert core.submission(POD)


def test_hosts_of_all_recent_replaced_jobs_are_excluded_until_they_are_ready_again_P32() -> None:
    core = two_hosts(POD, *room("n3"))
    give_up(core, 1, "n1")
    core.wait(5)
    give_up(core, 2, "n2")
    core.wait(10)
    assert core.submission(POD).excluded == ("n1", "n2")
    core.see(kube_node("kn1", "False"))
    core.wait(1)
    core.see(kube_node("kn1", "True"))
    assert core.submission(POD).excluded == ("n2",)


def test_a_host_of_a_replaced_job_is_excluded_for_five_minutes_P32() -> None:
    core = two_hosts(POD, *room("n3"))
    give_up(core, 1, "n1")
    core.wait(10)
    give_up(core, 2, "n2")
    core.wait(289)
    assert core.submission(POD).excluded == ("n1", "n2")
    core.wait(2)
    assert core.submission(POD).excluded == ("n2",)


def test_every_host_of_a_replaced_job_is_excluded_though_it_left_one_already_P32() -> None:
    """While a job is COMPLETING, Slurm names only the hosts that it still holds."""
    core = two_hosts(POD, *room("n3"))
    fields: dict[str, Any] = {"job_id": "1", "identity": identity(POD, replaced=True)}
    core.see(running(POD, at=("n1", "n2"), **fields))
    see_job(core, job(POD, state="CANCELLED+COMPLETING", slurm_nodes=("n1",), **fields))
    core.wait(10)
    assert core.submission(POD).excluded == ("n1", "n2")


def test_when_each_feasible_host_was_tried_all_are_allowed_again_P32() -> None:
    """Slurm refuses a job that excludes each host that can take it."""
    core = two_hosts(POD)
    give_up(core, 1, "n1")
    core.wait(10)
    assert core.submission(POD).excluded == ("n1",)
    give_up(core, 2, "n2")
    core.wait(10)
    assert core.submission(POD).excluded == ()
    core.see(*room("n3"))
    assert core.submission(POD).excluded == ("n1", "n2")


def test_jobs_replaced_for_one_cause_make_one_event_P32() -> None:
    """Equal Events have one name, so the second job must not change the text."""
    core = two_hosts(POD)
    core.see(kube_node("kn1", "False"))
    events = []
    for number in (1, 2):
        see_job(core, running(POD, job_id=str(number)))
        events += core.workload_wants(POD, RecordEvent)
        give_up(core, number, "n1")
    assert len(events) == 2
    assert events[0] == events[1]
    assert events[0].message == "A Slurm job is given up: n1 cannot take it: Node kn1 is not ready"


@pytest.mark.parametrize(("jobs", "least_s", "most_s"), [(2, 1.5, 2.5), (3, 3, 5), (4, 6, 10)])
def test_each_pause_is_twice_the_last_one_P32(jobs: int, least_s: float, most_s: float) -> None:
    """The first replaced job is followed by another at once."""
    core = two_hosts(POD, *room("n3"))
    for number in range(jobs):
        core.wait(120)
        give_up(core, number + 1, f"n{number % 2 + 1}")
        assert bool(core.submission(POD)) == (number == 0)
    core.wait(least_s - 0.01)
    assert not core.submission(POD)
    core.wait(most_s - least_s + 0.02)
    assert core.submission(POD)


def test_the_pause_ends_when_a_host_of_a_replaced_job_is_ready_again_P32() -> None:
    core = two_hosts(POD)
    for number in range(4):
        give_up(core, number + 1, "n1")
    assert not core.submission(POD)
    core.see(kube_node("kn1", "False"))
    core.wait(0.1)
    core.see(kube_node("kn1", "True"))
    core.wait(60)
    assert core.submission(POD)


@pytest.mark.parametrize("how", ["preempted", "same id", "unanswered", "refused"])
def test_a_workload_is_submitted_at_most_five_times_a_minute_P32(how: str) -> None:
    core = two_hosts(POD)
    for number in range(5):
        assert core.submission(POD), number
        core.wait(1)
        match how:
            case "preempted":
                ended = {"job_id": str(number + 1), "slurm_nodes": ("n1",)}
                see_job(core, job(POD, state="PREEMPTED", **ended))
            case "same id":  # slurmctld lost its jobs, and counts from 1 again
                ended = {"job_id": "1", "slurm_nodes": ("n1",)}
                see_job(core, job(POD, state="PREEMPTED", submitted_at=number + 1, **ended))
            case "unanswered":
                core.see(Attempt(WORKLOAD, core.now - 30))
                core.see_listing("jobs")
            case _:
                core.see(SubmitRefused(WORKLOAD, 2000, "no", "script", f"edit {number}"))
    assert not core.submission(POD)
    core.wait(61)
    assert core.submission(POD)
