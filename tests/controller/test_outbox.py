"""Desired writes: one in flight for each target, the latest wins, nothing is left behind."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from sunk_sync.controller.outbox import PUSH_LIMIT_S, WriteReport
from sunk_sync.controller.pacing import PACE_S
from sunk_sync.controller.slots import SWEEP_STEP
from sunk_sync.controller.workqueue import Limits
from sunk_sync.core.model.actions import (
    Action,
    Drain,
    GetObject,
    SubmitJob,
)
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.outcomes import Done, Outcome, Unsure
from tests.kit.build import identity, pod
from tests.kit.clock import now
from tests.kit.outbox import AGAIN, DRAIN, KEY, LIFT, OTHER, Bench, run_bench, shown

SUBMIT = SubmitJob(name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription())
EDITED = replace(SUBMIT, identity=replace(SUBMIT.identity, digest="another"))
MOVED = replace(SUBMIT, excluded=("n1",), identity=replace(SUBMIT.identity, hosts="another"))


def test_a_write_is_pushed_at_once_and_reported_with_its_cause() -> None:
    """What the log line needs comes back with the outcome."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 0.25
        bench.want(DRAIN)
        await asyncio.sleep(1)

    bench = run_bench(steps)
    assert bench.reports == [WriteReport(Done(DRAIN), KEY, "for a test", 1000.0, 1000.25, 1000.0)]


def test_a_write_that_is_done_is_not_repeated() -> None:
    """The same desired write again, however often, is one push."""

    async def steps(bench: Bench) -> None:
        for _ in range(5):
            bench.want(DRAIN)
            await asyncio.sleep(1)

    assert run_bench(steps).slurm.actions == [DRAIN]


def test_one_write_in_flight_per_target_and_the_latest_wins() -> None:
    """A write that another replaced during a push is never sent."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for desired in (DRAIN, AGAIN, LIFT, AGAIN, LIFT):
            bench.want(desired)
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)

    bench = run_bench(steps, slurm=Limits(concurrency=5, batch=1, leisurely=5))
    assert bench.slurm.actions == [DRAIN, LIFT]


@pytest.mark.parametrize(
    ("then", "stands"),
    [((SUBMIT,), True), ((MOVED,), True), ((EDITED,), False), ((), False)],
    ids=["as it was", "other exclusions", "edited", "deleted"],
)
def test_a_submission_in_flight_knows_whether_it_is_still_desired_P13(
    then: Sequence[Action], stands: bool
) -> None:
    """It may wait for its turn; sunk-sync updates excluded hosts afterwards (P7)."""

    async def steps(bench: Bench) -> None:
        bench.jobs.seconds = 3
        assert not bench.outbox.stands(SUBMIT)
        bench.want(SUBMIT)
        await asyncio.sleep(0.1)
        bench.want(*then)
        assert bench.outbox.stands(SUBMIT) == stands

    run_bench(steps)


def test_one_write_in_flight_per_target_also_if_it_is_no_longer_desired() -> None:
    """A sweep keeps the slot of a write in flight."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 10
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        bench.want()
        bench.want(LIFT)
        await asyncio.sleep(0.1)
        bench.want()
        await asyncio.sleep(5)
        bench.outbox.sweep()
        bench.want(LIFT)
        await asyncio.sleep(30)

    bench = run_bench(steps, slurm=Limits(concurrency=5, batch=1, leisurely=5))
    assert bench.slurm.actions == [DRAIN, LIFT]
    assert bench.slurm.times == [0, 10]


def test_a_write_no_longer_desired_before_its_turn_is_dropped() -> None:
    """Nothing is pushed for it, and nothing of it is kept."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("n9", "k8s: busy"), key=OTHER)
        await asyncio.sleep(0)
        bench.want(DRAIN)
        bench.want()
        bench.want()
        await asyncio.sleep(5)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        assert not bench.outbox._targets

    assert run_bench(steps).slurm.actions == [Drain("n9", "k8s: busy")]


def test_a_sweep_looks_at_a_thousand_targets_and_the_next_goes_on() -> None:
    """A hundred thousand at once would hold up the loop."""
    names = [f"n{number}" for number in range(2 * SWEEP_STEP + 1)]

    async def steps(bench: Bench) -> None:
        for name in names:
            bench.want(Drain(name, "k8s: a"), key=("host", name))
        await asyncio.sleep(1)
        for name in names:
            bench.want(key=("host", name))
        await asyncio.sleep(PACE_S)
        left = [bench.outbox.slices()]
        for _ in range(3):
            bench.outbox.sweep()
            left.append(bench.outbox.slices())
        assert left == [3, 2, 1, 1]

    assert len(run_bench(steps).reports) == len(names)


def test_writes_in_flight_are_counted_for_both_authorities() -> None:
    """For the metric, and for the end of the process, which waits for them."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds, bench.kube.seconds = 2, 3
        bench.want(DRAIN, shown("a"))
        await asyncio.sleep(0.1)
        assert bench.outbox.in_flight == 2
        await bench.outbox.finish(8)
        assert (now(), bench.outbox.in_flight) == (1003, 0)

    run_bench(steps)


