"""N3: slurmctld is killed before it has saved the nodes that just registered."""

import signal
import time

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.night("slurmctld is away for a minute"),
]

SLOTS = 10
UNSAVED_S = 0.5
"""slurmctld writes its nodes to disk up to two seconds after they registered."""
FIRST_MINUTE_S = 60.0
"""sunk-sync believes no absence before slurmctld has run so long."""
BACK_S = 90.0


farms = for_each_slurm(lambda version: farm_with(version, nodes=SLOTS))


def uids(farm: Farm) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in farm.pods_of().items()}


def test_ten_nodes_that_a_killed_slurmctld_forgot_come_back_N3(farms: Farm) -> None:
    """slurmd stays alive and silent, so only a new Pod brings the node back."""
    farms.make(SLOTS)
    wait_for(lambda: farms.usable(SLOTS), "ten nodes in Slurm", deadline_s=120)
    before = uids(farms)
    time.sleep(UNSAVED_S)
    farms.slurm.stop_slurmctld(signal.SIGKILL)
    farms.slurm.start_slurmctld()
    started_s = time.monotonic()
    wait_for(lambda: farms.slurm.states(), "slurmctld answers")
    lost = SLOTS - len(farms.records())
    assert lost, "the kill came too late: slurmctld had saved every node"
    wait_for(lambda: farms.usable(SLOTS), "ten nodes again", deadline_s=BACK_S)
    took_s = time.monotonic() - started_s
    print(f"{lost} of {SLOTS} nodes lost; all back {took_s:.1f} s after slurmctld's start")
    after = uids(farms)
    assert sum(after[name] != uid for name, uid in before.items()) == lost
    assert took_s > FIRST_MINUTE_S
    farms.clear()
