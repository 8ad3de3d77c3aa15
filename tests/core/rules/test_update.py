"""A waiting job follows its edited Pods and the hosts that can take them: rows P7, P12, P20."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, UpdateJob
from sunk_sync.core.model.facts import Job, Node, Row, SubmitRefused
from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.outcomes import Refused, shown_by
from sunk_sync.core.model.pod_spec import Taint
from sunk_sync.core.model.timing import A_MINUTE_MAX
from tests.kit.build import (
    OFFER,
    POD,
    WORKLOAD,
    Core,
    deleted,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    slurm_node,
    two_hosts,
)

EDITED = (("constraints", "fast"),)


def updates(core: Core) -> list[UpdateJob]:
    return core.workload_wants(POD, UpdateJob)


def digest(core: Core) -> str:
    return core.graph.workload(WORKLOAD).request.digest


def edited(*rows: Row) -> tuple[Core, str]:
    """The Pod was edited while its job waits; also return the digest of the job."""
    before = digest(two_hosts(POD))
    its = job(POD, identity=identity(POD, digest=before))
    return two_hosts(replace(POD, settings=EDITED), its, *rows), before


def test_the_waiting_job_of_an_edited_pod_is_updated_with_its_new_digest_P20() -> None:
    core, _ = edited(slurm_node("n3"))
    (update,) = updates(core)
    assert update.excluded == ("n3",)
    assert update.identity.digest == digest(core)
    assert update.description.constraints == "fast"


def test_a_job_whose_update_was_refused_is_replaced_once_P20() -> None:
    """The refusal is about that job; the next one is submitted with the new description."""
    core, before = edited()
    core.see(SubmitRefused(WORKLOAD, 2021, "no", "update", digest(core)))
    assert core.cancels(POD) == [("7", True)]
    core.see(job(POD, state="CANCELLED", identity=identity(POD, digest=before, replaced=True)))
    core.see(job(POD, job_id="8", submitted_at=2, identity=identity(POD, digest=digest(core))))
    assert not core.cancels(POD)


def test_a_job_without_a_digest_is_left_as_it_is_P20() -> None:
    """An older version submitted it: its description is unknown."""
    one = pod(settings=EDITED)
    assert not two_hosts(one, job(one)).workload_wants(one, UpdateJob, CancelJob)


def described(core: Core) -> Identity:
    """Return the identity of a job that is as the workload wants it in this core."""
    workload = core.graph.workload(WORKLOAD)
    return identity(POD, digest=workload.request.digest, hosts=workload.hosts.digest)


def waiting(**fields: Any) -> tuple[Core, Job]:
    """The Pod's job waits, with the exclusions that n1 and n2 ask for."""
    its = job(POD, identity=described(two_hosts(POD)), **fields)
    return two_hosts(POD, its), its


TAINTED = replace(OFFER, taints=(Taint("mine", "NoSchedule"),))


@pytest.mark.parametrize("gone", [False, True])
def test_a_waiting_job_excludes_a_host_that_became_unfit_P7(gone: bool) -> None:
    """At most one update in half a minute, however many changes there were."""
    core, its = waiting()
    core.see_listing("jobs", its, after_s=1)
    tainted = node("kn1", offer=TAINTED)
    core.see(deleted("nodes", tainted) if gone else tainted)
    core.see_listing("jobs", its, after_s=28)
    assert not updates(core)
    core.see_listing("jobs", its, after_s=2)
    (update,) = updates(core)
    assert (update.excluded, update.change) == (("n1",), "exclusions")
    assert update.description.cpus == 1
    assert update.identity == replace(its.identity, hosts=update.identity.hosts)
    done = replace(its, identity=update.identity)
    core.see(done)
    assert not updates(core)
    for _ in range(3):
        core.see_listing("jobs", done, after_s=31)
        assert not updates(core)


def test_a_host_that_can_take_the_pod_now_is_excluded_no_longer_P7() -> None:
    fewer = Core(*room("n1"), slurm_node("n2"), POD)
    assert fewer.submission(POD).excluded == ("n2",)
    its = job(POD, identity=described(fewer))
    core = two_hosts(POD, its)
    core.see_listing("jobs", its, after_s=1)
    core.see_listing("jobs", its, after_s=31)
    (update,) = updates(core)
    assert update.excluded == ()


