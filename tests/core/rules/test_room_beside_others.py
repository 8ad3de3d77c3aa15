"""P28: the other Pods on a Node count, before a submission and before a binding."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import Bind, CancelJob
from sunk_sync.core.model.facts import OTHER_PODS, Pod, Row, SlurmdPod, Taken
from sunk_sync.core.model.keys import workload_key
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.node_fit import SPECS_KEPT
from tests.kit.build import (
    GIB,
    OFFER,
    SMALL,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    listing,
    node,
    pod,
    running,
    slurm_node,
    slurmd_pod,
    two_hosts,
)

BIG = PodSpec(requests=(("cpu", 6000), ("memory", GIB)), grace_s=5)
FULL = PodSpec(requests=(("cpu", 15_000), ("memory", GIB)), grace_s=5)
WANTED = pod(spec=BIG)
"""It needs 6 of the 16 CPUs of a Node."""


def slurmd(cpu: int) -> SlurmdPod:
    """Return the slurmd Pod of host n1 with a request of so many thousandths of a CPU."""
    return slurmd_pod("n1", requests=(("cpu", cpu),))


@pytest.mark.parametrize(("cpu", "excluded"), [(0, ()), (10_000, ()), (10_001, ("n1",))])
def test_a_host_with_a_large_slurmd_is_excluded_P28(cpu: int, excluded: tuple[str, ...]) -> None:
    assert two_hosts(WANTED, slurmd(cpu)).submission(WANTED).excluded == excluded


def test_a_slurmd_pod_that_requests_less_now_makes_room_P28() -> None:
    """Requests can be changed in place."""
    core = two_hosts(WANTED, slurmd(10_001))
    core.see(slurmd(10_000))
    assert core.submission(WANTED).excluded == ()


def test_a_gang_says_when_no_host_can_take_all_its_members_G1() -> None:
    """Each node of a job must be able to take each member."""
    rows: list[Row] = []
    for name, zone in (("n1", "one"), ("n2", "two")):
        offer = replace(OFFER, labels=(("zone", zone),))
        spec = replace(SMALL, node_selector=(("zone", zone),))
        rows += [node(f"k{name}", offer=offer), slurmd_pod(name), slurm_node(name)]
        rows.append(gang_pod(name, spec=spec))
    core = Core(*rows)
    assert not core.submission(gang_pod("n1"))
    because = core.workload_verdict(gang_pod("n1")).because
    assert "no host can take every Pod of the gang" in because


def test_the_cache_of_feasible_hosts_is_bounded_P7() -> None:
    """A Pod with an annotation of its own is a key of its own, and there are millions."""
    feasible_hosts = two_hosts().graph.workloads.feasible_hosts
    specs = [PodSpec(requests=(("cpu", cpu),), grace_s=5) for cpu in range(SPECS_KEPT + 1)]
    first = feasible_hosts.reach(specs[0])
    assert feasible_hosts.reach(specs[0]) is first
    for spec in specs[1:]:
        feasible_hosts.reach(spec)
    assert feasible_hosts.reach(specs[0]) is not first


def test_node_overhead_counts_on_every_node_P28() -> None:
    core = two_hosts(WANTED, node_overhead=(("cpu", 11_000),))
    assert not core.submission(WANTED)
    assert "Insufficient cpu" in core.workload_verdict(WANTED).because


def test_a_job_is_replaced_when_bound_pods_leave_too_little_P28() -> None:
    """The kubelet would answer OutOfcpu."""
    others = [pod(f"o{n}", spec=BIG, node_name="kn1", job_id=f"{n}") for n in (1, 2)]
    jobs = [running(one, job_id=one.job_id) for one in others]
    core = two_hosts(*others, *jobs, WANTED, running(WANTED))
    assert not core.binds(WANTED)
    assert core.cancels(WANTED) == [("7", True)]
    core.see(running(WANTED, at=("n2",)))
    assert core.binds(WANTED) == [("p1", "kn2")]


def test_a_pod_that_is_about_to_end_is_waited_for_P11() -> None:
    """Simulator: its host was excluded for ever."""
    other = pod("o1", spec=FULL, node_name="kn1", job_id="1", terminating=True)
    ended = job(other, state="CANCELLED", job_id="1", slurm_nodes=("n1",))
    core = two_hosts(other, ended, WANTED, running(WANTED))
    assert not core.workload_wants(WANTED, Bind, CancelJob)
    core.see(replace(other, ended=True))
    assert core.binds(WANTED) == [("p1", "kn1")]


def test_a_bound_member_does_not_take_room_from_its_gang_G1() -> None:
    """Simulator: the gang gave up its own job."""
    a, b = gang_pod("a", spec=FULL), gang_pod("b", spec=FULL)
    core = two_hosts(a, b, running(a, b, at=("n1", "n2")))
    of_a, (_, node_of_b) = core.binds(a)
    core.see(replace(b, node_name=node_of_b, job_id="7"))
    assert not core.cancels(a)
    assert core.binds(a) == [of_a]


def test_no_pod_is_bound_to_a_job_that_is_being_replaced_P17() -> None:
    """Also where a process was killed between the mark and the cancel."""
    core = two_hosts(WANTED, running(WANTED, identity=identity(WANTED, replaced=True)))
    assert not core.binds(WANTED)
    assert core.cancels(WANTED)


def watching(*rows: Row, **chosen: Any) -> Core:
    """Two hosts, with all Pods watched: those of others take 11 of the 16 CPUs of kn1."""
    core = two_hosts(*rows, watch_all_pods=True, **chosen)
    begun, ended = listing(OTHER_PODS)
    core.see(begun, Taken("kn1", (("cpu", 11_000), ("pods", 3))), ended)
    return core


def test_pods_of_others_exclude_a_host_where_they_leave_too_little_P28() -> None:
    """Each Node by itself; `--node-overhead` is the same for all."""
    assert watching(WANTED).submission(WANTED).excluded == ("n1",)


def test_the_slurmd_pod_is_not_counted_twice_P28() -> None:
    wanted = pod(spec=replace(BIG, requests=(("cpu", 5_000), ("memory", GIB))))
    assert watching(wanted, slurmd(10_000)).submission(wanted).excluded == ()


def test_a_job_is_replaced_when_a_pod_of_others_came_first_P28() -> None:
    """The kubelet would answer OutOfcpu."""
    core = watching(WANTED, running(WANTED))
    assert not core.binds(WANTED)
    assert core.cancels(WANTED) == [("7", True)]
    core.see(Taken("kn1", (("cpu", 1_000), ("pods", 1))))
    assert core.binds(WANTED)


def test_a_pod_that_fits_nowhere_is_decided_again_when_others_leave_P28() -> None:
    """Pods on a Node that is no host decide no key."""
    core = watching(WANTED)
    core.see(Taken("kn2", (("cpu", 11_000), ("pods", 1))))
    assert core.see(Taken("elsewhere", (("cpu", 1), ("pods", 1)))) == []
    core.see(Taken("kn1", ()), Taken("kn2", (("cpu", 16_000), ("pods", 1))))
    assert core.submission(WANTED).excluded == ("n2",)


def test_nothing_is_written_for_a_pod_before_all_pods_were_listed_P28() -> None:
    """Until then a full Node looks empty."""
    core = two_hosts(WANTED, watch_all_pods=True)
    key = workload_key(next(iter(core.graph.workloads.index.pods)))
    (kept,) = core.reconciler.standing[key].kept
    assert kept.why == "not listed yet: other_pods"


def two_at_once(*rows: Row) -> tuple[Core, Pod, Pod]:
    """Two jobs get host n1, where one of their Pods has room beside the slurmd Pod."""
    first, second = pod("a", spec=BIG), pod("b", spec=BIG)
    core = two_hosts(first, second, slurmd(5_000), *rows)
    core.see(running(first, job_id="1"), running(second, job_id="2"))
    return core, first, second


def test_of_two_jobs_that_arrive_together_one_pod_is_bound_and_the_other_goes_on_P28() -> None:
    """Both fit before one of them is bound. The kubelet would answer OutOfcpu to the second."""
    core, first, second = two_at_once()
    assert core.binds(first) == [("a", "kn1")]
    assert not core.binds(second)
    assert core.cancels(second) == [("2", True)]
    core.see(replace(first, node_name="kn1", job_id="1"))
    assert core.cancels(second) == [("2", True)]


def test_the_job_that_arrived_first_keeps_the_room_whatever_its_number_P28() -> None:
    """Its binding may be on its way."""
    first, second = pod("a", spec=BIG), pod("b", spec=BIG)
    core = two_hosts(first, second, slurmd(5_000), running(second, job_id="2"))
    core.see(running(first, job_id="1"))
    assert core.binds(second) == [("b", "kn1")]
    assert core.cancels(first) == [("1", True)]


@pytest.mark.parametrize("leaves", ["its job ends", "it is being deleted", "it is gone"])
def test_a_pod_that_comes_no_more_leaves_its_room_to_the_next_P28(leaves: str) -> None:
    core, first, second = two_at_once()
    match leaves:
        case "its job ends":
            core.see(job(first, state="CANCELLED", job_id="1", slurm_nodes=("n1",)))
        case "it is being deleted":
            core.see(replace(first, terminating=True))
        case _:
            core.see(deleted("pods", first))
    assert core.binds(second) == [("b", "kn1")]


def test_a_job_that_is_marked_as_replaced_keeps_its_turn_until_it_ends_P28() -> None:
    """Simulator, seed 9526655: the mark moved it behind the others, which were not asked again."""
    core, first, second = two_at_once()
    assert core.cancels(second)
    marked = running(first, job_id="1", identity=identity(first, replaced=True))
    core.see(marked)
    core.see(replace(second, labels=(("asked", "again"),)))
    assert core.cancels(second)
    core.see(replace(marked, state=frozenset({"CANCELLED"})))
    assert core.binds(second) == [("b", "kn1")]


def test_a_job_that_moves_to_another_host_leaves_its_room_to_the_next_P28() -> None:
    core, first, second = two_at_once()
    assert core.cancels(second)
    core.see(running(first, job_id="1", at=("n2",)))
    assert core.binds(second) == [("b", "kn1")]


def test_two_pods_with_room_for_both_are_bound_at_once_P28() -> None:
    small = replace(BIG, requests=(("cpu", 5_000), ("memory", GIB)))
    first, second = pod("a", spec=small), pod("b", spec=small)
    core = two_hosts(first, second, slurmd(5_000))
    core.see(running(first, job_id="1"), running(second, job_id="2"))
    assert core.binds(first) == [("a", "kn1")]
    assert core.binds(second) == [("b", "kn1")]


def test_a_gang_brings_one_pod_to_each_host_P28() -> None:
    a, b = gang_pod("a", spec=BIG), gang_pod("b", spec=BIG)
    core = two_hosts(a, b, WANTED, running(a, b, at=("n1", "n2")))
    core.see(running(WANTED, job_id="8"))
    assert core.binds(WANTED) == [("p1", "kn1")]
