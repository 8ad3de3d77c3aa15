"""NodeSets on real servers: real slurmd in place of containers, on both versions of Slurm.

Seconds are printed (`-rP`). The limits are generous: real daemons can be late on a busy machine.
"""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
NIGHT = pytest.mark.night("one moment runs with each commit")

SLEEP = "#!/bin/sh\nsleep {}\n"

farms = for_each_slurm(farm_with)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    if not farms.service.running:
        farms.service.start().wait_ready()
    farms.clear()
    surprises = farms.service.lines("surprise")
    assert not surprises


def test_pods_are_made_register_and_are_counted_N1_N2(farm: Farm) -> None:
    begun_s = time.monotonic()
    farm.make(4)
    wait_for(lambda: farm.usable(4), "four nodes in Slurm")
    print(f"four nodes usable {time.monotonic() - begun_s:.2f} s after the NodeSet")
    assert sorted(farm.pods_of()) == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    wait_for(lambda: farm.status().get("idle") == 4, "the status")
    shown = farm.status()
    assert (shown["replicas"], shown["ready"], shown["registered"]) == (4, 4, 4)
    one = farm.slurm.slurm_node("cpu-2")
    assert (one["cpus"], one["real_memory"]) == (2, 2048)
    assert one["features"][0] == "cpu"
    assert one["features"][1].startswith("k8s.")
    pod = farm.pods_of()["cpu-2"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("cpu-2", "slurm-nodes")


def test_each_of_many_pods_is_made_once_N1(farm: Farm) -> None:
    """The API server answers sooner than its watch: the answer itself counts."""
    before = len(farm.service.writes("create-pod"))
    farm.make(6)
    wait_for(lambda: farm.usable(6), "six nodes in Slurm")
    made = farm.service.writes("create-pod")[before:]
    assert [one["outcome"] for one in made] == ["done"] * 6


def test_idle_pods_go_at_once_and_busy_ones_when_their_jobs_have_ended_N6_N7_N8_N10(
    farm: Farm,
) -> None:
    farm.make(4)
    wait_for(lambda: farm.usable(4), "four nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(6), required_nodes=["cpu-3"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-3"], "the job running")
    begun_s = time.monotonic()
    farm.scale(0)
    wait_for(lambda: set(farm.pods_of()) == {"cpu-3"}, "the idle Pods gone")
    idle_s = time.monotonic() - begun_s
    wait_for(lambda: set(farm.records()) == {"cpu-3"}, "their records gone")
    assert {"DRAIN", "MIXED"} <= farm.records()["cpu-3"]
    wait_for(lambda: not farm.records(), "the busy one gone", deadline_s=30)
    print(f"three idle Pods gone after {idle_s:.2f} s, all records after "
          f"{time.monotonic() - begun_s:.2f} s")  # fmt: skip
    assert farm.slurm.rest.call("GET", farm.slurm.path(f"job/{job}"))["jobs"][0]["job_state"] == [
        "COMPLETED"
    ]


