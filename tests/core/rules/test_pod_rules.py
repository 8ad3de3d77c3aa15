"""Hard rules that compare Pods with Pods: ports, anti-affinity, affinity, spread (row P8)."""

from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob, UpdateJob
from sunk_sync.core.model.facts import Node, Pod, Row, SubmitRefused
from sunk_sync.core.model.pod_spec import (
    NO_RULES,
    HostPort,
    PodRules,
    PodTerm,
    Requirement,
    Spread,
    Taint,
)
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.translate.node_fit import Labels
from tests.kit.build import OFFER, SMALL, Core, deleted, job, node, pod, room, running

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
NAME = "kubernetes.io/metadata.name"
WEB = (Requirement("app", "In", ("web",)),)
APART = PodRules(apart=(PodTerm(HOSTNAME, WEB),))
APART_BY_ZONE = PodRules(apart=(PodTerm("zone", WEB),))
PORT = PodRules(ports=(HostPort(80),))
PORT_OF_ONE_ADDRESS = PodRules(ports=(HostPort(80, "TCP", "10.0.0.1"),))
SPREAD = PodRules(spread=(Spread(ZONE, WEB),))
BESIDE = PodRules(beside=(PodTerm(ZONE, WEB),))
TURN = "waits its turn: Pods that may not run side by side are placed one after another"


def host(name: str, zone: str = "a") -> list[Row]:
    """Return a free host whose Node has labels for its name and zone."""
    labels = ((HOSTNAME, f"k{name}"), (ZONE, zone))
    rows = room(name)
    return [node(f"k{name}", offer=replace(OFFER, labels=labels)), *rows[1:]]


def tainted(name: str, zone: str) -> list[Row]:
    first, *rest = host(name, zone)
    assert isinstance(first, Node)
    taints = (Taint("gone", "NoSchedule"),)
    return [replace(first, offer=replace(first.offer, taints=taints)), *rest]


def ruled(name: str, rules: PodRules, app: str = "web", **fields: Any) -> Pod:
    spec = replace(SMALL, rules=rules)
    return pod(name, spec=spec, labels=(("app", app),), created_s=int(name[1:]), **fields)


def bound(name: str, rules: PodRules, at: str, app: str = "web") -> Pod:
    return ruled(name, rules, app, node_name=at, job_id=name[1:])


def cluster(*rows: Row) -> Core:
    """Return hosts n1 and n2 in zone a, n3 in zone b, and these rows."""
    return Core(*host("n1"), *host("n2"), *host("n3", "b"), *rows)


@pytest.mark.parametrize(
    ("there", "new", "excluded"),
    [
        (bound("p1", APART, "kn1"), ruled("p2", APART), ("n1",)),
        (bound("p1", PodRules(), "kn1"), ruled("p2", APART), ("n1",)),
        (bound("p1", APART, "kn1"), ruled("p2", PodRules()), ("n1",)),
        (bound("p1", APART, "kn1"), ruled("p2", PodRules(), "db"), ()),
        (bound("p1", PodRules(), "kn1", "db"), ruled("p2", APART), ()),
        (bound("p1", APART_BY_ZONE, "kn1"), ruled("p2", APART), ("n1", "n2")),
        (bound("p1", PORT, "kn2", "db"), ruled("p2", PORT), ("n2",)),
        (bound("p1", PodRules(ports=(HostPort(80, "UDP"),)), "kn2"), ruled("p2", PORT), ()),
        (bound("p1", PORT_OF_ONE_ADDRESS, "kn2"), ruled("p2", PORT), ("n2",)),
        (bound("p1", SPREAD, "kn1"), ruled("p2", SPREAD), ("n1", "n2")),
        (bound("p1", SPREAD, "kn3"), ruled("p2", SPREAD), ("n3",)),
        (bound("p1", BESIDE, "kn3"), ruled("p2", BESIDE), ("n1", "n2")),
        (bound("p1", PodRules(), "kn1", "db"), ruled("p2", BESIDE), ()),
    ],
    ids=[
        "apart from its like", "apart from a Pod without a rule", "kept away by the other's rule",
        "another label", "another label of the other", "apart by zone", "the same port",
        "another protocol", "every address holds one address", "spread away from the zone",
        "spread away from the other zone", "beside its like", "the first of its like",
    ],
)  # fmt: skip
def test_a_new_pod_avoids_hosts_where_a_rule_forbids_it_P8(
    there: Pod, new: Pod, excluded: tuple[str, ...]
) -> None:
    core = cluster(there, running(there, at=(there.node_name[1:],), job_id="1"), new)
    assert core.submission(new).excluded == excluded


