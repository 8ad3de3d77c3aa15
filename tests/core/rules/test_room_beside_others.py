"""P28: what else stands on a Node counts, before a job is asked for and before a binding."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind, CancelJob, SubmitJob
from sunk_sync.core.model.facts import OTHER_PODS, Taken
from sunk_sync.core.model.pod_spec import Gang, PodSpec
from sunk_sync.core.translate.node_fit import SPECS_KEPT
from tests.kit.build import (
    GIB,
    OFFER,
    SMALL,
    Core,
    gang_pod,
    job,
    listing,
    node,
    pod,
    running,
    slurm_node,
    slurmd_pod,
)

BIG = PodSpec(requests=(("cpu", 6000), ("memory", GIB)), grace_s=5)

FULL = PodSpec(requests=(("cpu", 15_000), ("memory", GIB)), grace_s=5)


def core_of(*more: object, slurmd_cpu: int = 0, **chosen: Any) -> Core:
    """Hosts n1, where slurmd asks for so much, and n2, where it asks for nothing."""
    requests = (("cpu", slurmd_cpu),) if slurmd_cpu else ()
    return Core(
        node("kn1", offer=OFFER),
        slurmd_pod("n1", requests=requests),
        slurm_node("n1"),
        node("kn2", offer=OFFER),
        slurmd_pod("n2"),
        slurm_node("n2"),
        *more,  # type: ignore[arg-type]
        **chosen,
    )


@pytest.mark.parametrize(("slurmd_cpu", "excluded"), [(0, ()), (10_000, ()), (10_001, ("n1",))])
def test_a_host_whose_slurmd_leaves_too_little_is_excluded_P28(
    slurmd_cpu: int, excluded: tuple[str, ...]
) -> None:
    """6 of 16 CPUs beside the slurmd Pod's own request."""
    wanted = pod(spec=BIG)
    core = core_of(wanted, slurmd_cpu=slurmd_cpu)
    assert core.submission(wanted).excluded == excluded


def test_a_slurmd_pod_that_asks_for_less_now_gives_room_P28() -> None:
    """Its requests can be changed in place; workloads that it kept out are looked at again."""
    wanted = pod(spec=BIG)
    core = core_of(wanted, slurmd_cpu=10_001)
    core.see(slurmd_pod("n1", requests=(("cpu", 10_000),)))
    assert core.submission(wanted).excluded == ()


def test_a_gang_of_two_kinds_that_no_host_can_take_both_of_says_so_G1() -> None:
    """Each kind has a host of its own; a job's nodes must take any member."""
    here, there = (
        gang_pod(name, spec=replace(SMALL, node_selector=(("zone", zone),)))
        for name, zone in (("a", "one"), ("b", "two"))
    )
    zoned = [
        row
        for name, zone in (("n1", "one"), ("n2", "two"))
        for row in (
            node(f"k{name}", offer=replace(OFFER, labels=(("zone", zone),))),
            slurmd_pod(name),
            slurm_node(name),
        )
    ]
    core = Core(*zoned, here, there)
    assert not core.workload_wants(here, SubmitJob)
    assert "no host can take every Pod of the gang" in core.workload_verdict(here).because


def test_what_was_worked_out_for_kinds_of_pods_is_bounded_P7() -> None:
    """A Pod with an annotation of its own is a kind of its own, and there are millions."""
    feasible_hosts = core_of().graph.workloads.feasible_hosts
    kinds = [PodSpec(requests=(("cpu", cpu),), grace_s=5) for cpu in range(SPECS_KEPT + 1)]
    first = feasible_hosts.reach(kinds[0])
    assert feasible_hosts.reach(kinds[0]) is first
    for kind in kinds[1:]:
        feasible_hosts.reach(kind)
    assert feasible_hosts.reach(kinds[0]) is not first


def test_what_the_operator_says_others_take_counts_everywhere_P28() -> None:
    """No host is left: nothing is submitted, and the Pod says why."""
    wanted = pod(spec=BIG)
    core = core_of(wanted, node_overhead=(("cpu", 11_000),))
    assert not core.workload_wants(wanted, SubmitJob)
    assert "Insufficient cpu" in core.workload_verdict(wanted).because


def test_a_pod_is_not_bound_beside_pods_that_leave_too_little_P28() -> None:
    """The kubelet would answer OutOfcpu: the job is given up instead."""
    others = [pod(f"o{n}", spec=BIG, node_name="kn1", job_id=f"{n}") for n in (1, 2)]
    jobs = [running(one, job_id=one.job_id) for one in others]
    wanted = pod(spec=BIG)
    held = running(wanted)
    core = core_of(*others, *jobs, wanted, held)
    assert not core.workload_wants(wanted, Bind)
    assert core.cancels(wanted) == [("7", True)]
    elsewhere = replace(held, slurm_nodes=("n2",))
    core.see(elsewhere)
    assert [node for _, node in core.binds(wanted)] == ["kn2"]


