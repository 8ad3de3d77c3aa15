"""Rates of writes that only show a state: for each object and in total."""

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace

from sunk_sync.controller.pacing import EVENT_PACE_S, PACE_S, WAITING_PACE_S
from sunk_sync.controller.urgency import only_unknown
from sunk_sync.controller.workqueue import Limits
from sunk_sync.core.model.actions import (
    Action,
    GetObject,
    RecordEvent,
    SetConditions,
    SetMetadata,
    SetScheduled,
)
from sunk_sync.core.model.condition import Condition, WaitReason
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT, EVENT_LOCK_LATE
from sunk_sync.core.model.facts import Reference
from tests.kit.clock import in_virtual_time
from tests.kit.outbox import KEY, OTHER, POD, Bench, on_bench, shown, unsure

UNKNOWN = shown("", "Unknown")


@on_bench
async def test_a_write_undone_before_its_answer_waits_for_its_pace_M1(bench: Bench) -> None:
    bench.kube.seconds = 0.1
    await bench.change_facts_in_flight(shown("a"), shown("a"), after_s=0.05)
    assert bench.kube.times == [0, pytest.approx(0.1 + PACE_S)]


@pytest.mark.parametrize(
    ("desired", "times"),
    [
        (shown("a"), [0, 1]),
        (shown("", "Unknown"), [0, 1]),
        (SetMetadata(POD, "m", (), ()), [0, 1]),
        (GetObject("Pod", "slurm", "p", 0.0), [0, 0.3]),
    ],
    ids=["conditions", "unknown", "metadata", "a read"],
)
@on_bench
async def test_an_undone_write_waits_M1(bench: Bench, desired: Action, times: list[float]) -> None:
    await bench.want_for(0.3, desired)
    bench.outbox.facts_changed(KEY)
    await bench.want_for(5, desired)
    assert bench.kube.times == times


@on_bench
async def test_conditions_of_one_object_are_written_at_most_once_a_second_M1(bench: Bench) -> None:
    for number in range(25):
        await bench.want_for(0.1, shown(str(number)))
    await asyncio.sleep(3)
    assert bench.kube.times == [0, PACE_S, 2 * PACE_S, 3 * PACE_S]
    assert bench.kube.actions[-1] == shown("24")


@on_bench
async def test_the_pace_holds_when_a_write_ends_and_returns_M1(bench: Bench) -> None:
    for number in range(3):
        await bench.want_for(0.2, shown(str(number)))
        bench.want()
        bench.outbox.sweep()
    await asyncio.sleep(1)
    await bench.want_for(3, shown("last"))
    times = bench.kube.times
    assert all(after - before >= PACE_S for before, after in pairwise(times))


@pytest.mark.parametrize(
    ("reason", "after_s"), [("Unschedulable", WAITING_PACE_S), ("SlurmJobCancelled", PACE_S)]
)
@on_bench
async def test_a_reason_waits_for_a_minute_P26(
    bench: Bench, reason: WaitReason, after_s: float
) -> None:
    """A cancelled job is shown soon (P17)."""
    await bench.want_for(0.5, SetScheduled(POD, "Unschedulable", "waits"))
    bench.outbox.facts_changed(KEY)
    await bench.want_for(2 * WAITING_PACE_S, SetScheduled(POD, reason, "otherwise"))
    assert bench.kube.times == [0, after_s]


@on_bench
async def test_a_new_pod_of_the_same_name_gets_its_reason_at_once_P26(bench: Bench) -> None:
    """A StatefulSet gives the next Pod the same name."""
    await bench.want_for(5, SetScheduled(POD, "Unschedulable", "waits"))
    bench.want()
    again = replace(POD, uid="another")
    await bench.want_for(
        2 * WAITING_PACE_S, SetScheduled(again, "Unschedulable", "waits"), key=OTHER
    )
    assert bench.kube.times == [0, 5]


@on_bench
async def test_a_reason_that_was_not_written_starts_no_minute_P26(bench: Bench) -> None:
    bench.kube.answers = [unsure]
    await bench.want_for(0.05, SetScheduled(POD, "Unschedulable", "waits: None"))
    bench.outbox.facts_changed(KEY)
    await bench.want_for(5, SetScheduled(POD, "Unschedulable", "waits: Resources"))
    assert len(bench.kube.actions) == 2


@in_virtual_time
async def test_unknown_is_written_at_most_a_hundred_times_a_second_M2() -> None:
    bench = Bench(kube=Limits(concurrency=50, batch=1, leisurely=50))
    for number in range(300):
        pod = Reference("Node", "", f"n{number}", "u")
        bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
    await asyncio.sleep(10)
    assert len(bench.kube.times) == 300
    assert bench.kube.times[-1] == pytest.approx(2.99, abs=0.02)


@on_bench
async def test_after_a_second_the_rate_of_unknown_is_free_again_M2(bench: Bench) -> None:
    for number in range(100):
        pod = Reference("Node", "", f"n{number}", "u")
        bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
    await asyncio.sleep(1.1)
    await bench.want_for(5, shown("", "Unknown"))
    assert bench.kube.times[-1] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("first", "then"), [(UNKNOWN, shown("a")), (shown("a"), UNKNOWN)], ids=["known", "unknown"]
)
@pytest.mark.parametrize("after_s", [0.05, 0.3], ids=["in flight", "answered"])
@on_bench
async def test_any_other_state_is_paced_M1_M2(
    bench: Bench, first: Action, then: Action, after_s: float
) -> None:
    """The next state comes while the write of the first one lasts, or after its answer."""
    bench.kube.seconds = 0.1
    await bench.want_for(after_s, first)
    await bench.want_for(5, then)
    assert bench.kube.times == [0, pytest.approx(0.1 + PACE_S)]


@on_bench
async def test_an_event_whose_text_changes_each_second_is_recorded_once_a_minute(
    bench: Bench,
) -> None:
    for number in range(130):
        await bench.want_for(1, RecordEvent(POD, EVENT_LOCK_LATE, f"{number} Pods live there"))
    assert bench.kube.times == [0, EVENT_PACE_S, 2 * EVENT_PACE_S]
    assert bench.kube.actions[1] == RecordEvent(POD, EVENT_LOCK_LATE, "60 Pods live there")


@on_bench
async def test_another_event_on_the_same_object_does_not_wait(bench: Bench) -> None:
    await bench.want_for(1, RecordEvent(POD, EVENT_LOCK_LATE, "text"))
    await bench.want_for(1, RecordEvent(POD, EVENT_CONFLICT, "text"))
    assert bench.kube.times == [0, 1]


def test_conditions_wait_as_unknown_ones_only_if_all_of_them_are_M2() -> None:
    """While slurmctld does not say whether jobs run, it says that the node is drained."""
    running = Condition("SlurmRunning", "Unknown", "NotKnownYet", "")
    drained = Condition("SlurmDrain", "True", "Drained", "fan")
    of = Reference("Node", "", "kn1", "u1")
    shown = [SetConditions(of, one) for one in ((running,), (drained, running), ())]
    assert [only_unknown(one) for one in shown] == [True, False, False]