OF_TEAM = (Requirement("team", "In", ("x",)),)
BY_LABEL = PodRules(apart=(PodTerm(HOSTNAME, WEB, (), OF_TEAM),))
BY_LABEL_AND_NAME = PodRules(apart=(PodTerm(HOSTNAME, WEB, ("named",), OF_TEAM),))
BY_NAME = PodRules(apart=(PodTerm(HOSTNAME, WEB, (), (Requirement(NAME, "In", ("team",)),)),))
NOT_OF_TEAM = PodRules(apart=(PodTerm(HOSTNAME, WEB, (), (Requirement("team", "NotIn", ("x",)),)),))


def space(name: str, **labels: str) -> Namespace:
    return Namespace(name, f"u-{name}", labels=tuple(sorted({NAME: name, **labels}.items())))


SPACES = (space("ns"), space("team", team="x"), space("named"), space("other", team="y"))


@pytest.mark.parametrize(
    ("rules", "namespaces"),
    [
        (APART, ("ns",)),
        (BY_LABEL, ("team",)),
        (BY_LABEL_AND_NAME, ("team", "named")),
        (BY_NAME, ("team",)),
        (NOT_OF_TEAM, ("ns", "named", "other")),
    ],
    ids=["no selector", "a label", "a label and a name", "the name", "not a label"],
)
def test_a_rule_reads_the_pods_of_the_namespaces_that_it_selects_P8(
    rules: PodRules, namespaces: tuple[str, ...]
) -> None:
    for one in SPACES:
        there = replace(bound("p1", NO_RULES, "kn1"), namespace=one.name)
        new = ruled("p2", rules)
        core = cluster(*SPACES, there, running(there, at=("n1",), job_id="1"), new)
        excluded = ("n1",) if one.name in namespaces else ()
        assert core.submission(new).excluded == excluded, one.name


@pytest.mark.parametrize(("team", "excluded"), [("x", ("n1",)), ("y", ())])
def test_the_rule_of_a_standing_pod_selects_namespaces_too_P8(
    team: str, excluded: tuple[str, ...]
) -> None:
    there = replace(bound("p1", BY_LABEL, "kn1"), namespace="other")
    new = ruled("p2", NO_RULES)
    spaces = (space("ns", team=team), space("other"))
    core = cluster(*spaces, there, running(there, at=("n1",), job_id="1"), new)
    assert core.submission(new).excluded == excluded


def test_a_waiting_job_follows_the_labels_of_a_namespace_P8() -> None:
    there = replace(bound("p1", NO_RULES, "kn1"), namespace="other")
    new = ruled("p2", BY_LABEL)
    spaces = (space("ns"), space("other"))
    core = cluster(*spaces, there, running(there, at=("n1",), job_id="1"), new)
    waiting = replace(job(new, job_id="2"), identity=core.submission(new).identity)
    core.see(waiting)
    assert not core.workload_wants(new, UpdateJob)
    core.see(space("other", team="x"))
    (update,) = core.workload_wants(new, UpdateJob)
    assert update.excluded == ("n1",)


def test_a_pod_waits_for_its_namespace_only_where_a_rule_selects_by_label_P8() -> None:
    """Until then no rule of a standing Pod can be compared with it."""
    there = bound("p1", BY_LABEL, "kn1")
    new = replace(ruled("p2", NO_RULES), namespace="late")
    rows = (space("ns"), there, running(there, at=("n1",), job_id="1"), new)
    core = cluster(*rows)
    assert core.submission(new) is None
    core.see(space("late", team="x"))
    assert core.submission(new).excluded == ("n1",)
    plain = replace(there, spec=SMALL)
    before = cluster(rows[0], plain, *rows[2:])
    assert before.submission(new) is not None
    before.see(there)
    assert before.submission(new) is None


