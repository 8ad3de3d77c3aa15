"""Answers to writes: done once, refused, undone meanwhile, forgotten by Slurm."""

import asyncio

import pytest
from msgspec.structs import replace

from sunk_sync.controller.backoff import BACKOFF_FIRST_S
from sunk_sync.controller.settling import REFUSED_AGAIN_S
from sunk_sync.core.model.actions import (
    Action,
    CancelJob,
    GetObject,
    RecordEvent,
    Relist,
    SetMetadata,
    SubmitJob,
)
from sunk_sync.core.model.job_description import JobDescription
from tests.kit.build import identity, pod
from tests.kit.outbox import AGAIN, DRAIN, KEY, LIFT, POD, Bench, refused, run_bench

CANCEL = CancelJob(job_id="7", name="k8s/ns/p1/1", identity=identity(pod()), replaced=True)
SUBMIT = SubmitJob(name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription())


def test_a_job_that_was_made_is_not_made_again_in_another_shape() -> None:
    """The other shape was decided without knowing of the submission in flight."""
    first = SubmitJob(
        name="k8s/ns/p1/1",
        identity=identity(pod()),
        description=JobDescription(),
        kind="allocation",
    )

    async def steps(bench: Bench) -> None:
        bench.jobs.seconds = 1
        bench.want(first)
        await asyncio.sleep(0.1)
        bench.outbox.facts_changed(KEY)
        bench.want(replace(first, kind="script"))
        await asyncio.sleep(5)

    assert run_bench(steps).jobs.actions == [first]


def test_a_cancel_that_slurm_forgot_is_sent_once_more_P21() -> None:
    """Found by the simulator: slurmctld was killed a moment later and the job lived on (241117)."""

    async def steps(bench: Bench) -> None:
        bench.want(CANCEL)
        await bench.sweep_for(31)
        bench.want()
        await asyncio.sleep(60)
        bench.outbox.sweep()

    bench = run_bench(steps)
    assert bench.jobs.actions == [CANCEL, CANCEL]
    assert 30 <= bench.jobs.times[1] < 32


def test_a_job_that_slurm_forgot_before_a_listing_is_submitted_once_more_F1() -> None:
    """Found by the simulator: a listing without it was newer than its slow answer (551917)."""

    async def steps(bench: Bench) -> None:
        bench.want(SUBMIT)
        await bench.sweep_for(31)
        bench.want()  # it is listed
        await asyncio.sleep(60)
        bench.outbox.sweep()

    first_s, again_s = run_bench(steps).jobs.times
    assert first_s == 0
    assert 30 <= again_s < 32


def test_a_listing_that_proved_nothing_is_asked_for_once_more_P21() -> None:
    """Found by the simulator: a watch broke off while it came, so it did not count (290258)."""

    async def steps(bench: Bench) -> None:
        bench.want(Relist("pods", 1.0))
        await bench.sweep_for(31)

    first_s, again_s = run_bench(steps).kube.times
    assert first_s == 0
    assert 30 <= again_s < 32


def test_a_refusal_stands_until_a_fact_changes() -> None:
    """Sent again only after a fact of the key changes."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [refused, refused]
        for _ in range(3):
            bench.want(DRAIN)
            await asyncio.sleep(10)
        bench.outbox.facts_changed(KEY)
        bench.want(DRAIN)
        bench.outbox.facts_changed(("host", "unknown"))
        await asyncio.sleep(10)

    assert run_bench(steps).slurm.times == [0, 30]


def test_a_write_that_is_done_is_not_retried_however_long_ago() -> None:
    """Only a refusal grows old."""

    async def steps(bench: Bench) -> None:
        bench.want(DRAIN)
        await asyncio.sleep(2 * REFUSED_AGAIN_S)
        bench.outbox.sweep()
        await asyncio.sleep(1)

    assert run_bench(steps).slurm.times == [0]


def test_a_refusal_is_retried_after_five_minutes_without_any_fact() -> None:
    """Permissions change without one."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        for _ in range(7):
            await asyncio.sleep(60)
            bench.outbox.sweep()

    assert run_bench(steps).slurm.times == [0, REFUSED_AGAIN_S]