@pytest.mark.parametrize(
    "changes",
    [
        [node("kn1", offer=OFFER, unschedulable=True)],
        [node("kn1", offer=TAINTED), node("kn2", offer=TAINTED)],
    ],
    ids=["a cordon", "no host is left"],
)
def test_exclusions_stay_after_a_cordon_and_when_no_host_is_left_P7(changes: list[Node]) -> None:
    """A cordoned host is drained anyway (decision 13). Without any host Slurm would take the job's
    priority away for a while (BadConstraints).
    """
    core, its = waiting()
    core.see_listing("jobs", its, after_s=1)
    core.see(*changes)
    core.see_listing("jobs", its, after_s=31)
    assert not updates(core)


def test_the_exclusions_of_a_running_job_are_not_updated_P7() -> None:
    """Slurm refuses that (2073)."""
    core, its = waiting()
    core.see(node("kn1", offer=TAINTED))
    core.see_listing("jobs", its, after_s=31)
    assert updates(core)
    runs = replace(its, state=frozenset({"RUNNING"}), slurm_nodes=("n2",))
    core.see_listing("jobs", runs, after_s=1)
    assert not core.graph.workloads.exclusion_updates.wanted
    core.see_listing("jobs", runs, after_s=31)
    assert not updates(core)
    assert not core.graph.workloads.exclusion_updates.wanted


@pytest.mark.parametrize(("job_id", "excluded"), [("7", ("n1", "n9")), ("7_1", ("n1",))])
def test_the_host_of_a_replaced_job_stays_excluded_P12(
    job_id: str, excluded: tuple[str, ...]
) -> None:
    """For a while (P32). The tasks of an array share one list."""
    core, its = waiting(job_id=job_id, submitted_at=2)
    marked = identity(POD, replaced=True)
    given_up = job(POD, state="CANCELLED", job_id="5", slurm_nodes=("n9",), identity=marked)
    core.now += 1
    core.see(
        given_up, node("kn1", offer=TAINTED), *listing("jobs", its, given_up, begun_s=core.now)
    )
    (update,) = updates(core)
    assert update.excluded == excluded


def avoiding() -> tuple[Core, Job]:
    """A job was given up on n1, whose Node is not ready; the next one waits and excludes n1."""
    marked = identity(POD, replaced=True)
    given_up = job(POD, state="CANCELLED", job_id="5", slurm_nodes=("n1",), identity=marked)
    core = two_hosts(POD, given_up, node("kn1", offer=OFFER, ready="False"))
    action = core.submission(POD)
    assert action.excluded == ("n1",)
    its = job(POD, identity=action.identity, submitted_at=2)
    core.see(its)
    assert not updates(core)
    return core, its


def test_a_waiting_job_may_use_the_host_of_a_replaced_one_when_its_node_is_ready_P32() -> None:
    """It waited behind a full host while the others were idle (crash points)."""
    core, its = avoiding()
    core.now += 1
    core.see(node("kn1", offer=OFFER))
    (update,) = updates(core)
    assert (update.excluded, update.change) == ((), "exclusions")
    core.see(replace(its, identity=update.identity))
    assert not updates(core)


def test_a_waiting_job_may_use_the_host_of_a_replaced_one_after_five_minutes_P32() -> None:
    core, _ = avoiding()
    core.wait(290)
    assert not updates(core)
    core.wait(20)
    (update,) = updates(core)
    assert update.excluded == ()


def test_an_edit_that_is_not_yet_answered_follows_the_end_of_the_avoidance_P20_P32() -> None:
    """Simulator, Pods' seed 9172082."""
    core, _ = avoiding()
    core.see(replace(POD, settings=EDITED))
    (update,) = updates(core)
    assert (update.excluded, update.change) == (("n1",), "edit")
    core.wait(250)
    again_s = core.workload_verdict(POD).look_again_s
    assert again_s is not None
    assert again_s <= core.now + 50
    core.wait(60)
    (update,) = updates(core)
    assert update.excluded == ()


def test_a_host_that_slurm_cannot_do_without_is_not_excluded_from_the_waiting_job_P12() -> None:
    core, its = avoiding()
    every = described(two_hosts(POD))
    core.see(replace(its, identity=every))
    assert not updates(core)


