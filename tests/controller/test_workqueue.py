"""The work queue of one authority: urgency, batches, concurrency."""

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
    SetMetadata,
    Uncordon,
    Undrain,
)
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.names import MANAGER_MIRROR, MANAGER_RETIRE
from sunk_sync.core.model.node_set_actions import Condemn
from tests.kit.clock import in_virtual_time
from tests.kit.outbox import AGAIN, DRAIN, OTHER, POD, Bench, on_bench, shown, unsure


@on_bench
async def test_a_write_wanted_several_times_is_queued_once(bench: Bench) -> None:
    bench.slurm.seconds = 1
    await bench.want_for(0.1, Drain("busy", "x"), key=OTHER)
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


@pytest.mark.parametrize("desired", [DRAIN, shown("a")], ids=["Slurm", "Kubernetes"])
@on_bench
async def test_no_write_is_sent_while_its_batch_grows(bench: Bench, desired: Action) -> None:
    bench.outbox.gather(on=True)
    await bench.want_for(1, desired)
    bench.outbox.gather(on=False)
    await asyncio.sleep(1)
    assert bench.slurm.times + bench.kube.times == [1]


@on_bench
async def test_drains_are_sent_before_comments_and_reads_before_conditions(bench: Bench) -> None:
    bench.slurm.seconds = bench.kube.seconds = 1
    await bench.want_for(0.1, Drain("busy", "x"), GetObject("Pod", "a", "busy", 0.0), key=OTHER)
    for number in range(3):
        bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
    bench.want(shown("", "Unknown"), key=("host", "s"))
    bench.want(shown("", reference=Reference("Node", "", "k", "u")), key=("host", "t"))
    await bench.want_for(20, DRAIN, GetObject("Pod", "a", "b", 0.0))
    assert bench.slurm.actions[1] == DRAIN
    kinds = [type(action) for action in bench.kube.actions]
    assert kinds == [GetObject, GetObject, SetConditions, SetConditions]
    assert bench.kube.actions[-1] == shown("", "Unknown")


@in_virtual_time
async def test_comments_take_at_most_one_of_three_connections() -> None:
    bench = Bench(slurm=Limits(concurrency=3, batch=1, leisurely=1))
    bench.slurm.seconds = 10
    for number in range(9):
        bench.want(SetComment(f"c{number}", "x"), key=("host", f"c{number}"))
    await asyncio.sleep(1)
    assert len(bench.slurm.in_flight) == 1
    await bench.want_for(0.01, DRAIN)
    assert DRAIN in bench.slurm.actions
    await asyncio.sleep(200)
    assert len(bench.slurm.actions) == 10


@in_virtual_time
async def test_a_batch_has_one_urgency_and_at_most_its_limit() -> None:
    bench = Bench(slurm=Limits(concurrency=1, batch=10, leisurely=1, leisurely_batch=4))
    bench.slurm.seconds = 1
    await bench.want_for(0.1, Drain("busy", "x"), key=OTHER)
    for number in range(25):
        name = f"n{number}"
        bench.want(Drain(name, "k8s: x"), SetComment(name, "c"), key=("host", name))
    await asyncio.sleep(60)
    sizes = [(len(actions), {type(a) for a in actions}) for _, actions in bench.slurm.calls]
    drains = [(1, {Drain}), (10, {Drain}), (10, {Drain}), (5, {Drain})]
    comments = [(4, {SetComment})] * 6 + [(1, {SetComment})]
    assert sizes == drains + comments


@in_virtual_time
async def test_the_concurrency_of_an_authority_is_limited() -> None:
    bench = Bench(slurm=Limits(concurrency=4, batch=1, leisurely=2))
    bench.slurm.seconds = 1
    for number in range(40):
        bench.want(Drain(f"n{number}", "x"), key=("host", f"n{number}"))
    await asyncio.sleep(60)
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
        (Condemn(POD, ""), shown("")),
        (SetMetadata(POD, MANAGER_RETIRE, (), ()), shown("")),
        (shown(""), SetMetadata(POD, MANAGER_MIRROR, (), ())),
    ],
)
def test_drains_before_reads_before_marks_before_conditions(sooner: Action, later: Action) -> None:
    assert urgency(sooner) < urgency(later)


@on_bench
async def test_the_depth_of_a_queue_counts_waiting_writes_alone(bench: Bench) -> None:
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