@pytest.mark.parametrize(
    ("there", "mine", "excluded"),
    [
        ((("app", "web"), ("rev", "1")), (("app", "web"), ("rev", "1")), ("n1", "n2")),
        ((("app", "web"), ("rev", "1")), (("app", "web"), ("rev", "2")), ()),
        ((("app", "web"),), (("app", "web"), ("rev", "2")), ()),
        ((("app", "web"), ("rev", "1")), (("app", "web"),), ("n1", "n2")),
        ((("app", "db"), ("rev", "1")), (("app", "web"), ("rev", "1")), ()),
    ],
    ids=["the same revision", "another revision", "it has none", "the Pod has none", "another app"],
)
def test_a_spread_counts_pods_of_its_own_revision_P8(
    there: Labels, mine: Labels, excluded: tuple[str, ...]
) -> None:
    by_revision = PodRules(spread=(Spread(ZONE, WEB, match_keys=("rev",)),))
    other = replace(bound("p1", by_revision, "kn1"), labels=there)
    new = replace(ruled("p2", by_revision), labels=mine)
    core = cluster(other, running(other, at=("n1",), job_id="1"), new)
    assert core.submission(new).excluded == excluded


@pytest.mark.parametrize(
    ("honors", "hosts", "excluded"),
    [
        (False, (*host("n3", "b"),), ("n1", "n2")),
        (False, (*tainted("n3", "b"),), None),
        (True, (*host("n3", "b"),), ("n1", "n2")),
        (True, (*tainted("n3", "b"),), ("n3",)),
    ],
    ids=["ignored, no taint", "ignored, a taint", "honored, no taint", "honored, a taint"],
)
def test_a_spread_may_leave_out_tainted_nodes_P8(
    honors: bool,
    hosts: tuple[Row, ...],
    excluded: tuple[str, ...] | None,
) -> None:
    rules = PodRules(spread=(Spread(ZONE, WEB, honors_taints=honors),))
    other, new = bound("p1", rules, "kn1"), ruled("p2", rules)
    core = Core(*host("n1"), *host("n2"), *hosts, other,
                running(other, at=("n1",), job_id="1"), new)  # fmt: skip
    submission = core.submission(new)
    assert (submission.excluded if submission is not None else None) == excluded


def test_a_pod_that_no_host_may_take_says_which_rule_P8() -> None:
    pods = [bound(f"p{number}", APART, f"kn{number}") for number in (1, 2, 3)]
    jobs = [running(one, at=(one.node_name[1:],), job_id=one.job_id) for one in pods]
    new = ruled("p4", APART)
    core = cluster(*pods, *jobs, new)
    assert core.submission(new) is None
    because = core.workload_verdict(new).because
    assert "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules" in because
    core.see(deleted("pods", pods[1]))
    assert core.submission(new).excluded == ("n1", "n3")


def test_pods_that_may_not_run_side_by_side_are_submitted_in_turn_P8() -> None:
    pods = [ruled(f"p{number}", APART) for number in (1, 2, 3)]
    core = cluster(*pods)
    assert [bool(core.submission(one)) for one in pods] == [True, False, False]
    assert TURN in core.workload_verdict(pods[1]).because
    core.see(job(pods[0]))
    assert [bool(core.submission(one)) for one in pods] == [False, False, False]
    core.see(running(pods[0], at=("n2",), started=False))
    assert core.submission(pods[1]).excluded == ("n2",)
    assert core.submission(pods[2]) is None
    core.see(running(pods[1], at=("n1",), job_id="8"))
    assert core.submission(pods[2]).excluded == ("n1", "n2")


def test_a_pod_that_comes_later_does_not_pass_one_of_the_same_second_P8() -> None:
    """The submission of the first one may be on its way."""
    first, later = ruled("p2", APART), replace(ruled("p1", APART), created_s=2)
    core = cluster(first)
    assert core.submission(first)
    core.see(later)
    assert core.submission(first)
    assert core.submission(later) is None


def test_pods_that_mind_only_others_are_submitted_together_P8() -> None:
    away = PodRules(apart=(PodTerm(HOSTNAME, (Requirement("app", "In", ("db",)),)),))
    pods = [ruled(f"p{number}", away) for number in (1, 2)]
    core = cluster(*pods)
    assert all(core.submission(one) for one in pods)


def test_a_refused_pod_lets_the_next_one_pass_P8() -> None:
    pods = [ruled(f"p{number}", APART) for number in (1, 2)]
    core = cluster(*pods)
    identity = core.submission(pods[0]).identity
    core.see(SubmitRefused(identity.workload, 2045, "no", "script", identity.digest))
    assert core.submission(pods[1])


def test_a_pod_whose_job_failed_lets_the_next_one_pass_P8() -> None:
    pods = [ruled(f"p{number}", APART) for number in (1, 2)]
    core = cluster(*pods)
    core.see(job(pods[0], state="FAILED"))
    assert core.submission(pods[1])


