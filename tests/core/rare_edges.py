"""Small stories for the dirty edges that random histories hardly ever need.

Each ends with the oracle; without its edge a verdict stands there that is no longer right.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, SubmitJob
from sunk_sync.core.model.facts import GateCall, Lost, Node, Observed, Row, SubmitRefused
from sunk_sync.core.model.job_identity import workload_id
from tests.core.checks import check_oracle
from tests.kit.build import (
    OFFER,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    listing,
    node,
    pod,
    room,
    running,
    slurm_node,
    slurmd_pod,
)

ONE, OTHER = pod(), pod("other", node_name="kn1", job_id="8")
RUNS = running(OTHER, job_id="8")


def core(*rows: Row, **chosen: Any) -> Core:
    return Core(*room("n1"), *room("n2"), *rows, **chosen)


def right(world: Core) -> None:
    check_oracle(world.reconciler, world.now)


def lost(*rows: Row) -> Core:
    """A Pod on Node kn1 without a job, to be readopted."""
    world = Core(*rows, OTHER, lost_job="readopt")
    world.lose_jobs()
    assert world.workload_wants(OTHER, SubmitJob)
    return world


def slurmd_asks_for_more() -> None:
    """P28: less is left on its Node for Pods."""
    world = core(ONE)
    world.see(slurmd_pod("n1", requests=(("cpu", 15_500), ("memory", 1))))
    right(world)
    assert world.submission(ONE).excluded == ("n1",)


def a_pods_node_loses_its_slurmd() -> None:
    """P30: nobody knows its host any more."""
    world = lost(*room("n1"))
    world.see(deleted("slurmd_pods", slurmd_pod("n1")))
    right(world)


def a_pods_node_names_another_host() -> None:
    """P30: it would be readopted there."""
    world = lost(node("kn1", slurm_node="n1", offer=OFFER), slurm_node("n1"), slurm_node("n2"))
    world.see(node("kn1", slurm_node="n2", offer=OFFER))
    right(world)


def a_pods_node_becomes_a_slurm_node() -> None:
    """P18: now it is known that its job is elsewhere."""
    stray = pod("stray", node_name="kn5", job_id="8")
    runs = running(stray, job_id="8")
    world = core(node("kn5", offer=OFFER), stray, runs)
    assert not world.workload_wants(stray, CancelJob)
    world.see(slurm_node("kn5"))
    right(world)
    assert world.workload_wants(stray, CancelJob)


def a_listing_of_pods_settles_an_array() -> None:
    """P21: an array names its Pods by UID alone."""
    its = job(ONE, identity=identity(ONE, pods=(), uids=(ONE.uid,)))
    world = core(its, watch_namespaces=("ns",))
    world.see_listing("pods", after_s=1)
    right(world)


def a_job_is_read_again_while_a_gate_waits() -> None:
    """L7: it runs as before, but now that is known."""
    world = core(OTHER, RUNS)
    world.now += 1
    world.see(GateCall(1, "99", ("n1",), world.now, world.now + 60))
    world.see(Observed(RUNS, world.now + 1))
    right(world)


def the_last_job_that_waits_is_gone() -> None:
    """P11a: an immediate allocation may be tried."""
    waits = job(pod("q"), job_id="9")
    world = core(ONE, pod("q"), waits, gate="on")
    world.see(replace(waits, state=frozenset({"RUNNING"}), slurm_nodes=("n2",)))
    right(world)
    assert world.submission(ONE).kind == "allocation"


def the_first_gate_call_of_ours() -> None:
    """P11a, P25: from now on the gate is counted on."""
    world = core(ONE, OTHER, RUNS)
    world.see(GateCall(1, "8", ("n1",), world.now, world.now + 60))
    right(world)
    assert world.submission(ONE).kind == "allocation"


def a_gangs_pod_is_told_its_place() -> None:
    """P26: its key is not the id of its job."""
    a, b = gang_pod("a"), gang_pod("b")
    jobs = [job(pod("q"), job_id="1"), job(a, b, job_id="9")]
    world = core(pod("q"), a, b, jobs[1])
    world.wait(5)
    world.see_listing("jobs", *jobs, after_s=61)
    right(world)


def a_pods_node_falls_silent() -> None:
    """P25b: a human is to be told, after its grace."""
    ends = pod("other", node_name="kn1", job_id="8", terminating=True)
    world = core(ends, RUNS)
    world.see(node("kn1", offer=OFFER, ready="Unknown"))
    right(world)


def nodes_can_be_read_again() -> None:
    """P12: now it is known that there is no Node for the host of its job."""
    runs = running(ONE, job_id="7", at=("n9",), started=True)
    world = core(ONE, slurm_node("n9"))
    world.see(Lost("nodes", "gone away"))
    world.see(runs)
    assert not world.workload_wants(ONE, CancelJob)
    world.see_listing("nodes", *room_nodes())
    right(world)
    assert world.workload_wants(ONE, CancelJob)


def room_nodes() -> list[Row]:
    return [one for one in (*room("n1"), *room("n2")) if isinstance(one, Node)]


def a_refusal_is_forgotten() -> None:
    """P12: where Slurm had no other host for it, the one it was given up on is excluded anew."""
    before = job(
        ONE,
        job_id="7",
        state="CANCELLED",
        slurm_nodes=("n2",),
        identity=identity(ONE, replaced=True),
    )
    world = core(ONE, pod("q"))
    world.see(SubmitRefused(workload_id((ONE.uid,)), 2014, "no host", "script", ""))
    world.wait(500)
    world.see(before)
    world.wait(101)
    assert world.submission(ONE).excluded == ()
    world.see(SubmitRefused(workload_id((pod("q").uid,)), 2014, "no host", "script", ""))
    right(world)
    assert world.submission(ONE).excluded == ("n2",)


def one_leaves_its_gang_and_the_other_goes() -> None:
    """G3: its job stands for both, though the label was taken off (found by history 5925)."""
    one, other = (gang_pod(name, node_name=f"kn{name}", job_id="7") for name in "12")
    runs = running(one, other, at=("n1", "n2"))
    world = core(replace(one, gang=None), other, runs)
    world.see(deleted("pods", other))
    right(world)


def one_joins_a_gang_that_lost_its_job() -> None:
    """P30: a listing from before it came says that the other is lost (found by history 5700)."""
    world = core(gang_pod("1", node_name="kn1", job_id="8"))
    world.now = 1001.0
    world.see(*listing("jobs", begun_s=1001.0))
    world.now = 1100.0
    world.see(gang_pod("2", node_name="kn1"))
    world.see(*listing("jobs", begun_s=1070.0))
    right(world)


def a_jobs_number_is_anothers() -> None:
    """P23: it lives as the one before did, for another Pod; the first is without a job."""
    first, second = pod("p1"), pod("p2")
    world = core(first, second, job(first, job_id="7"))
    world.see(job(second, job_id="7"))
    right(world)
    assert world.workload_wants(first, SubmitJob)
    assert not world.workload_wants(second, SubmitJob)


def a_pod_waits_until_a_node_is_ready() -> None:
    """P32: nothing is submitted before; the Node's turn alone wakes the Pod."""
    silent = [node(f"k{name}", offer=OFFER, ready="False") for name in ("n1", "n2")]
    world = core()
    world.see(*silent)
    world.see(pod("q"))
    assert not world.workload_wants(pod("q"), SubmitJob)
    world.see(node("kn1", offer=OFFER))
    right(world)
    assert world.workload_wants(pod("q"), SubmitJob)