def test_a_pod_that_is_about_to_leave_is_waited_for_P11() -> None:
    """Its job has ended: its host is not excluded for ever (found by the simulator)."""
    other = pod("o1", spec=FULL, node_name="kn1", job_id="1", terminating=True)
    ended = job(other, state="CANCELLED", job_id="1", slurm_nodes=("n1",))
    wanted = pod(spec=BIG)
    core = core_of(other, ended, wanted, running(wanted))
    assert not core.workload_wants(wanted, Bind, CancelJob)
    core.see(replace(other, ended=True))
    assert [node for _, node in core.binds(wanted)] == ["kn1"]


def test_a_member_that_is_bound_already_does_not_stand_in_the_way_G1() -> None:
    """The gang gave its own job up (found by the simulator)."""
    both = [pod(name, spec=FULL, gang=Gang("annotation", "g", 2)) for name in ("a", "b")]
    held = running(*both, at=("n1", "n2"))
    core = core_of(*both, held)
    binds = core.workload_wants(both[0], Bind)
    core.see(replace(both[1], node_name=binds[1].node_name, job_id=held.job_id))
    assert not core.workload_wants(both[0], CancelJob)
    assert [node for _, node in core.binds(both[0])] == [binds[0].node_name]


def test_a_job_whose_hosts_were_not_read_yet_stays_P12() -> None:
    """Its state was read, its record was not: it was given up for holding too few hosts (sim)."""
    wanted = pod(spec=BIG)
    core = core_of(wanted, running(wanted, at=()))
    assert not core.workload_wants(wanted, Bind, CancelJob)


def test_nothing_is_bound_to_a_job_that_is_being_given_up_P17() -> None:
    """We have marked it, and are about to cancel it."""
    wanted = pod(spec=BIG)
    held = running(wanted)
    marked = replace(held, identity=replace(held.identity, replaced=True))
    core = core_of(wanted, marked)
    assert not core.workload_wants(wanted, Bind)
    assert core.workload_wants(wanted, CancelJob), "also where a process was killed in between"


def watching(*more: object, slurmd_cpu: int = 0) -> Core:
    """The same, all Pods being watched; those of others take 11 of the 16 CPUs of kn1."""
    core = core_of(*more, slurmd_cpu=slurmd_cpu, watch_all_pods=True)
    begun, ended = listing(OTHER_PODS)
    core.see(begun, Taken("kn1", (("cpu", 11_000), ("pods", 3))), ended)
    return core


def test_pods_of_others_exclude_a_host_that_they_leave_too_little_P28() -> None:
    """Each Node by itself, where `--node-overhead` is the same for all."""
    wanted = pod(spec=BIG)
    (submit,) = watching(wanted).workload_wants(wanted, SubmitJob)
    assert submit.excluded == ("n1",)


def test_the_slurmd_pod_is_one_of_all_pods_P28() -> None:
    """It is not counted twice."""
    wanted = pod(spec=PodSpec(requests=(("cpu", 5_000), ("memory", GIB)), grace_s=5))
    (submit,) = watching(wanted, slurmd_cpu=10_000).workload_wants(wanted, SubmitJob)
    assert submit.excluded == ()


def test_a_pod_of_others_that_came_first_gives_the_host_back_P28() -> None:
    """Found at the binding: the kubelet would answer OutOfcpu."""
    wanted = pod(spec=BIG)
    core = watching(wanted, running(wanted))
    assert not core.workload_wants(wanted, Bind)
    assert core.workload_wants(wanted, CancelJob)[0].replaced
    core.see(Taken("kn1", (("cpu", 1_000), ("pods", 1))))
    assert core.workload_wants(wanted, Bind)


def test_a_pod_that_fits_nowhere_is_looked_at_again_when_others_leave_P28() -> None:
    """Their end is news; who stands on a Node that is no host concerns nobody."""
    wanted = pod(spec=BIG)
    core = watching(wanted)
    core.see(Taken("kn2", (("cpu", 11_000), ("pods", 1))))
    assert core.see(Taken("elsewhere", (("cpu", 1), ("pods", 1)))) == []
    core.see(Taken("kn1", ()), Taken("kn2", (("cpu", 16_000), ("pods", 1))))
    assert core.submission(wanted).excluded == ("n2",)


def test_nothing_is_written_for_a_pod_before_all_pods_were_listed_P28() -> None:
    """A full Node looks empty until then."""
    wanted = pod(spec=BIG)
    core = core_of(wanted, watch_all_pods=True)
    key = ("workload", next(iter(core.graph.workloads.index.pods)))
    (kept,) = core.reconciler.standing[key].kept
    assert kept.why == "not listed yet: other_pods"
