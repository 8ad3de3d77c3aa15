"""Writes that exclude each other, and bindings with an unknown result."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sunk_sync.controller.outbox import PUSH_LIMIT_S
from sunk_sync.controller.workqueue import Limits
from sunk_sync.core.model.actions import Action, AnswerGate, Bind, Drain, SetWeight, Undrain
from sunk_sync.core.model.facts import Attempt, BindTried, Reference, reference_of
from sunk_sync.core.model.lock_actions import AnswerLock, Unlock
from sunk_sync.core.model.node_set import Stamp
from sunk_sync.core.model.node_set_actions import Condemn, CreatePod, DeleteNode, DeletePod
from sunk_sync.core.model.outcomes import Done, Outcome, Unsure
from sunk_sync.core.model.timing import BINDING_S
from tests.kit.build import identity, pod
from tests.kit.clock import in_virtual_time
from tests.kit.node_sets import node_set, plan
from tests.kit.outbox import CANCEL, OTHER, SUBMIT, Bench, on_bench, refused, unsure

BIND = Bind(Reference("Pod", "ns", "p1", "u1"), "kn1", "7", "n1")
NODE = Reference("Node", "", "kn1", "u1")
LOCKED = AnswerLock(call=1, slurm_node="n1", node_name="kn1", go=True)
DELETE = DeletePod(Reference("Pod", "slurm", "cpu-0", "u1"), "scale-in", drained=True)
GROWING = node_set(3)
CPU_0, CPU_2, CPU_3 = (
    CreatePod(reference_of(GROWING), f"cpu-{number}", GROWING, plan(GROWING))
    for number in (0, 2, 3)
)
FORGET_0, FORGET_1 = (DeleteNode(f"cpu-{number}", Stamp("s", "shape")) for number in (0, 1))
END_0, END_1, STAY_0 = (
    Condemn(Reference("Pod", "slurm", f"cpu-{number}", f"u{number}"), why)
    for number, why in ((0, "scale-in"), (1, "scale-in"), (0, ""))
)
GO = AnswerGate(call=1, slurm_node="n1", go=True, why="")


@on_bench
async def test_a_submission_without_an_answer_may_have_happened_F2(bench: Bench) -> None:
    """In seed 60863 it was sent again at once, though its job existed."""
    bench.jobs.seconds = 2 * PUSH_LIMIT_S
    await bench.want_for(PUSH_LIMIT_S + 1, SUBMIT)
    bench.want()
    (report,) = bench.reports
    attempt = Attempt(SUBMIT.identity.workload, 1000 + PUSH_LIMIT_S)
    assert report.outcome == Unsure(SUBMIT, "TimeoutError: ", seen=(attempt,))


@on_bench
async def test_a_binding_without_an_answer_may_have_happened_P29(bench: Bench) -> None:
    bench.kube.answers = [OSError("cut")]
    await bench.want_for(0.1, BIND)
    bench.want()
    (report,) = bench.reports
    assert report.outcome == Unsure(BIND, "OSError: cut", seen=(BindTried("u1", "7", 1000, "n1"),))


@on_bench
async def test_no_pod_is_bound_to_a_job_whose_cancel_is_in_flight(bench: Bench) -> None:
    """In seed 60133 the reason for the cancel had passed."""
    bench.jobs.seconds = 1
    await bench.want_for(0.1, CANCEL)
    await bench.want_for(0.8, BIND)
    assert not bench.kube.actions
    await asyncio.sleep(1)
    assert bench.kube.actions == [BIND]


@on_bench
async def test_no_pod_is_deleted_while_the_drain_of_its_slurm_node_is_lifted_N8(
    bench: Bench,
) -> None:
    """Simulator 9305720: a person took the pending deletion away, and the NodeSet set it again."""
    bench.slurm.seconds = 1
    await bench.want_for(0.1, Undrain("cpu-0", "lifted"))
    await bench.want_for(0.8, DELETE)
    assert not bench.kube.actions
    await asyncio.sleep(1)
    assert bench.kube.actions == [DELETE]


@pytest.mark.parametrize(
    ("answer", "waits_s"), [(Done, 3.0), (refused, 3.0), (unsure, 3.0 + BINDING_S)]
)
@on_bench
async def test_a_lower_name_that_gets_free_waits_for_the_pod_that_is_on_its_way_N1(
    bench: Bench, answer: Callable[[Action], Outcome], waits_s: float
) -> None:
    """Simulator 9305826: both were made, and one Pod was too many."""
    bench.kube.seconds = 3
    bench.kube.answers = [answer]
    await bench.want_for(0.1, CPU_2)
    await bench.want_for(waits_s + 0.1, CPU_0)
    assert bench.kube.actions == [CPU_2, CPU_0]
    assert waits_s <= bench.kube.times[1] < waits_s + 0.1


@on_bench
async def test_a_lower_name_is_not_made_if_the_pod_on_its_way_was_enough_N1(bench: Bench) -> None:
    """The loop takes the answer in some milliseconds later."""
    bench.kube.seconds = 3
    await bench.want_for(0.1, CPU_2)
    await bench.want_for(2.94, CPU_0)
    await bench.want_for(1)
    assert bench.kube.actions == [CPU_2]


@pytest.mark.parametrize(
    ("answer", "waits_s"),
    [
        (Done, 3.0),
        (unsure, 3.0 + BINDING_S),
        (lambda action: Unsure(action, "waiting job 4 requires it", unsent=True), 3.0),
    ],
    ids=["deleted", "in doubt", "not sent"],
)
@on_bench
async def test_no_pod_is_made_while_the_record_of_its_name_is_being_deleted_N10(
    bench: Bench, answer: Callable[[Action], Outcome], waits_s: float
) -> None:
    """Simulator 9314999: the record was deleted under the new Pod, which then had to go too."""
    bench.slurm.seconds = 3
    bench.slurm.answers = [answer]
    await bench.want_for(0.1, FORGET_0, FORGET_1)
    await bench.want_for(waits_s + 0.2, CPU_0)
    assert bench.kube.actions == [CPU_0]
    assert waits_s <= bench.kube.times[0] < waits_s + 0.2


@pytest.mark.parametrize(
    "write",
    [Drain("cpu-0", "k8s: node not ready"), SetWeight("cpu-0", 7, None, "own")],
    ids=["a drain", "a weight"],
)
@in_virtual_time
async def test_no_write_meets_a_record_that_is_being_deleted_N10(write: Action) -> None:
    """Slurm would refuse it: the answer to the deletion shows that nothing is to be written."""
    bench = Bench(slurm=Limits(concurrency=3, batch=1, leisurely=3))
    bench.slurm.seconds = 1
    await bench.want_for(0.1, FORGET_0)
    await bench.want_for(0.8, FORGET_0, write)
    assert bench.slurm.actions == [FORGET_0]
    bench.want()
    await asyncio.sleep(2)
    assert bench.slurm.actions == [FORGET_0]


@in_virtual_time
async def test_a_record_is_deleted_after_the_answer_to_its_drain_N10() -> None:
    bench = Bench(slurm=Limits(concurrency=3, batch=1, leisurely=3))
    bench.slurm.seconds = 1
    await bench.want_for(0.1, Drain("cpu-0", "k8s: pod terminated"))
    await bench.want_for(0.8, Drain("cpu-0", "k8s: pod terminated"), FORGET_0)
    assert FORGET_0 not in bench.slurm.actions
    await asyncio.sleep(1)
    assert FORGET_0 in bench.slurm.actions


@in_virtual_time
async def test_pods_that_are_all_wanted_do_not_wait_for_each_other_N1() -> None:
    bench = Bench(kube=Limits(concurrency=3, batch=1, leisurely=3))
    bench.kube.seconds = 3
    await bench.want_for(0.1, CPU_2, CPU_3)
    await bench.want_for(0.1, CPU_2, CPU_3, CPU_0)
    assert bench.kube.actions == [CPU_2, CPU_3, CPU_0]


@on_bench
async def test_another_pod_is_condemned_only_after_the_one_on_its_way_N6(bench: Bench) -> None:
    """Simulator 9310424: the first had just got ready, and for a moment no Pod was to stay."""
    bench.kube.seconds = 3
    await bench.want_for(0.1, END_1)
    await bench.want_for(2.94, END_0)
    await bench.want_for(1)
    assert bench.kube.actions == [END_1]
    await bench.want_for(0.1, END_1)
    await bench.want_for(3.3, END_0)
    assert bench.kube.actions == [END_1, END_1, END_0]


@in_virtual_time
async def test_a_pod_that_may_stay_after_all_is_told_at_once_N9() -> None:
    bench = Bench(kube=Limits(concurrency=3, batch=1, leisurely=3))
    bench.kube.seconds = 3
    await bench.want_for(0.1, END_1)
    await bench.want_for(0.1, STAY_0)
    assert bench.kube.actions == [END_1, STAY_0]


@on_bench
async def test_no_job_is_cancelled_while_a_binding_to_it_is_in_flight(bench: Bench) -> None:
    """In seed 60294 its Pod counted as unbound."""
    bench.kube.seconds = 3
    await bench.want_for(0.1, BIND)
    bench.want(CANCEL)
    bench.outbox.sweep()
    await asyncio.sleep(2.8)
    assert not bench.jobs.actions
    await asyncio.sleep(1)
    await bench.want_for(2)
    bench.outbox.sweep()
    assert not bench.outbox._slots
    assert bench.jobs.actions == [CANCEL]


@pytest.mark.parametrize("landed_s", [0.21, 0.24, 0.259])
@on_bench
async def test_a_binding_is_known_before_its_job_ends_P29(bench: Bench, landed_s: float) -> None:
    """The cancel was decided before the answer, which ends it."""
    bench.kube.seconds = landed_s
    await bench.want_for(0.01, BIND)
    await bench.want_for(landed_s - 0.01 + 0.04, CANCEL)
    await bench.want_for(1)
    assert not bench.jobs.actions


@on_bench
async def test_a_gang_is_not_submitted_again_before_the_last_answer_G1(bench: Bench) -> None:
    """In seed 220531 its members changed meanwhile, and two of its jobs ran."""
    bench.jobs.seconds = 3
    await bench.want_for(0.1, SUBMIT)
    await bench.want_for(2.5, replace(SUBMIT, identity=identity(pod(), pod("other"))))
    assert bench.jobs.actions == [SUBMIT]
    await asyncio.sleep(0.42)
    await bench.want_for(5)
    bench.outbox.sweep()
    assert not bench.outbox._slots
    assert not bench.outbox._mutual_exclusion._submits
    assert bench.jobs.actions == [SUBMIT]


@pytest.mark.parametrize(("answer", "waits_s"), [(Done, 3.0), (unsure, 3.0 + BINDING_S)])
@on_bench
async def test_no_job_starts_where_a_binding_is_in_flight_or_may_still_arrive_L7(
    bench: Bench, answer: Callable[[Action], Outcome], waits_s: float
) -> None:
    """In seed 211699 the network delayed the binding until its own job had ended."""
    bench.kube.seconds = 3
    bench.kube.answers = [answer]
    await bench.want_for(0.1, BIND)
    bench.want(GO)
    await bench.want_for(waits_s + 2, replace(GO, call=2, slurm_node="n2"), key=OTHER)
    elsewhere = replace(GO, call=2, slurm_node="n2")
    assert bench.hooks.actions == [elsewhere, GO]
    begun_s, went_s = bench.hooks.times
    assert begun_s < 0.2
    assert waits_s < went_s < waits_s + 0.2


@on_bench
async def test_no_job_starts_on_a_node_that_is_being_unlocked_L3(bench: Bench) -> None:
    """The call came while the Unlock was under way; its outcome makes another verdict."""
    bench.kube.seconds = 0.5
    await bench.want_for(0.1, Unlock(NODE))
    await bench.want_for(0.3, LOCKED)
    assert not bench.hooks.actions
    await bench.want_for(0.5, LOCKED)
    assert bench.hooks.actions == [LOCKED]


@on_bench
async def test_an_unlock_without_an_answer_may_still_come_L3(bench: Bench) -> None:
    bench.kube.answers = [unsure]
    await bench.want_for(0.1, Unlock(NODE))
    await bench.want_for(BINDING_S - 1, LOCKED)
    assert not bench.hooks.actions
    await bench.want_for(2, LOCKED)
    assert bench.hooks.actions == [LOCKED]


@on_bench
async def test_a_job_that_starts_without_the_lock_waits_for_no_write_L4a(bench: Bench) -> None:
    bench.kube.seconds = 5
    await bench.want_for(0.1, Unlock(NODE))
    passed = replace(LOCKED, node_name="")
    await bench.want_for(0.1, passed)
    assert bench.hooks.actions == [passed]
