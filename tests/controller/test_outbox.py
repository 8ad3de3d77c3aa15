"""Desired writes: one in flight for each target, the latest wins, no slot is left over."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from sunk_sync.controller.batch import Cause
from sunk_sync.controller.outbox import PUSH_LIMIT_S, WriteReport
from sunk_sync.controller.pacing import PACE_S
from sunk_sync.controller.slots import SWEEP_STEP
from sunk_sync.controller.workqueue import Limits, Writer
from sunk_sync.core.model.actions import Action, Drain, GetObject, target_of
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.outcomes import Done, Outcome, Unsure
from tests.kit.build import identity, pod
from tests.kit.clock import in_virtual_time, now
from tests.kit.outbox import AGAIN, DRAIN, KEY, LIFT, ONE, OTHER, SUBMIT, Bench, on_bench, shown

EDITED = replace(SUBMIT, identity=replace(SUBMIT.identity, digest="another"))
MOVED = replace(SUBMIT, excluded=("n1",), identity=replace(SUBMIT.identity, hosts="another"))


@on_bench
async def test_a_write_is_pushed_at_once_and_reported_with_its_cause(bench: Bench) -> None:
    bench.slurm.seconds = 0.25
    await bench.want_for(1, DRAIN)
    cause = Cause(KEY, "for a test", 1000.0)
    assert bench.reports == [WriteReport(Done(DRAIN), cause, 1000.25, 1000.0)]


@on_bench
async def test_a_submission_is_reported_when_it_is_answered_not_with_the_slowest_of_its_batch_F2(
    bench: Bench,
) -> None:
    """In seed 9540757 a Pod was bound by an old job meanwhile."""
    slow = replace(SUBMIT, description=JobDescription(cpus=3), identity=identity(pod("p2")))
    bench.jobs.slow_s[target_of(slow)] = 30
    bench.outbox.gather(on=True)
    bench.want(SUBMIT)
    bench.want(slow, key=OTHER)
    bench.outbox.gather(on=False)
    await asyncio.sleep(1)
    assert bench.jobs.times == [0, 0]
    assert [report.outcome for report in bench.reports] == [Done(SUBMIT)]
    assert bench.outbox.in_flight == 1
    await asyncio.sleep(30)
    assert [report.outcome for report in bench.reports] == [Done(SUBMIT), Done(slow)]
    assert bench.outbox.in_flight == 0


@on_bench
async def test_a_write_that_is_done_is_not_repeated(bench: Bench) -> None:
    for _ in range(5):
        await bench.want_for(1, DRAIN)
    assert bench.slurm.actions == [DRAIN]


@in_virtual_time
async def test_each_target_has_one_write_in_flight_and_the_latest_write_wins() -> None:
    bench = Bench(slurm=Limits(concurrency=5, batch=1, leisurely=5))
    bench.slurm.seconds = 1
    for desired in (DRAIN, AGAIN, LIFT, AGAIN, LIFT):
        await bench.want_for(0.1, desired)
    await asyncio.sleep(5)
    assert bench.slurm.actions == [DRAIN, LIFT]


@pytest.mark.parametrize(
    ("then", "stands"),
    [((SUBMIT,), True), ((MOVED,), True), ((EDITED,), False), ((), False)],
    ids=["as it was", "other exclusions", "edited", "deleted"],
)
@on_bench
async def test_a_submission_in_flight_knows_whether_it_is_desired_P13(
    bench: Bench, then: Sequence[Action], stands: bool
) -> None:
    """sunk-sync updates excluded hosts after the submission (P7)."""
    bench.jobs.seconds = 3
    assert not bench.outbox.stands(SUBMIT)
    await bench.want_for(0.1, SUBMIT)
    bench.want(*then)
    assert bench.outbox.stands(SUBMIT) == stands


@in_virtual_time
async def test_a_sweep_keeps_the_slot_of_a_write_in_flight() -> None:
    bench = Bench(slurm=Limits(concurrency=5, batch=1, leisurely=5))
    bench.slurm.seconds = 10
    await bench.want_for(0.1, DRAIN)
    bench.want()
    await bench.want_for(0.1, LIFT)
    await bench.want_for(5)
    bench.outbox.sweep()
    await bench.want_for(30, LIFT)
    assert bench.slurm.actions == [DRAIN, LIFT]
    assert bench.slurm.times == [0, 10]


@on_bench
async def test_a_write_no_longer_desired_is_dropped_with_its_slot(bench: Bench) -> None:
    bench.slurm.seconds = 1
    await bench.want_for(0, Drain("n9", "k8s: busy"), key=OTHER)
    bench.want(DRAIN)
    bench.want()
    await bench.want_for(5)
    bench.want(key=OTHER)
    bench.outbox.sweep()
    assert not bench.outbox._slots
    assert not bench.outbox._targets
    assert bench.slurm.actions == [Drain("n9", "k8s: busy")]


@on_bench
async def test_a_sweep_visits_1000_targets_and_the_next_one_continues(bench: Bench) -> None:
    """A hundred thousand at once would block the loop."""
    names = [f"n{number}" for number in range(2 * SWEEP_STEP + 1)]
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
    assert len(bench.reports) == len(names)


@on_bench
async def test_writes_in_flight_are_counted_for_both_authorities(bench: Bench) -> None:
    bench.slurm.seconds, bench.kube.seconds = 2, 3
    await bench.want_for(0.1, DRAIN, shown("a"))
    assert bench.outbox.in_flight == 2
    await bench.outbox.finish(8)
    assert (now(), bench.outbox.in_flight) == (1003, 0)


@on_bench
async def test_a_target_that_two_keys_want_in_turn_belongs_to_the_last(bench: Bench) -> None:
    await bench.want_for(2, shown("mine"))
    bench.want(shown("theirs"), key=OTHER)
    await bench.want_for(2)
    assert bench.kube.actions == [shown("mine"), shown("theirs")]
    assert bench.reports[-1].cause.key == OTHER


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("bug"), "RuntimeError: bug"),
        (RuntimeError("x" * 999), f"RuntimeError: {'x' * 186}"),
        (TimeoutError(), "TimeoutError: "),
    ],
    ids=["raises", "raises at length", "times out"],
)
@on_bench
async def test_a_push_that_raises_is_unsure(bench: Bench, answer: Exception, why: str) -> None:
    bench.slurm.answers = [answer]
    await bench.want_for(5, DRAIN)
    assert [one.outcome for one in bench.reports] == [Unsure(DRAIN, why), Done(DRAIN)]


@on_bench
async def test_a_push_that_hangs_is_unsure_after_a_minute(bench: Bench) -> None:
    bench.slurm.seconds = 1e9
    await bench.want_for(PUSH_LIMIT_S + 0.1, DRAIN)
    bench.slurm.seconds = 0
    await asyncio.sleep(5)
    assert [type(one.outcome) for one in bench.reports] == [Unsure, Done]
    assert bench.reports[0].answered_s == 1000 + PUSH_LIMIT_S


@on_bench
async def test_a_push_with_a_wrong_number_of_answers_is_unsure_for_all_writes(bench: Bench) -> None:

    async def short(actions: Sequence[Action]) -> Sequence[Outcome]:
        return [Done(action) for action in actions][:-1]

    bench.outbox.slurm._writer = Writer(short, ONE)
    await bench.want_for(0.01, DRAIN)
    assert [one.outcome for one in bench.reports] == [
        Unsure(DRAIN, "push lost count of its answers")
    ]


@on_bench
async def test_finish_starts_no_write_and_awaits_those_in_flight_F10(bench: Bench) -> None:
    bench.slurm.seconds = 2
    await bench.want_for(0.1, DRAIN)
    bench.want(Drain("n2", "x"), key=OTHER)
    await bench.outbox.finish(8)
    assert now() == 1002
    await asyncio.sleep(30)
    assert bench.slurm.actions == [DRAIN]
    assert [one.outcome for one in bench.reports] == [Done(DRAIN)]


@on_bench
async def test_finish_waits_at_most_its_grace_period_F10(bench: Bench) -> None:
    bench.slurm.seconds = 50
    await bench.want_for(0.1, DRAIN)
    await bench.outbox.finish(8)
    assert now() == pytest.approx(1008.1)
    assert bench.outbox.in_flight == 1


@on_bench
async def test_a_fact_of_a_key_whose_target_another_key_ended_writes_again(bench: Bench) -> None:
    look = GetObject("Pod", "slurm", "p", 0.0)
    await bench.want_for(1, DRAIN, look)
    bench.want(DRAIN, key=OTHER)
    bench.want(key=OTHER)
    bench.outbox.sweep()
    bench.outbox.facts_changed(KEY)
    await bench.want_for(1, DRAIN, look)
    assert bench.slurm.times == [0, 1]
    assert bench.kube.times == [0, 1]


@on_bench
async def test_a_key_may_end_a_write_whose_target_another_key_took_and_ended(bench: Bench) -> None:
    await bench.want_for(1, DRAIN)
    bench.want(DRAIN, key=OTHER)
    bench.want(key=OTHER)
    bench.outbox.sweep()
    assert not bench.outbox._slots
    bench.want()
    assert not bench.outbox._targets
    assert bench.slurm.times == [0]
