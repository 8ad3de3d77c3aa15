"""Scripted cases for the dirty edges that random histories hardly ever need.

Each ends with the oracle: without its edge a verdict is out of date there.
"""

from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, SubmitJob
from sunk_sync.core.model.calls import CallEnded, GateCall
from sunk_sync.core.model.facts import (
    BindTried,
    Confirmed,
    Lost,
    Observed,
    Row,
    SubmitRefused,
)
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.keys import CLUSTER, host_key
from sunk_sync.core.model.lock_actions import Lock, Unlock
from sunk_sync.core.model.node_lock import NodePods
from sunk_sync.core.model.node_set import Requeueing, Topology
from sunk_sync.core.model.node_set_actions import RemakePod, RequeueJobs
from sunk_sync.core.model.node_set_answers import ControllerAge, RequeueTried
from sunk_sync.core.model.pod_spec import Offer, PodRules, Requirement, Spread
from sunk_sync.core.model.restraint import Paused
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.model.topology_file import AnswerTopology, TopologyReport
from sunk_sync.core.model.user_policy import Namespace, NamespaceDefaults, Rules, UserPolicy
from tests.core.checks import check_oracle
from tests.kit.build import (
    OFFER,
    POD,
    SMALL,
    WORKLOAD,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    listing,
    marked,
    node,
    pod,
    room,
    running,
    slurm_node,
    slurmd_pod,
    two_hosts,
)
from tests.kit.node_sets import node_set, record, set_pod

OTHER = pod("other", node_name="kn1", job_id="8")
RUNS = running(OTHER, job_id="8")


def check(core: Core) -> None:
    check_oracle(core.reconciler, core.now)


def with_lost_job(*rows: Row) -> Core:
    """A Pod on Node kn1 without a job, to be readopted."""
    core = Core(*rows, OTHER, lost_job="readopt")
    core.lose_jobs()
    assert core.workload_wants(OTHER, SubmitJob)
    return core


def slurmd_asks_for_more() -> None:
    """P28: less is left on its Node for other Pods."""
    core = two_hosts(POD)
    core.see(slurmd_pod("n1", requests=(("cpu", 15_500), ("memory", 1))))
    check(core)
    assert core.submission(POD).excluded == ("n1",)


def another_node_changes_its_zone() -> None:
    """P8: a Pod about to be bound is spread over zones."""
    spread = PodRules(spread=(Spread("zone", (Requirement("app", "In", ("web",)),)),))
    ruled = {"spec": replace(SMALL, rules=spread), "labels": (("app", "web"),)}
    there, new = pod("p1", node_name="kn1", job_id="1", **ruled), pod("p2", **ruled)
    rows = [node(f"kn{at}", offer=_in_zone(zone)) for at, zone in ((1, "a"), (2, "b"), (3, "a"))]
    jobs = (running(there, job_id="1"), running(new, at=("n2",), job_id="8", started=False))
    rooms = (*room("n1")[1:], *room("n2")[1:], *room("n3")[1:])
    core = Core(*rows, *rooms, there, new, *jobs)
    core.see(node("kn4", offer=_in_zone("a")))  # takes those that follow the hosts once
    assert not core.cancels(new)
    core.see(node("kn1", offer=_in_zone("b")))
    check(core)
    assert core.cancels(new) == [("8", True)]


def _in_zone(zone: str) -> Offer:
    return replace(OFFER, labels=(("zone", zone),))


def a_pods_node_loses_its_slurmd() -> None:
    """P30: its host is unknown now."""
    core = with_lost_job(*room("n1"))
    core.see(deleted("slurmd_pods", slurmd_pod("n1")))
    check(core)


def a_pods_node_names_another_host() -> None:
    """P30: it would be readopted on that host."""
    core = with_lost_job(
        node("kn1", slurm_node="n1", offer=OFFER), slurm_node("n1"), slurm_node("n2")
    )
    core.see(node("kn1", slurm_node="n2", offer=OFFER))
    check(core)


def a_pods_node_becomes_a_slurm_node() -> None:
    """P18: from now on its job is known to be elsewhere."""
    stray = pod("stray", node_name="kn5", job_id="8")
    runs = running(stray, job_id="8")
    core = two_hosts(node("kn5", offer=OFFER), stray, runs)
    assert not core.workload_wants(stray, CancelJob)
    core.see(slurm_node("kn5"))
    check(core)
    assert core.workload_wants(stray, CancelJob)