def test_a_target_handed_from_one_key_to_another_is_not_dropped() -> None:
    """A Node that two hosts show in turn: the last host that wants a write has it."""

    async def steps(bench: Bench) -> None:
        bench.want(shown("mine"))
        await asyncio.sleep(2)
        bench.want(shown("theirs"), key=OTHER)
        bench.want()
        await asyncio.sleep(2)

    bench = run_bench(steps)
    assert bench.kube.actions == [shown("mine"), shown("theirs")]
    assert bench.reports[-1].key == OTHER


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("bug"), "RuntimeError: bug"),
        (RuntimeError("x" * 999), f"RuntimeError: {'x' * 186}"),
        (TimeoutError(), "TimeoutError: "),
    ],
    ids=["raises", "raises at length", "times out"],
)
def test_a_push_that_raises_is_unsure_and_ends_no_work_queue(answer: Exception, why: str) -> None:
    """A bug there is an answer like any other."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [answer]
        bench.want(DRAIN)
        await asyncio.sleep(5)

    bench = run_bench(steps)
    assert [one.outcome for one in bench.reports] == [Unsure(DRAIN, why), Done(DRAIN)]


def test_a_push_that_hangs_is_unsure_after_a_minute() -> None:
    """Its own deadlines failed; ours does not."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1e9
        bench.want(DRAIN)
        await asyncio.sleep(PUSH_LIMIT_S + 0.1)
        bench.slurm.seconds = 0
        await asyncio.sleep(5)

    bench = run_bench(steps)
    assert [type(one.outcome) for one in bench.reports] == [Unsure, Done]
    assert bench.reports[0].answered_s == 1000 + PUSH_LIMIT_S


def test_a_push_that_loses_count_is_unsure_for_all_of_them() -> None:
    """Nobody knows which answer belongs to which."""

    async def steps(bench: Bench) -> None:
        async def short(actions: Sequence[Action]) -> Sequence[Outcome]:
            return [Done(action) for action in actions][:-1]

        bench.outbox.slurm._push = short
        bench.want(DRAIN)
        await asyncio.sleep(0.01)

    assert [one.outcome for one in run_bench(steps).reports] == [
        Unsure(DRAIN, "push lost count of its answers")
    ]


def test_finish_starts_no_write_and_waits_for_those_in_flight_F10() -> None:
    """SIGTERM: in flight finishes within its grace."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 2
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        bench.want(Drain("n2", "x"), key=OTHER)
        await bench.outbox.finish(8)
        assert now() == 1002
        await asyncio.sleep(30)

    bench = run_bench(steps)
    assert bench.slurm.actions == [DRAIN]
    assert [one.outcome for one in bench.reports] == [Done(DRAIN)]


def test_finish_waits_no_longer_than_its_grace_F10() -> None:
    """The process ends all the same."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 50
        bench.want(DRAIN)
        await asyncio.sleep(0.1)
        await bench.outbox.finish(8)
        assert now() == pytest.approx(1008.1)
        assert bench.outbox.in_flight == 1

    run_bench(steps)


def test_a_fact_of_a_key_whose_target_another_key_took_and_left_is_harmless() -> None:
    """Two keys want the target in turn; the second ends its write; a fact of the first changes."""
    look = GetObject("Pod", "slurm", "p", 0.0)

    async def steps(bench: Bench) -> None:
        bench.want(DRAIN, look)
        await asyncio.sleep(1)
        bench.want(DRAIN, key=OTHER)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN, look)
        await asyncio.sleep(1)

    bench = run_bench(steps)
    assert bench.slurm.times == [0, 1]
    assert bench.kube.times == [0, 1]


def test_a_key_may_end_a_write_whose_target_another_key_took_and_left() -> None:
    """Nothing is left of the target by then."""

    async def steps(bench: Bench) -> None:
        bench.want(DRAIN)
        await asyncio.sleep(1)
        bench.want(DRAIN, key=OTHER)
        bench.want(key=OTHER)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        bench.want()
        assert not bench.outbox._targets

    assert run_bench(steps).slurm.times == [0]
