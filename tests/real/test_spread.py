"""A Deployment spread over three zones while Nodes fail and replicas come and go (P8).

Each binding is judged by the Pods and Nodes seen in the seconds before it.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.real.conftest import with_settings
from tests.real.service import NAMESPACE
from tests.real.stage import Host, eventually, stays
from tests.real.testbed import Bed
from tests.real.workloads import PodStage, workload_spec

STAGE_HOSTS = 6
ZONES = "aabbcc"
ZONE, APP = "test/spread-zone", "spread-out"
LOOK_S = 0.04
KNOWN_S = 1.5
"""What changed so shortly before a binding may not be known to sunk-sync."""
GONE_S = 2
"""Pods of a failed Node are deleted so long after its taint."""
FAILED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{APP}"

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("scheduler"),
    pytest.mark.timeout(240),
    with_settings(gate="on"),
]


class Sample(NamedTuple):
    at_s: float
    nodes: Mapping[str, str]
    """UID of each Pod that is bound and not ending → its Node."""


class Sampler:
    """Looks at the Pods all the time; `skews` holds how uneven each binding left the zones."""

    def __init__(self, bed: Bed, zone_of: Mapping[str, str]) -> None:
        self._bed, self._zone_of = bed, zone_of
        self._recent: deque[Sample] = deque()
        self._seen: set[str] = set()
        self.skews: list[int] = []
        self.samples = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def now(self) -> Counter[str]:
        return self._counts(self.look())

    def _counts(self, sample: Sample, *, but: str = "") -> Counter[str]:
        zones = Counter(dict.fromkeys(ZONES, 0))
        zones.update(self._zone_of[node] for uid, node in sample.nodes.items() if uid != but)
        return zones

    def look(self) -> Sample:
        pods = self._bed.kube.rest.call("GET", PODS)["items"]
        nodes = {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in pods
            if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        }
        return Sample(time.monotonic(), nodes)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            one = self.look()
            self.samples += 1
            self._recent.append(one)
            while self._recent[0].at_s < one.at_s - KNOWN_S:
                self._recent.popleft()
            for uid in one.nodes.keys() - self._seen:
                self._seen.add(uid)
                self.skews.append(self._skew(uid, self._zone_of[one.nodes[uid]]))

    def _skew(self, uid: str, zone: str) -> int:
        """Return the least skew that sunk-sync may have seen when it bound this Pod."""
        counts = [self._counts(one, but=uid) for one in self._recent]
        there = min(one[zone] for one in counts) + 1
        return there - min(max(one[other] for one in counts) for other in set(ZONES))


def deployment(replicas: int, pool: str) -> dict[str, Any]:
    labels = {"app": APP}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    gone = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": GONE_S}
        for key in FAILED
    ]
    spec = {
        **workload_spec(),
        "nodeSelector": {"pool": pool},
        "tolerations": gone,
        "topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": labels}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": APP}, "spec": body}


def test_the_spread_is_kept_while_nodes_fail_and_replicas_come_and_go_P8(pods: PodStage) -> None:
    hosts = pods.pool("spread-out", len(ZONES))
    zone_of = {host.name: zone for host, zone in zip(hosts, ZONES, strict=True)}
    for host in hosts:
        pods.bed.kube.kubectl("label", "node", host.name, f"{ZONE}={zone_of[host.name]}")
    kube = pods.bed.kube
    kube.rest.call("POST", DEPLOYMENTS, deployment(9, "spread-out"))
    with Sampler(pods.bed, zone_of) as sampler:
        begun_s = time.monotonic()
        until(sampler, a=3, b=3, c=3)
        one_of_two_fails(sampler, hosts[0], a=3, b=3, c=3)
        a_zone_fails(sampler, hosts[4:])
        scale(pods, 4)
        eventually(lambda: sampler.now().total() == 4, "four Pods are left")
        scale(pods, 12)
        until(sampler, a=4, b=4, c=4)
        took_s = time.monotonic() - begun_s
    print(
        f"{pods.version}: {len(sampler.skews)} bindings in {took_s:.0f} s, skew at most"
        f" {max(sampler.skews)}, {sampler.samples} samples"
    )
    kube.rest.call("DELETE", f"{DEPLOYMENTS}/{APP}")
    assert len(sampler.skews) > 20
    assert max(sampler.skews) == 1


def until(sampler: Sampler, **wanted: int) -> None:
    eventually(
        lambda: sampler.now() == Counter(wanted),
        f"{wanted}",
        within_s=40,
        show=lambda: str(sampler.now()),
    )


def one_of_two_fails(sampler: Sampler, host: Host, **wanted: int) -> None:
    """The other Node of the zone takes the Pods."""
    host.set_node_ready(ready=False)
    eventually(lambda: host.name not in sampler.look().nodes.values(), "no Pod", within_s=40)
    until(sampler, **wanted)
    host.set_node_ready(ready=True)


def a_zone_fails(sampler: Sampler, hosts: list[Host]) -> None:
    """Its Pods wait: one more in another zone would be too many."""
    for host in hosts:
        host.set_node_ready(ready=False)
    until(sampler, a=3, b=3, c=0)
    assert stays(lambda: sampler.now() == Counter(a=3, b=3, c=0))
    for host in hosts:
        host.set_node_ready(ready=True)
    until(sampler, a=3, b=3, c=3)


def scale(pods: PodStage, replicas: int) -> None:
    pods.bed.kube.kubectl("scale", f"deployment/{APP}", "-n", NAMESPACE, f"--replicas={replicas}")
