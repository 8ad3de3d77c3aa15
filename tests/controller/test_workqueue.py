"""The queue of one authority: urgency, batches, concurrency."""

import asyncio

import pytest

from sunk_sync.controller.urgency import urgency
from sunk_sync.controller.workqueue import Limits
from sunk_sync.core.model.actions import (
    Action,
    Cordon,
    Drain,
    GetObject,
    RewriteReason,
    SetComment,
    SetConditions,
    Uncordon,
    Undrain,
)
from sunk_sync.core.model.facts import Reference
from tests.kit.outbox import AGAIN, DRAIN, OTHER, POD, Bench, run_bench, shown, unsure


def test_a_waiting_write_is_queued_once_however_often_it_is_wanted() -> None:
    """The queue does not grow with the loop's rounds."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("busy", "x"), key=OTHER)
        await asyncio.sleep(0.1)
        for _ in range(5):
            bench.want(DRAIN)
        assert bench.outbox.slurm.depth() == 1
        await asyncio.sleep(1)
        for _ in range(5):
            bench.want(AGAIN)
        assert bench.outbox.slurm.depth() == 0
        await asyncio.sleep(5)
        for _ in range(5):
            bench.want(AGAIN)
        assert bench.outbox.slurm.depth() == 0

    run_bench(steps)


@pytest.mark.parametrize("desired", [DRAIN, shown("a")], ids=["Slurm", "Kubernetes"])
def test_nothing_is_sent_while_more_of_its_batch_comes(desired: Action) -> None:
    """Neither to Slurm nor to Kubernetes; then all of it goes."""

    async def steps(bench: Bench) -> None:
        bench.outbox.gather(on=True)
        bench.want(desired)
        await asyncio.sleep(1)
        bench.outbox.gather(on=False)
        await asyncio.sleep(1)

    bench = run_bench(steps)
    assert bench.slurm.times + bench.kube.times == [1]


def test_drains_overtake_comments_and_reads_overtake_conditions() -> None:
    """A queue by urgency: what protects goes before what is shown."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = bench.kube.seconds = 1
        bench.want(Drain("busy", "x"), GetObject("Pod", "a", "busy", 0.0), key=OTHER)
        await asyncio.sleep(0.1)
        for number in range(3):
            bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
        bench.want(shown("", "Unknown"), key=("host", "s"))
        bench.want(shown("", reference=Reference("Node", "", "k", "u")), key=("host", "t"))
        bench.want(DRAIN, GetObject("Pod", "a", "b", 0.0))
        await asyncio.sleep(20)

    bench = run_bench(steps)
    assert bench.slurm.actions[1] == DRAIN
    assert [type(action) for action in bench.kube.actions] == [
        GetObject,
        GetObject,
        SetConditions,
        SetConditions,
    ]
    assert bench.kube.actions[-1] == shown("", "Unknown")


def test_writes_that_are_not_urgent_never_take_every_connection() -> None:
    """Of three concurrent pushes at most one carries comments: a drain is sent at once."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 10
        for number in range(9):
            bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
        await asyncio.sleep(1)
        assert len(bench.slurm.in_flight) == 1
        bench.want(DRAIN)
        await asyncio.sleep(0.01)
        assert DRAIN in bench.slurm.actions
        await asyncio.sleep(200)
        assert len(bench.slurm.actions) == 10

    run_bench(steps, slurm=Limits(concurrency=3, batch=1, leisurely=1))


def test_drains_go_in_batches_and_never_with_comments() -> None:
    """Where the API takes lists: as many as allowed, of one urgency."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        bench.want(Drain("busy", "x"), key=OTHER)
        await asyncio.sleep(0.1)
        for number in range(25):
            name = f"n{number}"
            bench.want(Drain(name, "k8s: x"), SetComment(name, "c"), key=("host", name))
        await asyncio.sleep(60)

    limits = Limits(concurrency=1, batch=10, leisurely=1, leisurely_batch=4)
    sizes = [
        (len(actions), {type(a) for a in actions})
        for _, actions in run_bench(steps, slurm=limits).slurm.calls
    ]
    drains = [(1, {Drain}), (10, {Drain}), (10, {Drain}), (5, {Drain})]
    comments = [(4, {SetComment})] * 6 + [(1, {SetComment})]
    assert sizes == drains + comments


def test_the_concurrency_of_an_authority_is_capped() -> None:
    """However many targets wait."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for number in range(40):
            bench.want(Drain(f"n{number}", "x"), key=("host", f"n{number}"))
        await asyncio.sleep(60)

    bench = run_bench(steps, slurm=Limits(concurrency=4, batch=1, leisurely=2))
    assert len(bench.slurm.actions) == 40
    assert bench.slurm.in_flight_max == 4


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        (Drain("a", ""), GetObject("Pod", "", "", 0.0)),
        (Undrain("a", ""), SetComment("a", "")),
        (GetObject("Pod", "", "", 0.0), SetComment("a", "")),
        (Cordon(POD), shown("")),
        (Uncordon(POD), shown("")),
        (SetComment("a", ""), RewriteReason("a", "")),
        (shown(""), shown("", "Unknown")),
    ],
)
def test_urgency_orders_the_queue(sooner: Action, later: Action) -> None:
    """Drains, reads and cordons, marks, what is shown, what is only unknown."""
    assert urgency(sooner) < urgency(later)


def test_the_depth_of_a_work_queue_counts_what_waits_in_it() -> None:
    """For the metric: what is ready and what waits for its time, not what is in flight."""

    async def steps(bench: Bench) -> None:
        bench.slurm.seconds = 1
        for number in range(3):
            bench.want(Drain(f"n{number}", "x"), key=("host", f"n{number}"))
        await asyncio.sleep(0.1)
        assert (bench.outbox.slurm.depth(), bench.outbox.in_flight) == (2, 1)
        bench.slurm.answers = [unsure]
        await asyncio.sleep(1)
        assert bench.outbox.slurm.depth() == 2
        await asyncio.sleep(10)
        assert (bench.outbox.slurm.depth(), bench.outbox.in_flight) == (0, 0)

    run_bench(steps)
