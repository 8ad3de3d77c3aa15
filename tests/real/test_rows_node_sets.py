"""Rows of NodeSets that need a fault or a second owner: N5, N14, N15, N19-N22, N24, N29, N30, T9.

On both versions of Slurm. Seconds are printed (`-rP`).
"""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sunk_sync.cli.explain import Question, explain
from sunk_sync.core.explain.account import Kind
from sunk_sync.settings.types import parse_loopback
from tests.real.conftest import for_each_slurm
from tests.real.node_farm import NODES, PATH, Farm, farm_with
from tests.real.service import QUICK
from tests.real.slurmd_pods import OUT_OF_SERVICE, wait_for
from tests.real.stage import stays
from tests.real.testbed.kube_objects import pod as pod_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

MAPS = "/api/v1/namespaces/slurm/configmaps"
ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
PODGC_S = 60
"""kube-controller-manager looks for Pods of Nodes out of service every 20 s."""

farms = for_each_slurm(farm_with)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    farms.clear()
    assert not farms.service.lines("surprise")


def uids(farm: Farm) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in farm.pods_of().items()}


def explained(farm: Farm, kind: Kind, name: str) -> str:
    """Return what `sunk-sync explain` prints."""
    (line,) = farm.service.lines("operators server open", since=farm.service.begun)[-1:]
    out = io.StringIO()
    explain(Question(kind=kind, name=name, address=parse_loopback(line["address"])), out=out)
    return out.getvalue()


def test_only_a_change_of_the_pod_restarts_it_and_on_delete_a_person_does_N14_N15(
    farm: Farm,
) -> None:
    farm.make(2, updateStrategy={"type": "OnDelete"})
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    before = uids(farm)
    farm.kube.kubectl("label", "nset/cpu", "-n", "slurm", "team=a")
    farm.kube.kubectl("annotate", "nset/cpu", "-n", "slurm", "note=x")
    farm.change(updateStrategy=ONE_BY_ONE, minReadySeconds=1)
    status = {"status": {"conditions": [], "idle": 7}}
    farm.kube.patch(f"{PATH}/cpu/status", status)
    farm.slurm.scontrol("update", "partitionname=main", "maxtime=60")
    wait_for(lambda: farm.status().get("idle") == 2, "the status is repaired")
    assert stays(lambda: uids(farm) == before)
    farm.slurm.scontrol("update", "partitionname=main", "maxtime=infinite")

    farm.change(updateStrategy={"type": "OnDelete", "rollingUpdate": None}, memory="1Gi")
    wait_for(lambda: farm.status().get("updated") == 0, "the other template is seen")
    assert stays(lambda: uids(farm) == before)
    assert not any("DRAIN" in state for state in farm.records().values())
    farm.kube.kubectl("delete", "pod/cpu-1", "-n", "slurm", "--wait=false")
    wait_for(lambda: is_replaced(farm, before, "cpu-1"), "another Pod")
    wait_for(lambda: farm.usable(2), "its node in Slurm")
    sizes = {one["name"]: one["real_memory"] for one in farm.slurm.slurm_nodes()}
    assert (sizes["cpu-0"], sizes["cpu-1"]) == (2048, 1024)
    assert uids(farm)["cpu-0"] == before["cpu-0"]


def test_a_pod_that_fails_is_made_again_after_growing_pauses_N21(farm: Farm) -> None:
    """The first pauses are 1 and 2 s."""
    fails = {"testbed/run-s": "0", "testbed/exit-code": "1"}
    template = {"metadata": {"annotations": fails}, "spec": farm.template()}
    since, begun_s = farm.service.mark(), time.monotonic()
    farm.make(1, template=template)
    made: list[float] = []
    while len(made) < 3:
        wait_for(lambda: len(creations(farm, since)) > len(made), "the next Pod")
        made.append(time.monotonic() - begun_s)
    print("Pods made after", [f"{one:.1f} s" for one in made])
    assert made[2] - made[0] >= 2.7
    wait_for(lambda: farm.condition()[0] == "PodsFail", "the condition")
    print(farm.condition())


def creations(farm: Farm, since: int) -> list[Any]:
    return farm.service.writes("create-pod", since=since, outcome="done")


