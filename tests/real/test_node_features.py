"""Features, weight and topology of NodeSets on real servers (T1-T5), on both versions of Slurm."""

import json
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import CONF, NODES, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.testbed import SlurmConf

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.both_slurms("24.11 takes the topology from a file, 26.05 from the API"),
]

TREE = "- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n    - switch: root\n"
WITH_TREE = SlurmConf(
    slurmds=1, cpus=4, extra_lines=CONF.extra_lines, files={"topology.yaml": TREE}
)
FEATURES = {"static": ["fast"], "dynamic": {"gpu": {}, "rack": {"prefix": "rack-"}}}
ODD = (
    ("a-b", "c"),
    ("a", "b-c"),
    ("a-b.c_D", "0"),
    ("z" * 63, "r" * 62 + "1"),
    ("z" * 63, "r" * 62 + "2"),
)
"""Zone and rack of Nodes."""
ROUNDS = 20
CHANGES = 40
SLACK = 5
"""Other tests run beside this one."""


def start(version: str) -> Any:
    return farm_with(version, conf=CONF if version == "24.11" else WITH_TREE)


farms = for_each_slurm(start)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    for number in range(NODES):
        label(farms, f"k{number}", gpu=None, rack=None, zone=None)
    yield farms
    farms.clear()
    assert not farms.service.lines("surprise")


def label(farm: Farm, node: str, **labels: str | None) -> None:
    patch = json.dumps({"metadata": {"labels": labels}})
    farm.kube.kubectl("patch", f"node/{node}", "--type=merge", "-p", patch)


def node_of(farm: Farm, name: str) -> str:
    return str(farm.pods_of()[name]["spec"]["nodeName"])


def features(farm: Farm, name: str = "cpu-0") -> set[str]:
    """Return the features that are also active, without the stamp."""
    one = farm.slurm.slurm_node(name)
    both = set(one["features"]) & set(one["active_features"])
    return {each for each in both if not each.startswith("k8s.")}


def test_features_follow_the_labels_and_those_of_others_stay_T1(farm: Farm) -> None:
    farm.make(1, features=FEATURES)
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    wait_for(lambda: features(farm) == {"cpu", "fast"}, "the static feature")
    node = node_of(farm, "cpu-0")
    seconds = []
    for number in range(ROUNDS):
        label(farm, node, gpu=f"h{number}")
        begun_s = time.monotonic()
        wait_for(lambda last=f"h{number}": last in features(farm), "the feature")  # type: ignore[misc]
        assert features(farm) == {"cpu", "fast", f"h{number}"}
        seconds.append(time.monotonic() - begun_s)
    seconds.sort()
    print(f"label to feature: median {seconds[ROUNDS // 2]:.3f} s, p95 {seconds[-2]:.3f} s")
    both = "cpu,fast,h19,theirs"
    stamp = next(one for one in farm.slurm.slurm_node("cpu-0")["features"] if "k8s." in one)
    farm.slurm.scontrol(
        "update", "nodename=cpu-0", f"features={both},{stamp}", f"activefeatures={both},{stamp}"
    )
    label(farm, node, gpu=None, rack="r1")
    wait_for(lambda: features(farm) == {"cpu", "fast", "theirs", "rack-r1"}, "theirs stays")
    farm.change(features={"static": [], "dynamic": {"rack": None}})
    wait_for(lambda: features(farm) == {"cpu", "theirs"}, "ours are gone")
    assert stamp in farm.slurm.slurm_node("cpu-0")["features"]


def test_the_weight_changes_without_new_pods_and_after_a_reconfigure_T2(farm: Farm) -> None:
    farm.make(1, weight=3)
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    pod = farm.pods_of()["cpu-0"]["metadata"]["uid"]
    farm.change(weight=7)
    wait_for(lambda: farm.slurm.slurm_node("cpu-0")["weight"] == 7, "the weight")
    farm.slurm.reconfigure()
    wait_for(lambda: farm.slurm.slurm_node("cpu-0")["weight"] == 3, "Slurm takes it back")
    seconds = wait_for(lambda: farm.slurm.slurm_node("cpu-0")["weight"] == 7, "the weight again")
    print(f"the weight is ours again {seconds:.2f} s after the reconfigure")
    assert farm.pods_of()["cpu-0"]["metadata"]["uid"] == pod


def in_sync(farm: Farm) -> str:
    """Return the reason of condition TopologyInSync."""
    found = farm.status().get("conditions", ())
    return next((one["reason"] for one in found if one["type"] == "TopologyInSync"), "")


def topology(farm: Farm) -> str:
    return str(farm.slurm.slurm_node("cpu-0").get("topology", "none"))


