"""A waiting job follows its edited Pods and the hosts that can take them: rows P7, P12, P20."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, UpdateJob
from sunk_sync.core.model.facts import Job, Pod, Row, SubmitRefused
from sunk_sync.core.model.pod_spec import Taint
from tests.kit.build import (
    OFFER,
    Core,
    deleted,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    slurm_node,
)


def core(*rows: Row, **chosen: Any) -> Core:
    return Core(*room("n1"), *room("n2"), *rows, **chosen)


def running(*pods: Pod, at: tuple[str, ...] = ("n1",), **fields: Any) -> Job:
    return job(*pods, state="RUNNING", slurm_nodes=at, **fields)


def cancels(world: Core, of: Pod) -> list[tuple[str, bool]]:
    """Return the id of each job to cancel, and whether another job follows it."""
    return [(want.job_id, want.replaced) for want in world.workload_wants(of, CancelJob)]


EDITED = (("constraints", "fast"),)


def digests(world: Core, of: Pod) -> str:
    return world.graph.workload(workload_key_of_one(of)).request.digest


def workload_key_of_one(of: Pod) -> str:
    return identity(of).workload


def test_the_job_of_an_edited_pod_is_updated_while_it_waits_P20() -> None:
    """With the digest of what it asks for now."""
    one = pod()
    before = digests(core(one), one)
    edited = replace(one, settings=EDITED)
    its = job(one, identity=identity(one, digest=before))
    world = core(edited, its, slurm_node("n3"))
    (update,) = world.workload_wants(edited, UpdateJob)
    assert update.excluded == ("n3",)
    assert update.identity.digest == digests(world, edited)
    assert update.description.constraints == "fast"


def test_where_slurm_does_not_let_it_the_job_is_replaced_once_P20() -> None:
    """The refusal is of that job: the next one asks for the new already."""
    one = pod()
    before = digests(core(one), one)
    edited = replace(one, settings=EDITED)
    its = job(one, identity=identity(one, digest=before))
    world = core(edited, its)
    after = digests(world, edited)
    world.see(SubmitRefused(identity(one).workload, 2021, "no", "update", after))
    assert cancels(world, edited) == [("7", True)]
    world.see(job(one, state="CANCELLED", identity=identity(one, digest=before, replaced=True)))
    world.see(job(one, job_id="8", submitted_at=2, identity=identity(one, digest=after)))
    assert not cancels(world, edited)


def test_a_job_of_an_older_installation_is_left_as_it_is_P20() -> None:
    """Without a digest nobody knows what it was asked for."""
    one = pod(settings=EDITED)
    assert not core(one, job(one)).workload_wants(one, UpdateJob, CancelJob)


def waiting(*rows: Row, **fields: Any) -> tuple[Core, Pod, Job]:
    """A Pod whose job waits with the exclusions that n1 and n2 ask for; and what else there is."""
    one = pod()
    before = core(one).graph.workload(workload_key_of_one(one))
    its = job(
        one,
        identity=identity(one, digest=before.request.digest, hosts=before.hosts.digest),
        **fields,
    )
    return core(one, its, *rows), one, its


def listed(world: Core, its: Job, after_s: float) -> None:
    """Slurm is polled: what waits is renewed then."""
    world.now += after_s
    world.see(*listing("jobs", its, begun_s=world.now))


TAINTED = replace(OFFER, taints=(Taint("mine", "NoSchedule"),))


@pytest.mark.parametrize("gone", [False, True])
def test_a_job_that_waits_is_told_to_exclude_a_host_that_turned_unfit_P7(gone: bool) -> None:
    """Once in half a minute, however many changes there were."""
    world, one, its = waiting()
    listed(world, its, 1)
    tainted = node("kn1", offer=TAINTED)
    world.see(deleted("nodes", tainted) if gone else tainted)
    listed(world, its, 28)
    assert not world.workload_wants(one, UpdateJob)
    listed(world, its, 2)
    (update,) = world.workload_wants(one, UpdateJob)
    assert (update.excluded, update.exclusions_only, update.description.cpus) == (
        ("n1",),
        True,
        1,
    )
    assert update.identity == replace(its.identity, hosts=update.identity.hosts)
    done = replace(its, identity=update.identity)
    world.see(done)
    assert not world.workload_wants(one, UpdateJob)
    for _ in range(3):
        listed(world, done, 31)
        assert not world.workload_wants(one, UpdateJob)


def test_a_host_that_can_take_it_by_now_is_excluded_no_longer_P7() -> None:
    """A label, a taint that went, a new Node."""
    one = pod()
    fewer = Core(*room("n1"), slurm_node("n2"), one).graph.workload(workload_key_of_one(one))
    assert fewer.hosts.excluded == ("n2",)
    its = job(one, identity=identity(one, digest=fewer.request.digest, hosts=fewer.hosts.digest))
    world = core(one, its)
    listed(world, its, 1)
    listed(world, its, 31)
    (update,) = world.workload_wants(one, UpdateJob)
    assert update.excluded == ()


def test_a_cordon_renews_nothing_P7() -> None:
    """It comes and goes, and drains its host meanwhile (decision 13)."""
    world, one, its = waiting()
    listed(world, its, 1)
    world.see(node("kn1", offer=OFFER, unschedulable=True))
    listed(world, its, 31)
    assert not world.workload_wants(one, UpdateJob)


def test_where_no_host_is_left_the_job_keeps_what_it_excludes_P7() -> None:
    """Slurm would take its priority away for a while (BadConstraints)."""
    world, one, its = waiting()
    listed(world, its, 1)
    world.see(node("kn1", offer=TAINTED), node("kn2", offer=TAINTED))
    listed(world, its, 31)
    assert not world.workload_wants(one, UpdateJob)


def test_jobs_that_run_are_not_renewed_P7() -> None:
    """Slurm takes no other list then (2073), and what they were to exclude is forgotten."""
    world, one, its = waiting()
    world.see(node("kn1", offer=TAINTED))
    listed(world, its, 31)
    assert world.workload_wants(one, UpdateJob)
    runs = replace(its, state=frozenset({"RUNNING"}), slurm_nodes=("n2",))
    listed(world, runs, 1)
    assert not world.graph.workloads.exclusion_updates.wanted
    listed(world, runs, 31)
    assert not world.workload_wants(one, UpdateJob)
    assert not world.graph.workloads.exclusion_updates.wanted


@pytest.mark.parametrize(("job_id", "excluded"), [("7", ("n1", "n9")), ("7_1", ("n1",))])
def test_a_renewal_keeps_the_host_where_a_job_was_given_up_P12(
    job_id: str, excluded: tuple[str, ...]
) -> None:
    """As long as Slurm remembers that; the tasks of an array have one list for all of them."""
    world, one, its = waiting(job_id=job_id, submitted_at=2)
    marked = replace(identity(one), replaced=True)
    given_up = job(one, state="CANCELLED", job_id="5", slurm_nodes=("n9",), identity=marked)
    world.now += 1
    world.see(
        given_up,
        node("kn1", offer=TAINTED),
        *listing("jobs", its, given_up, begun_s=world.now),
    )
    (update,) = world.workload_wants(one, UpdateJob)
    assert update.excluded == excluded


def test_a_job_that_was_on_its_way_in_one_round_has_its_turn_in_the_next_P7() -> None:
    """And none in a third, while no host changes; the first listing after the change may be older
    than it, and does not count (found by history 4168).
    """
    world, one, its = waiting()
    world.see(deleted("jobs", its))
    world.now += 1
    world.see(node("kn1", offer=TAINTED), *listing("jobs", begun_s=world.now))
    world.see(its)
    for _ in range(2):
        listed(world, its, 31)
        (update,) = world.workload_wants(one, UpdateJob)
    world.see(replace(its, identity=update.identity))
    world.see(its)
    listed(world, its, 31)
    assert not world.workload_wants(one, UpdateJob)


def test_many_that_wait_have_their_turn_one_after_the_other_P7() -> None:
    """Five a second, ten at a listing: a change of a Node costs nothing meanwhile."""
    world, _, its = waiting()
    pods = [pod(f"q{number}") for number in range(30)]
    old = {"digest": its.identity.digest, "hosts": "old"}
    jobs = [
        job(one, job_id=f"1{number:02}", identity=identity(one, **old))
        for number, one in enumerate(pods)
    ]
    world.see(*pods, *jobs)
    told = []
    for seconds in (31, 1, 1, 60, 1):
        world.now += seconds
        decisions = world.see(*listing("jobs", its, *jobs, begun_s=world.now))
        told.append(sum(isinstance(a, UpdateJob) for d in decisions for a in d.allowed))
    assert told == [0, 5, 5, 10, 5]
    changed = world.see(node("kn1", offer=TAINTED))
    assert not [decision for decision in changed if decision.key[0] == "workload"]


def test_an_edit_brings_the_exclusions_of_now_P20() -> None:
    """And a refused renewal is no reason to give a job up."""
    world, one, its = waiting()
    edited = replace(one, settings=EDITED)
    world.see(node("kn1", offer=TAINTED), edited)
    (update,) = world.workload_wants(edited, UpdateJob)
    assert (update.excluded, update.exclusions_only) == (("n1",), False)
    assert update.identity.hosts not in ("", its.identity.hosts)
    world.see(SubmitRefused(identity(one).workload, 2018, "no", "renewal", update.identity.digest))
    assert not cancels(world, edited)


def test_an_edit_of_one_task_of_an_array_replaces_its_job_P20() -> None:
    """Slurm changes all tasks that wait, or none."""
    its = pod(settings=(("comment", "new"),))
    task = job(its, job_id="3_1", identity=identity(its, digest=f"{'0' * 8}{'1' * 8}"))
    assert cancels(core(its, task), its) == [("3_1", True)]


def test_an_edit_that_is_refused_ends_the_waiting_job_P20() -> None:
    """It asked for what nobody wants any more."""
    its = pod(settings=(("priority", "high"),))
    assert cancels(core(its, job(its, identity=identity(its, digest="0" * 16))), its) == [
        ("7", True)
    ]
