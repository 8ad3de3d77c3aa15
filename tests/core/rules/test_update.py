"""A waiting job follows its edited Pods and the hosts that can take them: rows P7, P12, P20."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, UpdateJob
from sunk_sync.core.model.facts import Job, Pod, Row, SubmitRefused
from sunk_sync.core.model.pod_spec import Taint
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


def digests(core: Core, of: Pod) -> str:
    return core.graph.workload(workload_key_of_one(of)).request.digest


def workload_key_of_one(of: Pod) -> str:
    return identity(of).workload


def test_the_waiting_job_of_an_edited_pod_is_updated_with_its_new_digest_P20() -> None:
    before = digests(two_hosts(POD), POD)
    edited = replace(POD, settings=EDITED)
    its = job(POD, identity=identity(POD, digest=before))
    core = two_hosts(edited, its, slurm_node("n3"))
    (update,) = core.workload_wants(edited, UpdateJob)
    assert update.excluded == ("n3",)
    assert update.identity.digest == digests(core, edited)
    assert update.description.constraints == "fast"


def test_a_job_whose_update_was_refused_is_replaced_once_P20() -> None:
    """The refusal is about that job; the next one is submitted with the new description."""
    before = digests(two_hosts(POD), POD)
    edited = replace(POD, settings=EDITED)
    its = job(POD, identity=identity(POD, digest=before))
    core = two_hosts(edited, its)
    after = digests(core, edited)
    core.see(SubmitRefused(WORKLOAD, 2021, "no", "update", after))
    assert core.cancels(edited) == [("7", True)]
    core.see(job(POD, state="CANCELLED", identity=identity(POD, digest=before, replaced=True)))
    core.see(job(POD, job_id="8", submitted_at=2, identity=identity(POD, digest=after)))
    assert not core.cancels(edited)


def test_a_job_without_a_digest_is_left_as_it_is_P20() -> None:
    """An older version made it: nobody knows what it was asked for."""
    one = pod(settings=EDITED)
    assert not two_hosts(one, job(one)).workload_wants(one, UpdateJob, CancelJob)


def waiting(*rows: Row, **fields: Any) -> tuple[Core, Pod, Job]:
    """A Pod whose job waits with the exclusions that n1 and n2 ask for; and what else there is."""
    before = two_hosts(POD).graph.workload(workload_key_of_one(POD))
    its = job(
        POD,
        identity=identity(POD, digest=before.request.digest, hosts=before.hosts.digest),
        **fields,
    )
    return two_hosts(POD, its, *rows), POD, its


def listed(core: Core, its: Job, after_s: float) -> None:
    """Slurm is polled: what waits is renewed then."""
    core.see_listing("jobs", its, after_s=after_s)


TAINTED = replace(OFFER, taints=(Taint("mine", "NoSchedule"),))


@pytest.mark.parametrize("gone", [False, True])
def test_a_waiting_job_excludes_a_host_that_became_unfit_P7(gone: bool) -> None:
    """At most one update in half a minute, however many changes there were."""
    core, one, its = waiting()
    listed(core, its, 1)
    tainted = node("kn1", offer=TAINTED)
    core.see(deleted("nodes", tainted) if gone else tainted)
    listed(core, its, 28)
    assert not core.workload_wants(one, UpdateJob)
    listed(core, its, 2)
    (update,) = core.workload_wants(one, UpdateJob)
    assert (update.excluded, update.exclusions_only, update.description.cpus) == (
        ("n1",),
        True,
        1,
    )
    assert update.identity == replace(its.identity, hosts=update.identity.hosts)
    done = replace(its, identity=update.identity)
    core.see(done)
    assert not core.workload_wants(one, UpdateJob)
    for _ in range(3):
        listed(core, done, 31)
        assert not core.workload_wants(one, UpdateJob)


def test_a_host_that_can_take_the_pod_now_is_excluded_no_longer_P7() -> None:
    fewer = Core(*room("n1"), slurm_node("n2"), POD).graph.workload(workload_key_of_one(POD))
    assert fewer.hosts.excluded == ("n2",)
    its = job(POD, identity=identity(POD, digest=fewer.request.digest, hosts=fewer.hosts.digest))
    core = two_hosts(POD, its)
    listed(core, its, 1)
    listed(core, its, 31)
    (update,) = core.workload_wants(POD, UpdateJob)
    assert update.excluded == ()


def test_a_cordon_does_not_change_the_exclusions_P7() -> None:
    """A cordoned host is drained anyway (decision 13)."""
    core, one, its = waiting()
    listed(core, its, 1)
    core.see(node("kn1", offer=OFFER, unschedulable=True))
    listed(core, its, 31)
    assert not core.workload_wants(one, UpdateJob)


def test_a_job_for_which_no_host_is_left_keeps_its_exclusions_P7() -> None:
    """Slurm would take its priority away for a while (BadConstraints)."""
    core, one, its = waiting()
    listed(core, its, 1)
    core.see(node("kn1", offer=TAINTED), node("kn2", offer=TAINTED))
    listed(core, its, 31)
    assert not core.workload_wants(one, UpdateJob)


def test_the_exclusions_of_a_running_job_are_not_updated_P7() -> None:
    """Slurm refuses that (2073)."""
    core, one, its = waiting()
    core.see(node("kn1", offer=TAINTED))
    listed(core, its, 31)
    assert core.workload_wants(one, UpdateJob)
    runs = replace(its, state=frozenset({"RUNNING"}), slurm_nodes=("n2",))
    listed(core, runs, 1)
    assert not core.graph.workloads.exclusion_updates.wanted
    listed(core, runs, 31)
    assert not core.workload_wants(one, UpdateJob)
    assert not core.graph.workloads.exclusion_updates.wanted


@pytest.mark.parametrize(("job_id", "excluded"), [("7", ("n1", "n9")), ("7_1", ("n1",))])
def test_new_exclusions_keep_the_host_of_a_replaced_job_P12(
    job_id: str, excluded: tuple[str, ...]
) -> None:
    """As long as Slurm remembers that job. The tasks of an array share one list."""
    core, one, its = waiting(job_id=job_id, submitted_at=2)
    marked = replace(identity(one), replaced=True)
    given_up = job(one, state="CANCELLED", job_id="5", slurm_nodes=("n9",), identity=marked)
    core.now += 1
    core.see(
        given_up,
        node("kn1", offer=TAINTED),
        *listing("jobs", its, given_up, begun_s=core.now),
    )
    (update,) = core.workload_wants(one, UpdateJob)
    assert update.excluded == excluded


def test_a_job_that_was_missing_in_one_round_is_updated_in_the_next_P7() -> None:
    """And not in a third while no host changes. History 4168: the first listing after the change
    may be older than it and does not count.
    """
    core, one, its = waiting()
    core.see(deleted("jobs", its))
    core.now += 1
    core.see(node("kn1", offer=TAINTED), *listing("jobs", begun_s=core.now))
    core.see(its)
    for _ in range(2):
        listed(core, its, 31)
        (update,) = core.workload_wants(one, UpdateJob)
    core.see(replace(its, identity=update.identity))
    core.see(its)
    listed(core, its, 31)
    assert not core.workload_wants(one, UpdateJob)


def test_many_waiting_jobs_are_updated_a_few_at_a_time_P7() -> None:
    """Five a second, and ten at a listing, so that one change of a Node costs little."""
    core, _, its = waiting()
    pods = [pod(f"q{number}") for number in range(30)]
    old = {"digest": its.identity.digest, "hosts": "old"}
    jobs = [
        job(one, job_id=f"1{number:02}", identity=identity(one, **old))
        for number, one in enumerate(pods)
    ]
    core.see(*pods, *jobs)
    told = []
    for seconds in (31, 1, 1, 60, 1):
        core.now += seconds
        decisions = core.see_listing("jobs", its, *jobs)
        told.append(sum(isinstance(a, UpdateJob) for d in decisions for a in d.allowed))
    assert told == [0, 5, 5, 10, 5]
    changed = core.see(node("kn1", offer=TAINTED))
    assert not [decision for decision in changed if decision.key[0] == "workload"]


def test_an_edit_also_updates_the_exclusions_P20() -> None:
    """A refused update of exclusions alone does not replace the job."""
    core, one, its = waiting()
    edited = replace(one, settings=EDITED)
    core.see(node("kn1", offer=TAINTED), edited)
    (update,) = core.workload_wants(edited, UpdateJob)
    assert (update.excluded, update.exclusions_only) == (("n1",), False)
    assert update.identity.hosts not in ("", its.identity.hosts)
    core.see(SubmitRefused(identity(one).workload, 2018, "no", "renewal", update.identity.digest))
    assert not core.cancels(edited)


def test_an_edit_of_one_task_of_an_array_replaces_its_job_P20() -> None:
    """Slurm changes all tasks that wait, or none."""
    its = pod(settings=(("comment", "new"),))
    task = job(its, job_id="3_1", identity=identity(its, digest=f"{'0' * 8}{'1' * 8}"))
    assert two_hosts(its, task).cancels(its) == [("3_1", True)]


def test_an_edit_that_makes_the_pod_invalid_ends_the_waiting_job_P20() -> None:
    its = pod(settings=(("priority", "high"),))
    assert two_hosts(its, job(its, identity=identity(its, digest="0" * 16))).cancels(its) == [
        ("7", True)
    ]
