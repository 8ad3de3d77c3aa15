"""Rates of writes that only show a state: per object and in all."""

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace

from sunk_sync.controller.pacing import PACE_S, WAITING_PACE_S
from sunk_sync.controller.workqueue import Limits
from sunk_sync.core.model.actions import (
    Action,
    GetObject,
    SetMetadata,
    SetScheduled,
)
from sunk_sync.core.model.facts import Reference
from tests.kit.outbox import KEY, OTHER, POD, Bench, run_bench, shown, unsure


def test_a_write_undone_before_its_answer_waits_for_the_pace_of_its_object_M1() -> None:
    """Conditions once more, a second after the answer."""

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = 0.1
        await bench.change_facts_in_flight(shown("a"), shown("a"), after_s=0.05)

    assert run_bench(steps).kube.times == [0, pytest.approx(0.1 + PACE_S)]


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
def test_a_write_that_somebody_undoes_is_repeated_once_a_second_M1(
    desired: Action, times: list[float]
) -> None:
    """Another controller that takes our conditions away is no reason to write faster."""

    async def steps(bench: Bench) -> None:
        bench.want(desired)
        await asyncio.sleep(0.3)
        bench.outbox.facts_changed(KEY)
        bench.want(desired)
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times == times


def test_conditions_of_one_object_are_written_at_most_once_a_second_M1() -> None:
    """The latest state wins; the first goes at once."""

    async def steps(bench: Bench) -> None:
        for number in range(25):
            bench.want(shown(str(number)))
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)

    bench = run_bench(steps)
    assert bench.kube.times == [0, PACE_S, 2 * PACE_S, 3 * PACE_S]
    assert bench.kube.actions[-1] == shown("24")


def test_the_pace_holds_across_a_write_that_ended_M1() -> None:
    """Dropped and wanted again within the second: still one write a second."""

    async def steps(bench: Bench) -> None:
        for number in range(3):
            bench.want(shown(str(number)))
            await asyncio.sleep(0.2)
            bench.want()
            bench.outbox.sweep()
        await asyncio.sleep(1)
        bench.want(shown("last"))
        await asyncio.sleep(3)

    times = run_bench(steps).kube.times
    assert all(after - before >= PACE_S for before, after in pairwise(times))


@pytest.mark.parametrize(
    ("reason", "after_s"), [("Unschedulable", WAITING_PACE_S), ("SlurmJobCancelled", PACE_S)]
)
def test_why_a_pod_waits_is_written_once_a_minute_but_another_reason_soon_P26(
    reason: str, after_s: float
) -> None:
    """P17: a cancelled job is shown soon; another reason of Slurm may wait."""

    async def steps(bench: Bench) -> None:
        bench.want(SetScheduled(POD, "Unschedulable", "waits"))
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        bench.want(SetScheduled(POD, reason, "otherwise"))
        await asyncio.sleep(2 * WAITING_PACE_S)

    assert run_bench(steps).kube.times == [0, after_s]


def test_a_new_pod_of_the_same_name_gets_its_reason_at_once_P26() -> None:
    """The minute is that of one Pod; a StatefulSet gives the next one the same name."""

    async def steps(bench: Bench) -> None:
        bench.want(SetScheduled(POD, "Unschedulable", "waits"))
        await asyncio.sleep(5)
        bench.want()
        again = replace(POD, uid="another")
        bench.want(SetScheduled(again, "Unschedulable", "waits"), key=OTHER)
        await asyncio.sleep(2 * WAITING_PACE_S)

    assert run_bench(steps).kube.times == [0, 5]


def test_a_reason_that_did_not_arrive_starts_no_minute_P26() -> None:
    """A conflict with another write to the Pod, and then Slurm gives another reason."""

    async def steps(bench: Bench) -> None:
        bench.kube.answers = [unsure]
        bench.want(SetScheduled(POD, "Unschedulable", "waits: None"))
        await asyncio.sleep(0.05)
        bench.outbox.facts_changed(KEY)
        bench.want(SetScheduled(POD, "Unschedulable", "waits: Resources"))
        await asyncio.sleep(5)

    assert len(run_bench(steps).kube.actions) == 2


def test_writes_that_only_say_unknown_are_a_hundred_a_second_M2() -> None:
    """And all of them are written."""

    async def steps(bench: Bench) -> None:
        for number in range(300):
            pod = Reference("Node", "", f"n{number}", "u")
            bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
        await asyncio.sleep(10)

    bench = run_bench(steps, kube=Limits(concurrency=50, batch=1, leisurely=50))
    assert len(bench.kube.times) == 300
    assert bench.kube.times[-1] == pytest.approx(2.99, abs=0.02)


def test_earlier_writes_take_nothing_from_the_rate_of_later_ones_M2() -> None:
    """A hundred a second, then one more at once."""

    async def steps(bench: Bench) -> None:
        for number in range(100):
            pod = Reference("Node", "", f"n{number}", "u")
            bench.want(shown("", "Unknown", pod), key=("host", f"n{number}"))
        await asyncio.sleep(1.1)
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times[-1] == pytest.approx(1.1)


def test_after_unknown_a_known_state_waits_for_the_pace_of_its_object_M2() -> None:
    """Unknown, then an answer: one write a second and host."""

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = 0.1
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(0.05)
        bench.want(shown("idle"))
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times == [0, pytest.approx(0.1 + PACE_S)]


def test_unknown_too_waits_for_the_pace_of_its_object_M1() -> None:
    """Slurm goes blind in the second in which its last state was shown."""

    async def steps(bench: Bench) -> None:
        bench.want(shown("a"))
        await asyncio.sleep(0.3)
        bench.want(shown("", "Unknown"))
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times == [0, 1]
