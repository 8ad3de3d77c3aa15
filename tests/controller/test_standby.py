"""F6: the loop of a standby decides, and hands nothing over until it becomes the leader."""

from sunk_sync.controller.loop import TakeOver
from sunk_sync.core.model.actions import Drain
from sunk_sync.core.model.keys import host_key
from tests.controller.test_loop import HOST, Controller
from tests.kit.build import SCHEDULER, listing, marked, node, observed, pod, running, slurm_node
from tests.kit.clock import in_virtual_time, now


async def standby(**chosen: object) -> Controller:
    made = Controller(**chosen)  # type: ignore[arg-type]
    made.loop.leading = False
    await made.listed(*HOST)
    return made


@in_virtual_time
async def test_a_standby_decides_as_the_leader_does_and_writes_nothing_F6() -> None:
    controller = await standby()
    await controller.hear(100, observed(node(unschedulable=True)))
    because = controller.reconciler.standing[host_key("n1")].verdict.because
    assert because.startswith("drained: Node kn1 is cordoned")
    assert controller.pushed == []
    assert controller.journal.keeps == []
    assert [queue.depth() for queue in controller.outbox.work_queues] == [0, 0, 0, 0]


@in_virtual_time
async def test_a_new_leader_writes_what_still_is_to_be_written_F6() -> None:
    controller = await standby()
    await controller.hear(100, observed(node(unschedulable=True)))
    await controller.loop.tell([TakeOver()])
    await controller.hear(0.1)
    assert controller.drains() == [Drain("n1", "k8s: node cordoned")]


@in_virtual_time
async def test_what_the_last_leader_wrote_is_taken_in_before_the_first_decision_F6() -> None:
    """Its drain is in the listing that was told before the take-over."""
    controller = await standby()
    await controller.hear(100, observed(node(unschedulable=True)))
    drained = slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned", comment=marked())
    await controller.loop.tell([observed(drained, order=1e9), TakeOver()])
    await controller.hear(0.1)
    assert controller.drains() == []


@in_virtual_time
async def test_a_new_leader_doubts_that_pods_with_a_job_are_unbound_F6_P14() -> None:
    """The last leader may have bound them, and the watch of this replica may stand still."""
    controller = await standby(scheduler=SCHEDULER)
    waits, its = pod("p1"), running(pod("p1"))
    await controller.hear(0.1, *listing("pods", waits, pod("p2"), begun_s=now()))
    await controller.hear(0.1, *listing("jobs", its, begun_s=now()))
    doubts = controller.graph.workloads.memory.binds_tried
    assert not doubts
    await controller.loop.tell([TakeOver()])
    await controller.hear(0.1)
    assert [(one.uid, one.slurm_nodes) for one in doubts.values()] == [(waits.uid, ("n1",))]
