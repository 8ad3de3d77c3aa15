"""Writes that exclude each other, and bindings in doubt."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sunk_sync.controller.outbox import PUSH_LIMIT_S
from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    Bind,
    CancelJob,
    SubmitJob,
)
from sunk_sync.core.model.facts import Attempt, BindTried, Reference
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.outcomes import Done, Outcome, Unsure
from sunk_sync.core.model.timing import BINDING_S
from tests.kit.build import identity, pod
from tests.kit.outbox import OTHER, Bench, run_bench, unsure

CANCEL = CancelJob(job_id="7", name="k8s/ns/p1/1", identity=identity(pod()), replaced=True)
BIND = Bind(Reference("Pod", "ns", "p1", "u1"), "kn1", "7", "n1")
SUBMIT = SubmitJob(name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription())
GO = AnswerGate(call=1, slurm_node="n1", go=True, why="")


def test_a_submission_that_was_given_up_may_have_happened_F2() -> None:
    """Found by the simulator: it was asked again at once, though its job was made (60863)."""
    first = SubmitJob(
        name="k8s/ns/p1/1", identity=identity(pod()), description=JobDescription(), kind="script"
    )

    async def steps(bench: Bench) -> None:
        bench.jobs.seconds = 2 * PUSH_LIMIT_S
        bench.want(first)
        await asyncio.sleep(PUSH_LIMIT_S + 1)
        bench.want()

    (report,) = run_bench(steps).reports
    assert report.outcome == Unsure(
        first, "TimeoutError: ", seen=(Attempt(first.identity.workload, 1000 + PUSH_LIMIT_S),)
    )


def test_a_binding_that_was_given_up_may_have_happened_P29() -> None:
    """Its job stays until it is known whether the Pod was bound."""

    async def steps(bench: Bench) -> None:
        bench.kube.answers = [OSError("cut")]
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want()

    (report,) = run_bench(steps).reports
    assert report.outcome == Unsure(BIND, "OSError: cut", seen=(BindTried("u1", "7", 1000),))


def test_no_pod_is_bound_to_a_job_whose_cancel_is_in_flight() -> None:
    """Found by the simulator: what made the job unfit had passed meanwhile (60133)."""

    async def steps(bench: Bench) -> None:
        bench.jobs.seconds = 1
        bench.want(CANCEL)
        await asyncio.sleep(0.1)
        bench.want(BIND)
        await asyncio.sleep(0.8)
        assert not bench.kube.actions
        await asyncio.sleep(1)

    assert run_bench(steps).kube.actions == [BIND]


def test_no_job_is_cancelled_while_a_binding_to_it_is_in_flight() -> None:
    """Found by the simulator: it was given up as that of an unbound Pod (60294)."""

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = 3
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want(CANCEL)
        bench.outbox.sweep()
        await asyncio.sleep(2.8)
        assert not bench.jobs.actions
        await asyncio.sleep(1)
        bench.want()
        await asyncio.sleep(2)
        bench.outbox.sweep()
        assert not bench.outbox._slots

    assert run_bench(steps).jobs.actions == [CANCEL]


@pytest.mark.parametrize("landed_s", [0.21, 0.24, 0.259])
def test_the_loop_takes_in_a_binding_before_its_job_is_cancelled_P29(landed_s: float) -> None:
    """The cancel may have been decided before the answer; then the answer ends it."""

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = landed_s
        bench.want(BIND)
        await asyncio.sleep(0.01)
        bench.want(CANCEL)
        await asyncio.sleep(landed_s - 0.01 + 0.04)
        bench.want()
        await asyncio.sleep(1)

    assert not run_bench(steps).jobs.actions


def test_a_gang_is_not_submitted_anew_before_the_answer_to_the_last_submission_G1() -> None:
    """Found by the simulator: its members changed meanwhile, and two jobs of it ran (220531)."""

    async def steps(bench: Bench) -> None:
        bench.jobs.seconds = 3
        bench.want(SUBMIT)
        await asyncio.sleep(0.1)
        bench.want(replace(SUBMIT, identity=identity(pod(), pod("other"))))
        await asyncio.sleep(2.5)
        assert bench.jobs.actions == [SUBMIT]
        await asyncio.sleep(0.42)
        bench.want()  # what came of the first is known by now
        await asyncio.sleep(5)
        bench.outbox.sweep()
        assert not bench.outbox._slots
        assert not bench.outbox._mutual_exclusion._submits

    assert run_bench(steps).jobs.actions == [SUBMIT]


@pytest.mark.parametrize(("answer", "waits_s"), [(Done, 3.0), (unsure, 3.0 + BINDING_S)])
def test_no_job_starts_where_a_binding_is_in_flight_or_may_still_arrive_L7(
    answer: Callable[[Action], Outcome], waits_s: float
) -> None:
    """Found by the simulator: the network kept it while its own job ended (211699)."""

    async def steps(bench: Bench) -> None:
        bench.kube.seconds = 3
        bench.kube.answers = [answer]
        bench.want(BIND)
        await asyncio.sleep(0.1)
        bench.want(GO)
        bench.want(replace(GO, call=2, slurm_node="n2"), key=OTHER)
        await asyncio.sleep(waits_s + 2)

    bench = run_bench(steps)
    elsewhere = replace(GO, call=2, slurm_node="n2")
    assert bench.hooks.actions == [elsewhere, GO]
    begun_s, went_s = bench.hooks.times
    assert begun_s < 0.2
    assert waits_s < went_s < waits_s + 0.2
