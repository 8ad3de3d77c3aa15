"""N16: Pods get a new template only in a reservation, on real servers."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.both_slurms("24.11 cannot make a reservation by its API"),
]

IN_S = 8
SLEEP = "#!/bin/sh\nsleep {}\n"
NAME = "k8s-slurm-cpu"

farms = for_each_slurm(farm_with)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    if reservation(farms):
        farms.slurm.scontrol("delete", f"reservationname={NAME}")
    farms.clear()


def scheduled(start_s: float) -> dict[str, Any]:
    text = f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": text, "duration": "5m"}}


def reservation(farm: Farm) -> str:
    """Return the nodes of the reservation, or empty."""
    found = farm.slurm.rest.call("GET", farm.slurm.path("reservations/"))["reservations"]
    return next((str(one["node_list"]) for one in found if one["name"] == NAME), "")


def progressing(farm: Farm) -> tuple[str, str]:
    for one in farm.status().get("conditions", ()):
        if one["type"] == "Progressing":
            return one["reason"], one["message"]
    return "", ""


def condemned(farm: Farm) -> list[str]:
    key = "sunk.coreweave.com/pending-deletion"
    pods = farm.pods_of().items()
    return [name for name, pod in pods if key in pod["metadata"].get("annotations", {})]


def make_by_hand(farm: Farm) -> None:
    """Do what the condition says."""
    wait_for(lambda: progressing(farm)[0] == "NoReservation", "the condition")
    farm.slurm.scontrol(*progressing(farm)[1].partition(": scontrol ")[2].split())


def test_pods_are_updated_in_their_window_and_not_before_N16(farm: Farm) -> None:
    """The record changes its shape too. A job that runs into the window ends by itself."""
    farm.make(3)
    wait_for(lambda: farm.is_available(3), "three nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(IN_S + 5), required_nodes=["cpu-1"])
    wait_for(lambda: "MIXED" in farm.records()["cpu-1"], "the job running")
    start_s = int(time.time()) + IN_S
    farm.change(memory="1Gi", updateStrategy=scheduled(start_s))
    old = farm.slurm.version == "24.11"
    if old:
        make_by_hand(farm)
    wait_for(lambda: reservation(farm) == "cpu-[0-2]", "the reservation")
    while time.time() < start_s - 1:
        assert not condemned(farm)
        time.sleep(0.1)
    if old:
        # slurmctld deletes no record that is reserved, so no new Pod comes before.
        wait_for(lambda: not farm.pods_of(), "all Pods gone", deadline_s=60)
        farm.slurm.scontrol("delete", f"reservationname={NAME}")
    wait_for(lambda: farm.is_updated(3), "all updated", deadline_s=60)
    print(f"three Pods updated {time.time() - start_s:.1f} s after the start of the window")
    wait_for(lambda: not reservation(farm), "no reservation")
    ended = farm.job(job)
    assert (ended["job_state"], ended["restart_cnt"]) == (["COMPLETED"], 0)


def test_a_window_that_is_over_is_named_N16(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.is_available(1), "the node in Slurm")
    farm.change(memory="1Gi", updateStrategy=scheduled(time.time() - 3600))
    wait_for(lambda: progressing(farm)[0] == "NoReservation", "the condition")
    assert farm.slurm.version == "24.11" or "is over" in progressing(farm)[1]
    assert not condemned(farm)
