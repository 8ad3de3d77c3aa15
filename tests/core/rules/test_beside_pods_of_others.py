"""Hard rules between Pods of sunk-sync and Pods of other schedulers, with --watch-all-pods (P8)."""

from typing import Any

import pytest

from sunk_sync.core.model.facts import OTHER_PODS, Row, Taken
from sunk_sync.core.model.pod_spec import NO_RULES, OtherPod, PodRules, PodTerm, Requirement
from sunk_sync.core.translate.node_fit import Labels
from tests.core.rules.test_pod_rules import (
    APART,
    APART_BY_ZONE,
    BESIDE,
    HOSTNAME,
    PORT,
    SPREAD,
    WEB,
    host,
    ruled,
    space,
)
from tests.kit.build import Core, deleted, listing, running

EVERYWHERE = PodRules(apart=(PodTerm(HOSTNAME, WEB, ("*",)),))
IN_NS = PodRules(apart=(PodTerm(HOSTNAME, WEB, ("ns",)),))
TIER = PodRules(apart=(PodTerm(HOSTNAME, (Requirement("tier", "In", ("1",)),)),))
OF_TEAM, OF_OTHERS = (
    PodRules(apart=(PodTerm(HOSTNAME, WEB, (), (Requirement("team", "In", (team,)),)),))
    for team in ("x", "y")
)
SPACES = (space("ns", team="x"), space("elsewhere", team="y"))
AMOUNTS = (("pods", 1),)


def other(
    rules: PodRules = NO_RULES, labels: Labels = (("app", "web"),), **fields: Any
) -> OtherPod:
    return OtherPod(**{"namespace": "ns", "labels": labels, "rules": rules, **fields})


def on(node_name: str, *pods: OtherPod) -> Taken:
    """Return what is known of a Node; amounts never change here."""
    return Taken(node_name, AMOUNTS, tuple((one, 1) for one in pods))


def cluster(*rows: Row, kn1: OtherPod, **chosen: Any) -> Core:
    """Return n1 and n2 in zone a, n3 in zone b; a Pod of another scheduler is on kn1."""
    hosts = (*host("n1"), *host("n2"), *host("n3", "b"))
    core = Core(*hosts, *SPACES, *rows, watch_all_pods=True, **chosen)
    begun, ended = listing(OTHER_PODS)
    core.see(begun, on("kn1", kn1), *[on(name) for name in ("kn2", "kn3")], ended)
    return core


@pytest.mark.parametrize(
    ("theirs", "rules", "excluded"),
    [
        (other(), APART, ("n1",)),
        (other(), APART_BY_ZONE, ("n1", "n2")),
        (other(labels=(("app", "db"),)), APART, ()),
        (other(namespace="elsewhere"), APART, ()),
        (other(), EVERYWHERE, ("n1",)),
        (other(APART), NO_RULES, ("n1",)),
        (other(APART_BY_ZONE), NO_RULES, ("n1", "n2")),
        (other(APART, namespace="elsewhere"), NO_RULES, ()),
        (other(IN_NS, namespace="elsewhere"), NO_RULES, ("n1",)),
        (other(EVERYWHERE, namespace="elsewhere"), NO_RULES, ("n1",)),
        (other(OF_TEAM, namespace="elsewhere"), NO_RULES, ("n1",)),
        (other(OF_OTHERS, namespace="elsewhere"), NO_RULES, ()),
        (other(namespace="elsewhere"), OF_OTHERS, ("n1",)),
        (other(namespace="elsewhere"), OF_TEAM, ()),
        (other(TIER), NO_RULES, ()),
        (other(PORT, ()), PORT, ("n1",)),
        (other(PORT), NO_RULES, ()),
        (other(), BESIDE, ("n3",)),
        (other(), SPREAD, ("n1", "n2")),
        (other(terminating=True), SPREAD, ()),
    ],
    ids=[
        "apart from it", "apart by zone", "another label", "another namespace",
        "another namespace, and the rule reads all", "its rule keeps the Pod away",
        "its rule by zone", "its rule reads its own namespace", "its rule names the namespace",
        "its rule reads all namespaces", "its rule selects the namespace",
        "its rule selects another namespace", "apart from it in a selected namespace",
        "its namespace is not selected", "its rule reads another label", "the same port",
        "a port that the Pod does not need", "beside it", "spread away from its zone",
        "no spread counts one that ends",
    ],
)  # fmt: skip
def test_a_pod_is_compared_with_pods_of_others_P8(
    theirs: OtherPod, rules: PodRules, excluded: tuple[str, ...]
) -> None:
    new = ruled("p1", rules)
    assert cluster(new, kn1=theirs).submission(new).excluded == excluded