def messages(farm: Farm) -> str:
    events = farm.kube.rest.call("GET", "/api/v1/namespaces/slurm/events")["items"]
    return " ".join(one.get("message", "") for one in events)


def test_the_topology_follows_the_labels_while_a_job_runs_T3_T4_T5(farm: Farm) -> None:
    """Slurm 24.11 has no such field: sunk-sync writes nothing there."""
    farm.make(1, topology={"tree": ["zone", "rack"]})
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    node = node_of(farm, "cpu-0")
    lacks = f"Node {node} has no label zone, rack"
    wait_for(lambda: lacks in messages(farm), "the Event")
    label(farm, node, zone="z1", rack="r1")
    if farm.slurm.version == "24.11":
        time.sleep(2)
        assert topology(farm) == "none"
        wait_for(lambda: in_sync(farm) == "NoScript", "the condition")
        assert not farm.service.writes("set-topology")
        return
    seconds = wait_for(lambda: topology(farm) == "tree:root:z1:z1-r1", "the place")
    print(f"labels to topology: {seconds:.3f} s")
    job = farm.slurm.submit("#!/bin/sh\nsleep 4\n", required_nodes=["cpu-0"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-0"], "the job running")
    label(farm, node, rack="r2")
    wait_for(lambda: topology(farm) == "tree:root:z1:z1-r2", "the other place")
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")
    label(farm, node, rack=None)
    wait_for(lambda: topology(farm) == "", "no place")
    wait_for(lambda: in_sync(farm) == "NoPlace", "the condition")
    wait_for(lambda: "MIXED" not in farm.records()["cpu-0"], "the end of the job")
    state = farm.slurm.rest.call("GET", farm.slurm.path(f"job/{job}"))["jobs"][0]["job_state"]
    assert state == ["COMPLETED"]


def test_switches_have_legal_names_and_equal_looking_paths_stay_apart_T8(farm: Farm) -> None:
    """The labels of two Nodes give one text if their values are only joined by hyphens."""
    if farm.slurm.version == "24.11":
        pytest.skip("test_topology_file.py shows it in topology.conf")
    for number, (zone, rack) in enumerate(ODD):
        label(farm, f"k{number}", zone=zone, rack=rack)
    farm.make(len(ODD), topology={"tree": ["zone", "rack"]})
    wait_for(lambda: farm.usable(len(ODD)), "the nodes in Slurm")
    names = [f"cpu-{number}" for number in range(len(ODD))]
    wait_for(lambda: all(place_of(farm, name) for name in names), "all places")
    wait_for(lambda: in_sync(farm) == "InSync", "the condition")
    switches = {place_of(farm, name)[-1] for name in names}
    print(sorted(switches))
    assert len(switches) == len(ODD)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,69}", one) for one in switches)
    shown = farm.slurm.scontrol("show", "topology")
    assert all(f"SwitchName={one} " in shown for one in switches)
    farm.slurm.reconfigure()
    job = farm.slurm.submit("#!/bin/sh\nexit 0\n", required_nodes=names, minimum_nodes=len(ODD))
    wait_for(lambda: "COMPLETED" in farm.job(job)["job_state"], "a job on all of them")


def place_of(farm: Farm, name: str) -> list[str]:
    """Return its switches from the top; empty: none yet."""
    return str(farm.slurm.slurm_node(name).get("topology") or "").split(":")[2:]


def test_a_changed_label_is_in_slurm_within_a_tenth_of_a_second_T1_T4(farm: Farm) -> None:
    """From the write of the label to the read of Slurm, with feature and, on 26.05, topology."""
    asked = {"tree": ["rack"]} if farm.slurm.version == "26.05" else {}
    farm.make(1, features={"dynamic": {"rack": {"prefix": "rack-"}}}, topology=asked or None)
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    node, taken = node_of(farm, "cpu-0"), []
    for number in range(CHANGES):
        begun_s = time.monotonic()
        farm.kube.rest.call(
            "PATCH",
            f"/api/v1/nodes/{node}",
            {"metadata": {"labels": {"rack": f"r{number}"}}},
            content_type="application/merge-patch+json",
        )
        wait_for(partial(follows, farm, f"r{number}", asked=asked), "the rack in Slurm")
        taken.append(time.monotonic() - begun_s)
    taken.sort()
    median_s, p95_s = taken[CHANGES // 2], taken[CHANGES * 95 // 100 - 1]
    print(f"label to Slurm, {CHANGES} changes: median {median_s:.3f} s, p95 {p95_s:.3f} s")
    assert p95_s < 0.1 * SLACK


def follows(farm: Farm, rack: str, *, asked: dict[str, Any]) -> bool:
    row = farm.slurm.slurm_node("cpu-0")
    placed = not asked or row.get("topology") == f"tree:root:{rack}"
    return placed and f"rack-{rack}" in row["features"]