def test_of_two_owners_of_one_name_none_takes_it_from_the_other_N22_N29(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.usable(1), "one node in Slurm")
    theirs = foreign_pod(farm, "cpu-1")
    try:
        before = uids(farm)
        farm.scale(2)
        wait_for(lambda: is_taken(farm, "cpu", "Pod slurm/cpu-1"), "the condition")
        farm.scale(0)
        wait_for(lambda: set(uids(farm)) == {"cpu-1"}, "our Pod gone")
        assert stays(lambda: uids(farm) == {"cpu-1": before["cpu-1"]})
        metadata = farm.pods_of()["cpu-1"]["metadata"]
        assert metadata["ownerReferences"] == theirs
        assert "sunk.coreweave.com/pending-deletion" not in metadata["annotations"]
        farm.scale(2)
        wait_for(lambda: farm.usable(1), "our node again")
        farm.make(2, name="rival", podNamePrefix="cpu")
        wait_for(lambda: is_taken(farm, "rival", "Pod slurm/cpu-0"), "the condition of the other")
    finally:
        farm.kube.kubectl("delete", "pod/cpu-1", "configmap/theirs", "-n", "slurm", "--now")
    wait_for(lambda: is_taken(farm, "cpu", "NodeSet slurm/rival"), "neither takes it")
    assert stays(lambda: set(uids(farm)) == {"cpu-0"})
    farm.kube.kubectl("delete", "nset/rival", "-n", "slurm")
    wait_for(lambda: farm.usable(2), "the name is free")


def is_taken(farm: Farm, name: str, other: str) -> bool:
    reason, message = farm.condition(name=name)
    return reason == "NameTaken" and f"{other} has this name" in message


def foreign_pod(farm: Farm, name: str) -> list[dict[str, Any]]:
    """Make a Pod with our labels that another object owns, and that never starts."""
    owner = farm.kube.rest.call("POST", MAPS, {"metadata": {"name": "theirs"}})["metadata"]
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": owner["uid"]}]
    ours = farm.pods_of()["cpu-0"]["metadata"]["labels"]
    made = pod_object(name, namespace="slurm", labels=ours)
    made["metadata"]["annotations"] = {"testbed/start-delay-s": "inf"}
    made["metadata"]["ownerReferences"] = owners
    farm.kube.create_pod(made)
    return owners


def test_without_slurm_pods_are_made_and_none_is_condemned_or_deleted_N24(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    farm.slurm.stop_slurmrestd()
    try:
        since = farm.service.mark()
        farm.scale(4)
        wait_for(lambda: len(farm.pods_of()) == 4, "two more Pods")
        farm.scale(1)
        before = uids(farm)
        assert stays(lambda: uids(farm) == before, for_s=2)
        doomed = "sunk.coreweave.com/pending-deletion"
        pods = [one["metadata"] for one in farm.pods_of().values()]
        assert not any(doomed in one.get("annotations", {}) for one in pods)
        done = {one["action"] for one in farm.service.writes(since=since)}
        assert not done & {"condemn", "delete-pod", "remake-pod", "delete-node", "drain"}, done
    finally:
        farm.slurm.start_slurmrestd()
    wait_for(lambda: farm.usable(1) and len(farm.pods_of()) == 1, "one node left", deadline_s=60)
    assert uids(farm)["cpu-0"] == before["cpu-0"]


def test_an_invalid_nodeset_keeps_its_pods_and_says_why_N30(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.is_available(2), "two nodes in Slurm")
    before = uids(farm)
    half = farm.template()
    half["containers"][0]["resources"]["limits"]["cpu"] = "1500m"
    farm.change(template={"spec": half}, replicas=1)
    wait_for(lambda: farm.condition()[0] == "InvalidNodeSet", "the condition")
    assert "1500m" in farm.condition()[1]
    assert stays(lambda: uids(farm) == before)
    assert farm.usable(2)
    farm.change(template={"spec": farm.template()})
    wait_for(lambda: farm.is_available(1) and len(farm.pods_of()) == 1, "one node left")
    assert uids(farm)["cpu-0"] == before["cpu-0"]


def test_gres_that_the_node_lacks_are_named_and_the_drain_of_slurm_stays_T9(farm: Farm) -> None:
    """No line of gres.conf gives these nodes a GPU."""
    since = farm.service.mark()
    farm.make(1, gres=[{"name": "gpu", "count": 2}])
    wait_for(lambda: "INVALID_REG" in farm.records().get("cpu-0", ()), "the registration")
    wait_for(lambda: farm.condition()[0] == "InvalidRegistration", "the condition")
    print(farm.condition())
    assert "(0 < 2)" in farm.condition()[1]
    assert stays(lambda: "DRAIN" in farm.records()["cpu-0"])
    assert not farm.service.writes("undrain", since=since)
    assert (farm.status()["registered"], farm.status()["available"]) == (0, 0)


def test_a_silent_node_keeps_its_pod_and_few_pods_end_for_lost_records_N5_N19_N20(
    farm: Farm,
) -> None:
    """The slot of a Node that a person gives up comes up on another, with that Node's features.

    Both take 20 s: podgc looks every 20 s, and a vanished record is believed after 15 s, but not in
    slurmctld's first minute.
    """
    for number in range(NODES):
        farm.kube.kubectl("label", "--overwrite", "node", f"k{number}", f"rack=r{number}")
    farm.make(4, features={"dynamic": {"rack": {"prefix": "rack-"}}})
    wait_for(lambda: farm.is_available(4), "four nodes in Slurm")
    before, silent = uids(farm), node_of(farm)
    wait_for(lambda: f"rack-r{silent[1:]}" in features(farm), "the feature of its Node")
    with out_of_reach(farm, silent):
        nothing_is_deleted(farm)
        with one_a_minute(farm):
            farm.kube.kubectl("taint", "node", silent, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
            lost_records_cost_one_pod(farm, before)
            it_moves(farm, before, silent)


SLOT = "cpu-3"
"""The slot on the silent Node; the records of the others are lost."""


@contextmanager
def out_of_reach(farm: Farm, node: str) -> Iterator[None]:
    """Let a Node fall silent: its kubelet ends no Pod."""
    farm.kube.annotate_node(node, {"testbed/end-delay-s": "inf"})
    farm.kube.set_node_ready(node, ready=False)
    try:
        yield
    finally:
        farm.kube.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})
        farm.kube.annotate_node(node, {"testbed/end-delay-s": None})
        farm.kube.set_node_ready(node, ready=True)


