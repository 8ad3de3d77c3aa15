"""Metrics of jobs, for dashboards and for autoscalers, which scale NodeSets from zero (N26)."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import CONF, Farm, farm_with
from tests.real.slurmd_pods import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LINES = (
    *CONF.extra_lines,
    "NodeName=DEFAULT Gres=gpu:0",  # dynamic nodes have no GPUs
    "NodeSet=cpus Feature=cpu",
    "PartitionName=scaled Nodes=cpus",
)
WHOLE = {"shared": ["none"]}
"""One job a node."""
SCRIPT = "#!/bin/sh\nexec sleep 300\n"


PER_OBJECT = {"slurm_metrics_per_object": "jobs,nodes"}
GPUS = 2
farms = for_each_slurm(
    partial(
        farm_with,
        conf=replace(CONF, extra_lines=LINES, gpus=GPUS),
        flags_for=lambda _: PER_OBJECT,
    )
)
STATES = {"CANCELLED": "canceled"}
"""Words of squeue that the metrics spell otherwise."""


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
    others = {"partition": "scaled", "features": "", "gres": "", "waits_for": "other"}
    assert farm.service.metric("sunk_sync_pending_jobs", **others) == 1
    farm.scale(least + 4)
    wait_for(lambda: farm.is_available(least + 4), "the nodes")
    wait_for(lambda: farm.job(first)["job_state"] == ["RUNNING"], "the job runs", deadline_s=60)
    wait_for_demand(farm, jobs=0, nodes=0)
    for job in (*fill, first, tasks, held):
        farm.slurm.cancel(job)


def test_a_job_that_asks_for_gpus_is_not_counted_for_nodes_without_them_N26(farm: Farm) -> None:
    farm.make(1)
    wait_for(lambda: farm.is_available(1), "the node")
    main = {"partition": "main", **WHOLE}
    fill = [farm.slurm.submit(SCRIPT, required_nodes=[node], **main) for node in ("n1", "cpu-0")]
    wait_for(lambda: all(farm.job(job)["job_state"] == ["RUNNING"] for job in fill), "both run")
    cpus = farm.slurm.submit(SCRIPT, **main)
    gpus = farm.slurm.submit(SCRIPT, tres_per_node="gres/gpu:2", **main)
    asked = {"partition": "main", "features": "", "gres": "gpu", "waits_for": "nodes"}
    shown = partial(farm.service.metric, "sunk_sync_pending_jobs", **asked)
    wait_for(lambda: shown() == 1, "the job with GPUs is shown")
    wait_for_demand(farm, jobs=1, nodes=1, partition="main")
    for job in (*fill, cpus, gpus):
        farm.slurm.cancel(job)


def squeue(farm: Farm) -> Mapping[str, int]:
    """Return the jobs of each state, each task of an array by itself."""
    words = farm.slurm.squeue("-h", "-r", "-t", "all", "-o", "%T").split()
    return Counter(STATES.get(word, word.lower()) for word in words)


def shown_queue(farm: Farm) -> Mapping[str, int]:
    prefix = "slurm_queue_"
    samples = [one for one in farm.service.metrics() if one.name.startswith(prefix)]
    counts = {one.name.removeprefix(prefix): int(one.value) for one in samples}
    assert counts.pop("pending_dependency") <= counts["pending"]
    return Counter({state: count for state, count in counts.items() if count})


def sinfo(farm: Farm, *, partition: str) -> Mapping[str, list[int]]:
    """Return CPUs in use, idle, other and in all; memory; GPUs of the one node."""
    cpus, memory = farm.slurm.sinfo("-h", "-p", partition, "-o", "%C %m").split()
    columns = "AllocMem:30,Gres:30,GresUsed:30"
    allocated, gres, used = farm.slurm.sinfo("-h", "-N", "-p", partition, "-O", columns).split()
    gpus = [int(text.partition("(")[0].rpartition(":")[2]) for text in (used, gres)]
    return {"cpu": [*map(int, cpus.split("/"))], "mem": [int(allocated), int(memory)], "gpu": gpus}


def shown_resources(farm: Farm, prefix: str, **labels: str) -> Mapping[str, list[float]]:
    """Return alloc, idle and total of each resource."""
    return {
        resource: [
            farm.service.metric(f"{prefix}_{resource}_{part}", **labels)
            for part in ("alloc", "idle", "total")
        ]
        for resource in ("cpu", "gpu", "mem")
    }


def sdiag(farm: Farm) -> Mapping[str, int]:
    """Return its lines with one whole number."""
    lines = [line.partition(":") for line in farm.slurm.run_in_root("sdiag").splitlines()]
    pairs = [(name.strip(), value.strip()) for name, _, value in lines]
    return {name: int(value) for name, value in pairs if value.isdigit()}


def test_the_numbers_are_those_of_squeue_sinfo_and_sdiag(farm: Farm) -> None:
    main = {"partition": "main"}
    gpu = {"tres_per_node": "gres/gpu:1", "name": "trains", **main}
    running = farm.slurm.submit(SCRIPT, **gpu)
    tasks = farm.slurm.submit(SCRIPT, array="0-4", hold=True, **main)
    gone = farm.slurm.submit(SCRIPT, array="0-2", hold=True, **main)
    dependent = farm.slurm.submit(SCRIPT, dependency=f"afterok:{running}", **main)
    cancelled = farm.slurm.submit(SCRIPT, hold=True, **main)
    for script in ("#!/bin/sh\n", "#!/bin/sh\nexit 3\n"):
        farm.slurm.submit(script, **main)
    farm.slurm.cancel(cancelled)
    farm.slurm.cancel(gone)
    ended = {"running": 1, "pending": 6, "completed": 1, "failed": 1}
    wait_for(lambda: ended.items() <= squeue(farm).items(), "the jobs end", deadline_s=60)
    took_s = wait_for(lambda: shown_queue(farm) == squeue(farm), "the metrics", deadline_s=60)
    print(f"{dict(squeue(farm))} after {took_s:.2f} s")
    metric = farm.service.metric
    assert metric("slurm_queue_pending_dependency") == 1
    assert metric("slurm_jobs_pending", partition="main", user="root") == 6
    assert (metric("slurm_jobs_running"), metric("slurm_jobs_failed")) == (1, 1)

    of = {"id": running, "name": "trains", "user": "root", "partition": "main"}
    assert metric("slurm_job_state", state="running", **of) == 1
    assert (metric("slurm_job_cpus_allocated", **of), metric("slurm_job_gpus_allocated")) == (1, 1)
    assert 0 < metric("slurm_job_uptime_seconds") < 120

    told = sinfo(farm, partition="main")
    assert told == {"cpu": [1, 3, 0, 4], "gpu": [1, GPUS], "mem": [100, 64000]}
    free = {"cpu": [1, 3, 4], "gpu": [1, 1, 2], "mem": [100, 63900, 64000]}
    wait_for(lambda: shown_resources(farm, "slurm_partition", **main) == free, "those of sinfo")
    farm.slurm.scontrol("update", "nodename=n1", "state=drain", "reason=disk")
    none = {"cpu": [1, 0, 4], "gpu": [1, 0, 2], "mem": [100, 0, 64000]}
    wait_for(lambda: shown_resources(farm, "slurm_partition", **main) == none, "the drain")
    assert sinfo(farm, partition="main")["cpu"] == [1, 0, 3, 4]
    assert shown_resources(farm, "slurm_node", node="n1")["cpu"] == [1, 0, 4]
    assert metric("slurm_node_state", node="n1", state="drain", **main) == 1
    assert abs(metric("slurm_node_drain_time", node="n1") - time.time()) < 60

    names = {"jobs_submitted": "Jobs submitted", "jobs_started": "Jobs started"}
    names |= {"jobs_completed": "Jobs completed", "jobs_cancelled": "Jobs canceled"}
    for name, word in names.items():
        assert metric(f"slurm_scheduler_{name}") == sdiag(farm)[word]
    assert metric("slurm_controller_rpc_count", message_type="REQUEST_JOB_INFO") > 0
    for job in (running, tasks, dependent):
        farm.slurm.cancel(job)
    wait_for(lambda: metric("slurm_queue_running") == 0, "the end")