def test_a_waiting_job_that_avoids_a_host_follows_the_others_at_once_P7() -> None:
    core, _ = avoiding()
    core.see(node("kn2", offer=OFFER), slurm_node("n3"))
    (update,) = updates(core)
    assert update.excluded == ("n1", "n3")


def test_a_job_that_was_missing_in_one_round_is_updated_in_the_next_P7() -> None:
    """History 4168: the first listing after the change may be older and does not count."""
    core, its = waiting()
    core.see(deleted("jobs", its))
    core.now += 1
    core.see(node("kn1", offer=TAINTED), *listing("jobs", begun_s=core.now))
    core.see(its)
    for _ in range(2):
        core.see_listing("jobs", its, after_s=31)
        (update,) = updates(core)
    core.see(replace(its, identity=update.identity))
    core.see(its)
    core.see_listing("jobs", its, after_s=31)
    assert not updates(core)


def test_many_waiting_jobs_are_updated_a_few_at_a_time_P7() -> None:
    """Five a second, and ten at a listing, so that one change of a Node costs little."""
    core, its = waiting()
    pods = [pod(f"q{number}") for number in range(30)]
    old = {"digest": its.identity.digest, "hosts": "old"}
    jobs = [
        job(one, job_id=f"1{number:02}", identity=identity(one, **old))
        for number, one in enumerate(pods)
    ]
    core.see(*pods, *jobs)
    counts = []
    for seconds in (31, 1, 1, 60, 1):
        decisions = core.see_listing("jobs", its, *jobs, after_s=seconds)
        counts.append(sum(isinstance(a, UpdateJob) for d in decisions for a in d.allowed))
    assert counts == [0, 5, 5, 10, 5]
    changed = core.see(node("kn1", offer=TAINTED))
    assert not [decision for decision in changed if decision.key[0] == "workload"]


def test_an_edit_also_updates_the_exclusions_P20() -> None:
    core, its = waiting()
    core.see(node("kn1", offer=TAINTED), replace(POD, settings=EDITED))
    (update,) = updates(core)
    assert (update.excluded, update.change) == (("n1",), "edit")
    assert update.identity.hosts not in ("", its.identity.hosts)


def refused_exclusions() -> tuple[Core, Job]:
    """A user cancelled job 5. Job 7 waits, and Slurm refused to exclude n1 from it five times."""
    core, its = waiting(submitted_at=2)
    cancelled = job(POD, state="CANCELLED", job_id="5")
    core.see(cancelled, deleted("jobs", cancelled), node("kn1", offer=TAINTED))
    core.see_listing("jobs", its, after_s=31)
    (update,) = updates(core)
    assert update.change == "exclusions"
    for _ in range(A_MINUTE_MAX):
        core.see(*shown_by(Refused(update, "no", number=2018), asked_s=core.now))
    return core, its


def test_refused_exclusions_count_as_no_submission_P32() -> None:
    core, its = refused_exclusions()
    core.see(replace(POD, cancelled="5/", resubmit="again"), deleted("jobs", its))
    assert core.submission(POD)


def test_refused_exclusions_leave_the_job_and_what_is_known_of_earlier_ones_P7_P17() -> None:
    core, its = refused_exclusions()
    assert not core.cancels(POD)
    core.see(deleted("jobs", its))
    assert not core.submission(POD)
    assert [end.job_id for end in core.graph.workloads.memory.ends.values()] == ["5"]


def test_refused_exclusions_are_no_new_fact_so_the_update_waits_P7() -> None:
    """An answered write is not sent again until a fact of its key changes."""
    core, _ = refused_exclusions()
    (update,) = updates(core)
    assert not core.see(*shown_by(Refused(update, "no", number=2018), asked_s=core.now))


def test_an_edit_of_one_task_of_an_array_replaces_its_job_P20() -> None:
    """Slurm changes all tasks that wait, or none."""
    its = pod(settings=(("comment", "new"),))
    task = job(its, job_id="3_1", identity=identity(its, digest=f"{'0' * 8}{'1' * 8}"))
    assert two_hosts(its, task).cancels(its) == [("3_1", True)]


def test_an_edit_that_makes_the_pod_invalid_ends_the_waiting_job_P20() -> None:
    its = pod(settings=(("priority", "high"),))
    core = two_hosts(its, job(its, identity=identity(its, digest="0" * 16)))
    assert core.cancels(its) == [("7", True)]
