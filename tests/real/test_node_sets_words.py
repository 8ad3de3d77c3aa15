"""What a NodeSet says about itself on real servers: Events, conditions, columns, `explain`.

On 26.05: what is said does not depend on the version of Slurm. Seconds are printed (`-rP`).
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.real.conftest import require
from tests.real.node_farm import NODES, PATH, Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.stage import stays
from tests.real.test_rows_node_sets import explained
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SLEEP = "#!/bin/sh\nsleep {}\n"


@pytest.fixture(scope="module")
def farms() -> Iterator[Farm]:
    require(kube=KUBE_DEFAULT, slurm="26.05", scheduler=True)
    with farm_with("26.05", scheduler=True) as farm:
        yield farm


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    farms.clear()
    assert not farms.service.lines("surprise")


def described(farm: Farm) -> str:
    return farm.kube.kubectl("describe", "nset/cpu", "-n", "slurm")


def test_the_life_of_a_nodeset_is_told_in_its_events_N1_N6_N12_N23(farm: Farm) -> None:
    farm.make(2, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    farm.scale(3)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    farm.scale(2)
    wait_for(lambda: farm.is_available(2), "two nodes again")
    farm.change(memory="1Gi")
    wait_for(lambda: farm.is_updated(2), "both updated", deadline_s=60)
    reasons = ("CreatingPods", "ScaledOut", "ScaledIn", "EndingPods", "UpdateBegun", "UpdateEnded")
    for reason in reasons:
        wait_for(partial(farm.events, reason), f"Event {reason}")
    assert farm.events("ScaledOut") == ["from 2 to 3 Pods"]
    assert farm.events("ScaledIn") == ["from 3 to 2 Pods"]
    assert farm.events("CreatingPods")[0] == "makes 2 Pods: cpu-0, cpu-1"
    shown = described(farm)
    print(shown[shown.index("Events:") :])
    assert all(reason in shown for reason in reasons)
    farm.kube.kubectl("delete", "nset/cpu", "-n", "slurm", "--wait=false")
    wait_for(lambda: farm.events("NodeSetDeleted"), "Event NodeSetDeleted")


def columns(farm: Farm) -> dict[str, str]:
    head, row = farm.kube.kubectl("get", "nset/cpu", "-n", "slurm").strip().splitlines()
    return dict(zip(head.split(), row.split(), strict=True))


def test_a_node_that_a_person_drained_is_not_available_and_named_N2_N11(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    assert columns(farm)["AVAILABLE"] == "2"
    farm.slurm.scontrol("update", "nodename=cpu-1", "state=drain", "reason=fan broken")
    wait_for(lambda: farm.status()["available"] == 1, "one is available")
    assert columns(farm)["AVAILABLE"] == "1"
    assert "somebody else drained cpu-1: fan broken" in farm.condition("Available")[1]
    assert farm.condition()[0] == "Complete", "nothing is left to do for sunk-sync"
    told = explained(farm, "nodeset", "slurm/cpu")
    assert "scontrol update nodename=cpu-1 state=undrain" in told
    farm.slurm.scontrol("update", "nodename=cpu-1", "state=undrain")
    wait_for(lambda: farm.is_available(2), "both are available")


def test_a_node_of_somebody_else_keeps_its_name_and_is_named_N22(farm: Farm) -> None:
    farm.slurm.scontrol("create", "nodename=cpu-1", "state=cloud", "feature=theirs")
    try:
        wait_for(lambda: explained(farm, "host", "cpu-1"), "sunk-sync sees the node")
        farm.make(2)
        wait_for(lambda: farm.condition()[0] == "NameTaken", "the condition")
        assert "cpu-1: Slurm has a node of this name of somebody else" in farm.condition()[1]
        wait_for(lambda: farm.events("NameTaken"), "the Event")
        assert set(farm.pods_of()) == {"cpu-0"}
        told = explained(farm, "nodeset", "cpu")
        assert "scontrol delete nodename=cpu-1" in told
        (decision,) = [line for line in told.splitlines() if line.startswith("  decision")]
        assert "in sync" not in decision
    finally:
        farm.slurm.scontrol("delete", "nodename=cpu-1")
    wait_for(lambda: farm.usable(2), "the name is free")


def test_kube_scheduler_says_why_no_node_takes_a_pod_N13(farm: Farm) -> None:
    """The condition has it after a minute; `explain` has it at once."""
    farm.make(1, selector={"no-such-label": "x"})
    words = f"0/{NODES} nodes are available"
    wait_for(lambda: words in explained(farm, "nodeset", "cpu"), "the words in explain")
    wait_for(lambda: farm.condition()[0] == "PodsNotReady", "the condition", deadline_s=90)
    assert f"cpu-0: no Node takes the Pod: {words}" in farm.condition()[1]
    wait_for(lambda: farm.events("PodsNotReady"), "the Event")
    assert words in explained(farm, "nodeset", "cpu").partition("Kubernetes")[0], "the decision"


@pytest.mark.night("the garbage collector learns of a new kind after half a minute: alone it fails")
def test_orphaned_pods_come_back_to_a_nodeset_with_their_jobs_N23_N29(farm: Farm) -> None:
    """The way that docs/nodesets.md says."""
    farm.make(2)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    before = uids(farm)
    job = farm.slurm.submit(SLEEP.format(120), required_nodes=["cpu-1"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-1"], "the job running")
    farm.kube.kubectl("delete", "nset/cpu", "-n", "slurm", "--cascade=orphan")
    wait_for(lambda: not any(map(owners, farm.pods_of().values())), "Pods without an owner")
    assert stays(lambda: uids(farm) == before and farm.usable(2))

    farm.make(2)
    wait_for(lambda: farm.condition()[0] == "NameTaken", "their names are taken")
    uid = farm.kube.rest.call("GET", f"{PATH}/cpu")["metadata"]["uid"]
    owner = {
        "apiVersion": "sunk-sync.dev/v1alpha1",
        "kind": "NodeSet",
        "name": "cpu",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    selector = ["-l", "sunk.coreweave.com/nodeset=cpu"]
    names = farm.kube.kubectl("get", "pods", "-n", "slurm", *selector, "-o", "name").split()
    farm.kube.kubectl("patch", *names, "-n", "slurm", "--type=merge", "-p", patch)
    wait_for(lambda: farm.is_available(2), "both are of the NodeSet again")
    assert uids(farm) == before
    assert farm.job(str(job))["job_state"] == ["RUNNING"]
    farm.slurm.cancel(job)


def uids(farm: Farm) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in farm.pods_of().items()}


def owners(pod: Any) -> list[Any]:
    return list(pod["metadata"].get("ownerReferences", []))


def _has_pods(farm: Farm, number: int) -> bool:
    return len(farm.pods_of()) == number


def test_no_write_is_refused_because_a_record_is_gone_N10(farm: Farm) -> None:
    farm.make(5)
    wait_for(lambda: farm.usable(5), "five nodes in Slurm")
    since = farm.service.mark()
    for replicas in (0, 5, 0, 5, 0):
        farm.scale(replicas)
        wait_for(partial(farm.usable, replicas), f"{replicas} nodes", deadline_s=60)
        wait_for(partial(_has_pods, farm, replicas), f"{replicas} Pods")
    wait_for(lambda: len(deletions(farm, since)) == 15, "15 deleted records in the log")
    refused = farm.service.lines("write", since=since, outcome="refused")
    print(f"15 records deleted, {len(refused)} writes refused")
    assert not refused


def deletions(farm: Farm, since: int) -> list[Any]:
    return farm.service.writes("delete-node", since=since, outcome="done")


def test_an_idle_node_is_read_at_once_after_its_drain_and_once_S6_N8(farm: Farm) -> None:
    farm.make(3)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    before, begun_s = reads(farm), time.monotonic()
    farm.scale(0)
    wait_for(lambda: not farm.pods_of(), "all Pods gone")
    print(f"three idle Pods gone after {time.monotonic() - begun_s:.2f} s")
    assert reads(farm) - before == 3


def reads(farm: Farm) -> float:
    return farm.service.metric("sunk_sync_writes_total", action="get-slurm-node", outcome="done")