def test_replicas_that_rise_again_take_a_condemnation_back_N9(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    before = farm.pods_of()["cpu-1"]["metadata"]["uid"]
    farm.slurm.submit(SLEEP.format(8), required_nodes=["cpu-0"])
    farm.slurm.submit(SLEEP.format(8), required_nodes=["cpu-1"])
    wait_for(lambda: all("MIXED" in one for one in farm.records().values()), "both busy")
    farm.scale(1)
    wait_for(lambda: "DRAIN" in farm.records()["cpu-1"], "the drain")
    farm.scale(2)
    wait_for(lambda: "DRAIN" not in farm.records()["cpu-1"], "the drain lifted")
    assert farm.pods_of()["cpu-1"]["metadata"]["uid"] == before


def test_an_update_rolls_within_its_budget_and_makes_the_records_anew_N4_N12(farm: Farm) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    farm.make(3, updateStrategy=strategy)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    begun_s = time.monotonic()
    farm.change(memory="1Gi")
    fewest = 3

    def updated() -> bool:
        nonlocal fewest
        ready = [one for one in farm.records().values() if not one & {"DRAIN", "DOWN"}]
        fewest = min(fewest, len(ready))
        sizes = [
            one["real_memory"] for one in farm.slurm.slurm_nodes() if one["name"].startswith("cpu-")
        ]
        return sizes == [1024] * 3 and farm.usable(3)

    wait_for(updated, "all records with 1024 MiB", deadline_s=60)
    print(f"three Pods updated one by one in {time.monotonic() - begun_s:.2f} s")
    assert fewest >= 2
    wait_for(lambda: farm.status().get("updated") == 3, "the status")


def test_pods_that_do_not_start_stop_the_update_N13(farm: Farm) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    farm.make(3, updateStrategy=strategy)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    farm.pods.starts = False
    farm.change(memory="1Gi")
    wait_for(lambda: len(farm.records()) == 2, "one record gone")
    time.sleep(5)
    assert len(farm.records()) == 2
    assert farm.status()["available"] == 2


def test_a_drain_of_an_administrator_survives_the_scale_in_N11(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    farm.slurm.scontrol("update", "nodename=cpu-0", "state=drain", "reason=fan broken")
    farm.slurm.submit(SLEEP.format(4), required_nodes=["cpu-1"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-1"], "the job running")
    farm.scale(1)
    wait_for(lambda: set(farm.pods_of()) == {"cpu-1"}, "the drained Pod gone first")
    assert "DRAIN" not in farm.records()["cpu-1"]


def test_a_record_that_vanishes_under_a_living_slurmd_is_made_anew_N3(farm: Farm) -> None:
    """It waits for the end of slurmctld's first minute."""
    farm.make(1)
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    before = farm.pods_of()["cpu-0"]["metadata"]["uid"]
    farm.slurm.rest.call("DELETE", farm.slurm.path("node/cpu-0"))
    seconds = wait_for(lambda: farm.usable(1), "the node back", deadline_s=100)
    print(f"a deleted record is back after {seconds:.1f} s")
    assert farm.pods_of()["cpu-0"]["metadata"]["uid"] != before


def test_a_record_that_a_waiting_job_requires_stays_N10(farm: Farm) -> None:
    """On 26.05 that job would fail at the next reconfigure."""
    farm.make(1)
    wait_for(lambda: farm.usable(1), "the node in Slurm")
    job = farm.slurm.submit(SLEEP.format(1), required_nodes=["cpu-0"], hold=True)
    farm.scale(0)
    wait_for(lambda: not farm.pods_of(), "the Pod gone")
    time.sleep(3)
    assert set(farm.records()) == {"cpu-0"}
    farm.slurm.cancel(job)
    wait_for(lambda: not farm.records(), "the record gone", deadline_s=90)


def test_a_nodeset_that_is_deleted_drains_first_N23(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(4), required_nodes=["cpu-1"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-1"], "the job running")
    farm.kube.kubectl("delete", "nset/cpu", "-n", "slurm", "--wait=false")
    wait_for(farm.is_empty, "nothing left", deadline_s=40)
    state = farm.slurm.rest.call("GET", farm.slurm.path(f"job/{job}"))["jobs"][0]["job_state"]
    assert state == ["COMPLETED"]


@pytest.mark.parametrize(
    "pause_s", [0.05, *(pytest.param(one, marks=NIGHT) for one in (0.0, 0.02, 0.1, 0.2, 0.4))]
)
def test_killed_at_any_moment_a_scale_in_ends_the_same_N25(farm: Farm, pause_s: float) -> None:
    farm.make(4)
    wait_for(lambda: farm.usable(4), "four nodes in Slurm")
    farm.scale(1)
    time.sleep(pause_s)
    farm.service.send(signal.SIGKILL)
    farm.service.wait_end()
    farm.service.start().wait_ready()
    wait_for(lambda: farm.usable(1) and len(farm.pods_of()) == 1, "one node left", deadline_s=60)


def test_the_busy_label_follows_the_jobs_N27(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.usable(1), "the node in Slurm")

    def busy() -> bool:
        labels: dict[str, str] = farm.pods_of()["cpu-0"]["metadata"]["labels"]
        return labels.get("sunk.coreweave.com/busy") == "true"

    assert not busy()
    farm.slurm.submit(SLEEP.format(3), required_nodes=["cpu-0"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-0"], "the job running")
    assert wait_for(busy, "the label") < 5
    wait_for(lambda: not busy(), "no label any more")
