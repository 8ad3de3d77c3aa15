"""Metrics of waiting jobs, on which autoscalers scale NodeSets from zero and back (N26)."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import CONF, Farm, farm_with
from tests.real.slurmd_pods import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LINES = (*CONF.extra_lines, "NodeSet=cpus Feature=cpu", "PartitionName=scaled Nodes=cpus")
WHOLE = {"shared": ["none"]}
"""One job a node."""
SCRIPT = "#!/bin/sh\nexec sleep 300\n"


farms = for_each_slurm(partial(farm_with, conf=replace(CONF, extra_lines=LINES)))


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    farms.clear()


def wait_for_demand(farm: Farm, *, jobs: int, nodes: int, partition: str = "scaled") -> None:
    labels = {"namespace": "slurm", "nodeset": "cpu", "partition": partition}

    def shown() -> tuple[float, float]:
        number, asked = (
            farm.service.metric(f"kube_sunk_nodeset_pending_{what}", **labels)
            for what in ("jobs", "nodes")
        )
        return number, asked

    took_s = wait_for(lambda: shown() == (jobs, nodes), f"{jobs} jobs are shown")
    print(f"{jobs} waiting jobs for {nodes} nodes shown after {took_s:.2f} s")


def test_waiting_jobs_are_counted_for_the_nodeset_that_can_run_them_N26(farm: Farm) -> None:
    """Slurm 24.11 refuses jobs for a partition without nodes, so there one node is in use."""
    least = 0 if farm.slurm.version == "26.05" else 1
    farm.make(least)
    wait_for(lambda: farm.is_available(least), "the first nodes")
    fill = [farm.slurm.submit(SCRIPT, partition="scaled", **WHOLE) for _ in range(least)]
    wait_for_demand(farm, jobs=0, nodes=0)
    first = farm.slurm.submit(SCRIPT, partition="scaled", **WHOLE)
    tasks = farm.slurm.submit(SCRIPT, partition="scaled", array="0-2", **WHOLE)
    held = farm.slurm.submit(SCRIPT, partition="scaled", hold=True)
    wait_for_demand(farm, jobs=4, nodes=4)
    others = {"partition": "scaled", "features": "", "waits_for": "other"}
    assert farm.service.metric("sunk_sync_pending_jobs", **others) == 1
    farm.scale(least + 4)
    wait_for(lambda: farm.is_available(least + 4), "the nodes")
    wait_for(lambda: farm.job(first)["job_state"] == ["RUNNING"], "the job runs", deadline_s=60)
    wait_for_demand(farm, jobs=0, nodes=0)
    for job in (*fill, first, tasks, held):
        farm.slurm.cancel(job)
