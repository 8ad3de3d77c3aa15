"""P7, P28: kube-scheduler and our own node fit, compared on the same Pods and Nodes.

A label pins each Pod to one Node in addition to its own rules, so the result is a verdict on this
pair. The scheduler's message covers all Nodes of the round.
"""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from sunk_sync.core.model.facts import Node, Observed
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.node_fit import Amounts, Demand, Reasons, why_none
from sunk_sync.kube.decode.source_decoder import OFFERING_NODES, PODS
from tests.real.conftest import require
from tests.real.fitness_draw import NAMESPACE, PIN, Draw
from tests.real.testbed import KubeServer, kube_objects
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = pytest.mark.real

CLUSTERS, TURNS = 4, 5
PAIRS = 200
"""Nodes of a cluster, and Pods of a round."""
SETTLED_S = 60
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODE_PATH = "/api/v1/nodes"
NOW = {"gracePeriodSeconds": 0}
PROBE = "probe"


@pytest.fixture(scope="module")
def server() -> Iterator[KubeServer]:
    """Without controllers, which would add taints."""
    require(kube=KUBE_DEFAULT, scheduler=True)
    flags = ["--disable-admission-plugins=TaintNodesByCondition", "--delete-collection-workers=16"]
    with KubeServer(controllers=False, kubelet=False, apiserver_flags=flags) as server:
        server.ensure_namespace(NAMESPACE)
        server.start_scheduler()
        yield server


class Fate(NamedTuple):
    """What became of a Pod."""

    pod: Any
    node: str
    message: str


def settle(server: KubeServer, count: int) -> dict[str, Fate]:
    """Wait until the scheduler has a result for each Pod."""
    deadline_s = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline_s:
        pods = server.rest.call("GET", f"{POD_PATH}?labelSelector={PIN}")["items"]
        fates = {one["metadata"]["name"]: fate for one in pods if (fate := fate_of(one))}
        if len(fates) == count:
            return fates
        time.sleep(0.25)
    raise AssertionError(f"{len(fates)} of {count} Pods after {SETTLED_S} s")


def fate_of(pod: Any) -> Fate | None:
    if node := pod["spec"].get("nodeName"):
        return Fate(pod, node, "")
    condition = kube_objects.conditions(pod).get("PodScheduled", {})
    unfit = condition.get("reason") == "Unschedulable"
    return Fate(pod, "", condition["message"]) if unfit else None


class Cluster:
    """Nodes and the Pods on them."""

    def __init__(self, server: KubeServer, seed: int) -> None:
        self.server = server
        self.draw = Draw(seed, old=server.version.startswith("1.30."))
        self.names = [f"n{seed}-{number}" for number in range(PAIRS)]
        residents = [pod for name in self.names for pod in self.draw.residents(name)]
        server.create(kube_objects.node(PROBE, labels={PIN: PROBE}))
        server.create(*map(self.draw.node, self.names))
        server.create(*residents)
        wire = server.rest.call("GET", NODE_PATH)["items"]
        self.nodes = {node.name: node for node in map(node_fact, wire)}
        self.taken = taken_by(server.rest.call("GET", POD_PATH)["items"])

    def clean(self) -> None:
        for path in (POD_PATH, NODE_PATH):
            self.server.rest.call("DELETE", path, NOW)


class Round:
    """One Pod for each Node of a cluster."""

    def __init__(self, cluster: Cluster, turn: int) -> None:
        self._cluster = cluster
        self._names = {name: f"p{turn}-{name}" for name in cluster.names}
        self._await_sight(f"{PROBE}{turn}")
        draw = partial(cluster.draw.pod, others=cluster.names)
        cluster.server.create(*(draw(pod, pin=name) for name, pod in self._names.items()))
        self._fates = settle(cluster.server, PAIRS)

    def _await_sight(self, probe: str) -> None:
        """Wait until the scheduler has seen everything: it binds a Pod that was created last."""
        server = self._cluster.server
        spec = {"nodeSelector": {PIN: PROBE}}
        server.create(kube_objects.pod(probe, namespace=NAMESPACE, spec=spec))
        deadline_s = time.monotonic() + SETTLED_S
        while not server.pod(probe, NAMESPACE)["spec"].get("nodeName"):
            assert time.monotonic() < deadline_s, "the scheduler does not schedule"
            time.sleep(0.02)
        server.delete_pod(probe, NAMESPACE, grace_s=0)

    def compare(self) -> Counter[str]:
        """Compare all; return how often each verdict was given."""
        verdicts: Counter[str] = Counter()
        for name, pod in self._names.items():
            fate = self._fates[pod]
            spec = spec_fact(fate.pod)
            demand = Demand(spec)
            unfit = {
                node.name: demand.reasons(node, self._taken(node.name))
                for node in self._cluster.nodes.values()
            }
            reasons = unfit[name]
            details = self._details(name, reasons)
            assert bool(fate.node) == (not reasons), details
            assert agreed(fate, spec, unfit.values()), details
            verdicts.update(shortened(reasons) or ["fits"])
        return verdicts

    def _taken(self, name: str) -> Amounts:
        return self._cluster.taken.get(name, ())

    def _details(self, name: str, reasons: Reasons) -> str:
        fate = self._fates[self._names[name]]
        theirs = fate.message or f"bound to {fate.node}"
        spec, node = spec_fact(fate.pod), self._cluster.nodes[name]
        return f"ours: {reasons}\ntheirs: {theirs}\n{spec}\n{node}\ntaken: {self._taken(name)}"

    def clean(self) -> None:
        self._cluster.server.rest.call("DELETE", f"{POD_PATH}?labelSelector={PIN}", NOW)


def agreed(fate: Fate, spec: PodSpec, unfit: Iterable[Reasons]) -> bool:
    """Whether the scheduler counted the same reasons over all Nodes."""
    if fate.node or any(term.fields for term in spec.terms or ()):
        return True  # Nodes excluded by name are counted separately (1.35) or not at all (1.30).
    if "untolerated taint(s)" in fate.message:
        unfit = map(shortened, unfit)
    said = fate.message.partition(". ")[0].rstrip(".")
    return said == why_none(unfit, nodes=PAIRS + 1)


def shortened(reasons: Reasons) -> Reasons:
    """Shorten reasons as Kubernetes 1.35 does, which does not name the taint."""
    return tuple(re.sub(r"taint \{.*\}", "taint(s)", one) for one in reasons)


@pytest.mark.timeout(600)
def test_node_fit_agrees_with_kube_scheduler_P7_P28(server: KubeServer) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(CLUSTERS):
        cluster = Cluster(server, seed)
        for turn in range(TURNS):
            one = Round(cluster, turn)
            verdicts += one.compare()
            one.clean()
        cluster.clean()
    print(verdicts)
    assert verdicts["fits"] >= PAIRS * CLUSTERS * TURNS // 10
    assert len(verdicts) == 10
    assert min(verdicts.values()) >= CLUSTERS * TURNS


def decoded(decoder: Any, wire: Any) -> Any:
    seen = decoder.object(json.dumps(wire).encode())
    assert isinstance(seen, Observed), seen
    return seen.row


def node_fact(wire: Any) -> Node:
    node: Node = decoded(OFFERING_NODES, wire)
    return node


def spec_fact(wire: Any) -> PodSpec:
    spec: PodSpec = decoded(PODS, wire).spec
    return spec


def taken_by(pods: Iterable[Any]) -> dict[str, Amounts]:
    taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        taken[pod["spec"]["nodeName"]].update({**dict(spec_fact(pod).requests), "pods": 1})
    return {node: tuple(sorted(one.items())) for node, one in taken.items()}
