"""One slurmd Pod for each Node, on real servers, bound by the real kube-scheduler (N17, N18, N22).

Seconds are printed (`-rP`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import for_each_slurm, require
from tests.real.node_farm import NODES, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.testbed.kube_objects import node

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SLEEP = "#!/bin/sh\nsleep {}\n"
POOL = {"pool": "cpu"}


@contextmanager
def scheduled(version: str) -> Iterator[Farm]:
    require(scheduler=True)
    with farm_with(version, scheduler=True) as made:
        yield made


farms = for_each_slurm(scheduled)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    farms.clear()
    for number in range(NODES):
        if not farms.kube.kubectl("get", "node", f"k{number}", "--ignore-not-found"):
            farms.kube.rest.call("POST", "/api/v1/nodes", node(f"k{number}"))
        farms.kube.cordon(f"k{number}", unschedulable=False)
    farms.kube.kubectl("label", "nodes", "--all", "pool-")
    assert not farms.service.lines("surprise")


def label(farm: Farm, *names: str) -> None:
    farm.kube.kubectl("label", "node", *names, "pool=cpu")


def places(farm: Farm) -> dict[str, str]:
    """Return the Node of each Pod."""
    return {name: pod["spec"].get("nodeName", "") for name, pod in farm.pods_of().items()}


def test_each_node_with_the_label_gets_a_pod_also_a_cordoned_one_N17(farm: Farm) -> None:
    label(farm, "k0", "k1")
    farm.make(None, selector=POOL, scalingMode="DaemonSet")
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    assert places(farm) == {"cpu-k0": "k0", "cpu-k1": "k1"}
    began_s = time.monotonic()
    label(farm, "k2")
    wait_for(lambda: farm.usable(3), "the third")
    print(f"usable in Slurm {time.monotonic() - began_s:.2f} s after `kubectl label` began")
    farm.kube.cordon("k3", unschedulable=True)
    label(farm, "k3")
    wait_for(lambda: "DRAIN" in farm.records().get("cpu-k3", ()), "the cordoned one, drained")
    wait_for(lambda: farm.status().get("desired") == 4, "the status")
    farm.kube.cordon("k3", unschedulable=False)
    wait_for(lambda: farm.is_available(4), "it is free")


def test_a_node_that_matches_no_more_loses_its_pod_after_its_jobs_N17_N7_N10(farm: Farm) -> None:
    label(farm, "k0", "k1")
    farm.make(None, selector=POOL, scalingMode="DaemonSet")
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(4), required_nodes=["cpu-k0"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-k0"], "the job running")
    farm.kube.kubectl("label", "node", "k0", "pool-")
    wait_for(lambda: "DRAIN" in farm.records()["cpu-k0"], "its node drained")
    assert "node-mismatch of NodeSet cpu" in farm.slurm.slurm_node("cpu-k0")["reason"]
    wait_for(lambda: set(farm.records()) == {"cpu-k1"}, "the record gone", deadline_s=40)
    (done,) = farm.slurm.rest.call("GET", farm.slurm.path(f"job/{job}"))["jobs"]
    assert done["job_state"] == ["COMPLETED"]
    assert places(farm) == {"cpu-k1": "k1"}
    label(farm, "k0")
    wait_for(lambda: farm.usable(2), "it is back")


def test_a_node_that_is_gone_takes_its_record_along_N17_N10(farm: Farm) -> None:
    label(farm, "k0", "k1")
    farm.make(None, selector=POOL, scalingMode="DaemonSet")
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    farm.kube.kubectl("delete", "node", "k1")
    began_s = time.monotonic()
    wait_for(lambda: set(farm.records()) == {"cpu-k0"}, "the record gone", deadline_s=150)
    print(f"its record was gone {time.monotonic() - began_s:.1f} s after the Node")
    assert places(farm) == {"cpu-k0": "k0"}


def test_replicas_limit_the_number_of_nodes_N18_N6(farm: Farm) -> None:
    label(farm, "k0", "k1", "k2")
    farm.make(None, selector=POOL, scalingMode="DaemonSet")
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    farm.slurm.submit(SLEEP.format(5), required_nodes=["cpu-k2"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-k2"], "the job running")
    farm.scale(1)
    wait_for(lambda: set(farm.records()) == {"cpu-k2"}, "the idle ones are gone")
    farm.scale(2)
    wait_for(lambda: farm.usable(2), "one more")


def test_of_two_nodes_that_give_one_name_none_gets_a_pod_N22(farm: Farm) -> None:
    names = ("twin.x", "twin.y")
    for name in names:
        farm.kube.rest.call("POST", "/api/v1/nodes", node(name, labels=POOL))
    try:
        label(farm, "k0")
        farm.make(None, selector=POOL, scalingMode="DaemonSet")
        wait_for(lambda: farm.usable(1), "the other Node in Slurm")
        wait_for(lambda: farm.condition()[0] == "NameTaken", "the condition")
        assert "more than one Node (twin.x, twin.y)" in farm.condition()[1]
        assert places(farm) == {"cpu-k0": "k0"}
        farm.kube.kubectl("delete", "node", names[1])
        wait_for(lambda: farm.usable(2), "the name is free")
        assert places(farm) == {"cpu-k0": "k0", "cpu-twin": names[0]}
        farm.kube.kubectl("label", "node", names[0], "pool-")
        wait_for(lambda: set(farm.records()) == {"cpu-k0"}, "the Pod gone again")
    finally:
        farm.kube.kubectl("delete", "node", "--ignore-not-found", *names)