STORIES = (
    one_leaves_its_gang_and_the_other_goes,
    one_joins_a_gang_that_lost_its_job,
    a_jobs_number_is_anothers,
)
GRAPH_EDGES: dict[str, Callable[[], None]] = {
    "slurmd_pod_changed:self.keys.mark_each(self._workload_edges.hosts_changed())": (
        slurmd_asks_for_more
    ),
    "slurmd_pod_changed:self.keys.mark_each(self._workload_edges.keys_of_pods_on(row.node_name))": (
        a_pods_node_loses_its_slurmd
    ),
    "node_changed:self.keys.mark_each(self._workload_edges.keys_of_pods_on(row.name))": (
        a_pods_node_names_another_host
    ),
    "slurm_node_changed:self.keys.mark_each(self._keys_of_pods_near(hosts))": (
        a_pods_node_becomes_a_slurm_node
    ),
    "node_changed:self.keys.mark_each(self._workload_edges.node_readiness_changed(after.name))": (
        a_pods_node_falls_silent
    ),
    "_listed:self.keys.mark_each(self._workload_edges.pods_listed())": (
        a_listing_of_pods_settles_an_array
    ),
    "_see_gate:self.keys.mark_all()": the_first_gate_call_of_ours,
    "_observe_source:self.keys.mark_each(self._workload_edges.nodes_liveness_changed())": (
        nodes_can_be_read_again
    ),
}
WORKLOAD_EDGES: dict[str, Callable[[], None]] = {
    "_keys_waiting_for:workload_key:1": a_pod_waits_until_a_node_is_ready,
    "_forgotten:workload_key:1": a_refusal_is_forgotten,
    "_awaited:host_key:1": a_job_is_read_again_while_a_gate_waits,
    "keys_of_pods_on:workload_key:1": a_pods_node_becomes_a_slurm_node,
    "pods_listed:workload_key:1": a_listing_of_pods_settles_an_array,
    "_since_crowded:workload_key:1": the_last_job_that_waits_is_gone,
    "_keys_named:workload_key:1": a_gangs_pod_is_told_its_place,
}
