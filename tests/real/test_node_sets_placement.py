"""Numbered slurmd Pods go where kube-scheduler places those of a StatefulSet (N1, N19).

Bound by the real kube-scheduler. Seconds are printed (`-rP`).
"""

import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import require
from tests.real.node_farm import NODES, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.stage import stays
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.rest import RestError

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def farms() -> Iterator[Farm]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT, scheduler=True)
    with farm_with(SLURM_DEFAULT, scheduler=True) as made:
        yield made


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    for number in range(NODES):
        farms.kube.cordon(f"k{number}", unschedulable=False)
        untaint(farms, f"k{number}")
    farms.clear()
    assert not farms.service.lines("surprise")


def places(farm: Farm) -> set[str]:
    """Return the Nodes of the Pods that have one."""
    nodes = {pod["spec"].get("nodeName", "") for pod in farm.pods_of().values()}
    return nodes - {""}


def silence(farm: Farm, node: str) -> None:
    """Let a Node be silent, with the taints of the node lifecycle controller."""
    farm.kube.set_node_ready(node, ready=False)
    for effect in ("NoSchedule", "NoExecute"):
        taint = f"node.kubernetes.io/unreachable:{effect}"
        farm.kube.kubectl("taint", "--overwrite", "node", node, taint)


def untaint(farm: Farm, node: str) -> None:
    farm.kube.set_node_ready(node, ready=True)
    farm.kube.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def evict(farm: Farm, pod: str) -> None:
    """Evict a Pod, as `kubectl drain` does after the cordon."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "slurm"},
    }
    farm.kube.rest.call("POST", f"/api/v1/namespaces/slurm/pods/{pod}/eviction", body)


def test_no_numbered_pod_goes_to_a_cordoned_or_silent_node_N1(farm: Farm) -> None:
    silent, cordoned = ("k0", "k1"), ("k2",)
    for name in cordoned:
        farm.kube.cordon(name, unschedulable=True)
    for name in silent:
        silence(farm, name)
    farm.make(3)
    wait_for(lambda: farm.usable(3), "three nodes in Slurm")
    assert places(farm) == {"k3", "k4", "k5"}


def test_after_kubectl_drain_slurmd_comes_up_on_another_node_N1(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.is_available(1), "a node in Slurm")
    (before,) = places(farm)
    farm.kube.cordon(before, unschedulable=True)
    began_s = time.monotonic()
    wait_for(lambda: _evicted(farm, "cpu-0"), "the eviction")
    wait_for(lambda: places(farm) and before not in places(farm), "another Node")
    wait_for(lambda: farm.usable(1), "its node in Slurm")
    print(f"usable on another Node {time.monotonic() - began_s:.2f} s after the cordon")


def _evicted(farm: Farm, pod: str) -> bool:
    try:
        evict(farm, pod)
    except RestError:
        return False
    return True


def test_slurmd_stays_on_a_node_that_is_silent_or_cordoned_N19(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.is_available(1), "a node in Slurm")
    (node,) = places(farm)
    uid = farm.pods_of()["cpu-0"]["metadata"]["uid"]
    farm.kube.cordon(node, unschedulable=True)
    silence(farm, node)
    wait_for(lambda: "DRAIN" in farm.records()["cpu-0"], "the drain")
    assert stays(lambda: "deletionTimestamp" not in farm.pods_of()["cpu-0"]["metadata"])
    untaint(farm, node)
    farm.kube.cordon(node, unschedulable=False)
    wait_for(lambda: farm.is_available(1), "its node in use again", deadline_s=40)
    pod = farm.pods_of()["cpu-0"]
    assert pod["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in pod["metadata"]