@pytest.mark.parametrize("rules", [APART, NO_RULES], ids=["its own rule", "the other's rule"])
def test_a_job_is_given_back_if_such_a_pod_came_first_P8(rules: PodRules) -> None:
    new = ruled("p1", rules)
    core = cluster(new, running(new), kn1=other(labels=()))
    assert core.binds(new) == [("p1", "kn1")]
    core.see(on("kn1", other(APART)))
    assert not core.binds(new)
    assert core.cancels(new) == [("7", True)]


def test_a_pod_without_a_host_is_decided_again_when_such_a_pod_leaves_P8() -> None:
    new = ruled("p1", PodRules(beside=(PodTerm(HOSTNAME, (Requirement("app", "In", ("db",)),)),)))
    core = cluster(new, kn1=other())
    assert core.submission(new) is None
    core.see(on("kn2", other(labels=(("app", "db"),))))
    assert core.submission(new).excluded == ("n1", "n3")
    core.see(on("kn2"))
    assert core.submission(new) is None


def test_the_end_of_the_only_rule_opens_the_host_again_P8() -> None:
    new = ruled("p1", NO_RULES)
    core = cluster(new, kn1=other(APART))
    assert core.submission(new).excluded == ("n1",)
    core.see(on("kn1", other()))
    assert core.submission(new).excluded == ()


def test_equal_pods_need_no_turn_if_a_rule_of_others_keeps_them_away_P8() -> None:
    pods = [ruled(name, NO_RULES) for name in ("p1", "p2")]
    core = cluster(*pods, kn1=other(APART))
    assert [core.submission(one).excluded for one in pods] == [("n1",), ("n1",)]


def test_of_many_equal_pods_each_counts_P8() -> None:
    """The last one that leaves the Node opens it."""
    new = ruled("p1", APART)
    core = cluster(new, kn1=other())
    core.see(Taken("kn1", AMOUNTS, ((other(), 2),)))
    core.see(Taken("kn1", AMOUNTS, ((other(), 1),)))
    assert core.submission(new).excluded == ("n1",)
    core.see(Taken("kn1", AMOUNTS, ((other(labels=(("app", "web"), ("unread", "1"))), 1),)))
    assert core.submission(new).excluded == ("n1",)
    core.see(on("kn1"))
    assert core.submission(new).excluded == ()


def test_nothing_is_counted_by_kind_while_no_pod_has_a_rule_P8() -> None:
    new = ruled("p1", NO_RULES)
    core = cluster(new, kn1=other())
    neighbours = core.graph.workloads.neighbours
    assert not neighbours.active
    ruled_one = ruled("p2", APART)
    core.see(ruled_one)
    assert core.submission(ruled_one).excluded == ("n1",)
    core.see(deleted("pods", ruled_one))
    assert not neighbours.active


def test_the_namespace_of_pods_of_others_joins_a_team_P8() -> None:
    new = ruled("p1", OF_TEAM)
    core = cluster(new, kn1=other(namespace="elsewhere"))
    assert core.submission(new).excluded == ()
    core.see(space("elsewhere", team="x"))
    assert core.submission(new).excluded == ("n1",)
