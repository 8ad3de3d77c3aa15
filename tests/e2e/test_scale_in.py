"""N6-N8: half of six nodes go under a stream of jobs, and no job suffers."""

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.cluster import RealCluster
from tests.e2e.stopwatch import Stopwatch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

PAUSE_S = 0.15
"""Between two jobs of the stream."""
BEFORE_S, AFTER_S = 8.0, 8.0
SCRIPT = "#!/bin/sh\nsleep 1\n"
STARTED = re.compile(r"(?:Allocate|Started) JobId=(\d+).*?(?:NodeList=| on )(cpu-\d+)")
STATE_SET = re.compile(r"update_node: node (cpu-\d+) state set to (\w+)")


def test_a_scale_in_under_a_stream_of_jobs_loses_none_N6_N7_N8(cluster: RealCluster) -> None:
    watch = Stopwatch(cluster.slurm.version)
    cluster.make(6)
    watch.until(lambda: cluster.is_available(6), "NodeSet → six nodes available")
    log = cluster.slurm.directory / "slurmctld.log"
    since = log.stat().st_size
    with stream(cluster) as jobs:
        time.sleep(BEFORE_S)
        watch.begin()
        cluster.scale(3)
        watch.until(lambda: len(cluster.pods_of()) == 3, "scaled 6 → 3: three Pods left")
        watch.until(lambda: len(cluster.records()) == 3, "→ three records left")
        time.sleep(AFTER_S)
    watch.begin()
    watch.until(lambda: all_ended(cluster, jobs), "the last job has ended")
    found = known_jobs(cluster)
    lines = log.read_bytes()[since:].decode(errors="replace").splitlines()
    drained, starts, late = replayed(lines, jobs)
    hurt = [job for job in jobs if not is_whole(found.get(job))]
    watch.say(
        f"{len(jobs)} jobs of one second on {len(set(starts.values()))} nodes, {len(drained)} "
        f"nodes drained: {len(hurt)} lost or requeued, {len(late)} started after the DRAIN"
    )
    assert starts.keys() == set(jobs), "each start stands in the log of slurmctld"
    assert len(drained) == 3
    assert len(set(starts.values())) == 6
    assert hurt == []
    assert late == []


@contextmanager
def stream(cluster: RealCluster) -> Iterator[list[str]]:
    """Submit jobs until the end of the block; the ids are in the list."""
    jobs: list[str] = []
    over = threading.Event()

    def submit() -> None:
        while not over.wait(PAUSE_S):
            jobs.append(cluster.slurm.submit(SCRIPT, requeue=True))

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield jobs
    finally:
        over.set()
        thread.join()


def known_jobs(cluster: RealCluster) -> dict[str, Any]:
    listed = cluster.slurm.rest.call("GET", cluster.slurm.path("jobs/"))["jobs"]
    return {str(one["job_id"]): one for one in listed}


def all_ended(cluster: RealCluster, jobs: Sequence[str]) -> bool:
    found = known_jobs(cluster)
    waiting = {"PENDING", "RUNNING", "COMPLETING"}
    return not any(waiting & set(found[job]["job_state"]) for job in jobs if job in found)


def is_whole(job: Mapping[str, Any] | None) -> bool:
    """Whether Slurm knows the job, and it ran once, to its end."""
    return job is not None and (job["job_state"], job["restart_cnt"]) == (["COMPLETED"], 0)


def replayed(
    lines: Sequence[str], jobs: Sequence[str]
) -> tuple[set[str], dict[str, str], list[str]]:
    """Read the log of slurmctld in its order.

    Return the nodes that are drained, the node of each job, and the jobs that started on a node
    after its DRAIN.
    """
    drained: set[str] = set()
    ours, starts, late = set(jobs), {}, []
    for line in lines:
        if state := STATE_SET.search(line):
            (drained.add if "DRAIN" in state[2] else drained.discard)(state[1])
        elif (start := STARTED.search(line)) and start[1] in ours:
            starts[start[1]] = start[2]
            if start[2] in drained:
                late.append(start[1])
    return drained, starts, late