@contextmanager
def one_a_minute(farm: Farm) -> Iterator[None]:
    """Let one write a minute rest on absences."""
    farm.service.settings["max_drains_per_minute"] = "1"
    farm.service.restart()
    try:
        yield
    finally:
        farm.service.settings["max_drains_per_minute"] = QUICK["max_drains_per_minute"]
        farm.service.restart()


def nothing_is_deleted(farm: Farm) -> None:
    before, since = uids(farm), farm.service.mark()
    wait_for(lambda: "DRAIN" in farm.records()[SLOT], "the drain")
    wait_for(lambda: OUT_OF_SERVICE in explained(farm, "host", SLOT), "the way out")
    assert stays(lambda: uids(farm) == before)
    assert "deletionTimestamp" not in farm.pods_of()[SLOT]["metadata"]
    assert not farm.service.writes("delete-pod", since=since)


def lost_records_cost_one_pod(farm: Farm, before: dict[str, str]) -> None:
    for name in before.keys() - {SLOT}:
        farm.slurm.rest.call("DELETE", farm.slurm.path(f"node/{name}"))
    begun_s = time.monotonic()
    wait_for(lambda: len(kept(farm, before)) == 2, "one made anew", deadline_s=100)
    print(f"one of three made anew {time.monotonic() - begun_s:.1f} s after the records went")
    wait_for(lambda: farm.service.metric("sunk_sync_drains_held") == 2, "two held")
    assert stays(lambda: len(kept(farm, before)) == 2)
    (held,) = farm.service.lines("drains held", since=farm.service.begun)
    assert held["level"] == "warning"
    why = "the records of more than 1 Pod a minute vanished"
    assert all(why in explained(farm, "host", name) for name in kept(farm, before))
    assert len(farm.events("SlurmNodeNotRegistered")) == 1
    conditions = {one["type"]: one["message"] for one in farm.status()["conditions"]}
    assert conditions["Held"].startswith("2 Pods wait to be made anew")


def kept(farm: Farm, before: dict[str, str]) -> set[str]:
    """Return the names, without the silent slot, whose Pod is still the one of before."""
    return {name for name, uid in uids(farm).items() if name != SLOT and before[name] == uid}


def it_moves(farm: Farm, before: dict[str, str], silent: str) -> None:
    wait_for(lambda: is_replaced(farm, before, SLOT), "another Pod", deadline_s=PODGC_S)
    away = {"DRAIN", "DOWN", "NOT_RESPONDING"}
    wait_for(lambda: not farm.records()[SLOT] & away, "the slot in Slurm")
    other = node_of(farm)
    assert other != silent
    wait_for(lambda: f"rack-r{other[1:]}" in features(farm), "the feature of the other Node")
    assert f"rack-r{silent[1:]}" not in features(farm)
    assert farm.slurm.slurm_node(SLOT)["address"] == "127.0.0.1"
    job = farm.slurm.submit("#!/bin/sh\nexit 0\n", required_nodes=[SLOT])
    wait_for(lambda: farm.job(job)["job_state"] == ["COMPLETED"], "a job there")


def is_replaced(farm: Farm, before: dict[str, str], name: str) -> bool:
    return uids(farm).get(name) not in (before[name], None)


def node_of(farm: Farm) -> str:
    return str(farm.pods_of()[SLOT]["spec"]["nodeName"])


def features(farm: Farm) -> set[str]:
    return set(farm.slurm.slurm_node(SLOT)["active_features"])
