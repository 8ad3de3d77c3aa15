"""Answers to writes: done, refused, undone meanwhile, forgotten by Slurm."""

import asyncio

import pytest
from msgspec.structs import replace

from sunk_sync.controller.backoff import BACKOFF_FIRST_S
from sunk_sync.controller.settling import REFUSED_AGAIN_S
from sunk_sync.core.model.actions import Action, GetObject, RecordEvent, Relist, SetMetadata
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from tests.kit.outbox import (
    AGAIN,
    CANCEL,
    DRAIN,
    KEY,
    LIFT,
    POD,
    SUBMIT,
    Answer,
    Bench,
    on_bench,
    refused,
)


@on_bench
async def test_a_submitted_job_is_not_submitted_again_as_another_kind(bench: Bench) -> None:
    """The other kind was decided before the answer to the submission."""
    first = replace(SUBMIT, kind="allocation")
    bench.jobs.seconds = 1
    await bench.want_for(0.1, first)
    bench.outbox.facts_changed(KEY)
    await bench.want_for(5, replace(first, kind="script"))
    assert bench.jobs.actions == [first]


@on_bench
async def test_a_cancel_that_slurm_forgot_is_sent_once_more_P21(bench: Bench) -> None:
    """In seed 241117 slurmctld was killed a moment later, and the job ran on."""
    bench.want(CANCEL)
    await bench.sweep_for(31)
    await bench.want_for(60)
    bench.outbox.sweep()
    assert bench.jobs.actions == [CANCEL, CANCEL]
    assert 30 <= bench.jobs.times[1] < 32


@on_bench
async def test_a_job_missing_from_a_listing_is_submitted_once_more_F1(bench: Bench) -> None:
    """In seed 551917 a listing without it was newer than its slow answer."""
    bench.want(SUBMIT)
    await bench.sweep_for(31)
    await bench.want_for(60)
    bench.outbox.sweep()
    first_s, again_s = bench.jobs.times
    assert first_s == 0
    assert 30 <= again_s < 32


@on_bench
async def test_a_listing_that_did_not_count_is_requested_once_more_P21(bench: Bench) -> None:
    """In seed 290258 a watch broke off during the listing."""
    bench.want(Relist("pods", 1.0))
    await bench.sweep_for(31)
    first_s, again_s = bench.kube.times
    assert first_s == 0
    assert 30 <= again_s < 32


@on_bench
async def test_a_refused_write_is_sent_again_only_after_a_fact_of_its_key(bench: Bench) -> None:
    bench.slurm.answers = [refused, refused]
    for _ in range(3):
        await bench.want_for(10, DRAIN)
    bench.outbox.facts_changed(KEY)
    bench.want(DRAIN)
    bench.outbox.facts_changed(("host", "unknown"))
    await asyncio.sleep(10)
    assert bench.slurm.times == [0, 30]


@pytest.mark.parametrize(
    ("answers", "seconds", "sweep_s", "times"),
    [
        pytest.param([], 0, 60, [0], id="done"),
        pytest.param([refused], 0, 60, [0, REFUSED_AGAIN_S], id="refused"),
        pytest.param([refused], 50, 20, [0, 360], id="refused after 50 s"),
    ],
)
@on_bench
async def test_only_a_refusal_is_retried_after_five_minutes_without_a_fact(
    bench: Bench, answers: list[Answer], seconds: int, sweep_s: int, times: list[float]
) -> None:
    """Permissions change without a fact."""
    bench.slurm.answers, bench.slurm.seconds = [*answers], seconds
    bench.want(DRAIN)
    for _ in range(round(2 * REFUSED_AGAIN_S / sweep_s)):
        await asyncio.sleep(sweep_s)
        bench.outbox.sweep()
    assert bench.slurm.times == times


@on_bench
async def test_a_dropped_refusal_is_not_retried(bench: Bench) -> None:
    bench.slurm.answers = [refused]
    await bench.want_for(1, DRAIN)
    await bench.want_for(400)
    bench.outbox.sweep()
    await asyncio.sleep(1)
    assert bench.slurm.times == [0]


@pytest.mark.parametrize(
    ("action", "times"),
    [
        (RecordEvent(POD, EVENT_CONFLICT, "text"), [0]),
        (Relist("nodes", 1.0), [0]),
        (GetObject("Pod", "slurm", "p", 0.0), [0, 1, 2]),
        (SetMetadata(POD, "m", (), ()), [0, 1, 2]),
    ],
    ids=["an Event", "a listing", "a read", "a write"],
)
@on_bench
async def test_facts_do_not_repeat_events(bench: Bench, action: Action, times: list[float]) -> None:
    for _ in range(3):
        await bench.want_for(1, action)
        bench.outbox.facts_changed(KEY)
    assert bench.kube.times == times


@on_bench
async def test_a_write_that_a_watch_event_ended_before_its_answer_can_return(bench: Bench) -> None:
    """The watch is often faster than the answer."""
    bench.slurm.seconds = 1
    await bench.change_facts_in_flight(DRAIN, after_s=0.5)
    await bench.want_for(5, DRAIN)
    assert bench.slurm.times == [0, 5.5]


@pytest.mark.parametrize(("then", "after_s"), [(DRAIN, BACKOFF_FIRST_S), (LIFT, 0)])
@on_bench
async def test_a_write_undone_before_its_answer_is_repeated_later_than_another_is_sent(
    bench: Bench, then: Action, after_s: float
) -> None:
    """The fact that it is undone is older than the answer."""
    bench.slurm.seconds = 1
    await bench.change_facts_in_flight(DRAIN, then, after_s=0.5)
    assert bench.slurm.times == [0, 1 + after_s]


@on_bench
async def test_a_write_that_ends_with_its_answer_is_not_repeated(bench: Bench) -> None:
    bench.slurm.seconds = 1
    await bench.want_for(0.5, DRAIN)
    bench.outbox.facts_changed(KEY)
    await asyncio.sleep(0.6)
    await bench.want_for(5)
    assert bench.slurm.times == [0]


@on_bench
async def test_an_event_whose_cause_comes_back_is_recorded_again(bench: Bench) -> None:
    for _ in range(2):
        await bench.want_for(1, RecordEvent(POD, EVENT_CONFLICT, "text"))
        await bench.want_for(1)
    assert bench.kube.times == [0, 2]


@on_bench
async def test_an_old_refusal_does_not_disturb_the_write_in_flight(bench: Bench) -> None:
    bench.slurm.answers = [refused]
    await bench.want_for(REFUSED_AGAIN_S, DRAIN)
    bench.slurm.seconds = 10
    await bench.want_for(1, AGAIN)
    bench.outbox.sweep()
    await asyncio.sleep(60)
    assert bench.slurm.actions == [DRAIN, AGAIN]


@on_bench
async def test_a_fact_during_an_event_in_flight_does_not_repeat_it(bench: Bench) -> None:
    event = RecordEvent(POD, EVENT_CONFLICT, "two claims")
    bench.kube.seconds = 1
    await bench.want_for(0.5, event)
    bench.outbox.facts_changed(KEY)
    await bench.want_for(5, event)
    assert bench.kube.times == [0]