def a_listing_of_pods_settles_an_array() -> None:
    """P21: an array names its Pods by UID alone."""
    its = job(POD, identity=identity(POD, pods=(), uids=(POD.uid,)))
    core = two_hosts(its, watch_namespaces=("ns",))
    core.see_listing("pods", after_s=1)
    check(core)


def a_job_is_read_again_while_a_gate_waits() -> None:
    """L7: the read confirms that it still runs."""
    core = two_hosts(OTHER, RUNS)
    core.now += 1
    core.see(GateCall(1, "99", ("n1",), core.now, core.now + 60))
    core.see(Observed(RUNS, core.now + 1))
    check(core)


def the_last_job_that_waits_is_gone() -> None:
    """P11a: an allocation may be tried now."""
    waits = job(pod("q"), job_id="9")
    core = two_hosts(POD, pod("q"), waits, gate="on")
    core.see(replace(waits, state=frozenset({"RUNNING"}), slurm_nodes=("n2",)))
    check(core)
    assert core.submission(POD).kind == "allocation"


def the_first_gate_call_of_ours() -> None:
    """P11a, P25: from now on the gate is known to work."""
    core = two_hosts(POD, OTHER, RUNS)
    core.see(GateCall(1, "8", ("n1",), core.now, core.now + 60))
    check(core)
    assert core.submission(POD).kind == "allocation"


def a_gangs_queue_position_changes() -> None:
    """P26: the key of a gang is not the id of its workload."""
    a, b = gang_pod("a"), gang_pod("b")
    jobs = [job(pod("q"), job_id="1"), job(a, b, job_id="9")]
    core = two_hosts(pod("q"), a, b, jobs[1])
    core.wait(5)
    core.see_listing("jobs", *jobs, after_s=61)
    check(core)


def a_pods_node_falls_silent() -> None:
    """P25b: an Event follows after the grace."""
    ends = pod("other", node_name="kn1", job_id="8", terminating=True)
    core = two_hosts(ends, RUNS)
    core.see(node("kn1", offer=OFFER, ready="Unknown"))
    check(core)


def nodes_can_be_read_again() -> None:
    """P12: from now on the host of its job is known to have no Node."""
    runs = running(POD, job_id="7", at=("n9",), started=True)
    core = two_hosts(POD, slurm_node("n9"))
    core.see(Lost("nodes", "gone away"))
    core.see(runs)
    assert not core.workload_wants(POD, CancelJob)
    core.see_listing("nodes", room("n1")[0], room("n2")[0])
    check(core)
    assert core.workload_wants(POD, CancelJob)


def a_refusal_is_forgotten() -> None:
    """P12: the host of a replaced job is excluded again after the refusal that lifted this."""
    given_up = identity(POD, replaced=True)
    before = job(POD, state="CANCELLED", slurm_nodes=("n2",), identity=given_up)
    core = two_hosts(POD, pod("q"))
    core.see(SubmitRefused(WORKLOAD, 2014, "no host", "script", ""))
    core.wait(500)
    core.see(before)
    core.wait(101)
    assert core.submission(POD).excluded == ()
    core.see(SubmitRefused(workload_id((pod("q").uid,)), 2014, "no host", "script", ""))
    check(core)
    assert core.submission(POD).excluded == ("n2",)


def one_leaves_its_gang_and_the_other_goes() -> None:
    """G3: the job is for both, though the label was removed (history 5925)."""
    one, other = (gang_pod(name, node_name=f"kn{name}", job_id="7") for name in "12")
    runs = running(one, other, at=("n1", "n2"))
    core = two_hosts(replace(one, gang=None), other, runs)
    core.see(deleted("pods", other))
    check(core)


def one_joins_a_gang_that_lost_its_job() -> None:
    """P30: a listing from before it was created shows the other as lost (history 5700)."""
    core = two_hosts(gang_pod("1", node_name="kn1", job_id="8"))
    core.now = 1001.0
    core.see(*listing("jobs", begun_s=1001.0))
    core.now = 1100.0
    core.see(gang_pod("2", node_name="kn1"))
    core.see(*listing("jobs", begun_s=1070.0))
    check(core)


def a_job_id_goes_to_another_pod() -> None:
    """P23: a job with this id is live as before, but for another Pod."""
    first, second = pod("p1"), pod("p2")
    core = two_hosts(first, second, job(first, job_id="7"))
    core.see(job(second, job_id="7"))
    check(core)
    assert core.workload_wants(first, SubmitJob)
    assert not core.workload_wants(second, SubmitJob)


