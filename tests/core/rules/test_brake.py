"""Jobs that we give up are not replaced without a brake: row P32."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent, SetScheduled, SubmitJob
from sunk_sync.core.model.facts import Attempt, Job, Pod, SubmitRefused
from tests.kit.build import OFFER, POD, Core, identity, job, listing, node, room, running, two_hosts


def submissions(core: Core, of: Pod) -> list[SubmitJob]:
    return core.workload_wants(of, SubmitJob)


def give_up(core: Core, of: Pod, number: int, host: str) -> None:
    """A job of the Pod comes, starts on this host and is ended by us."""
    marked = replace(identity(of), replaced=True)
    fields: dict[str, Any] = {"job_id": str(number), "slurm_nodes": (host,), "identity": marked}
    core.see(job(of, state="RUNNING", **fields))
    ended = job(of, state="CANCELLED", **fields)
    core.see(ended, *listing("jobs", *jobs_of(core, ended), begun_s=core.now))


def jobs_of(core: Core, newest: Job) -> list[Job]:
    known = core.graph.jobs.rows()
    return [*(one for one in known if one.job_id != newest.job_id), newest]


def not_ready(name: str) -> Any:
    return node(f"k{name}", offer=OFFER, ready="False")


def ready(name: str) -> Any:
    return node(f"k{name}", offer=OFFER)


def test_while_no_feasible_host_is_ready_nothing_is_submitted_P32() -> None:
    """The condition names the Nodes that are waited for; once one is ready the job follows."""
    core = two_hosts(POD)
    assert submissions(core, POD)
    core.see(not_ready("n1"), not_ready("n2"))
    assert not submissions(core, POD)
    core.wait(2)
    (said,) = core.workload_wants(POD, SetScheduled)
    assert said.message == "no host is ready; waiting for Node kn1, kn2"
    core.see(ready("n2"))
    assert submissions(core, POD)


def test_a_host_where_a_job_was_given_up_is_excluded_until_it_is_ready_again_P32() -> None:
    """All such hosts of the last jobs, not only that of the newest one."""
    core = two_hosts(POD, *room("n3"))
    give_up(core, POD, 1, "n1")
    core.wait(5)
    give_up(core, POD, 2, "n2")
    core.wait(10)
    (again,) = submissions(core, POD)
    assert again.excluded == ("n1", "n2")
    core.see(not_ready("n1"))
    core.wait(1)
    core.see(ready("n1"))
    (again,) = submissions(core, POD)
    assert again.excluded == ("n2",)


def test_a_host_where_a_job_was_given_up_may_be_tried_again_after_five_minutes_P32() -> None:
    """Where Slurm refuses the job because all hosts are excluded, P10 says how long it waits."""
    core = two_hosts(POD)
    give_up(core, POD, 1, "n1")
    core.wait(10)
    give_up(core, POD, 2, "n2")
    core.wait(289)
    (again,) = submissions(core, POD)
    assert again.excluded == ("n1", "n2")
    core.wait(2)
    (again,) = submissions(core, POD)
    assert again.excluded == ("n2",)


def test_jobs_given_up_for_one_cause_make_one_event_P32() -> None:
    """Equal Events have one name, so the second job must not change the text."""
    core = two_hosts(POD)
    core.see(not_ready("n1"))
    events = []
    for number in (1, 2):
        runs = running(POD, job_id=str(number))
        core.see(runs, *listing("jobs", *jobs_of(core, runs), begun_s=core.now))
        events += core.workload_wants(POD, RecordEvent)
        give_up(core, POD, number, "n1")
    assert len(events) == 2
    assert events[0] == events[1]
    assert events[0].message == "A Slurm job is given up: n1 cannot take it: Node kn1 is not ready"


@pytest.mark.parametrize(("jobs", "least_s", "most_s"), [(2, 1.5, 2.5), (3, 3, 5), (4, 6, 10)])
def test_each_pause_is_twice_as_long_as_the_one_before_P32(
    jobs: int, least_s: float, most_s: float
) -> None:
    """The first job that is given up is replaced at once."""
    core = two_hosts(POD, *room("n3"))
    for number in range(jobs):
        core.wait(120)
        give_up(core, POD, number + 1, f"n{number % 2 + 1}")
        assert bool(submissions(core, POD)) == (number == 0)
    core.wait(least_s - 0.01)
    assert not submissions(core, POD)
    core.wait(most_s - least_s + 0.02)
    assert submissions(core, POD)


def test_the_pause_ends_when_a_host_of_such_a_job_is_ready_again_P32() -> None:
    """What was wrong there has passed."""
    core = two_hosts(POD)
    for number in range(4):
        give_up(core, POD, number + 1, "n1")
    assert not submissions(core, POD)
    core.see(not_ready("n1"))
    core.wait(0.1)
    core.see(ready("n1"))
    core.wait(60)
    assert submissions(core, POD)


@pytest.mark.parametrize("how", ["preempted", "unanswered", "refused"])
def test_no_workload_is_submitted_more_than_five_times_a_minute_P32(how: str) -> None:
    """Whatever the reason of the next one is: jobs, submissions without an answer, refusals."""
    core = two_hosts(POD)
    for number in range(5):
        assert submissions(core, POD), number
        core.wait(1)
        match how:
            case "preempted":
                row = job(POD, state="PREEMPTED", job_id=str(number + 1), slurm_nodes=("n1",))
                core.see(row)
                core.see_listing("jobs", *jobs_of(core, row))
            case "unanswered":
                core.see(Attempt(identity(POD).workload, core.now - 30))
                core.see_listing("jobs")
            case _:
                core.see(
                    SubmitRefused(identity(POD).workload, 2000, "no", "script", f"edit {number}")
                )
    assert not submissions(core, POD)
    core.wait(61)
    assert submissions(core, POD)