def test_of_two_jobs_on_one_host_the_older_one_keeps_it_P8() -> None:
    first, second = ruled("p1", APART), ruled("p2", APART)
    core = cluster(first, second, running(first), running(second, job_id="8"))
    assert core.binds(first) == [("p1", "kn1")]
    assert core.cancels(second) == [("8", True)]


@pytest.mark.parametrize("rules", [APART, PodRules()], ids=["its own rule", "the other's rule"])
def test_a_waiting_job_follows_its_neighbours_at_once_P7_P8(rules: PodRules) -> None:
    """Also when the last rule goes (simulator, seed 9501025: the host stayed excluded)."""
    there = bound("p1", APART, "kn1")
    new = ruled("p2", rules)
    core = cluster(there, running(there, job_id="1"), new)
    submission = core.workload_wants(new, SubmitJob)[0]
    waits = replace(running(new, at=(), job_id="8"), state=frozenset({"PENDING"}))
    waits = replace(waits, identity=submission.identity)
    core.see(waits)
    assert not core.workload_wants(new, SubmitJob)
    core.see(deleted("pods", there))
    (update,) = core.workload_wants(new, UpdateJob)
    assert update.excluded == ()


def test_a_job_that_comes_after_the_last_rule_loses_its_exclusions_P7_P8() -> None:
    """Simulator, seed 9532408: its submission was on its way when the other Pod went."""
    there, new = bound("p1", APART, "kn1"), ruled("p2", NO_RULES)
    core = cluster(there, running(there, job_id="1"), new)
    submission = core.submission(new)
    assert submission.excluded == ("n1",)
    core.see(deleted("pods", there))
    assert core.submission(new).excluded == ()
    waits = replace(running(new, at=(), job_id="8"), state=frozenset({"PENDING"}))
    core.see(replace(waits, identity=submission.identity))
    (update,) = core.workload_wants(new, UpdateJob)
    assert update.excluded == ()
    assert core.graph.workloads.lists.following
    core.see(deleted("pods", new))
    assert not core.graph.workloads.lists.following


@pytest.mark.parametrize(("app", "alone"), [("web", True), ("db", False)])
def test_a_pod_that_others_keep_away_is_submitted_alone_P8(app: str, alone: bool) -> None:
    """All tasks of an array share their exclusions."""
    there, new = bound("p1", APART, "kn1"), ruled("p2", PodRules(), app)
    core = cluster(there, running(there, job_id="1"), new)
    assert core.submission(new).alone is alone


@pytest.mark.parametrize(("job_id", "updated"), [("8", True), ("8_0", False)])
def test_a_rule_that_comes_later_changes_no_exclusions_of_an_array_P7_P8(
    job_id: str, updated: bool
) -> None:
    """Its tasks may differ in their labels. One on a host that the rule closes is given back."""
    there, new = bound("p1", APART, "kn1"), ruled("p2", PodRules())
    core = cluster(new)
    its = replace(job(new, job_id=job_id), identity=core.submission(new).identity)
    core.see(its, there, running(there, job_id="1"))
    assert bool(core.workload_wants(new, UpdateJob)) is updated
    core.see(replace(its, state=frozenset({"RUNNING"}), slurm_nodes=("n1",)))
    assert core.cancels(new) == [(job_id, True)]


def test_the_labels_of_a_node_change_P8() -> None:
    there = bound("p1", SPREAD, "kn1")
    new = ruled("p2", SPREAD)
    core = cluster(there, running(there, job_id="1"), new)
    row = core.graph.nodes.get("kn2")
    assert isinstance(row, Node)
    core.see(replace(row, offer=replace(row.offer, labels=((HOSTNAME, "kn2"), (ZONE, "b")))))
    assert core.submission(new).excluded == ("n1",)


def test_a_pod_that_is_ending_counts_for_no_spread_P8() -> None:
    """As with kube-scheduler. Anti-affinity keeps its distance until the Pod is gone."""
    pods = [bound(f"p{number}", SPREAD, f"kn{number}") for number in (1, 3)]
    jobs = [running(one, at=(one.node_name[1:],), job_id=one.job_id) for one in pods]
    new, alone = ruled("p4", SPREAD), ruled("p5", APART)
    core = cluster(*pods, *jobs, new, alone)
    assert core.submission(new).excluded == ()
    core.see(replace(pods[1], terminating=True))
    assert core.submission(new).excluded == ("n1", "n2")
    assert core.submission(alone).excluded == ("n1", "n3")


