"""Hard rules that compare Pods with Pods, on the real servers: row P8.

Each test prints how many jobs a Pod cost, and how long all of them took.
"""

import time
from collections import Counter
from typing import Any

import pytest

from tests.real.conftest import with_settings
from tests.real.service import NAMESPACE
from tests.real.stage import Host, stays
from tests.real.testbed.kube_objects import REQUIRED
from tests.real.workloads import HOSTNAME, Load, PodStage, pod_term, with_port

STAGE_HOSTS = 61
pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("scheduler"),
    pytest.mark.timeout(180),
    with_settings(gate="on"),
]
WEB = {"app": "web"}
SELECTOR = {"matchLabels": WEB}


def apart(key: str = HOSTNAME) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [pod_term("web", key)]}}}


def spread(key: str) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": SELECTOR}]}


def replicas(pods: PodStage, count: int, *, pool: str, **spec: Any) -> list[Load]:
    chosen = {"pool": pool}
    return [pods.load(nodeSelector=chosen, labels=WEB, **spec) for _ in range(count)]


def until_bound(loads: list[Load], what: str) -> None:
    begun_s = time.monotonic()
    for load in loads:
        load.until_bound(within_s=60)
    took_s = time.monotonic() - begun_s
    jobs = sum(len(load.jobs) for load in loads)
    print(f"{len(loads)} Pods {what}: bound after {took_s:.2f} s, {jobs} jobs")
    assert jobs <= 1.3 * len(loads)


def label(pods: PodStage, hosts: list[Host], key: str, values: str) -> None:
    for host, value in zip(hosts, values, strict=True):
        pods.bed.kube.kubectl("label", "node", host.name, f"{key}={value}")


@pytest.mark.parametrize(
    ("name", "rule"), [("apart", apart()), ("port", with_port(8080))], ids=["apart", "port"]
)
def test_replicas_with_one_rule_run_on_one_node_each_P8(
    pods: PodStage, name: str, rule: dict[str, Any]
) -> None:
    hosts = pods.pool(name, 3)
    loads = replicas(pods, 3, pool=name, **rule)
    until_bound(loads, f"by rule {name}")
    assert {load.node for load in loads} == {host.name for host in hosts}
    (late,) = replicas(pods, 1, pool=name, **rule)
    late.until(lambda: "nodes are available" in late.message)
    assert stays(lambda: not late.jobs)
    loads[1].delete(now=True)
    late.until_bound()
    assert late.node not in {loads[0].node, loads[2].node}


@pytest.mark.night("forty jobs one after another")
def test_forty_replicas_run_on_forty_nodes_P8(pods: PodStage) -> None:
    pods.pool("forty", 40)
    loads = replicas(pods, 40, pool="forty", **apart())
    until_bound(loads, "apart")
    assert len({load.node for load in loads}) == 40


def test_replicas_spread_over_zones_P8(pods: PodStage) -> None:
    hosts = pods.pool("zones", 6)
    label(pods, hosts, "test/zone", "aaabbc")
    loads = replicas(pods, 6, pool="zones", **spread("test/zone"))
    until_bound(loads, "spread over three zones")
    zone_of = {host.name: zone for host, zone in zip(hosts, "aaabbc", strict=True)}
    assert Counter(zone_of[load.node] for load in loads) == {"a": 2, "b": 2, "c": 2}


def test_a_pod_runs_in_the_zone_of_the_pod_that_it_needs_P8(pods: PodStage) -> None:
    hosts = pods.pool("beside", 4)
    label(pods, hosts, "test/row", "aabb")
    needs = {"affinity": {"podAffinity": {REQUIRED: [pod_term("db", "test/row")]}}}
    (web,) = replicas(pods, 1, pool="beside", **needs)
    web.until(lambda: "didn't match pod affinity rules" in web.message)
    db = pods.load(hosts[3], labels={"app": "db"})
    db.until_bound()
    web.until_bound()
    assert web.node in {hosts[2].name, hosts[3].name}


def test_each_revision_is_spread_for_itself_P8(pods: PodStage) -> None:
    """As in the rollout of a Deployment: without the key both new Pods would go to zone b."""
    hosts = pods.pool("revisions", 4)
    label(pods, hosts, "test/side", "aabb")
    for host in hosts[:2]:
        pods.load(host, labels={**WEB, "rev": "old"}).until_bound()
    rule = spread("test/side")
    rule["topologySpreadConstraints"][0]["matchLabelKeys"] = ["rev"]
    labels, chosen = {**WEB, "rev": "new"}, {"pool": "revisions"}
    loads = [pods.load(nodeSelector=chosen, labels=labels, **rule) for _ in range(2)]
    until_bound(loads, "of a new revision")
    sides = {host.name: side for host, side in zip(hosts, "aabb", strict=True)}
    assert Counter(sides[load.node] for load in loads) == {"a": 1, "b": 1}


def test_a_rule_follows_the_labels_of_namespaces_P8(pods: PodStage) -> None:
    (host,) = pods.pool("team", 1)
    term = {**pod_term("web", HOSTNAME), "namespaceSelector": {"matchLabels": {"test/team": "x"}}}
    alone = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    pods.bed.kube.kubectl("label", "namespace", NAMESPACE, "test/team=x")
    first, *_ = replicas(pods, 1, pool="team", **alone)
    first.until_bound()
    (second,) = replicas(pods, 1, pool="team")
    second.until(lambda: "didn't satisfy existing pods anti-affinity rules" in second.message)
    assert stays(lambda: not second.jobs)
    pods.bed.kube.kubectl("label", "namespace", NAMESPACE, "test/team-")
    second.until_bound()
    assert second.node == first.node == host.name