def a_pod_waits_until_a_node_is_ready() -> None:
    """P32: only the change of the Node marks the Pod."""
    silent = [node(f"k{name}", offer=OFFER, ready="False") for name in ("n1", "n2")]
    core = two_hosts()
    core.see(*silent)
    core.see(pod("q"))
    assert not core.workload_wants(pod("q"), SubmitJob)
    core.see(node("kn1", offer=OFFER))
    check(core)
    assert core.workload_wants(pod("q"), SubmitJob)


def a_locked_node() -> Core:
    """L1: host n1 of a Node whose lock waits for Pods, while its job runs."""
    core = Core(
        node("kn1", lock="pending", tainted=True),
        slurmd_pod("n1", tolerates_lock=True),
        slurm_node("n1", "ALLOCATED"),
        lock=True,
    )
    core.now += 1
    return core


def the_pods_of_a_locked_node_are_listed() -> None:
    """L1: it is locked now."""
    core = a_locked_node()
    core.see(NodePods("kn1", core.now))
    check(core)
    assert core.wants("n1", Lock)


def a_read_of_slurm_shows_a_locked_node_idle() -> None:
    """L3: nothing but the time of the read has changed."""
    core = a_locked_node()
    core.see(slurm_node("n1"))
    core.see_listing("slurm_nodes", slurm_node("n1"), after_s=20)
    check(core)
    assert core.wants("n1", Unlock)


CASES = (
    one_leaves_its_gang_and_the_other_goes,
    one_joins_a_gang_that_lost_its_job,
    a_job_id_goes_to_another_pod,
)


def the_node_set_of_an_unlisted_pod_is_gone() -> None:
    """S20: a read found a Pod that no listing shows, and its place does not count any more."""
    core = Core(node_set(), record(0, comment=""))
    core.answer(set_pod(0), "yes")
    check(core)
    core.see(deleted("node_sets", node_set()))
    check(core)


def jobs_of_a_condemned_pod_are_requeued() -> None:
    """N28: the next try is a minute later, and Events say what became of the jobs."""
    spec = node_set(1, requeueing=Requeueing("time"))
    leaves = set_pod(0, spec, pending_deletion="update of NodeSet cpu")
    core = Core(spec, leaves, record(0, "MIXED+DRAIN", spec, reason="k8s: pod pending deletion"))
    assert core.wants("cpu-0", RequeueJobs)
    core.see(RequeueTried("cpu-0", core.now, 1))
    check(core)
    assert not core.wants("cpu-0", RequeueJobs)


def the_script_of_the_topology_asks_and_goes() -> None:
    """T6: it gets the file of the NodeSets, until its call has ended."""
    spec = node_set(1, topology=Topology(("rack",), "tree:root"))
    there = node("kcpu-0", offer=Offer(labels=(("rack", "r1"),)))
    core = Core(spec, there, set_pod(0, spec), record(0, "IDLE", spec))
    core.see(TopologyReport(1, "conf", "", asked_s=core.now))
    check(core)
    assert [type(want) for want in core.decided(CLUSTER).wants] == [AnswerTopology]
    core.see(CallEnded(1))
    check(core)
    assert not core.decided(CLUSTER).wants


def a_read_shows_a_pod_unbound_after_a_binding_without_answer() -> None:
    """P29: of its two jobs, the one to which it might have been bound goes."""
    core = two_hosts(POD, running(POD), running(POD, at=("n2",), job_id="9"))
    core.see(BindTried(POD.uid, "9", core.now))
    assert not core.cancels(POD)
    core.now += BINDING_S
    core.answer(POD, "yes")
    check(core)
    assert core.cancels(POD) == [("9", True)]


def most_marks_of_slurmd_pods_are_gone() -> None:
    """S20: the one Pod left in a mark exists and is in no listing, so the selector is wrong."""
    marked_nodes = [slurm_node(f"n{nth}", comment=marked(uid=f"u{nth}")) for nth in (1, 2, 3)]
    core = Core(*marked_nodes)
    core.now += 1
    core.answer(slurmd_pod("n1", uid="u1"), "yes")
    assert not core.decided(CLUSTER).wants
    for one in marked_nodes[1:]:
        core.see(replace(one, comment=""))
    check(core)
    assert core.decided(CLUSTER).wants