def test_the_first_pod_of_its_like_needs_a_node_with_the_label_P8() -> None:
    new = ruled("p1", BESIDE)
    unlabeled = node("kn4", offer=replace(OFFER, labels=((HOSTNAME, "kn4"),)))
    core = cluster(*room("n4"), unlabeled, new)
    assert core.submission(new).excluded == ("n4",)


def test_where_pods_stand_decides_and_not_where_one_arrives_P8() -> None:
    """Simulator, seed 9526017: two Pods were sent after each other, to a host for neither."""
    first, second = ruled("p2", BESIDE), ruled("p3", BESIDE)
    core = cluster(first, second, running(first, at=("n1",), job_id="2"))
    assert core.binds(first)
    assert core.submission(second).excluded == ("n3",)
    there = bound("p1", BESIDE, "kn3")
    core.see(there, running(there, at=("n3",), job_id="1"))
    assert core.submission(second).excluded == ("n1", "n2")
    core.see(running(second, at=("n2",), job_id="3"))
    assert not core.binds(first) + core.binds(second)


def test_a_pod_beside_which_another_may_run_matches_all_terms_P8() -> None:
    """As with kube-scheduler: two Pods that match one term each do not suffice."""
    tier = (Requirement("tier", "In", ("front",)),)
    rules = PodRules(beside=(PodTerm(ZONE, WEB), PodTerm(ZONE, tier)))
    there = bound("p1", PodRules(), "kn1")
    other = replace(bound("p2", PodRules(), "kn2"), labels=(("tier", "front"),))
    both = replace(bound("p3", PodRules(), "kn3"), labels=(("app", "web"), ("tier", "front")))
    jobs = [running(one, at=(one.node_name[1:],), job_id=one.job_id) for one in (there, other)]
    new = ruled("p4", rules, "db")
    core = cluster(there, other, *jobs, new)
    assert core.submission(new) is None
    core.see(both, running(both, at=("n3",), job_id="3"))
    assert core.submission(new).excluded == ("n1", "n2")


def test_a_node_without_every_label_of_the_spreads_counts_for_none_P8() -> None:
    """As with kube-scheduler: the Pod on kn4, which has no rack, is in no zone for this rule."""
    rules = PodRules(spread=(Spread(ZONE, WEB), Spread("rack", WEB, max_skew=2)))
    there = bound("p1", PodRules(), "kn4")
    new = ruled("p2", rules)
    racks = [host(name, zone)[1:] for name, zone in (("n1", "a"), ("n3", "b"))]
    nodes = [
        node(f"k{name}", offer=replace(OFFER, labels=((HOSTNAME, f"k{name}"), *more)))
        for name, more in (
            ("n1", (("rack", "r1"), (ZONE, "a"))),
            ("n3", (("rack", "r3"), (ZONE, "b"))),
            ("n4", ((ZONE, "b"),)),
        )
    ]
    rows = [row for each in (*racks, room("n4")[1:]) for row in each]
    core = Core(*nodes, *rows, there, running(there, at=("n4",), job_id="1"), new)
    assert core.submission(new).excluded == ("n4",)


def test_a_pod_about_to_be_bound_follows_the_labels_of_other_nodes_P8() -> None:
    there, new = bound("p1", SPREAD, "kn1"), ruled("p2", SPREAD)
    arrives = running(new, at=("n3",), job_id="8", started=False)
    core = cluster(there, running(there, job_id="1"), new, arrives)
    core.see(node("kn4"))  # takes those that follow the hosts once
    assert not core.cancels(new)
    row = core.graph.nodes.get("kn1")
    assert isinstance(row, Node)
    core.see(replace(row, offer=replace(row.offer, labels=((HOSTNAME, "kn1"), (ZONE, "b")))))
    assert core.cancels(new) == [("8", True)]


def test_pods_that_differ_in_a_label_read_from_now_on_need_no_turn_P8() -> None:
    """Simulator, seed 9484163: the second Pod waited until the next change of the first."""
    first, second = (
        replace(ruled(name, SPREAD), labels=(("app", "web"), ("tier", name)))
        for name in ("p1", "p2")
    )
    core = cluster(first, second, job(first))
    assert core.submission(second) is None
    reader = PodRules(apart=(PodTerm(HOSTNAME, (Requirement("tier", "In", ("none",)),)),))
    core.see(ruled("p3", reader, "db"))
    assert core.submission(second)