def test_the_retry_of_a_refusal_may_take_long() -> None:
    """Sweeps go on meanwhile."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.slurm.seconds = 50
        bench.want(DRAIN)
        for _ in range(30):
            await asyncio.sleep(20)
            bench.outbox.sweep()

    assert run_bench(steps).slurm.times == [0, 360]


def test_a_dropped_refusal_is_not_retried() -> None:
    """No key wants the write any more."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        await asyncio.sleep(1)
        bench.want()
        await asyncio.sleep(400)
        bench.outbox.sweep()
        await asyncio.sleep(1)

    assert run_bench(steps).slurm.times == [0]


@pytest.mark.parametrize(
    ("action", "times"),
    [
        (RecordEvent(POD, "Warning", "X", "text"), [0]),
        (Relist("nodes", 1.0), [0]),
        (GetObject("Pod", "slurm", "p", 0.0), [0, 1, 2]),
        (SetMetadata(POD, "m", (), ()), [0, 1, 2]),
    ],
    ids=["an Event", "a listing", "a read", "a write"],
)
def test_an_event_or_listing_is_not_repeated_by_other_facts(
    action: Action, times: list[float]
) -> None:
    """The same Event twice is one, and so is a listing; what was written may need writing again."""

    async def steps(bench: Bench) -> None:
        for _ in range(3):
            bench.want(action)
            await asyncio.sleep(1)
            bench.outbox.facts_changed(KEY)

    assert run_bench(steps).kube.times == times


def test_a_write_that_its_watch_event_ended_before_its_answer_can_come_back() -> None:
    """The watch is often faster than the answer; then somebody undoes the write."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.change_facts_in_flight(DRAIN, after_s=0.5)
        bench.want(DRAIN)
        await asyncio.sleep(5)

    assert run_bench(steps).slurm.times == [0, 5.5]


def test_a_write_undone_before_its_answer_is_repeated() -> None:
    """The news that it is undone is older than the answer that it was done."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.change_facts_in_flight(DRAIN, DRAIN, after_s=0.5)

    assert run_bench(steps).slurm.times == [0, 1 + BACKOFF_FIRST_S]


def test_another_write_to_a_target_waits_only_for_the_answer() -> None:
    """Only the same once more waits a moment."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        await bench.change_facts_in_flight(DRAIN, LIFT, after_s=0.5)

    assert run_bench(steps).slurm.times == [0, 1]


def test_a_write_that_ends_with_its_answer_is_not_repeated() -> None:
    """The loop has the time to take the answer in before anything is asked again."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(DRAIN)
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        await asyncio.sleep(0.6)
        bench.want()
        await asyncio.sleep(5)

    assert run_bench(steps).slurm.times == [0]


def test_an_event_whose_cause_comes_back_is_recorded_again() -> None:
    """It ended in between."""

    async def steps(bench: Bench) -> None:
        for _ in range(2):
            bench.want(RecordEvent(POD, "Warning", "X", "text"))
            await asyncio.sleep(1)
            bench.want()
            await asyncio.sleep(1)

    assert run_bench(steps).kube.times == [0, 2]


def test_an_old_refusal_does_not_disturb_the_write_in_flight() -> None:
    """The desired write changed since, and its push takes long."""

    async def steps(bench: Bench) -> None:
        bench.slurm.answers = [refused]
        bench.want(DRAIN)
        await asyncio.sleep(REFUSED_AGAIN_S)
        bench.slurm.seconds = 10
        bench.want(AGAIN)
        await asyncio.sleep(1)
        bench.outbox.sweep()
        await asyncio.sleep(60)

    assert run_bench(steps).slurm.actions == [DRAIN, AGAIN]


def test_a_fact_that_changes_while_an_event_is_in_flight_does_not_repeat_it() -> None:
    """The Event is recorded once, whatever changes meanwhile."""
    event = RecordEvent(POD, "Warning", "SlurmNodeConflict", "two claims")

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = 1
        bench.want(event)
        await asyncio.sleep(0.5)
        bench.outbox.facts_changed(KEY)
        bench.want(event)
        await asyncio.sleep(5)

    assert run_bench(steps).kube.times == [0]