def an_operator_pauses_all_writes() -> None:
    """An Event says so."""
    core = two_hosts()
    core.see(Paused("paused: maintenance"))
    check(core)
    assert core.decided(CLUSTER).wants


def a_namespace_names_another_default() -> None:
    rules = Rules(users=((1, 9),), namespace_defaults=True)
    policy = UserPolicy((("*", rules),))
    team = Namespace("ns", "u1", NamespaceDefaults(user="1"))
    core = two_hosts(POD, team, namespace_rules=policy)
    assert core.workload_wants(POD, SubmitJob)
    core.see(Namespace("ns", "u1", NamespaceDefaults(user="99")))
    check(core)
    assert not core.workload_wants(POD, SubmitJob)


def the_breaker_holds_a_deletion() -> None:
    """N5: the NodeSet shows it."""
    core = Core(node_set(1), set_pod(0), max_drains_per_minute=0)
    core.now += 20.0
    core.see(ControllerAge(core.now, 1000.0), Confirmed("slurm_nodes", core.now))
    assert core.kept(host_key("cpu-0"))
    check(core)


def a_listing_has_no_record_of_a_ready_pod() -> None:
    """N3: the Pod is made anew after a listing that began late enough."""
    core = Core(node_set(1), set_pod(0))
    core.wait(20.0)
    core.see(ControllerAge(core.now, 1000.0))
    core.see_listing("slurm_nodes")
    check(core)
    assert core.wants("cpu-0", RemakePod)


GRAPH_EDGES: dict[str, Callable[[], None]] = {
    "_listed:self.keys.mark_each(self.node_sets.slurm_was_read())": (
        a_listing_has_no_record_of_a_ready_pod
    ),
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
    "node_set_changed:self.keys.mark(CLUSTER)": the_node_set_of_an_unlisted_pod_is_gone,
    "pods_were_listed:self.keys.mark_hosts("
    "self._hosts.claims.hosts_on_node(pods.node_name))": the_pods_of_a_locked_node_are_listed,
    "_observe_answer:self.keys.mark_each(self.node_sets.answered(answer, now=now))": (
        jobs_of_a_condemned_pod_are_requeued
    ),
    "slurm_was_read:self.keys.mark_hosts(idle)": a_read_of_slurm_shows_a_locked_node_idle,
    "_observe_call:self.keys.mark_each(self.node_set_snapshots.topology.hear(one))": (
        the_script_of_the_topology_asks_and_goes
    ),
    "_observe_restraint:self.keys.mark_each(self.node_sets.deletions_held(one.pods))": (
        the_breaker_holds_a_deletion
    ),
    "_observe_call:self.keys.mark(CLUSTER)": the_script_of_the_topology_asks_and_goes,
    "_observe_bound:self.keys.mark_each(self._workload_edges.bind_tried(tried))": (
        a_read_shows_a_pod_unbound_after_a_binding_without_answer
    ),
    "slurm_node_changed:self.keys.mark(CLUSTER)": (most_marks_of_slurmd_pods_are_gone),
    "_observe_restraint:self.keys.mark(CLUSTER)": an_operator_pauses_all_writes,
    "_see_gate:self.keys.mark_all()": the_first_gate_call_of_ours,
    "_observe_source:self.keys.mark_each(self._workload_edges.nodes_liveness_changed())": (
        nodes_can_be_read_again
    ),
    "_namespace_changed:self.keys.mark_each("
    "self._workload_edges.namespaces.changed(before, after))": a_namespace_names_another_default,
}
WORKLOAD_EDGES: dict[str, Callable[[], None]] = {
    "_keys_waiting_for:workload_key:1": a_pod_waits_until_a_node_is_ready,
    "_forgotten:workload_key:1": a_refusal_is_forgotten,
    "_awaited:host_key:1": a_job_is_read_again_while_a_gate_waits,
    "keys_of_pods_on:workload_key:1": a_pods_node_becomes_a_slurm_node,
    "pods_listed:workload_key:1": a_listing_of_pods_settles_an_array,
    "_since_crowded:workload_key:1": the_last_job_that_waits_is_gone,
    "_requests_changed:workload_key:1": a_namespace_names_another_default,
    "hosts_changed:workload_key:1": another_node_changes_its_zone,
    "_keys_named:workload_key:1": a_gangs_queue_position_changes,
}
